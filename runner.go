package evalstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// runner is the state of one Run.
type runner struct {
	job    *Job
	cancel context.CancelCauseFunc
	front  []Step // one instance a worker
	traced []int  // places in front of the steps that leave a trace, if there is a store
	back   []Step // one instance a partition
	gather []Step // one instance
	// remotes are the one instance of each Remote, by its place in front.
	remotes map[int]*remote

	started   time.Time
	source    Source // that is read now
	replaying bool   // it is the one that rebuilds state: nothing comes out
	fresh     atomic.Bool

	readMu   sync.Mutex
	last     map[int32]Seq   // greatest Seq handed out, a partition
	index    map[int32]int64 // blocks handed out, a partition
	lines    atomic.Int64
	blank    atomic.Int64
	inFlight atomic.Int64
	paused   atomic.Bool // the source has not ended, but gives no more

	workers []*worker
	lanesMu sync.Mutex
	lanes   map[int32]*lane
	gatherL *lane // nil if nothing gathers

	sinkMu  sync.Mutex
	rejects int64
	byClass map[Class]int64
}

func newRunner(j *Job, cancel context.CancelCauseFunc) (*runner, error) {
	r := &runner{
		job: j, cancel: cancel, started: time.Now(), source: j.Source, remotes: map[int]*remote{},
		last: map[int32]Seq{}, index: map[int32]int64{}, lanes: map[int32]*lane{}, byClass: map[Class]int64{},
	}
	if err := r.split(); err != nil {
		return nil, err
	}
	if len(r.gather) > 0 {
		l, err := r.newLane(-1, r.gather)
		if err != nil {
			return nil, err
		}
		r.gatherL = l
	}
	if err := r.restore(); err != nil {
		return nil, err
	}
	if j.Partitions > 1 || j.Owned != nil {
		if err := r.openLanes(); err != nil {
			return nil, err
		}
	}
	n := j.Workers
	if n <= 0 {
		if n = runtime.GOMAXPROCS(0); n > 1 {
			n++
		}
		for _, rm := range r.remotes {
			n = max(n, rm.limits.InFlight)
		}
	}
	for range n {
		w, err := r.newWorker()
		if err != nil {
			return nil, err
		}
		r.workers = append(r.workers, w)
	}
	return r, nil
}

// openLanes lets every partition speak at the first tick: what gathers from them waits
// for one that has nothing to say too.
func (r *runner) openLanes() error {
	for _, p := range r.owned() {
		l, err := r.lane(p)
		if err != nil {
			return err
		}
		l.dirty = true
		l.active.Store(r.started.UnixNano())
	}
	return nil
}

// owned are the partitions that this job reads.
func (r *runner) owned() []int32 {
	if r.job.Owned != nil {
		return r.job.Owned
	}
	all := make([]int32, max(1, r.job.Partitions))
	for p := range all {
		all[p] = int32(p)
	}
	return all
}

// split makes one instance of each step to see where state begins.
func (r *runner) split() error {
	for _, s := range r.job.Pipeline.Steps {
		if s.Gather {
			r.gather = append(r.gather, s)
			continue
		}
		if len(r.back) == 0 {
			st, err := s.New()
			if err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			if _, ok := st.(Stateful); !ok {
				if _, ok := st.(Traced); ok && r.job.Store != nil {
					r.traced = append(r.traced, len(r.front))
				}
				if rm, ok := st.(Remote); ok {
					r.remotes[len(r.front)] = newRemote(s, rm, r.job.Hooks.Calls)
				}
				r.front = append(r.front, s)
				continue
			}
		}
		r.back = append(r.back, s)
	}
	return nil
}

func (r *runner) fail(err error) {
	r.cancel(err)
	r.wake()
}

// wake lets every worker that waits for its turn look at the context again.
func (r *runner) wake() {
	for _, l := range r.sorted() { // lanesMu is never held while a lane is waited for
		l.mu.Lock()
		l.turn.Broadcast()
		l.mu.Unlock()
	}
}

func (r *runner) lane(partition int32) (*lane, error) {
	r.lanesMu.Lock()
	defer r.lanesMu.Unlock()
	if l := r.lanes[partition]; l != nil {
		return l, nil
	}
	l, err := r.newLane(partition, r.back)
	if err == nil {
		r.lanes[partition] = l
	}
	return l, err
}

// sorted is the lanes by partition.
func (r *runner) sorted() []*lane {
	r.lanesMu.Lock()
	defer r.lanesMu.Unlock()
	ls := make([]*lane, 0, len(r.lanes))
	for _, l := range r.lanes {
		ls = append(ls, l)
	}
	slices.SortFunc(ls, func(a, b *lane) int { return int(a.partition) - int(b.partition) })
	return ls
}

func (r *runner) flush(ctx context.Context) error {
	r.sinkMu.Lock()
	defer r.sinkMu.Unlock()
	if r.job.Rejects != nil {
		if err := r.job.Rejects.Flush(ctx); err != nil {
			return err
		}
	}
	return r.job.Sink.Flush(ctx)
}

// read hands out the next block. A line that was handed out before (a redelivery)
// is cut away here, so that it is not received again.
func (r *runner) read(ctx context.Context, b *Block) error {
	r.readMu.Lock()
	defer r.readMu.Unlock()
	for {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		b.Data, b.Records, b.Reach, b.Offset, b.Long, b.Lines, b.Unterminated = nil, nil, nil, 0, 0, 0, false
		if err := r.source.Read(ctx, b); err != nil {
			return err
		}
		last, seen := r.last[b.Partition]
		if seen && b.First <= last {
			b.skip(last)
		}
		b.lines = b.count()
		n := b.lines
		switch {
		case n == 0 && b.Reach == nil:
			continue
		case n == 0:
		case b.Data == nil:
			r.last[b.Partition] = b.Records[len(b.Records)-1].Seq
		default:
			r.last[b.Partition] = b.First + Seq(n) - 1
		}
		if n > 0 {
			r.fresh.Store(true)
		}
		b.Index = r.index[b.Partition]
		r.index[b.Partition]++
		r.lines.Add(int64(n))
		r.inFlight.Add(1)
		return nil
	}
}

// done is called when a block has been applied; the last one in work flushes,
// because then every worker is waiting for input. Where a step waits for others, that
// may take long to come, and each block is flushed.
func (r *runner) done(ctx context.Context) error {
	if r.inFlight.Add(-1) == 0 || len(r.remotes) > 0 {
		return r.flush(ctx)
	}
	return nil
}

// isEOF says that the source has ended.
func isEOF(err error) bool { return errors.Is(err, io.EOF) }
