package stages

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"evalstream"
	"evalstream/stages/metric"
)

// aggregateKept is what aggregate needs to keep its units in a store. What is there
// is one entry a slot, the names behind their numbers, and a base for each cell that
// holds more than slots: units that are positions, or were forgotten at the horizon.
// A cell is its base and its slots.
type aggregateKept struct {
	shelf   evalstream.Shelf
	header  bool
	ledger  ledger
	saved   ledger    // that the header told
	names   [3]int    // of groups, runs and patterns, that are saved
	counted [3]int    // that the header told
	judged  int64     // that the header told
	last    [2]uint64 // unit that was loaded

	changed []changedSlot
	marked  map[uint32]bool     // slots in changed
	changes []evalstream.Change // made between two Saves
	gone    map[string]bool     // keys that are deleted in changes
	extras  map[[2]uint64]uint32
	bases   []map[cellKey]*baseCell // by sheet
	based   []*baseCell             // those that have changed
	evicted bool                    // some units are on the shelf alone
	failed  error
}

type changedSlot struct {
	hash [2]uint64
	at   uint32
}

// baseCell is the base of a cell.
type baseCell struct {
	cell
	sheet int
	key   []byte
	dirty bool
	there bool
	sum   uint64
}

// The entries of aggregate, by the first byte of their keys; they are read in this
// order.
const (
	aggregateHeader = 1 + iota
	aggregateGroups
	aggregateRuns
	aggregatePatterns
	aggregateBases
	aggregateExtras // judged slots of a unit that were forgotten while others were not
	aggregateSlots

	aggregateVersion = 1
)

// Keep begins to note what changes.
func (a *aggregate) Keep(s evalstream.Shelf) {
	k := &aggregateKept{shelf: s, marked: map[uint32]bool{}, gone: map[string]bool{}, extras: map[[2]uint64]uint32{}}
	for range a.sheets {
		k.bases = append(k.bases, map[cellKey]*baseCell{})
	}
	a.kept = k
}

func (a *aggregate) dictionaries() [3]*dictionary {
	return [3]*dictionary{&a.groups, &a.runs, &a.patterns}
}

// Load takes one entry back.
func (a *aggregate) Load(key, val []byte) error {
	if len(key) == 0 {
		return errShort
	}
	k := a.kept
	switch kind := key[0]; kind {
	case aggregateHeader:
		return a.readHeader(val)
	case aggregateGroups, aggregateRuns, aggregatePatterns:
		return a.loadName(int(kind-aggregateGroups), key, val)
	case aggregateBases:
		k.ledger.put(sumOf(key, val))
		return a.loadBase(key, val)
	case aggregateExtras:
		k.ledger.put(sumOf(key, val))
		e := &entry{data: val}
		hash, err := hashIn(key)
		if err == nil {
			k.extras[hash] = uint32(e.uvarint())
			err = e.end()
		}
		return err
	case aggregateSlots:
		k.ledger.put(sumOf(key, val))
		return a.loadSlot(key, val)
	}
	return fmt.Errorf("entry %q is not one of aggregate", key)
}

// Loaded compares the entries with the header.
func (a *aggregate) Loaded() error {
	k := a.kept
	if !k.header && k.ledger.entries == 0 {
		return nil
	}
	if k.names != k.counted {
		return fmt.Errorf("want %d groups, runs and patterns, got %d", k.counted, k.names)
	}
	for hash, n := range k.extras {
		if row := a.units.row(hash); row != nil {
			row.count += n
		}
	}
	clear(k.extras)
	a.units.judged = k.judged
	return k.ledger.check("slots and bases", k.saved)
}

func (a *aggregate) loadName(which int, key, val []byte) error {
	if len(key) != 5 {
		return errShort
	}
	id := binary.BigEndian.Uint32(key[1:])
	if int(id) != a.kept.names[which] {
		return fmt.Errorf("want name %d, got %d", a.kept.names[which], id)
	}
	a.kept.names[which]++
	var made func(uint32, string)
	var failed error
	switch which {
	case 0:
		made = a.newTuple
	case 2:
		c, err := a.contributionOf(string(val))
		failed = err
		made = func(uint32, string) { a.newContribution(c) }
	}
	if failed != nil {
		return failed
	}
	if got := a.dictionaries()[which].id(val, made); got != id {
		return fmt.Errorf("name %q has the numbers %d and %d", val, got, id)
	}
	a.look()
	return nil
}

// contributionOf reads the key that a contribution is numbered by.
func (a *aggregate) contributionOf(key string) (contribution, error) {
	if key == "" {
		return contribution{}, errShort
	}
	rest := key[1:]
	switch key[0] {
	case 'n':
		return contribution{}, nil
	case 'v':
		c := contribution{values: make([]evalstream.Nano, len(rest)/8)}
		for i := range c.values {
			c.values[i] = evalstream.Nano(binary.LittleEndian.Uint64([]byte(rest[8*i:])))
		}
		return c, nil
	case 'l':
		e := &entry{data: []byte(rest)}
		label := e.text()
		return contribution{label: a.relation(label), gold: a.relation(string(e.data))}, e.err
	case 'r':
		return contribution{ratings: rest}, nil
	case 'j':
		if _, err := metric.ParseBallots(rest); err != nil {
			return contribution{}, err
		}
		return contribution{ballots: a.ballots.id([]byte(rest), nil)}, nil
	}
	return contribution{}, fmt.Errorf("pattern %q is of no family", key)
}

func slotKey(hash [2]uint64, run uint32) []byte {
	return binary.BigEndian.AppendUint32(hashKey(aggregateSlots, hash), run)
}

func hashKey(kind byte, hash [2]uint64) []byte {
	b := append(make([]byte, 0, 21), kind)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, hash[0]), hash[1])
}

func hashIn(key []byte) (hash [2]uint64, err error) {
	if len(key) < 17 {
		return hash, errShort
	}
	return [2]uint64{binary.BigEndian.Uint64(key[1:]), binary.BigEndian.Uint64(key[9:])}, nil
}

// value is a slot in the form in which it is kept.
func (s *slot) value(revision int64) []byte {
	b := binary.AppendUvarint(make([]byte, 0, 16), uint64(s.group))
	b = binary.AppendUvarint(b, uint64(s.pattern))
	return binary.AppendVarint(binary.AppendVarint(b, int64(s.pane)), revision)
}

func (a *aggregate) readSlot(key, val []byte) (hash [2]uint64, s slot, revision int64, err error) {
	if hash, err = hashIn(key); err != nil || len(key) != 21 {
		return hash, s, 0, errShort
	}
	e := &entry{data: val}
	s = slot{run: binary.BigEndian.Uint32(key[17:]), group: uint32(e.uvarint()), pattern: uint32(e.uvarint()), pane: int32(e.varint())}
	revision = e.varint()
	if err := e.end(); err != nil {
		return hash, s, 0, err
	}
	if int(s.group) >= len(a.known) || int(s.pattern&maxPattern) >= len(a.knownAdds) || s.status() > evalstream.Retracted {
		return hash, s, 0, fmt.Errorf("slot %x has no group or pattern", key)
	}
	return hash, s, revision, nil
}

func (a *aggregate) loadSlot(key, val []byte) error {
	hash, s, revision, err := a.readSlot(key, val)
	if err != nil {
		return err
	}
	a.add(s.group, s.pattern&maxPattern, s.status(), a.absolute(s.pane), 1)
	if hash != a.kept.last && a.short() { // never a part of a unit
		a.kept.evicted = true
		a.units = units{revised: a.units.revised}
	}
	a.kept.last = hash
	a.restore(hash, s, revision)
	return nil
}

// restore puts a slot from the shelf into the table.
func (a *aggregate) restore(hash [2]uint64, s slot, revision int64) {
	row, at, _ := a.units.find(hash, s.run)
	to := a.units.slots.at(at)
	s.next = to.next
	*to = s
	a.units.setRevision(at, revision)
	if isJudged(s.status()) {
		row.count++
	}
}

// short says that the units take more memory than they may.
func (a *aggregate) short() bool {
	return a.kept.shelf.Memory > 0 && a.units.bytes() > a.kept.shelf.Memory
}

// fetch brings a unit that is on the shelf alone into the table.
func (a *aggregate) fetch(hash [2]uint64) {
	k := a.kept
	if !k.evicted || k.failed != nil || a.units.row(hash) != nil {
		return
	}
	from := hashKey(aggregateSlots, hash)
	found := false
	err := k.shelf.Scan(from, func(key, val []byte) (bool, error) {
		if !bytes.HasPrefix(key, from) {
			return false, nil
		}
		if k.gone[string(key)] {
			return true, nil
		}
		_, s, revision, err := a.readSlot(key, val)
		if err == nil {
			a.restore(hash, s, revision)
			found = true
		}
		return err == nil, err
	})
	if err == nil && found {
		var n uint32
		if n, err = k.extra(hash); n > 0 {
			a.units.row(hash).count += n
		}
	}
	k.failed = err
}

// extra is how many judged slots of a unit were forgotten while others were not.
func (k *aggregateKept) extra(hash [2]uint64) (uint32, error) {
	if n, ok := k.extras[hash]; ok { // since the last Save
		return n, nil
	}
	val, found, err := k.shelf.Get(nil, hashKey(aggregateExtras, hash))
	if err != nil || !found {
		return 0, err
	}
	e := &entry{data: val}
	n := uint32(e.uvarint())
	return n, e.end()
}

// made notes that a slot is new.
func (a *aggregate) made(row *unitRow, at uint32) {
	a.kept.marked[at] = true
	a.kept.changed = append(a.kept.changed, changedSlot{row.hash, at})
}

// touch notes that a slot is about to change.
func (a *aggregate) touch(row *unitRow, at uint32) {
	k := a.kept
	if k.marked[at] {
		return
	}
	s := a.units.slots.at(at)
	k.ledger.take(sumOf(slotKey(row.hash, s.run), s.value(a.units.revision(at))))
	a.made(row, at)
}

// settle turns what was noted into changes; the table may then move.
func (a *aggregate) settle() {
	k := a.kept
	for _, c := range k.changed {
		s := a.units.slots.at(c.at)
		k.put(slotKey(c.hash, s.run), s.value(a.units.revision(c.at)))
	}
	k.changed = k.changed[:0]
	clear(k.marked)
}

func (k *aggregateKept) put(key, val []byte) {
	k.ledger.put(sumOf(key, val))
	delete(k.gone, string(key))
	k.changes = append(k.changes, evalstream.Change{Key: key, Val: val})
}

// remove takes an entry away of which was is the value.
func (k *aggregateKept) remove(key, was []byte) {
	k.ledger.take(sumOf(key, was))
	k.gone[string(key)] = true
	k.changes = append(k.changes, evalstream.Change{Key: key})
}

// addBase adds a unit that has no slot, or has lost it, to the bases of its cells.
func (a *aggregate) addBase(group, pattern uint32, status evalstream.Status, pane int64) {
	if status == evalstream.Waiting || status == evalstream.Retracted {
		return
	}
	groups, contributes := a.known[group], &a.knownAdds[pattern]
	for i := range a.sheets {
		s := &a.sheets[i]
		b := a.baseOf(i, cellKey{groups[s.layout], a.paneIn(s, pane)})
		a.change(&b.cell, status, contributes, 1)
		if !b.dirty {
			b.dirty = true
			a.kept.based = append(a.kept.based, b)
		}
	}
}

func (a *aggregate) baseOf(sheet int, at cellKey) *baseCell {
	b := a.kept.bases[sheet][at]
	if b == nil {
		key := binary.BigEndian.AppendUint16([]byte{aggregateBases}, uint16(sheet))
		key = binary.BigEndian.AppendUint64(key, uint64(at.pane))
		b = &baseCell{cell: cell{group: at.group, pane: at.pane}, sheet: sheet, key: append(key, a.sheets[sheet].groups.name(at.group)...)}
		a.kept.bases[sheet][at] = b
	}
	return b
}

// value is a base in the form in which it is kept.
func (a *aggregate) baseValue(b *baseCell) []byte {
	c := a.pack(&b.cell)
	v := binary.AppendVarint(binary.AppendVarint(nil, c.N), c.Pending)
	v = binary.AppendVarint(binary.AppendVarint(v, c.Unjudged), c.Expired)
	v = binary.AppendUvarint(v, uint64(len(c.Sums)))
	for _, s := range c.Sums {
		v = binary.AppendVarint(v, int64(s))
	}
	v = binary.AppendUvarint(v, uint64(len(c.Counts)))
	for _, row := range c.Counts {
		v = binary.AppendUvarint(appendText(v, row.Name), uint64(len(row.N)))
		for _, n := range row.N {
			v = binary.AppendVarint(v, n)
		}
	}
	return v
}

func (a *aggregate) loadBase(key, val []byte) error {
	if len(key) < 11 {
		return errShort
	}
	e := &entry{data: val}
	c := evalstream.Cell{N: e.varint(), Pending: e.varint(), Unjudged: e.varint(), Expired: e.varint()}
	for range e.count() {
		c.Sums = append(c.Sums, evalstream.Nano(e.varint()))
	}
	if len(c.Sums) > 0 {
		c.Measures = a.names
	}
	for range e.count() {
		row := evalstream.Count{Name: e.text()}
		for range e.count() {
			row.N = append(row.N, e.varint())
		}
		c.Counts = append(c.Counts, row)
	}
	if err := e.end(); err != nil {
		return err
	}
	base, err := a.unpack(&c)
	sheet := int(binary.BigEndian.Uint16(key[1:]))
	if err != nil || sheet >= len(a.sheets) {
		return fmt.Errorf("base %x of sheet %d: %w", key, sheet, err)
	}
	s := &a.sheets[sheet]
	at := cellKey{s.groups.id(key[11:], nil), int64(binary.BigEndian.Uint64(key[3:]))}
	b := a.baseOf(sheet, at)
	b.cell, b.there, b.sum = *base, true, sumOf(key, val)
	b.group, b.pane = at.group, at.pane
	s.cell(at.group, at.pane).merge(&b.cell, 1)
	return nil
}

// Save puts what has changed.
func (a *aggregate) Save(out *evalstream.Out) error {
	k := a.kept
	if k.failed != nil {
		return k.failed
	}
	a.settle()
	for i, d := range a.dictionaries() {
		for _, name := range d.since(k.names[i]) {
			out.Put(binary.BigEndian.AppendUint32([]byte{byte(aggregateGroups + i)}, uint32(k.names[i])), []byte(name))
			k.names[i]++
		}
	}
	for _, b := range k.based {
		val := a.baseValue(b)
		if b.there {
			k.ledger.take(b.sum)
		}
		b.there, b.dirty, b.sum = true, false, sumOf(b.key, val)
		k.ledger.put(b.sum)
		out.Put(b.key, val)
	}
	k.based = k.based[:0]
	out.Changes = append(out.Changes, k.changes...)
	clear(k.changes)
	k.changes = k.changes[:0]
	out.Put([]byte{aggregateHeader}, a.header())
	return nil
}

// Saved empties the table if it is too large.
func (a *aggregate) Saved() error {
	k := a.kept
	clear(k.gone)
	clear(k.extras)
	if a.short() {
		k.evicted = true
		a.units = units{revised: a.units.revised, judged: a.units.judged}
	}
	return nil
}

func (a *aggregate) header() []byte {
	k := a.kept
	b := []byte{aggregateVersion}
	for _, n := range [...]int64{a.received, a.replaced, a.rejected, a.late, a.straight, int64(a.horizon.newest), int64(a.horizon.swept), int64(a.watermark), a.units.judged, a.base, a.refused.Load(), a.others.Load(), a.reviews.Load()} {
		b = binary.AppendVarint(b, n)
	}
	for _, n := range a.forgotten {
		b = binary.AppendVarint(b, n)
	}
	b = appendFlag(appendFlag(appendFlag(appendFlag(b, a.positions), a.scored), a.hasBase), a.units.revised)
	for _, n := range k.names {
		b = binary.AppendUvarint(b, uint64(n))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	b = binary.AppendVarint(b, int64(a.family))
	b = binary.AppendUvarint(b, uint64(len(a.names)))
	for _, name := range a.names {
		b = appendText(b, name)
	}
	b = appendFlag(b, a.settings != nil)
	if a.settings != nil {
		b = appendText(appendText(b, a.settings.Digest), a.settings.Text)
	}
	return k.ledger.append(b)
}

func (a *aggregate) readHeader(val []byte) error {
	k := a.kept
	e := &entry{data: val}
	e.version(aggregateVersion)
	var newest, swept, watermark, refused, others, reviews int64
	for _, n := range [...]*int64{&a.received, &a.replaced, &a.rejected, &a.late, &a.straight, &newest, &swept, &watermark, &k.judged, &a.base, &refused, &others, &reviews} {
		*n = e.varint()
	}
	a.horizon.newest, a.horizon.swept, a.watermark = evalstream.Time(newest), evalstream.Time(swept), evalstream.Time(watermark)
	a.refused.Store(refused)
	a.others.Store(others)
	a.reviews.Store(reviews)
	for i := range a.forgotten {
		a.forgotten[i] = e.varint()
	}
	a.positions, a.scored, a.hasBase, a.units.revised = e.flag(), e.flag(), e.flag(), e.flag()
	for i := range k.counted {
		k.counted[i] = int(e.uvarint())
	}
	a.family = int(e.varint())
	a.measures, a.names = nil, nil
	for range e.count() {
		a.names = append(a.names, e.text())
	}
	if e.flag() {
		a.settings = &evalstream.Settings{Digest: e.text(), Text: e.text()}
	}
	k.saved.read(e)
	k.header = true
	if err := e.end(); err != nil {
		return err
	}
	if a.family < -1 || a.family >= families {
		return fmt.Errorf("want a family below %d, got %d", families, a.family)
	}
	for _, name := range a.names {
		m, err := metric.ParseMeasure(name)
		if err != nil {
			return err
		}
		a.measures = append(a.measures, m)
	}
	return nil
}

// sweepKept forgets the slots that are old: their bases keep them.
func (a *aggregate) sweepKept(old func(*slot) bool) {
	k := a.kept
	a.settle()
	forget := func(hash [2]uint64, s *slot, revision int64) {
		a.forgotten[s.status()]++
		a.addBase(s.group, s.pattern&maxPattern, s.status(), a.absolute(s.pane))
		k.remove(slotKey(hash, s.run), s.value(revision))
	}
	a.look()
	if k.evicted {
		if k.failed = a.sweepShelf(old, forget); k.failed != nil {
			return
		}
	}
	for n := range uint32(a.units.rows.len()) {
		row := a.units.rows.at(n)
		var j judgedSlots
		for at := row.first; at != 0; at = a.units.slots.at(at - 1).next {
			s := a.units.slots.at(at - 1)
			gone := old(s)
			j.see(s, gone)
			if gone {
				forget(row.hash, s, a.units.revision(at-1))
			}
		}
		if j.gone > 0 {
			j.was = row.count - j.judged
			k.setExtra(row.hash, j)
		}
	}
	a.units.keep(func(s *slot) bool { return !old(s) })
}

// judgedSlots counts the slots of a unit at a sweep.
type judgedSlots struct {
	kept, gone uint32 // slots
	judged     uint32 // slots that were judged
	lost       uint32 // of those, forgotten now
	was        uint32 // forgotten before
}

func (j *judgedSlots) see(s *slot, gone bool) {
	if gone {
		j.gone++
	} else {
		j.kept++
	}
	if isJudged(s.status()) {
		j.judged++
		if gone {
			j.lost++
		}
	}
}

// setExtra notes how many judged slots of a unit have been forgotten; a unit without
// slots is forgotten itself.
func (k *aggregateKept) setExtra(hash [2]uint64, j judgedSlots) {
	is := j.was + j.lost
	if j.kept == 0 {
		is = 0
	}
	if is == j.was {
		return
	}
	key := hashKey(aggregateExtras, hash)
	value := func(n uint32) []byte { return binary.AppendUvarint(nil, uint64(n)) }
	if is == 0 {
		k.remove(key, value(j.was))
	} else {
		if j.was > 0 {
			k.ledger.take(sumOf(key, value(j.was)))
		}
		k.put(key, value(is))
	}
	k.extras[hash] = is
}

// sweepShelf forgets the old slots of units that are on the shelf alone.
func (a *aggregate) sweepShelf(old func(*slot) bool, forget func([2]uint64, *slot, int64)) error {
	k := a.kept
	var unit [2]uint64
	var j judgedSlots
	end := func() error {
		if j.gone == 0 {
			return nil
		}
		var err error
		if j.was, err = k.extra(unit); err == nil {
			k.setExtra(unit, j)
		}
		return err
	}
	err := k.shelf.Scan([]byte{aggregateSlots}, func(key, val []byte) (bool, error) {
		hash, s, revision, err := a.readSlot(key, val)
		if err != nil {
			return false, err
		}
		if k.gone[string(key)] || a.units.row(hash) != nil {
			return true, nil
		}
		if hash != unit {
			if err := end(); err != nil {
				return false, err
			}
			unit, j = hash, judgedSlots{}
		}
		gone := old(&s)
		j.see(&s, gone)
		if gone {
			forget(hash, &s, revision)
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	return end()
}

// heldOnShelf adds the slots of units that are on the shelf alone. What the shelf
// cannot give is missing, which shows: the tally does not add up then.
func (a *aggregate) heldOnShelf(t *evalstream.Tally) {
	k := a.kept
	if !k.evicted {
		return
	}
	_ = k.shelf.Scan([]byte{aggregateSlots}, func(key, val []byte) (bool, error) {
		hash, s, _, err := a.readSlot(key, val)
		if err == nil && !k.gone[string(key)] && a.units.row(hash) == nil {
			t.Held++
			t.Of[s.status()]++
		}
		return err == nil, err
	})
}
