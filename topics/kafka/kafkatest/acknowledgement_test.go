package kafkatest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"evalstream/topics"
	"evalstream/topics/kafka"
)

// However messages are acknowledged and nacked, no offset is ever committed before which one
// is not acknowledged, and what was not comes again in the next subscription.
func TestAcknowledgedPrefix(t *testing.T) {
	c := connect(t, cluster(t))
	const n, inFlight = 200, 8
	in, group := topic(t, c, 1, nil), name("g")
	tp := kafka.TopicPartition{Topic: in}
	p := c.NewProducer(t.Context(), kafka.None)
	closing(t, p)
	var ms []topics.Message
	for i := range n {
		ms = append(ms, text(fmt.Sprint(i))...)
	}
	if err := errors.Join(p.SendTo(t.Context(), in, ms...)...); err != nil {
		t.Fatal(err)
	}
	subscribe := func() (*kafka.Subscriber, <-chan *message.Message) {
		t.Helper()
		s := c.NewSubscriber(t.Context(), kafka.SubscriberOptions{
			Group: kafka.GroupOptions{ID: group}, InFlight: inFlight, Backoff: time.Millisecond, MaxBackoff: time.Millisecond,
			Commit: time.Millisecond, Drain: time.Millisecond,
		})
		msgs, err := s.Subscribe(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		return s, msgs
	}
	offset := func(m *message.Message) int64 {
		r, _ := kafka.FromContext(m.Context())
		return r.Offset
	}
	committed := func() int64 {
		t.Helper()
		at, err := c.Committed(t.Context(), group, tp)
		if err != nil {
			t.Fatal(err)
		}
		return at[tp]
	}

	// All that are in flight are acknowledged but one.
	const hole = 3
	s, msgs := subscribe()
	var first []*message.Message
	for range inFlight {
		first = append(first, next(t, msgs))
	}
	for _, i := range []int{7, 1, 0, 5, 2, 6, 4} {
		first[i].Ack()
	}
	until(t, func() bool { return committed() >= hole })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if at := committed(); at != hole {
		t.Fatalf("offset %d is committed, want %d", at, hole)
	}

	// The rest in any order, watched.
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var prefix atomic.Int64
	prefix.Store(hole)
	acked := make([]bool, n+1)
	for i := range hole {
		acked[i] = true
	}
	over := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		last := int64(hole)
		for {
			at, err := c.Committed(t.Context(), group, tp)
			if most := prefix.Load(); err != nil || at[tp] > most || at[tp] < last {
				t.Errorf("committed %d behind %d, with %d acknowledged in a row; error %v", at[tp], last, most, err)
				return
			}
			last = at[tp]
			select {
			case <-over:
				return
			default:
			}
		}
	})
	unwatch := sync.OnceFunc(func() { close(over); watch.Wait() })
	defer unwatch()
	s, msgs = subscribe()
	open := []*message.Message{next(t, msgs)}
	if at := offset(open[0]); at != hole {
		t.Fatalf("goes on with message %d, want %d", at, hole)
	}
	tick := time.NewTicker(time.Millisecond) // lets some gather
	defer tick.Stop()
	for left := n - hole; left > 0; {
		select {
		case m := <-msgs:
			open = append(open, m)
			continue
		case <-tick.C:
		}
		if len(open) == 0 {
			open = append(open, next(t, msgs))
		}
		i := rng.IntN(len(open))
		m := open[i]
		open = slices.Delete(open, i, i+1)
		if rng.IntN(5) == 0 {
			m.Nack()
			continue
		}
		if acked[offset(m)] {
			t.Fatalf("message %d comes again, and was acknowledged", offset(m))
		}
		acked[offset(m)] = true
		at := prefix.Load()
		for acked[at] {
			at++
		}
		prefix.Store(at)
		m.Ack()
		left--
	}
	until(t, func() bool { return committed() == n })
	unwatch()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
