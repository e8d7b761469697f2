package stages

import (
	"unsafe"

	"github.com/zeebo/xxh3"
)

// arena keeps text side by side and names it by a handle of four bytes. It holds at
// most 4 GiB.
type arena struct {
	chunks [][]byte
	free   uint32 // bytes left in the last chunk
}

const (
	chunkShift = 20
	chunkMask  = 1<<chunkShift - 1
)

// text is a piece of an arena.
type text struct{ at, n uint32 }

// keep copies s. Text longer than a chunk gets chunks of its own, side by side.
func (a *arena) keep(s string) text {
	n := uint32(len(s))
	if n == 0 {
		return text{}
	}
	if n > a.free {
		at := uint32(len(a.chunks)) << chunkShift
		whole := make([]byte, (len(s)+chunkMask)>>chunkShift<<chunkShift)
		for from := 0; from < len(whole); from += 1 << chunkShift {
			a.chunks = append(a.chunks, whole[from:]) // the first reaches over all
		}
		copy(whole, s)
		a.free = uint32(len(whole)) - n
		return text{at, n}
	}
	at := uint32(len(a.chunks))<<chunkShift - a.free
	copy(a.chunks[at>>chunkShift][at&chunkMask:], s)
	a.free -= n
	return text{at, n}
}

// again is keep, unless the text is there already as t.
func (a *arena) again(t text, s string) text {
	if a.string(t) == s {
		return t
	}
	return a.keep(s)
}

// string is the text, without a copy.
func (a *arena) string(t text) string {
	if t.n == 0 {
		return ""
	}
	return unsafe.String(&a.chunks[t.at>>chunkShift][t.at&chunkMask], int(t.n))
}

// table numbers texts in the order in which they come: open addressing by 32 bits of
// their hashes, which stand beside the numbers, so that growing reads no text and
// almost every comparison is decided; what is left is compared exactly.
type table struct {
	arena *arena
	slots []uint64 // hash, and number + 1; 0 is free
	keys  []text
}

func hashOf(s string) uint32 { return uint32(xxh3.HashString(s) >> 32) }

func (t *table) len() int { return len(t.keys) }

func (t *table) key(n int32) string { return t.arena.string(t.keys[n]) }

// slot is where s stands, or where it would.
func (t *table) slot(h uint32, s string) uint32 {
	mask := uint32(len(t.slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		e := t.slots[i]
		if e == 0 || uint32(e>>32) == h && t.key(int32(uint32(e)-1)) == s {
			return i
		}
	}
}

func (t *table) put(s string) (n int32, isNew bool) {
	if 4*(len(t.keys)+1) > 3*len(t.slots) {
		t.grow()
	}
	h := hashOf(s)
	i := t.slot(h, s)
	if e := t.slots[i]; e != 0 {
		return int32(uint32(e) - 1), false
	}
	t.keys = append(t.keys, t.arena.keep(s))
	t.slots[i] = uint64(h)<<32 | uint64(len(t.keys))
	return int32(len(t.keys) - 1), true
}

func (t *table) grow() {
	old := t.slots
	t.slots = make([]uint64, max(16, 2*len(old)))
	mask := uint32(len(t.slots) - 1)
	for _, e := range old {
		if e == 0 {
			continue
		}
		i := uint32(e>>32) & mask
		for t.slots[i] != 0 {
			i = (i + 1) & mask
		}
		t.slots[i] = e
	}
}

// lookup is the numbers of many texts at once, -1 for those that are not there. Texts
// stand far apart in memory, so each pass touches one place of all of them: the
// processor fetches them side by side.
type lookup struct {
	hashes  []uint32
	entries []uint64
	numbers []int32
	touched uint32 // keeps the passes that only fetch from being optimized away
}

// find looks n texts up; of gives each.
func (l *lookup) find(t *table, n int, of func(i int) string) []int32 {
	l.hashes, l.entries, l.numbers = l.hashes[:0], l.entries[:0], l.numbers[:0]
	if t.len() == 0 {
		for range n {
			l.numbers = append(l.numbers, -1)
		}
		return l.numbers
	}
	mask := uint32(len(t.slots) - 1)
	for i := range n {
		h := hashOf(of(i))
		l.hashes = append(l.hashes, h)
		l.entries = append(l.entries, t.slots[h&mask])
	}
	for _, e := range l.entries {
		if e != 0 {
			l.touched += t.keys[uint32(e)-1].n
		}
	}
	for _, e := range l.entries {
		if e != 0 {
			if k := t.keys[uint32(e)-1]; k.n > 0 {
				l.touched += uint32(t.arena.chunks[k.at>>chunkShift][k.at&chunkMask])
			}
		}
	}
	for i := range n {
		h := l.hashes[i]
		if e := t.slots[t.slot(h, of(i))]; e != 0 {
			l.numbers = append(l.numbers, int32(uint32(e)-1))
		} else {
			l.numbers = append(l.numbers, -1)
		}
	}
	return l.numbers
}
