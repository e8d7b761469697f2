package evalstream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// reachText is a Reach as JSON. Behind two cuts each of n marks has n cursors, and it is
// written with each commit, so cursors are offsets in the order of partitions, by topic.
type reachText struct {
	Next      cursorsText
	Marks     []markText
	Through   cursorsText
	Watermark Time
}

type markText struct {
	Step                  string
	Partition, Partitions int32
	Watermark             Time
	Idle                  bool
	Ended                 bool
	Through               cursorsText
}

// cursorsText are cursors of topics; a partition that has none is -1.
type cursorsText []Cursor

// MarshalJSON writes cursors short: an object of lists of offsets by topic.
func (r Reach) MarshalJSON() ([]byte, error) {
	t := reachText{Next: r.Next, Through: r.Through, Watermark: r.Watermark}
	for _, m := range r.Marks {
		t.Marks = append(t.Marks, markText{m.Step, m.Partition, m.Partitions, m.Watermark, m.Idle, m.Ended, m.Through})
	}
	return json.Marshal(&t)
}

// UnmarshalJSON reads that, and cursors as lists of objects. Cursors come in the order of
// topics and partitions.
func (r *Reach) UnmarshalJSON(data []byte) error {
	var t reachText
	if err := json.Unmarshal(data, &t); err != nil {
		return err
	}
	*r = Reach{Next: t.Next, Through: t.Through, Watermark: t.Watermark}
	for _, m := range t.Marks {
		r.Marks = append(r.Marks, Mark{m.Step, m.Partition, m.Partitions, m.Watermark, m.Idle, m.Ended, m.Through})
	}
	return nil
}

// MarshalJSON is {"topic":[offset of partition 0, of 1, …]}.
func (c cursorsText) MarshalJSON() ([]byte, error) {
	if c == nil {
		return []byte("null"), nil
	}
	lists := map[string][]int64{}
	for i := range c {
		o := &c[i].Origin
		if !o.Topic || o.Head != "" || o.Partition < 0 {
			return nil, fmt.Errorf("cursor %s: want one of a topic", o)
		}
		list := lists[o.Name]
		for int(o.Partition) >= len(list) {
			list = append(list, -1)
		}
		list[o.Partition] = c[i].Next
		lists[o.Name] = list
	}
	return json.Marshal(lists)
}

// UnmarshalJSON reads it.
func (c *cursorsText) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte("[")) {
		return json.Unmarshal(data, (*[]Cursor)(c))
	}
	var lists map[string][]int64
	if err := json.Unmarshal(data, &lists); err != nil || lists == nil {
		return err
	}
	*c = cursorsText{}
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		for p, next := range lists[name] {
			if next >= 0 {
				*c = append(*c, Cursor{Origin: Origin{Name: name, Topic: true, Partition: int32(p)}, Next: next})
			}
		}
	}
	return nil
}
