package stages

import (
	"evalstream"
)

// units is the state of aggregate: what each unit contributes now, by unit and run.
// A unit costs 24 bytes and its share of the index, each of its runs 20 bytes, and 8
// more if revisions are used.
type units struct {
	index     []uint32 // unit + 1, by hash; 0 is free
	rows      column[unitRow]
	slots     column[slot]
	revisions column[int64] // by slot; empty until a revision other than 0 comes
	revised   bool
	judged    int64 // units with a slot that is scored or waiting
}

type unitRow struct {
	hash  [2]uint64
	first uint32 // slot + 1
	count uint32 // slots that are scored or waiting
}

type slot struct {
	next    uint32 // slot + 1
	run     uint32
	group   uint32
	pattern uint32 // pattern and, in its upper bits, status
	pane    int32
}

const (
	statusShift = 29
	maxPattern  = 1<<statusShift - 1
)

func (s *slot) status() evalstream.Status { return evalstream.Status(s.pattern >> statusShift) }

// fetch brings what find will need for these observations near: all of them side by
// side, where find would wait for one after the other.
func (u *units) fetch(obs []evalstream.Observation) (touched uint64) {
	if len(u.index) == 0 {
		return 0
	}
	mask := uint64(len(u.index) - 1)
	for i := range obs {
		touched += uint64(u.index[obs[i].Unit[0]&mask])
	}
	for i := range obs {
		for at := obs[i].Unit[0] & mask; u.index[at] != 0; at = (at + 1) & mask {
			first := u.rows.at(u.index[at] - 1).hash[0]
			touched += first
			if first == obs[i].Unit[0] {
				break
			}
		}
	}
	return touched
}

// find returns the slot of (unit, run), made empty if it is new.
func (u *units) find(hash [2]uint64, run uint32) (row *unitRow, at uint32, isNew bool) {
	if 4*(u.rows.len()+1) > 3*len(u.index) {
		u.grow()
	}
	mask := uint64(len(u.index) - 1)
	i := hash[0] & mask
	for ; u.index[i] != 0; i = (i + 1) & mask {
		row = u.rows.at(u.index[i] - 1)
		if row.hash != hash {
			continue
		}
		for s := row.first; s != 0; s = u.slots.at(s - 1).next {
			if u.slots.at(s-1).run == run {
				return row, s - 1, false
			}
		}
		return row, u.add(row, run), true
	}
	u.rows.push(unitRow{hash: hash})
	u.index[i] = uint32(u.rows.len())
	row = u.rows.at(u.index[i] - 1)
	return row, u.add(row, run), true
}

// row is the row of a unit, nil if it has none.
func (u *units) row(hash [2]uint64) *unitRow {
	if len(u.index) == 0 {
		return nil
	}
	mask := uint64(len(u.index) - 1)
	for i := hash[0] & mask; u.index[i] != 0; i = (i + 1) & mask {
		if row := u.rows.at(u.index[i] - 1); row.hash == hash {
			return row
		}
	}
	return nil
}

// has reports whether (unit, run) has a slot.
func (u *units) has(hash [2]uint64, run uint32) bool {
	row := u.row(hash)
	if row == nil {
		return false
	}
	for s := row.first; s != 0; s = u.slots.at(s - 1).next {
		if u.slots.at(s-1).run == run {
			return true
		}
	}
	return false
}

// bytes is about what the units take.
func (u *units) bytes() int64 {
	return int64(u.rows.len())*24 + int64(len(u.index))*4 + int64(u.slots.len())*20 + int64(u.revisions.len())*8
}

func (u *units) add(row *unitRow, run uint32) uint32 {
	u.slots.push(slot{next: row.first, run: run})
	row.first = uint32(u.slots.len())
	if u.revised {
		u.revisions.push(0)
	}
	return row.first - 1
}

func (u *units) grow() {
	index := make([]uint32, max(64, 2*len(u.index)))
	mask := uint64(len(index) - 1)
	for n := range uint32(u.rows.len()) {
		i := u.rows.at(n).hash[0] & mask
		for index[i] != 0 {
			i = (i + 1) & mask
		}
		index[i] = n + 1
	}
	u.index = index
}

// revision is what the slot was set by.
func (u *units) revision(at uint32) int64 {
	if !u.revised {
		return 0
	}
	return *u.revisions.at(at)
}

func (u *units) setRevision(at uint32, r int64) {
	if r == 0 && !u.revised {
		return
	}
	for u.revisions.len() < u.slots.len() {
		u.revisions.push(0)
	}
	u.revised = true
	*u.revisions.at(at) = r
}

// isJudged says whether a status makes its unit a judged one.
func isJudged(s evalstream.Status) bool { return s == evalstream.Scored || s == evalstream.Waiting }

// judge counts judged units when a slot of row goes from one status to another.
func (u *units) judge(row *unitRow, was, is bool) {
	switch {
	case is && !was:
		if row.count++; row.count == 1 {
			u.judged++
		}
	case was && !is:
		if row.count--; row.count == 0 {
			u.judged--
		}
	}
}

// keep rebuilds the state with the slots that f wants; the others are forgotten.
func (u *units) keep(f func(s *slot) bool) {
	old := *u
	*u = units{revised: old.revised, judged: old.judged}
	for n := range uint32(old.rows.len()) {
		row := old.rows.at(n)
		for s := row.first; s != 0; s = old.slots.at(s - 1).next {
			from := old.slots.at(s - 1)
			if !f(from) {
				continue
			}
			to, at, _ := u.find(row.hash, from.run)
			to.count = row.count
			next := u.slots.at(at).next
			*u.slots.at(at) = *from
			u.slots.at(at).next = next
			if old.revised {
				*u.revisions.at(at) = old.revision(s - 1)
			}
		}
	}
}

// column is an array that grows without moving what it holds.
type column[T any] struct {
	chunks [][]T
	n      int
}

const (
	columnShift = 12
	columnMask  = 1<<columnShift - 1
)

func (c *column[T]) len() int { return c.n }

func (c *column[T]) at(i uint32) *T { return &c.chunks[i>>columnShift][i&columnMask] }

func (c *column[T]) push(v T) {
	if c.n&columnMask == 0 {
		c.chunks = append(c.chunks, make([]T, 1<<columnShift))
	}
	c.chunks[c.n>>columnShift][c.n&columnMask] = v
	c.n++
}
