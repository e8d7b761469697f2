package kafka

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"evalstream"
)

// A transaction takes the broker milliseconds of a processor, whatever is in it, so under
// a thin stream those of a member begin no closer than commitPause. The clock of a job
// catches what came meanwhile, and more often than that nothing need be fetched.
const (
	commitPause = 20 * time.Millisecond
	commitEvery = 5 * time.Millisecond
	fetchPause  = commitPause
)

// errEnded says that all partitions of a member have come to their end.
var errEnded = errors.New("ended")

// tenure is what a member does in one generation of the group: each of its partitions has
// a job of its own, and all write in the same transactions.
type tenure struct {
	seg    *Segment
	of     Ownership
	sink   *Sink
	began  time.Time
	ended  atomic.Int32 // partitions
	mu     sync.Mutex
	stores []*segmentStore
}

// own is the life of an owner.
func (s *Segment) own(ctx context.Context, o Ownership) error {
	// A transaction that is under way when the generation ends can still be committed.
	sink := NewSink(context.WithoutCancel(ctx), o.Transactor, SinkOptions{
		Group: o.Group, Member: o.Member, CommitInterval: s.Commit, Pause: commitPause, Took: s.Hooks.Took,
	})
	t := &tenure{seg: s, of: o, sink: sink, began: time.Now()}
	err := t.hold(ctx)
	_ = sink.Close()
	for _, store := range t.stores {
		_ = store.close() // the sink applies what it has committed to it until its end
	}
	return err
}

// hold works on all partitions until they have ended or one cannot go on.
func (t *tenure) hold(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		lost error // of a partition
		bad  error // of anything else
	)
	for _, p := range t.of.Partitions {
		wg.Go(func() {
			err := t.partition(ctx, p)
			if err == nil || ctx.Err() != nil && (errors.Is(err, context.Cause(ctx)) || errors.Is(err, context.Canceled)) {
				return // it, or another, has ended the generation already
			}
			mu.Lock()
			if errors.Is(err, ErrLost) || errors.Is(err, ErrUnknown) {
				lost = err
			} else if bad == nil {
				bad = err
			}
			mu.Unlock()
			cancel(err)
		})
	}
	wg.Wait()
	if bad != nil {
		return bad
	}
	return lost
}

// partition is the life of the owner of one.
func (t *tenure) partition(ctx context.Context, p int32) error {
	if h := t.seg.Hooks.Owned; h != nil {
		h(p, true)
		defer h(p, false)
	}
	owner := t.seg.takes(p)
	defer t.seg.lets(p)
	store := &segmentStore{seg: t.seg, p: p, sink: t.sink}
	t.mu.Lock()
	t.stores = append(t.stores, store)
	t.mu.Unlock()
	return t.work(ctx, store, owner)
}

func (t *tenure) work(ctx context.Context, store *segmentStore, owner *owner) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := make(chan struct{})
	defer func() { cancel(nil); <-watched }()
	go func() {
		defer close(watched)
		select {
		case <-t.sink.Failed():
			cancel(t.sink.Err())
		case <-ctx.Done():
		}
	}()
	if err := t.seg.recount(ctx, t.seg.Client.recount); err != nil {
		return err
	}
	store.ctx = ctx
	begin := time.Now()
	if err := store.open(ctx); err != nil {
		return err
	}
	job, src, closeAll, err := t.seg.job(ctx, t.of, store)
	if err != nil {
		return err
	}
	defer closeAll()
	src.begun = func() { // behind a replay
		if h := t.seg.Hooks.Loaded; h != nil {
			h(store.p, time.Since(begin), store.entries)
		}
		owner.loaded.Store(true) // who sees it ready sees the figures too
	}
	t.seg.mu.Lock()
	owner.src, owner.store = src, store
	if t.seg.draining.Load() {
		src.Drain()
	}
	t.seg.mu.Unlock()
	sum, err := job.Run(ctx)
	err = t.seg.replayed(err)
	if settleErr := t.settle(ctx); err == nil {
		err = settleErr
	}
	t.seg.mu.Lock()
	owner.src = nil
	t.seg.mu.Unlock()
	if n := store.tooLarge.Load(); n > 0 {
		sum.Add(evalstream.Summary{Rejects: n, ByClass: map[evalstream.Class]int64{evalstream.ClassTooLarge: n}})
	}
	if h := t.seg.Hooks.Ended; h != nil {
		h(store.p, sum, err)
	}
	if err != nil {
		return err
	}
	if int(t.ended.Add(1)) < len(t.of.Partitions) {
		// The others go on; what is let go now would only come back.
		return nil
	}
	return t.outlive(ctx)
}

// outlive stays until a member of this generation that has died is out of the group, for
// what was that one's comes here then. Who was told to go does not.
func (t *tenure) outlive(ctx context.Context) error {
	if !t.seg.draining.Load() && len(t.of.Partitions) < int(t.seg.count(t.seg.From[0])) {
		if err := pause(ctx, time.Until(t.began.Add(t.seg.session()*6/5))); err != nil {
			return err
		}
	}
	return errEnded
}

// settle waits for what was handed over before the job ended: as long as the partition
// is owned, and for a moment more where it no longer is.
func (t *tenure) settle(ctx context.Context) error {
	err := t.sink.Drain(ctx)
	if ctx.Err() == nil {
		return err
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err = t.sink.Drain(late); errors.Is(err, context.DeadlineExceeded) {
		return context.Cause(ctx)
	}
	return err
}
