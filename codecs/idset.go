package codecs

import (
	"github.com/zeebo/xxh3"

	"evalstream"
)

// idSet finds an id that stands twice in a list.
type idSet struct {
	marks [32]uint64
	table []int32 // of list positions + 1, by hash
}

// repeated is the position of the first id that stood before it, -1 if there is none.
// Cost is linear in the list; short lists are compared pair by pair on eight bytes.
func (s *idSet) repeated(hits []evalstream.Hit) int {
	if len(hits) > len(s.marks) {
		return s.repeatedLong(hits)
	}
	for i := range hits {
		m := mark(hits[i].ID)
		for j, old := range s.marks[:i] {
			if old == m && hits[j].ID == hits[i].ID {
				return i
			}
		}
		s.marks[i] = m
	}
	return -1
}

// mark is made of an id's length and its last bytes, where ids differ most often.
func mark(id string) uint64 {
	m := uint64(len(id)) << 56
	if len(id) >= 8 {
		b := id[len(id)-8:]
		return m ^ (uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56)
	}
	for i := range len(id) {
		m ^= uint64(id[i]) << (8 * i)
	}
	return m
}

func (s *idSet) repeatedLong(hits []evalstream.Hit) int {
	size := 64
	for size < 2*len(hits) {
		size *= 2
	}
	if len(s.table) < size {
		s.table = make([]int32, size)
	}
	table := s.table[:size]
	clear(table)
	for i := range hits {
		at := int(xxh3.HashString(hits[i].ID)) & (size - 1)
		for ; table[at] != 0; at = (at + 1) & (size - 1) {
			if hits[table[at]-1].ID == hits[i].ID {
				return i
			}
		}
		table[at] = int32(i + 1)
	}
	return -1
}
