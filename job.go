package evalstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
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
	// watermark of all; 0: none is left out.
	IdleTimeout time.Duration
	// Partitions is how many partitions the source has; 0 is 1.
	Partitions int32
	// Owned are those that this job reads; nil: all.
	Owned []int32
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

// Summary is what a job did.
type Summary struct {
	Lines    int64 // lines read, blank ones included
	Blank    int64
	Rejects  int64
	ByClass  map[Class]int64
	Tallies  []Tally   // in the order of the steps, then by kind
	Counters []Counter // in the order of the steps
	Notes    []string  // what people should look at, as step: text
}

// Unbalanced lists the tallies in which a record vanished; it is empty unless the
// program is wrong.
func (s Summary) Unbalanced() []Tally {
	var bad []Tally
	for _, t := range s.Tallies {
		if !t.Balanced() {
			bad = append(bad, t)
		}
	}
	return bad
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
					r.remotes[len(r.front)] = newRemote(s, rm)
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

// lane is the owner of one partition: its stateful stages and whose turn it is.
type lane struct {
	r         *runner
	partition int32
	mu        sync.Mutex
	turn      *sync.Cond
	next      int64 // index of the block whose turn it is
	chain     []link
	ticker    Ticker
	every     Every
	toTick    int64 // records until the next tick
	newest    Time
	watermark Time
	mark      atomic.Int64 // newest less MaxOutOfOrder, for the gathering steps to see
	active    atomic.Int64 // wall time of the last block
	through   []Through
	block     *Block   // being applied
	source    []Record // the records that were read from it, by Seq
	scratch   []Record
	dirty     bool // something came since the last tick
	nextSeq   Seq  // of the first line that has not been applied
	reach     *Reach
	said      Mark // the last mark
	kept      *kept
}

type link struct {
	step   Step
	stage  Stage
	remote *remote // shared by all workers; nil if the stage is not a Remote
	out    Out
	// called and failed are records of a remote step since the worker accounted for them.
	called, failed int64
}

func (r *runner) newLane(partition int32, steps []Step) (*lane, error) {
	l := &lane{r: r, partition: partition, newest: NoTime, watermark: NoTime}
	l.mark.Store(int64(NoTime))
	l.turn = sync.NewCond(&l.mu)
	for _, s := range steps {
		st, err := s.New()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		if _, ok := st.(Remote); ok {
			return nil, Usagef("%s: want it before the first step that remembers units, got it after", s.Name)
		}
		l.chain = append(l.chain, link{step: s, stage: st})
		if t, ok := st.(Ticker); ok {
			l.ticker, l.every = t, t.Every()
			l.toTick = l.every.Records
		}
	}
	return l, l.keep()
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

// startTicks publishes on the clock if a stage asks for it; the function it
// returns waits for the end of that.
func (r *runner) startTicks(ctx context.Context) (stop func()) {
	interval := r.interval()
	if interval <= 0 {
		return func() {}
	}
	return r.repeat(ctx, interval, r.tickAll)
}

// repeat acts by the clock until that fails, which ends the job; the function it
// returns waits for the end of that.
func (r *runner) repeat(ctx context.Context, interval time.Duration, act func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(interval)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				if err := act(ctx); err != nil {
					r.fail(err)
					return
				}
			}
		}
	}()
	return func() { cancel(); <-done }
}

func (r *runner) interval() time.Duration {
	if r.gatherL != nil && r.gatherL.every.Interval > 0 {
		return r.gatherL.every.Interval
	}
	for _, s := range r.back {
		if st, err := s.New(); err == nil {
			if t, ok := st.(Ticker); ok && t.Every().Interval > 0 {
				return t.Every().Interval
			}
		}
	}
	return 0
}

// tickAll ticks every lane, and then once what gathers from them: a result is never
// published with a part of the partitions alone because they were read back one by one.
func (r *runner) tickAll(ctx context.Context) error {
	g := r.gatherL
	for _, l := range r.sorted() {
		l.mu.Lock()
		l.begin()
		ticked, err := l.tickOwn(ctx)
		if err == nil {
			l.end()
		}
		if ticked && g != nil {
			g.mu.Lock()
			g.follow(l)
			g.mu.Unlock()
		}
		l.mu.Unlock()
		if err != nil {
			return err
		}
	}
	if g != nil {
		g.mu.Lock()
		ticked, err := g.tickOwn(ctx)
		g.mu.Unlock()
		if err != nil {
			return err
		}
		if ls := r.sorted(); ticked && len(ls) > 0 {
			ls[0].mu.Lock()
			ls[0].unsaved() // what gathers keeps nothing, but has published
			ls[0].mu.Unlock()
		}
	}
	return r.flush(ctx)
}

// watermark is the least of the partitions', without those that are idle. There is
// none before every partition has spoken or been idle for long enough.
func (r *runner) watermark(now time.Time) Time {
	idle := r.job.IdleTimeout
	lanes := r.sorted()
	if len(lanes) < len(r.owned()) && (idle <= 0 || now.Sub(r.started) < idle) {
		return NoTime
	}
	least, awake := EndOfTime, false
	for _, l := range lanes {
		if idle > 0 && now.UnixNano()-l.active.Load() >= int64(idle) {
			continue
		}
		least, awake = min(least, Time(l.mark.Load())), true
	}
	if !awake {
		return NoTime
	}
	return least
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

func (r *runner) summary() Summary {
	r.sinkMu.Lock()
	defer r.sinkMu.Unlock()
	s := Summary{Lines: r.lines.Load(), Blank: r.blank.Load(), Rejects: r.rejects, ByClass: r.byClass}
	add := func(step string, st any) {
		if c, ok := st.(Counted); ok {
			s.count(step, c.Counters())
		}
		if n, ok := st.(Noted); ok {
			for _, text := range n.Notes() {
				if note := step + ": " + text; !slices.Contains(s.Notes, note) {
					s.Notes = append(s.Notes, note)
				}
			}
		}
		t, ok := st.(Tallied)
		if !ok {
			return
		}
		for _, row := range t.Tallies() {
			row.Step = step
			s.add(row)
		}
	}
	for i, step := range r.front {
		if rm := r.remotes[i]; rm != nil && r.job.Store == nil {
			add(step.Name, rm)
			continue
		} else if rm != nil {
			s.count(step.Name, rm.Counters()) // they are of this process
		}
		for _, w := range r.workers {
			if r.job.Store == nil {
				add(step.Name, w.chain[i].stage)
			}
		}
		for _, l := range r.sorted() {
			for _, row := range l.front(step.Name, false) {
				s.add(row)
			}
			if l.kept != nil {
				s.countOf(step.Name, l.kept.counters)
			}
		}
	}
	for i, step := range r.back {
		for _, l := range r.sorted() {
			add(step.Name, l.chain[i].stage)
			for _, row := range l.front(step.Name, true) {
				s.add(row)
			}
		}
	}
	for i, step := range r.gather {
		add(step.Name, r.gatherL.chain[i].stage)
	}
	return s
}

func (s *Summary) count(step string, counters []Counter) {
	for _, c := range counters {
		c.Step = step
		i := slices.IndexFunc(s.Counters, func(o Counter) bool { return o.Step == step && o.Name == c.Name })
		if i < 0 {
			s.Counters = append(s.Counters, c)
			continue
		}
		s.Counters[i].N += c.N
	}
}

// countOf adds the counters of one step.
func (s *Summary) countOf(step string, counters []Counter) {
	for _, c := range counters {
		if c.Step == step {
			s.count(step, []Counter{c})
		}
	}
}

func (s *Summary) add(row Tally) { addTally(&s.Tallies, row) }

// Add adds what another job did, row by row and counter by counter.
func (s *Summary) Add(o Summary) {
	s.Lines, s.Blank, s.Rejects = s.Lines+o.Lines, s.Blank+o.Blank, s.Rejects+o.Rejects
	by := maps.Clone(s.ByClass)
	if by == nil {
		by = map[Class]int64{}
	}
	for class, n := range o.ByClass {
		by[class] += n
	}
	s.ByClass = by
	for _, row := range o.Tallies {
		s.add(row)
	}
	for _, c := range o.Counters {
		s.count(c.Step, []Counter{c})
	}
	for _, n := range o.Notes {
		if !slices.Contains(s.Notes, n) {
			s.Notes = append(s.Notes, n)
		}
	}
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
		b.Data, b.Records, b.Reach, b.Offset, b.Long, b.Unterminated = nil, nil, nil, 0, 0, false
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
