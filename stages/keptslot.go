package stages

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"evalstream"
)

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
