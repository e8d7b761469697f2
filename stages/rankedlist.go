package stages

import (
	"encoding/binary"
	"math"

	"evalstream"
)

// rankedList is a ranked list as open score remembers it: the length of each id, the
// id, and the score in eight bytes. It is less than half of a slice of hits, and two
// lists are equal if their bytes are.
type rankedList string

func packList(top []evalstream.Hit) rankedList {
	n := 0
	for i := range top {
		n += 1 + len(top[i].ID) + 8
	}
	b := make([]byte, 0, n)
	for i := range top {
		b = appendText(b, top[i].ID)
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(top[i].Score))
	}
	return rankedList(b)
}

// hits appends the hits to dst; ok is false if the bytes are no list. Ids point into
// the list.
func (l rankedList) hits(dst []evalstream.Hit) (hits []evalstream.Hit, ok bool) {
	for rest := string(l); rest != ""; {
		n, used := uint64(0), 0
		for ; used < len(rest) && used < binary.MaxVarintLen64; used++ {
			n |= uint64(rest[used]&0x7f) << (7 * used)
			if rest[used] < 0x80 {
				break
			}
		}
		used++
		if used > len(rest) || uint64(len(rest)-used) < 8 || n > uint64(len(rest)-used-8) {
			return dst, false
		}
		id, score := rest[used:used+int(n)], rest[used+int(n):used+int(n)+8]
		var bits uint64
		for i := range 8 {
			bits |= uint64(score[i]) << (8 * i)
		}
		dst = append(dst, evalstream.Hit{ID: id, Score: math.Float64frombits(bits)})
		rest = rest[used+int(n)+8:]
	}
	return dst, true
}
