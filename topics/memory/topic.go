package memory

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"evalstream/topics"
)

// Topic is a partitioned log in memory: what is appended to a partition is read from
// it in that order, by any number of readers. It may be used by many goroutines.
type Topic struct {
	name string

	mu         sync.Mutex
	grown      chan struct{} // closed and made again when something is appended
	partitions [][]topics.Message
	committed  map[string][]int64
}

// NewTopic makes an empty topic; it has at least one partition.
func NewTopic(name string, partitions int32) *Topic {
	return &Topic{
		name: name, grown: make(chan struct{}), partitions: make([][]topics.Message, max(1, partitions)),
		committed: map[string][]int64{},
	}
}

// Append adds messages to the partitions that they name. Their bytes are the topic's.
// All are added or, with an error, none.
func (t *Topic) Append(msgs ...topics.Message) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range msgs {
		if err := t.check(m.Partition); err != nil {
			return err
		}
	}
	for _, m := range msgs {
		p := &t.partitions[m.Partition]
		m.Offset = int64(len(*p))
		if m.Millis == 0 {
			m.Millis = time.Now().UnixMilli()
		}
		*p = append(*p, m)
	}
	close(t.grown)
	t.grown = make(chan struct{})
	return nil
}

func (t *Topic) check(partition int32) error {
	if partition < 0 || int(partition) >= len(t.partitions) {
		return fmt.Errorf("%s: want a partition below %d, got %d", t.name, len(t.partitions), partition)
	}
	return nil
}

// Next waits until a partition holds messages from the offsets on, by partition, and
// gives those of the first that does, which must not be changed.
func (t *Topic) Next(ctx context.Context, from []int64) ([]topics.Message, error) {
	for {
		t.mu.Lock()
		for p, at := range from {
			if err := t.check(int32(p)); err != nil {
				t.mu.Unlock()
				return nil, err
			}
			if at < int64(len(t.partitions[p])) {
				msgs := slices.Clip(t.partitions[p][max(0, at):])
				t.mu.Unlock()
				return msgs, nil
			}
		}
		grown := t.grown
		t.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-grown:
		}
	}
}

// Commit moves a group's offset in a partition forward, never back.
func (t *Topic) Commit(group string, partition int32, next int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.check(partition); err != nil {
		return err
	}
	at := t.committed[group]
	if at == nil {
		at = make([]int64, len(t.partitions))
		t.committed[group] = at
	}
	at[partition] = max(at[partition], next)
	return nil
}

// Committed is where a group goes on in each partition; the slice is the caller's.
func (t *Topic) Committed(group string) []int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at := t.committed[group]; at != nil {
		return slices.Clone(at)
	}
	return make([]int64, len(t.partitions))
}
