package stages

import (
	"unsafe"

	"github.com/zeebo/xxh3"
)

// arena keeps strings side by side, without a header each.
type arena struct{ chunk []byte }

const arenaChunk = 256 << 10

// keep copies s; the copy lives as long as anything that points into its chunk.
func (a *arena) keep(s string) string {
	if s == "" {
		return ""
	}
	if len(a.chunk)+len(s) > cap(a.chunk) {
		a.chunk = make([]byte, 0, max(arenaChunk, len(s)))
	}
	from := len(a.chunk)
	a.chunk = append(a.chunk, s...)
	return unsafe.String(&a.chunk[from], len(s))
}

// table numbers strings in the order in which they come: open addressing over
// their hashes, each number compared exactly.
type table struct {
	slots []uint32 // number + 1; 0 is free
	keys  []string
	tags  []uint32 // upper half of each hash: decides almost every comparison
}

func (t *table) get(s string) int32 {
	if len(t.slots) == 0 {
		return -1
	}
	h := xxh3.HashString(s)
	mask := uint64(len(t.slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		n := t.slots[i]
		if n == 0 {
			return -1
		}
		if t.tags[n-1] == uint32(h>>32) && t.keys[n-1] == s {
			return int32(n - 1)
		}
	}
}

func (t *table) put(s string, a *arena) (n int32, isNew bool) {
	if 4*(len(t.keys)+1) > 3*len(t.slots) {
		t.grow()
	}
	h := xxh3.HashString(s)
	mask := uint64(len(t.slots) - 1)
	i := h & mask
	for ; t.slots[i] != 0; i = (i + 1) & mask {
		k := t.slots[i] - 1
		if t.tags[k] == uint32(h>>32) && t.keys[k] == s {
			return int32(k), false
		}
	}
	t.keys = append(t.keys, a.keep(s))
	t.tags = append(t.tags, uint32(h>>32))
	t.slots[i] = uint32(len(t.keys))
	return int32(len(t.keys) - 1), true
}

func (t *table) grow() {
	slots := make([]uint32, max(16, 2*len(t.slots)))
	mask := uint64(len(slots) - 1)
	for k, s := range t.keys {
		i := xxh3.HashString(s) & mask
		for slots[i] != 0 {
			i = (i + 1) & mask
		}
		slots[i] = uint32(k + 1)
	}
	t.slots = slots
}

func (t *table) key(n int32) string { return t.keys[n] }
