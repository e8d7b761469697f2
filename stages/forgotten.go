package stages

import (
	"encoding/binary"
)

// sweepKept forgets the slots that are old: their bases keep them.
func (a *aggregate) sweepKept(old func(*slot) bool) {
	k := a.kept
	a.settle()
	forget := func(hash [2]uint64, s *slot, revision int64) {
		was := s.value(revision)
		a.forget(s)
		k.remove(slotKey(hash, s.run), was)
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
