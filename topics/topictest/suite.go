// Package topictest holds what every kind of topic must do, as a test.
package topictest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"evalstream/topics"
)

// Log is a topic under test. Each is new and empty.
type Log interface {
	// Write appends messages to the partitions that they name and returns when they
	// are safe.
	Write(ctx context.Context, msgs ...topics.Message) error
	// Consume reads all partitions for a group, from where it has committed, from the
	// start if it has not.
	Consume(ctx context.Context, group string) (Consumer, error)
}

// Consumer reads for a group. It belongs to one goroutine.
type Consumer interface {
	// Next waits for the next messages of one partition. io.EOF says that there will
	// be no more.
	Next(ctx context.Context) ([]topics.Message, error)
	// Commit says that a partition is done up to next.
	Commit(ctx context.Context, partition int32, next int64) error
	// Close ends the consumer, without committing anything.
	Close() error
}

// Subject says what is tested.
type Subject struct {
	// Open makes a new log; its end is t.Cleanup's.
	Open       func(t *testing.T, partitions int32) Log
	Partitions int32 // 1 for a log that is one
	// ValuesOnly is for logs of lines: no keys, headers, times or tombstones.
	ValuesOnly bool
}

const soon = 30 * time.Second

// Run tests it.
func Run(t *testing.T, s Subject) {
	t.Run("order", s.order)
	t.Run("fields", s.fields)
	t.Run("redelivery", s.redelivery)
	t.Run("groups", s.groups)
	t.Run("late", s.late)
	t.Run("drain", s.drain)
}

func (s Subject) numbered(from, to int) []topics.Message {
	var ms []topics.Message
	for p := range s.Partitions {
		for i := from; i < to; i++ {
			ms = append(ms, topics.Message{Partition: p, Value: fmt.Appendf(nil, "%d/%d", p, i)})
		}
	}
	return ms
}

func (s Subject) open(t *testing.T, msgs ...topics.Message) Log {
	t.Helper()
	l := s.Open(t, s.Partitions)
	if len(msgs) > 0 {
		if err := l.Write(t.Context(), msgs...); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// reading is a consumer and what it has given so far, by partition.
type reading struct {
	t   *testing.T
	c   Consumer
	got map[int32][]topics.Message
	n   int
}

func consume(t *testing.T, l Log, group string) *reading {
	t.Helper()
	c, err := l.Consume(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	r := &reading{t: t, c: c, got: map[int32][]topics.Message{}}
	t.Cleanup(func() { _ = c.Close() })
	return r
}

// until reads until n messages have come in all.
func (r *reading) until(n int) *reading {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), soon)
	defer cancel()
	for r.n < n {
		ms, err := r.c.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			r.t.Fatalf("after %d of %d messages: %v", r.n, n, err)
		}
		for _, m := range ms {
			if old := r.got[m.Partition]; len(old) > 0 && old[len(old)-1].Offset >= m.Offset {
				r.t.Fatalf("partition %d: offset %d after %d", m.Partition, m.Offset, old[len(old)-1].Offset)
			}
			r.got[m.Partition] = append(r.got[m.Partition], m)
		}
		r.n += len(ms)
	}
	return r
}

// wants checks that each partition gave its numbered messages from one on, in order.
func (r *reading) wants(s Subject, from, to int) {
	r.t.Helper()
	for p := range s.Partitions {
		var got, want []string
		for _, m := range r.got[p] {
			got = append(got, string(m.Value))
		}
		for i := from; i < to; i++ {
			want = append(want, fmt.Sprintf("%d/%d", p, i))
		}
		if d := cmp.Diff(want, got); d != "" {
			r.t.Errorf("partition %d: %s", p, d)
		}
	}
}

func (r *reading) commit(p int32, next int64) {
	r.t.Helper()
	if err := r.c.Commit(r.t.Context(), p, next); err != nil {
		r.t.Fatal(err)
	}
}

func (r *reading) close() {
	r.t.Helper()
	if err := r.c.Close(); err != nil {
		r.t.Fatal(err)
	}
}

// Each partition gives what was written to it, in that order.
func (s Subject) order(t *testing.T) {
	const n = 500
	l := s.open(t, s.numbered(0, n)...)
	consume(t, l, "g").until(n*int(s.Partitions)).wants(s, 0, n)
}

// Keys, headers, times, tombstones: nil, empty and repeated stay what they are.
func (s Subject) fields(t *testing.T) {
	want := []topics.Message{{Value: []byte("one"), Millis: 1_700_000_000_123}, {Value: []byte("two, longer"), Millis: 1_600_000_000_000}}
	if !s.ValuesOnly {
		want = append(want,
			topics.Message{Key: []byte("k"), Value: []byte("v"), Millis: 1},
			topics.Message{Key: []byte("tombstone"), Millis: 2},
			topics.Message{Key: []byte{}, Value: []byte{}, Millis: 3},
			topics.Message{Key: []byte("h"), Value: []byte("v"), Millis: 4, Headers: []topics.Header{
				{Name: "b", Value: []byte("1")}, {Name: "a", Value: []byte{}}, {Name: "b", Value: nil}, {Name: "ключ", Value: []byte{0, 255}},
			}},
		)
	}
	r := consume(t, s.open(t, want...), "g").until(len(want))
	got := r.got[0]
	for i := range got {
		got[i].Offset = 0
		if s.ValuesOnly {
			got[i].Millis = want[min(i, len(want)-1)].Millis
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// What was not committed comes again, in order, and what was does not.
func (s Subject) redelivery(t *testing.T) {
	const n, done = 50, 20
	l := s.open(t, s.numbered(0, n)...)
	first := consume(t, l, "g").until(n * int(s.Partitions))
	for p := range s.Partitions {
		first.commit(p, first.got[p][done].Offset)
		first.commit(p, first.got[p][done/2].Offset) // offsets never go back
	}
	first.close()
	second := consume(t, l, "g").until((n - done) * int(s.Partitions))
	second.wants(s, done, n)
	for p := range s.Partitions {
		if a, b := first.got[p][done], second.got[p][0]; a.Offset != b.Offset {
			t.Errorf("partition %d: offset %d comes again as %d", p, a.Offset, b.Offset)
		}
	}
}

// Groups do not see each other.
func (s Subject) groups(t *testing.T) {
	const n = 10
	l := s.open(t, s.numbered(0, n)...)
	a := consume(t, l, "a").until(n * int(s.Partitions))
	for p := range s.Partitions {
		a.commit(p, a.got[p][n-1].Offset+1)
	}
	consume(t, l, "b").until(n*int(s.Partitions)).wants(s, 0, n)
}

// What is written later comes too.
func (s Subject) late(t *testing.T) {
	const n = 10
	l := s.open(t, s.numbered(0, n)...)
	r := consume(t, l, "g").until(n * int(s.Partitions))
	if err := l.Write(t.Context(), s.numbered(n, 2*n)...); err != nil {
		t.Fatal(err)
	}
	r.until(2*n*int(s.Partitions)).wants(s, 0, 2*n)
}

// A wait for messages ends with its context, and Close with nothing in flight is quick.
func (s Subject) drain(t *testing.T) {
	l := s.open(t, s.numbered(0, 1)...)
	r := consume(t, l, "g").until(int(s.Partitions))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := r.c.Next(ctx)
		ended <- err
	}()
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) && !errors.Is(err, io.EOF) {
			t.Errorf("want the end of the context, got %v", err)
		}
	case <-time.After(soon):
		t.Fatal("Next does not end with its context")
	}
	began := time.Now()
	r.close()
	if d := time.Since(began); d > 2*time.Second {
		t.Errorf("closing took %v", d)
	}
}
