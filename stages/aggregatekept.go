package stages

import (
	"encoding/binary"
	"fmt"

	"evalstream"
	"evalstream/stages/metric"
)

// aggregateKept is what aggregate needs to keep its units in a store. What is there
// is one entry a slot, the names behind their numbers, and a base for each cell that
// holds more than slots: units that are positions, or were forgotten at the horizon; and
// for each that is empty. A cell is its base and its slots.
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

	aggregateVersion = 3
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
		if !b.dirty { // let go since
			continue
		}
		if a.hollow(b) {
			b.dirty = false
			delete(k.bases[b.sheet], cellKey{b.group, b.pane})
			continue
		}
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
	for _, n := range [...]int64{a.received, a.replaced, a.rejected, a.late, a.straight, int64(a.horizon.newest), int64(a.horizon.swept), int64(a.watermark), int64(a.freed), a.units.judged, a.base, a.refused.Load(), a.others.Load(), a.reviews.Load()} {
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
	var newest, swept, watermark, freed, refused, others, reviews int64
	for _, n := range [...]*int64{&a.received, &a.replaced, &a.rejected, &a.late, &a.straight, &newest, &swept, &watermark, &freed, &k.judged, &a.base, &refused, &others, &reviews} {
		*n = e.varint()
	}
	a.horizon.newest, a.horizon.swept, a.watermark = evalstream.Time(newest), evalstream.Time(swept), evalstream.Time(watermark)
	if a.freed = evalstream.Time(freed); a.options.Partials && !a.options.Replayed { // the cells are still there, and merge has forgotten them
		a.freed = evalstream.NoTime
	}
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
