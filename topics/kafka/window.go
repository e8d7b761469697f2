package kafka

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"evalstream/topics"
)

// window hands out the messages of one partition and keeps those that are in flight,
// oldest first. It belongs to one goroutine, and starts none a message.
type window struct {
	u       *subscription
	tp      TopicPartition
	queue   []topics.Message // fetched, not handed out yet
	end     int64            // the offset behind the queue, holes included
	fresh   *flight          // made of the head of the queue
	flights []*flight
	// The oldest message was nacked: it waits for the timer, and then to be taken.
	timer *time.Timer
	due   bool
}

// flight is a message that was handed out, or is about to be.
type flight struct {
	record   topics.Message
	next     int64 // what to commit once it and all before it are done
	msg      *message.Message
	cancel   context.CancelFunc
	attempts int
}

// partition hands out the messages of one partition until ctx ends.
func (u *subscription) partition(ctx context.Context, tp TopicPartition, from int64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var fetcher sync.WaitGroup
	defer fetcher.Wait()
	defer cancel(nil)
	batches := make(chan Batch)
	fetcher.Go(func() { cancel(u.s.client.pump(ctx, tp, from, u.s.opt.Read, batches, new(fetching))) })
	w := &window{u: u, tp: tp}
	defer w.drain()
	for {
		if err := w.step(ctx, batches); err != nil {
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		}
	}
}

// step does the next thing that can be done.
func (w *window) step(ctx context.Context, batches <-chan Batch) error {
	var (
		in            <-chan Batch
		out           chan<- *message.Message
		give          *message.Message
		acked, nacked <-chan struct{}
		again         <-chan time.Time
	)
	switch {
	case w.due:
		out, give = w.u.out, w.flights[0].msg
	case w.timer != nil:
		again = w.timer.C
	case len(w.flights) > 0:
		acked, nacked = w.flights[0].msg.Acked(), w.flights[0].msg.Nacked()
	}
	if out == nil && len(w.queue) > 0 && len(w.flights) < w.u.s.opt.InFlight {
		out, give = w.u.out, w.first(ctx)
	}
	if len(w.queue) == 0 {
		in = batches
	}
	select {
	case b := <-in:
		w.queue, w.end = b.Messages, b.Next
		if len(w.queue) == 0 && len(w.flights) == 0 {
			w.u.done(w.tp, b.Next)
		}
	case out <- give:
		w.gave()
	case <-acked:
		w.pop()
	case <-nacked:
		return w.nacked(ctx)
	case <-again:
		w.timer, w.due = nil, true
		w.make(ctx, w.flights[0])
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// first is the message to be handed out next.
func (w *window) first(ctx context.Context) *message.Message {
	if w.fresh == nil {
		f := &flight{record: w.queue[0], next: w.queue[0].Offset + 1}
		if len(w.queue) == 1 {
			f.next = w.end
		}
		w.make(ctx, f)
		w.fresh = f
	}
	return w.fresh.msg
}

func (w *window) make(ctx context.Context, f *flight) {
	f.attempts++
	f.msg = received(w.tp.Topic, &f.record)
	ctx, f.cancel = context.WithCancel(context.WithValue(ctx, messageKey{}, f.record))
	f.msg.SetContext(ctx)
}

func (w *window) gave() {
	if w.due {
		w.due = false
		return
	}
	w.flights = append(w.flights, w.fresh)
	w.fresh, w.queue = nil, w.queue[1:]
}

// pop is done with the oldest message.
func (w *window) pop() {
	w.flights[0].cancel()
	w.u.done(w.tp, w.flights[0].next)
	w.flights = w.flights[1:]
}

// nacked lets the oldest message come again after a while, or gives it up.
func (w *window) nacked(ctx context.Context) error {
	f, opt := w.flights[0], &w.u.s.opt
	f.cancel()
	if opt.Attempts > 0 && f.attempts >= opt.Attempts {
		if err := w.reject(ctx, f); err != nil {
			return err
		}
		w.pop()
		return nil
	}
	wait := opt.MaxBackoff
	if n := f.attempts - 1; n < 16 {
		wait = min(wait, opt.Backoff<<n)
	}
	w.timer = time.NewTimer(wait)
	return nil
}

// The headers of a message on a reject topic.
const (
	HeaderTopic     = "evalstream_topic"
	HeaderPartition = "evalstream_partition"
	HeaderOffset    = "evalstream_offset"
	HeaderAttempts  = "evalstream_attempts"
	HeaderCause     = MetadataCause
)

func (w *window) reject(ctx context.Context, f *flight) error {
	opt := &w.u.s.opt
	cause := f.msg.Metadata[MetadataCause]
	if cause == "" {
		cause = "nacked without a cause"
	}
	w.u.s.client.conf.log().WarnContext(ctx, "message is given up", "at", w.tp.String(), "offset", f.record.Offset, "attempts", f.attempts, "because", cause)
	if opt.Reject == "" || opt.RejectTo == nil {
		return nil
	}
	m := clone(f.record)
	m.Headers = append(m.Headers,
		topics.Header{Name: HeaderTopic, Value: []byte(w.tp.Topic)},
		topics.Header{Name: HeaderPartition, Value: strconv.AppendInt(nil, int64(w.tp.Partition), 10)},
		topics.Header{Name: HeaderOffset, Value: strconv.AppendInt(nil, f.record.Offset, 10)},
		topics.Header{Name: HeaderAttempts, Value: strconv.AppendInt(nil, int64(f.attempts), 10)},
		topics.Header{Name: HeaderCause, Value: []byte(cause)},
	)
	return errors.Join(opt.RejectTo.Send(ctx, opt.Reject, m)...)
}

// drain notes what is acknowledged within Drain, up to the first that is not.
func (w *window) drain() {
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.fresh != nil {
		w.fresh.cancel()
	}
	late := time.NewTimer(w.u.s.opt.Drain)
	defer late.Stop()
	for open := w.timer == nil && !w.due; open && len(w.flights) > 0; {
		select {
		case <-w.flights[0].msg.Acked():
			w.pop()
		case <-w.flights[0].msg.Nacked():
			open = false
		case <-late.C:
			open = false
		}
	}
	for _, f := range w.flights {
		f.cancel()
	}
}
