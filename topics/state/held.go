package state

import (
	"maps"
	"slices"

	"evalstream"
)

// Held is a store that holds everything in maps, for one goroutine: for what is loaded
// once, read back whole, and then let go. The zero value is empty. Memory is that of the
// entries and some 100 bytes each.
type Held struct {
	steps  map[heldStep]map[string][]byte
	points map[int32]*evalstream.Checkpoint
}

type heldStep struct {
	partition int32
	name      string
}

// Partitions lists those that have a checkpoint, ascending.
func (h *Held) Partitions() ([]int32, error) { return slices.Sorted(maps.Keys(h.points)), nil }

// Checkpoint is the last one committed; nil if there is none.
func (h *Held) Checkpoint(partition int32) (*evalstream.Checkpoint, error) {
	return h.points[partition], nil
}

// Scan calls f for the entries of a step from key from on, by key. What it is given stays
// what it is until Commit.
func (h *Held) Scan(step string, partition int32, from []byte, f func(key, val []byte) (bool, error)) error {
	entries := h.steps[heldStep{partition, step}]
	keys := make([]string, 0, len(entries))
	for k := range entries {
		if k >= string(from) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		if more, err := f([]byte(k), entries[k]); err != nil || !more {
			return err
		}
	}
	return nil
}

// Get appends the value of a key to dst.
func (h *Held) Get(dst []byte, step string, partition int32, key []byte) (val []byte, found bool, err error) {
	v, ok := h.steps[heldStep{partition, step}][string(key)]
	return append(dst, v...), ok, nil
}

// Commit takes changes in, and a checkpoint unless it is nil; it copies the first and
// keeps the second.
func (h *Held) Commit(partition int32, changes []evalstream.StepChanges, cp *evalstream.Checkpoint) error {
	if h.steps == nil {
		h.steps, h.points = map[heldStep]map[string][]byte{}, map[int32]*evalstream.Checkpoint{}
	}
	for _, c := range changes {
		at := heldStep{partition, c.Step}
		entries := h.steps[at]
		if entries == nil {
			entries = map[string][]byte{}
			h.steps[at] = entries
		}
		for _, e := range c.Changes {
			if e.Val == nil {
				delete(entries, string(e.Key))
			} else {
				entries[string(e.Key)] = append(entries[string(e.Key)][:0], e.Val...)
			}
		}
	}
	if cp != nil {
		h.points[partition] = cp
	}
	return nil
}

// Clear drops everything.
func (h *Held) Clear() error {
	*h = Held{}
	return nil
}

// Close drops everything.
func (h *Held) Close() error { return h.Clear() }
