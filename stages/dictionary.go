package stages

import (
	"encoding/binary"
	"math/bits"
	"strings"
	"sync"
)

// dictionary numbers strings for all workers of one partition. Numbers depend on
// who came first and never leave the process.
type dictionary struct {
	mu    sync.RWMutex
	ids   map[string]uint32
	names []string
}

// id is the number of s; isNew says that this call gave it, and made ran before
// anyone else could see it.
func (d *dictionary) id(s []byte, made func(id uint32, name string)) uint32 {
	d.mu.RLock()
	id, ok := d.ids[string(s)]
	d.mu.RUnlock()
	if ok {
		return id
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if id, ok := d.ids[string(s)]; ok {
		return id
	}
	if d.ids == nil {
		d.ids = make(map[string]uint32)
	}
	id = uint32(len(d.names))
	name := strings.Clone(string(s))
	if made != nil {
		made(id, name)
	}
	d.names = append(d.names, name)
	d.ids[name] = id
	return id
}

// name is the string behind a number.
func (d *dictionary) name(id uint32) string {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.names[id]
}

// since lists the strings from a number on. They are never changed.
func (d *dictionary) since(id int) []string {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.names[id:len(d.names):len(d.names)]
}

// memo is one worker's view of a dictionary, without a lock. Most records of a stream
// have one of a few values, so the last value of each of a few places comes first.
type memo struct {
	of     *dictionary
	ids    map[string]*numbered
	recent [1 << recentBits]*numbered
}

// numbered is a string and its number.
type numbered struct {
	name string
	id   uint32
}

const recentBits = 10

// place is where a string is looked for first: by its length and its ends.
func place(s []byte) uint64 {
	h := uint64(len(s))
	switch n := len(s); {
	case n >= 8:
		h ^= binary.LittleEndian.Uint64(s) ^ bits.RotateLeft64(binary.LittleEndian.Uint64(s[n-8:]), 31)
	case n >= 4:
		h ^= uint64(binary.LittleEndian.Uint32(s))<<32 ^ uint64(binary.LittleEndian.Uint32(s[n-4:]))<<4
	case n > 0:
		h ^= uint64(s[0])<<32 ^ uint64(s[n-1])<<16 ^ uint64(s[n/2])<<8
	}
	return h * 0x9e3779b97f4a7c15 >> (64 - recentBits)
}

func (m *memo) id(s []byte, made func(id uint32, name string)) uint32 {
	r := &m.recent[place(s)]
	if n := *r; n != nil && n.name == string(s) {
		return n.id
	}
	n := m.ids[string(s)]
	if n == nil {
		n = &numbered{id: m.of.id(s, made)}
		n.name = m.of.name(n.id)
		if m.ids == nil {
			m.ids = make(map[string]*numbered)
		}
		m.ids[n.name] = n
	}
	*r = n
	return n.id
}
