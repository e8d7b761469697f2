package stages

import (
	"encoding/binary"
	"fmt"
	"slices"

	"evalstream"
	"evalstream/stages/metric"
)

// judgedKept is what verdicts need to be kept in a store, one entry a unit.
type judgedKept struct {
	shelf   evalstream.Shelf
	sums    []uint64 // by unit: of its entry, 0 if it has none
	marked  []bool   // by unit: in dirty
	dirty   []uint32
	changes []evalstream.Change // made between two Saves
	gone    map[string]bool     // keys that are deleted in changes
	ledger  ledger
	saved   ledger // that the header told
	evicted bool   // some units are on the shelf alone
	failed  error
}

// judgedUnits begins the keys of units of verdicts, in score's entries.
const judgedUnits = 'v'

// bytes is about what the units take.
func (j *judgedState) bytes() int64 {
	return int64(j.units.len())*72 + int64(j.versions.len())*32 + int64(j.votes.len())*8 + int64(j.asides.len())*24 + int64(len(j.index))*8 +
		int64(len(j.slices))*100 + int64(len(j.arena.chunks))<<chunkShift - int64(j.arena.free) +
		j.remarked
}

// unitKey is the key of a unit's entry.
func (j *judged) unitKey(u *judgedUnit) []byte {
	key := []byte{judgedUnits}
	for _, id := range [...]string{j.arena.string(u.span), j.names.of(u.mode), j.arena.string(u.triple), j.names.of(u.dimension)} {
		key = appendText(key, id)
	}
	return key
}

// encodeUnit is a unit's entry.
func (j *judged) encodeUnit(u *judgedUnit) []byte {
	about := j.remarkOf(u)
	b := appendText(appendText([]byte{openVersion}, about.text), about.triple)
	n := uint64(0)
	for i := u.versions; i != 0; i = j.versions.at(i - 1).next {
		n++
	}
	b = binary.AppendUvarint(b, n)
	for i := u.versions; i != 0; {
		v := j.versions.at(i - 1)
		b = binary.LittleEndian.AppendUint64(appendText(b, j.names.of(v.name)), v.reviewed)
		i = v.next
	}
	n = 0
	for i := u.votes; i != 0; i = j.votes.at(i - 1).next {
		n++
	}
	b = binary.AppendUvarint(b, n)
	for i := u.votes; i != 0; {
		v, a := j.votes.at(i-1), j.asideOf(i-1)
		said := j.sayings.of(v.said)
		b = appendText(appendText(appendText(b, j.names.of(said.judge)), j.names.of(said.version)), j.names.of(said.reason))
		b = appendFlag(append(b, byte(said.vote)), said.swap)
		b = binary.AppendVarint(binary.AppendVarint(b, a.revision), int64(a.time))
		b = appendSlices(b, j.slicesOf(a))
		i = v.next
	}
	return b
}

// decode makes the unit of an entry, which is not there yet.
func (j *judged) decode(key, val []byte) (*judgedUnit, error) {
	k := &entry{data: key[1:]}
	ids := evalstream.Verdict{SpanID: k.text(), Mode: k.text(), TripleID: k.text(), Dimension: k.text()}
	if err := k.end(); err != nil {
		return nil, fmt.Errorf("verdicts %q: %w", key, err)
	}
	u := j.make(&ids, j.hash(&ids))
	return u, j.fill(u, val)
}

// fill sets an empty unit to what its entry says.
func (j *judged) fill(u *judgedUnit, val []byte) error {
	e := &entry{data: val}
	e.version(openVersion)
	if about := (remark{e.text(), e.text()}); about != (remark{}) {
		j.setRemark(u.hash, about)
	}
	link := &u.versions
	for range e.count() {
		v := j.version(u, j.names.id(e.text()))
		if b := e.bytes(8); b != nil {
			v.reviewed = binary.LittleEndian.Uint64(b)
		}
		j.versions.push(v)
		*link = uint32(j.versions.len())
		link = &j.versions.at(*link - 1).next
	}
	link = &u.votes
	for range e.count() {
		said := saying{judge: j.names.id(e.text()), version: j.names.id(e.text()), reason: j.names.id(e.text())}
		if b := e.bytes(1); b != nil {
			said.vote = metric.Vote(b[0])
		}
		said.swap = e.flag()
		a := aside{revision: e.varint(), time: evalstream.Time(e.varint())}
		j.setSlices(&a, e.slices())
		u.due = earlier(u.due, a.time)
		*link = j.addVote(vote{said: j.sayings.id(said)}, a)
		link = &j.votes.at(*link - 1).next
	}
	if err := e.end(); err != nil {
		return fmt.Errorf("verdicts of span %q: %w", j.arena.string(u.span), err)
	}
	return nil
}

// load takes an entry back.
func (j *judged) load(key, val []byte) error {
	k := j.kept
	if k.shelf.Memory > 0 && j.bytes() > k.shelf.Memory {
		k.drop(j)
	}
	if _, err := j.decode(key, val); err != nil {
		return err
	}
	sum := sumOf(key, val)
	k.ledger.put(sum)
	k.sums[len(k.sums)-1] = sum
	return nil
}

// drop empties memory: everything is on the shelf.
func (k *judgedKept) drop(j *judged) {
	k.evicted = true
	j.judgedState, j.last = judgedState{}, 0
	k.sums, k.marked = k.sums[:0], k.marked[:0]
}

// added notes a unit that memory has now.
func (k *judgedKept) added() {
	k.sums, k.marked = append(k.sums, 0), append(k.marked, false)
}

// touch notes that a unit is about to change.
func (k *judgedKept) touch(at uint32) {
	if !k.marked[at] {
		k.marked[at] = true
		k.dirty = append(k.dirty, at)
	}
}

// fetch fills a unit that memory did not have, if the shelf has it.
func (j *judged) fetch(u *judgedUnit) {
	k := j.kept
	key := j.unitKey(u)
	if !k.evicted || k.failed != nil || k.gone[string(key)] {
		return
	}
	val, found, err := k.shelf.Get(nil, key)
	if err == nil && found {
		k.sums[len(k.sums)-1] = sumOf(key, val)
		err = j.fill(u, val)
	}
	k.failed = err
}

// settle turns what was noted into changes; units may then move.
func (j *judged) settle() {
	k := j.kept
	for _, at := range k.dirty {
		u := j.units.at(at)
		key, val := j.unitKey(u), j.encodeUnit(u)
		if k.sums[at] != 0 {
			k.ledger.take(k.sums[at])
		}
		k.sums[at], k.marked[at] = sumOf(key, val), false
		k.ledger.put(k.sums[at])
		delete(k.gone, string(key))
		k.changes = append(k.changes, evalstream.Change{Key: key, Val: val})
	}
	k.dirty = k.dirty[:0]
}

// remove takes a unit's entry away.
func (k *judgedKept) remove(key []byte, sum uint64) {
	if sum == 0 {
		return
	}
	k.ledger.take(sum)
	k.gone[string(key)] = true
	k.changes = append(k.changes, evalstream.Change{Key: key})
}

func (j *judged) save(out *evalstream.Out) error {
	k := j.kept
	if k.failed != nil {
		return k.failed
	}
	j.settle()
	out.Changes = append(out.Changes, k.changes...)
	clear(k.changes)
	k.changes = k.changes[:0]
	return nil
}

func (j *judged) wasSaved() {
	k := j.kept
	clear(k.gone)
	if k.shelf.Memory > 0 && j.bytes() > k.shelf.Memory {
		k.drop(j)
	}
}

// atOnShelf is how many units of the shelf are decoded into one state.
const atOnShelf = 4096

// eachOnShelf calls f for every unit that is on the shelf alone, by key. Until it
// returns, the state is one of these units.
func (j *judged) eachOnShelf(f func(u *judgedUnit, key []byte, sum uint64)) error {
	k := j.kept
	if k == nil || !k.evicted {
		return nil
	}
	here := make(map[string]bool, j.units.len())
	for n := range uint32(j.units.len()) {
		here[string(j.unitKey(j.units.at(n)))] = true
	}
	state, last, sums, marked := j.judgedState, j.last, k.sums, k.marked
	defer func() { j.judgedState, j.last, k.sums, k.marked = state, last, sums, marked }()
	j.judgedState, k.sums, k.marked = judgedState{}, nil, nil
	return k.shelf.Scan([]byte{judgedUnits}, func(key, val []byte) (bool, error) {
		if key[0] != judgedUnits {
			return false, nil
		}
		if here[string(key)] || k.gone[string(key)] {
			return true, nil
		}
		if j.units.len() >= atOnShelf {
			j.judgedState, k.sums, k.marked = judgedState{}, nil, nil
		}
		j.last = 0
		u, err := j.decode(key, val)
		if err == nil {
			f(u, slices.Clone(key), sumOf(key, val))
		}
		return err == nil, err
	})
}
