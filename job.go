package evalstream

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// Job is one execution of a pipeline.
type Job struct {
	Pipeline *Pipeline
	Source   Source
	Sink     Sink
	Rejects  Sink // nil: rejects are counted only
	// Workers is how many blocks are in work at once, and so bounds memory: a worker
	// holds one block and what its stages made of it. 0 is GOMAXPROCS, and one more if
	// that is not 1: somebody can go on while another waits for the turn of its block. It
	// is not less than the calls that a Remote may have in flight, so that a live pipe of
	// single lines has them too.
	Workers int
	// MaxOutOfOrder is how far the watermark stays behind the newest time seen.
	MaxOutOfOrder time.Duration
	// IdleTimeout leaves a partition that has given nothing for so long out of the
	// watermark of all; one of a [LiveSource] only if it holds nothing. 0: none is left out.
	IdleTimeout time.Duration
	// Partitions is how many partitions the source has; 0 is 1.
	Partitions int32
	// Owned are those that this job reads; nil: all. Mine then reports whether a route is
	// in one of them.
	Owned []int32
	Mine  func(route []byte) bool
	// Replay is what the state of the gathering steps was made of: it goes through the
	// pipeline before the source does, and what comes out is dropped. nil: nothing.
	Replay Source
	// Marked says that event time comes with the blocks' Reach and not with the records.
	Marked bool
	// MarkEvery is how often a mark goes to the sink, if there is news; 0: never. One comes
	// at the start, and one at the end of the input.
	MarkEvery time.Duration
	// FailFast ends the job at the first reject.
	FailFast bool
	// Store keeps the state, so that the job goes on after it was killed; nil: nothing
	// is kept. The source must begin behind the checkpoint, or give what it gave before
	// with the Seq that it had. The last commit is before the end of the input is said:
	// a job that has ended goes on with further input.
	Store Store
	// StateMemory is about how many bytes each stateful stage may hold in memory of what
	// the store has too; 0: all.
	StateMemory int64
	// CommitBytes is how much input a commit may cover; 0 is 4 MiB. A commit comes every
	// CommitEvery at the latest, 0 being 100 ms.
	CommitBytes int64
	CommitEvery time.Duration
	Hooks       Hooks
}

// ErrStopped says that FailFast met a reject.
var ErrStopped = errors.New("stopped at the first reject")

// Run moves every record of the source through the pipeline. It returns when the
// source has ended and everything is final, when ctx ends, or at the first error
// about the world. No goroutine outlives it.
func (j *Job) Run(ctx context.Context) (Summary, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r, err := newRunner(j, cancel)
	if err != nil {
		return Summary{}, err
	}
	// A worker that waits for its turn must see the end of the context.
	woken := make(chan struct{})
	unblock := context.AfterFunc(ctx, func() {
		defer close(woken)
		r.wake()
	})
	if err = r.replay(ctx); err == nil {
		err = r.flow(ctx)
	}
	if !unblock() {
		<-woken
	}
	if err == nil {
		err = r.conclude(ctx)
	}
	return r.summary(), err
}

// flow moves everything that the source gives, until it ends or pauses.
func (r *runner) flow(ctx context.Context) error {
	stopTicks, stopCommits, stopMarks := r.startTicks(ctx), r.startCommits(ctx), r.startMarks(ctx)
	r.pump(ctx)
	stopMarks()
	stopTicks()
	stopCommits()
	return context.Cause(ctx)
}

// pump lets all workers work until the source gives no more.
func (r *runner) pump(ctx context.Context) {
	var wg sync.WaitGroup
	for _, w := range r.workers {
		wg.Go(func() {
			defer func() {
				if v := recover(); v != nil {
					r.fail(fmt.Errorf("panic, which is a bug: %v\n%s", v, debug.Stack()))
				}
			}()
			if err := w.work(ctx); err != nil {
				r.fail(err)
			}
		})
	}
	wg.Wait()
}

// replay rebuilds the state of the gathering steps.
func (r *runner) replay(ctx context.Context) error {
	if r.job.Replay == nil {
		return nil
	}
	source := r.source
	r.source, r.replaying = r.job.Replay, true
	r.pump(ctx)
	r.source, r.replaying = source, false
	r.lines.Store(0)
	r.blank.Store(0)
	r.paused.Store(false)
	for _, l := range r.sorted() {
		if l.kept != nil {
			l.kept.forget()
		}
	}
	return context.Cause(ctx)
}

// conclude publishes and commits what there is when the source gives no more.
func (r *runner) conclude(ctx context.Context) error {
	if err := r.commitAll(ctx); err != nil {
		return err
	}
	if r.paused.Load() {
		if err := r.tickAll(ctx); err != nil {
			return err
		}
		return r.commitAll(ctx) // what the ticks have published
	}
	if r.endedBefore() { // what comes of it was said then; marks of this job may have taken it back
		if err := r.flush(ctx); err != nil {
			return err
		}
	} else if err := r.finish(ctx); err != nil {
		return err
	}
	return r.commitEnd(ctx)
}

// finish says the end of the input to every stage, in the order of the dataflow.
func (r *runner) finish(ctx context.Context) error {
	// A partition that gave nothing has an owner all the same, who says so.
	for _, p := range r.owned() {
		if _, err := r.lane(p); err != nil {
			return err
		}
	}
	lanes := r.sorted()
	for _, w := range r.workers {
		if err := w.end(ctx, lanes[0]); err != nil {
			return err
		}
	}
	for _, l := range lanes {
		l.mu.Lock()
		err := l.advance(ctx, EndOfTime)
		l.mu.Unlock()
		if err != nil {
			return err
		}
	}
	if g := r.gatherL; g != nil {
		g.mu.Lock()
		g.through = throughOf(lanes)
		err := g.advance(ctx, EndOfTime)
		g.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return r.flush(ctx)
}

func throughOf(lanes []*lane) []Through {
	var all []Through
	for _, l := range lanes {
		all = append(all, l.through...)
	}
	return all
}
