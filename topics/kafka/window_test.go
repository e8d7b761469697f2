package kafka

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"evalstream/topics"
)

// handed is a window without a broker, in a bubble of synctest: it hands out messages of
// the offsets, with next behind them.
func handed(t *testing.T, opt SubscriberOptions, next int64, offsets ...int64) *subscription {
	t.Helper()
	u := &subscription{
		s: new(Client).NewSubscriber(t.Context(), opt), topic: "t",
		out: make(chan *message.Message), acked: map[TopicPartition]int64{},
	}
	b := Batch{Next: next}
	for _, at := range offsets {
		b.Messages = append(b.Messages, topics.Message{Offset: at})
	}
	batches := make(chan Batch, 1)
	batches <- b
	w := &window{u: u, tp: TopicPartition{Topic: "t"}}
	go func() {
		for w.step(t.Context(), batches) == nil {
		}
	}()
	return u
}

// gives wants the message of that offset to be handed out now.
func (u *subscription) gives(t *testing.T, offset int64) *message.Message {
	t.Helper()
	began := time.Now()
	m := <-u.out
	if r, _ := FromContext(m.Context()); r.Offset != offset || time.Since(began) != 0 {
		t.Fatalf("message %d comes after %v, want %d now", r.Offset, time.Since(began), offset)
	}
	return m
}

// rests wants nothing to be handed out now, and the offset to be committed; -1 is none.
func (u *subscription) rests(t *testing.T, offset int64) {
	t.Helper()
	synctest.Wait()
	select {
	case m := <-u.out:
		r, _ := FromContext(m.Context())
		t.Fatalf("message %d is handed out", r.Offset)
	default:
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	at, ok := u.acked[TopicPartition{Topic: "t"}]
	if !ok {
		at = -1
	}
	if at != offset {
		t.Fatalf("offset %d is to be committed, want %d", at, offset)
	}
}

// An offset is committed when all messages before it are acknowledged, in whatever order,
// and goes over the holes between them.
func TestWindowCommitsAPrefix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := handed(t, SubscriberOptions{InFlight: 3}, 20, 10, 11, 13, 14, 17)
		a, b, c := u.gives(t, 10), u.gives(t, 11), u.gives(t, 13)
		u.rests(t, -1)
		c.Ack()
		b.Ack()
		u.rests(t, -1)
		a.Ack()
		d, e := u.gives(t, 14), u.gives(t, 17)
		u.rests(t, 14)
		e.Ack()
		u.rests(t, 14)
		d.Nack()
		u.rests(t, 14)
		passes(t, 100*time.Millisecond)
		d = u.gives(t, 14)
		u.rests(t, 14)
		d.Ack()
		u.rests(t, 20)
	})
}

// A message that is nacked comes again, before those behind it, after 100 ms, and after
// twice as long each time, up to 30 s; the next one begins anew.
func TestNackedComesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := handed(t, SubscriberOptions{}, 2, 0, 1)
		committed := int64(-1)
		for offset := range int64(2) {
			m := u.gives(t, offset)
			for i := range 70 {
				m.Nack()
				u.rests(t, committed)
				want := 30 * time.Second
				if i < 9 {
					want = 100 * time.Millisecond << i
				}
				passes(t, want-time.Nanosecond)
				u.rests(t, committed)
				passes(t, time.Nanosecond)
				m = u.gives(t, offset)
			}
			m.Ack()
			committed = offset + 1
		}
		u.rests(t, committed)
	})
}

// The waits are those that were asked for.
func TestNackedComesAgainAsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := handed(t, SubscriberOptions{Backoff: time.Second, MaxBackoff: 3 * time.Second}, 1, 0)
		m := u.gives(t, 0)
		for _, want := range []time.Duration{1, 2, 3, 3} {
			m.Nack()
			passes(t, want*time.Second-time.Nanosecond)
			u.rests(t, -1)
			passes(t, time.Nanosecond)
			m = u.gives(t, 0)
		}
	})
}
