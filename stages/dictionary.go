package stages

import (
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

// memo is one worker's view of a dictionary, without a lock.
type memo struct {
	of  *dictionary
	ids map[string]uint32
}

func (m *memo) id(s []byte, made func(id uint32, name string)) uint32 {
	if id, ok := m.ids[string(s)]; ok {
		return id
	}
	id := m.of.id(s, made)
	if m.ids == nil {
		m.ids = make(map[string]uint32)
	}
	m.ids[string(s)] = id
	return id
}
