package stages

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"evalstream"
)

// openKept is what score over open gold needs to keep its units in a store: which have
// changed, and, if memory is short, which were not used for a while and can be dropped.
type openKept struct {
	shelf   evalstream.Shelf
	dirty   []*openUnit
	gone    map[string]*openUnit // forgotten and still on the shelf
	ledger  ledger
	saved   ledger // that the header told
	loaded  bool   // there was a header
	old     map[string]*openUnit
	bytes   int64 // of the units that are not old
	evicted bool  // some units are on the shelf alone
	failed  error
	buf     []byte
	// The end of the input is said in pieces.
	ended bool
	here  []string // units in memory, by name
	from  string   // where the next piece begins
	over  bool
}

// shelved is what is known of a unit's entry.
type shelved struct {
	name  string
	dirty bool
	there bool // on the shelf
	sum   uint64
	due   evalstream.Time // that it is found by
	size  int64
}

// The entries of score, by the first byte of their keys. Those by time have no value:
// they name the units in the order in which they are forgotten.
const (
	openHeader = 'h'
	openByTime = 't'
	openUnits  = 'u'

	openVersion = 5
	// unitOverhead is about what a unit costs beside its encoded bytes.
	unitOverhead = 250
)

// Keep begins to note what changes.
func (o *openScore) Keep(s evalstream.Shelf) {
	o.kept = &openKept{shelf: s, gone: map[string]*openUnit{}}
	o.judges.kept = &judgedKept{shelf: s, gone: map[string]bool{}}
}

// Load takes one entry back.
func (o *openScore) Load(key, val []byte) error {
	k := o.kept
	if len(key) == 0 {
		return errShort
	}
	switch key[0] {
	case openHeader:
		return o.readHeader(val)
	case openByTime:
		return nil
	case judgedUnits:
		return o.judges.load(key, val)
	case openUnits:
		name := string(key[1:])
		k.ledger.put(sumOf(key, val))
		u, err := decodeUnit(name, key, val)
		if err != nil {
			return err
		}
		k.add(o, u)
		return nil
	}
	return fmt.Errorf("entry %q is not one of score", key)
}

// Loaded compares the entries with the header.
func (o *openScore) Loaded() error {
	k := o.kept
	v := o.judges.kept
	if !k.loaded && k.ledger.entries == 0 && v.ledger.entries == 0 {
		return nil
	}
	if err := k.ledger.check("units", k.saved); err != nil {
		return err
	}
	return v.ledger.check("units of verdicts", v.saved)
}

// add holds a unit that is on the shelf, and lets go of others if memory is short.
func (k *openKept) add(o *openScore, u *openUnit) {
	o.units[u.shelved.name] = u
	k.bytes += u.shelved.size
	if len(k.dirty) == 0 {
		k.turn(o)
	}
}

// turn drops the units that were not used since the last turn. All units are on the
// shelf then.
func (k *openKept) turn(o *openScore) {
	if k.shelf.Memory <= 0 || k.bytes <= k.shelf.Memory/2 {
		return
	}
	k.evicted = k.evicted || len(k.old) > 0
	k.old, o.units, k.bytes = o.units, map[string]*openUnit{}, 0
}

// find is the unit of that name, nil if there is none.
func (k *openKept) find(o *openScore, name []byte) *openUnit {
	u := o.units[string(name)]
	if u != nil {
		return u
	}
	if u = k.old[string(name)]; u != nil {
		k.hold(o, u)
		return u
	}
	if !k.evicted || k.gone[string(name)] != nil || k.failed != nil {
		return nil
	}
	u, err := k.fetch(name)
	if err != nil {
		k.failed = err
	}
	if u != nil {
		k.hold(o, u)
	}
	return u
}

func (k *openKept) fetch(name []byte) (*openUnit, error) {
	key := append([]byte{openUnits}, name...)
	val, found, err := k.shelf.Get(k.buf[:0], key)
	k.buf = val
	if err != nil || !found {
		return nil, err
	}
	return decodeUnit(string(name), key, val)
}

// touch notes that a unit is about to change.
func (k *openKept) touch(u *openUnit) {
	if !u.shelved.dirty {
		u.shelved.dirty = true
		k.dirty = append(k.dirty, u)
	}
}

// Save puts the units that have changed.
func (o *openScore) Save(out *evalstream.Out) error {
	k := o.kept
	if k.failed != nil {
		return k.failed
	}
	for _, name := range slices.Sorted(maps.Keys(k.gone)) {
		s := k.gone[name].shelved
		out.Put(append([]byte{openUnits}, name...), nil)
		k.ledger.take(s.sum)
		o.index(out, s, nil)
	}
	for _, u := range k.dirty {
		s := u.shelved
		if !s.dirty { // forgotten since
			continue
		}
		s.dirty = false
		key := append([]byte{openUnits}, s.name...)
		val := u.encode(make([]byte, 0, s.size))
		if s.there {
			k.ledger.take(s.sum)
		}
		o.index(out, s, u)
		k.bytes -= s.size
		s.there, s.sum, s.size = true, sumOf(key, val), int64(len(val))+unitOverhead
		k.bytes += s.size
		k.ledger.put(s.sum)
		out.Put(key, val)
	}
	clear(k.dirty)
	k.dirty = k.dirty[:0]
	if err := o.judges.save(out); err != nil {
		return err
	}
	out.Put([]byte{openHeader}, o.header())
	return nil
}

// index moves a unit to where it is found by time; u is nil if it is forgotten.
func (o *openScore) index(out *evalstream.Out, s *shelved, u *openUnit) {
	if o.options.Horizon <= 0 {
		return
	}
	due := evalstream.EndOfTime
	if u != nil {
		due = u.due()
	}
	if s.there && s.due != evalstream.EndOfTime && due != s.due {
		out.Put(byTime(s.due, s.name), nil)
	}
	if due != evalstream.EndOfTime && (!s.there || due != s.due) {
		out.Put(byTime(due, s.name), []byte{})
	}
	s.due = due
}

func byTime(t evalstream.Time, name string) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{openByTime}, uint64(t)^1<<63), name...)
}

// Saved lets go of what was not used for a while, if memory is short.
func (o *openScore) Saved() error {
	clear(o.kept.gone)
	o.kept.turn(o)
	o.judges.wasSaved()
	return nil
}

// aging lists the units of which something ends before limit, by name.
func (k *openKept) aging(o *openScore, limit evalstream.Time) ([]*openUnit, error) {
	var us []*openUnit
	for _, u := range k.dirty {
		if u.shelved.dirty && u.due() < limit {
			us = append(us, u)
		}
	}
	end := byTime(limit, "")
	var names []string
	err := k.shelf.Scan([]byte{openByTime}, func(key, _ []byte) (bool, error) {
		if string(key) >= string(end) {
			return false, nil
		}
		names = append(names, string(key[9:]))
		return true, nil
	})
	for _, name := range names {
		if err != nil || k.gone[name] != nil {
			continue
		}
		u := k.held(o, name)
		if u == nil {
			if u, err = k.fetch([]byte(name)); u == nil && err == nil {
				err = fmt.Errorf("unit %q is listed by time and is not there", name)
			}
		}
		if u != nil && !u.shelved.dirty { // those that have changed are listed already
			us = append(us, u)
		}
	}
	slices.SortFunc(us, func(a, b *openUnit) int { return strings.Compare(a.shelved.name, b.shelved.name) })
	return us, err
}

// drop forgets a unit.
func (k *openKept) drop(o *openScore, u *openUnit) {
	s := u.shelved
	if _, young := o.units[s.name]; young {
		k.bytes -= s.size
	}
	delete(o.units, s.name)
	delete(k.old, s.name)
	s.dirty = false
	if s.there {
		k.gone[s.name] = u
	}
}

// hold puts a unit among those that were just used.
func (k *openKept) hold(o *openScore, u *openUnit) {
	delete(k.old, u.shelved.name)
	if o.units[u.shelved.name] == nil {
		o.units[u.shelved.name] = u
		k.bytes += u.shelved.size
	}
}

// inMemory lists the units in memory by name.
func (k *openKept) inMemory(o *openScore) []string {
	here := make([]string, 0, len(o.units)+len(k.old))
	for name := range o.units {
		here = append(here, name)
	}
	for name := range k.old {
		here = append(here, name)
	}
	slices.Sort(here)
	return here
}

// each calls f for every unit, by name from a name on, until it returns false. here
// lists those in memory; others are decoded for the call.
func (k *openKept) each(o *openScore, here []string, from string, f func(u *openUnit) bool) error {
	i, _ := slices.BinarySearch(here, from)
	stopped := false
	before := func(name string) { // calls f for those in memory that come before
		for ; i < len(here) && here[i] < name && !stopped; i++ {
			stopped = !f(k.held(o, here[i]))
		}
	}
	if k.evicted {
		err := k.shelf.Scan(append([]byte{openUnits}, from...), func(key, val []byte) (bool, error) {
			if key[0] != openUnits {
				return false, nil
			}
			name := string(key[1:])
			before(name)
			switch {
			case stopped:
			case i < len(here) && here[i] == name:
				i++
				stopped = !f(k.held(o, name))
			case k.gone[name] != nil:
			default:
				u, err := decodeUnit(name, key, val)
				if err != nil {
					return false, err
				}
				stopped = !f(u)
			}
			return !stopped, nil
		})
		if err != nil || stopped {
			return err
		}
	}
	for ; i < len(here) && !stopped; i++ {
		stopped = !f(k.held(o, here[i]))
	}
	return nil
}

// held is a unit in memory.
func (k *openKept) held(o *openScore, name string) *openUnit {
	if u := o.units[name]; u != nil {
		return u
	}
	return k.old[name]
}

// endKept is the end of the input, in pieces. The state stays as it was: a job that
// goes on with further input has not met an end.
func (o *openScore) endKept(out *evalstream.Out) error {
	k := o.kept
	if k.over {
		return nil
	}
	if !k.ended {
		k.ended, k.here = true, k.inMemory(o)
	}
	k.over = true
	err := k.each(o, k.here, k.from, func(u *openUnit) bool {
		if len(out.Records) >= waitingAtOnce {
			k.from, k.over = u.shelved.name, false
			return false
		}
		for i := range u.runs {
			if u.runs[i].status == evalstream.Pending {
				r := u.runs[i]
				r.status = o.last(&r)
				out.Emit(o.score(&evalstream.Record{}, u.shelved.name, &r, true))
			}
		}
		return true
	})
	if err != nil || !k.over {
		return err
	}
	return o.judges.finish(out)
}

// keptUnit is unit with a store.
func (o *openScore) keptUnit(id []byte) *openUnit {
	u := o.kept.find(o, id)
	if u == nil {
		u = &openUnit{seen: evalstream.NoTime, shelved: &shelved{name: string(id), due: evalstream.EndOfTime}}
		o.units[u.shelved.name] = u
	}
	o.kept.touch(u)
	return u
}

// sweepKept is sweep with a store.
func (o *openScore) sweepKept(limit evalstream.Time, out *evalstream.Out) {
	k := o.kept
	us, err := k.aging(o, limit)
	if err != nil {
		k.failed = err
		return
	}
	for _, u := range us {
		if o.age(u.shelved.name, u, limit, out) {
			k.drop(o, u)
		} else {
			k.hold(o, u)
			k.touch(u)
		}
	}
}

// heldKept adds what is held to the tallies. What the shelf cannot give is missing in
// them, which shows: they do not add up then.
func (o *openScore) heldKept(ts *openTallies) {
	status := (*openRun).now
	if o.kept.ended {
		status = o.last
	}
	_ = o.kept.each(o, o.kept.inMemory(o), "", func(u *openUnit) bool {
		ts.unit(u, status)
		return true
	})
}

func (o *openScore) header() []byte {
	b := []byte{openVersion}
	b = appendText(appendFlag(b, o.hasSource), o.source)
	b = binary.AppendVarint(binary.AppendVarint(b, int64(o.horizon.newest)), int64(o.horizon.swept))
	b = binary.AppendUvarint(b, uint64(len(o.tallies)))
	for i := range o.tallies {
		b = appendTally(b, &o.tallies[i])
	}
	b = appendCounts(appendTally(b, &o.judges.tally), o.judges.reasons)
	return o.judges.kept.ledger.append(o.kept.ledger.append(b))
}

func (o *openScore) readHeader(val []byte) error {
	e := &entry{data: val}
	e.version(openVersion)
	o.hasSource, o.source = e.flag(), e.text()
	o.horizon.newest, o.horizon.swept = evalstream.Time(e.varint()), evalstream.Time(e.varint())
	n := e.count()
	if e.err == nil && n != len(o.tallies) {
		return fmt.Errorf("want %d kinds of records, got %d", len(o.tallies), n)
	}
	for i := range n {
		e.tally(&o.tallies[i])
	}
	e.tally(&o.judges.tally)
	o.judges.reasons = e.counts()
	o.kept.saved.read(e)
	o.judges.kept.saved.read(e)
	o.kept.loaded = true
	return e.end()
}
