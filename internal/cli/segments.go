package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"evalstream"
	"evalstream/codecs"
	"evalstream/topics/kafka"
	statedir "evalstream/topics/state"
)

// runTopics runs the segments of a pipeline whose input are topics.
func (e *env) runTopics(cmd *cobra.Command, spec *evalstream.Spec, list []stage, c *common, ends *ends, to, only string, untilEnd bool) (err error) {
	ctx := cmd.Context()
	if err := ends.connect(ctx, e, spec.Brokers, c.quiet); err != nil {
		return err
	}
	defer func() {
		if closeErr := ends.close(); err == nil {
			err = closeErr
		}
	}()
	if list, err = cutUp(ctx, list, spec, ends, counts(ends.client, 0)); err != nil {
		return err
	}
	if err := c.checkRules(list); err != nil {
		return err
	}
	c.appends = true
	cache := c.state
	c.state = "" // it is no state of its own here, but the copy of one
	var inputs []string
	for _, st := range list {
		inputs = append(inputs, sideOf(st.options))
	}
	var sink evalstream.Sink
	switch {
	case ends.to != "":
	case to == "-":
		sink = e.stdoutSink()
	default:
		out, f, err := e.outputFile(to, Behind)
		if err != nil {
			return err
		}
		defer f.Close() //nolint:errcheck // each flush has told
		sink = out
	}
	s, err := e.begin(spec.Name, c, inputs...)
	if err != nil {
		return err
	}
	s.headline = headlineMetric(list)
	s.anyRejects = !ends.limited
	if ends.rejects != "" {
		s.rejects.All = "evalstream dlq list " + spec.File + " prints them all"
	}
	s.kept = &keptState{} // side inputs are digested
	return s.end(ctx, func() error {
		f := &flow{session: s, ends: ends, cache: cache}
		if err := f.plan(ctx, spec, list, only, untilEnd); err != nil {
			return err
		}
		return f.damaged(f.execute(ctx, sink))
	}())
}

// flow is the segments of a pipeline that run in this process.
type flow struct {
	*session
	ends     *ends
	cache    string // directory; "": none
	segments []*kafka.Segment
	timed    bool // a step waits for event time
	awaited  []*awaited

	lines atomic.Int64
	mu    sync.Mutex
	sums  map[owned]evalstream.Summary
}

// owned is a partition of a segment.
type owned struct {
	segment   string
	partition int32
}

// plan makes the segments.
func (f *flow) plan(ctx context.Context, spec *evalstream.Spec, list []stage, only string, untilEnd bool) error {
	p, err := f.assemble(ctx, list, true)
	if err != nil {
		return err
	}
	p.Name = spec.Name
	f.timed = waitsForTime(list, f.common)
	if f.common.verbose {
		if err := p.Plan(f.stderr); err != nil {
			return err
		}
	}
	cuts, err := layoutOf(p, list, f.ends)
	if err != nil {
		return err
	}
	chosen, err := cuts.choose(only)
	if err != nil {
		return err
	}
	var notes []string
	if n := growthNote(list, f.common); n != "" {
		notes = append(notes, n)
	}
	if err := f.fit(ctx, cuts.chosen(f.ends.rejects, chosen), notes...); err != nil {
		return err
	}
	ends := map[kafka.TopicPartition]int64{}
	var before []*kafka.Segment // that run elsewhere
	for i := range cuts.segments {
		cut := &cuts.segments[i]
		if untilEnd {
			if err := f.ends.client.Ends(ctx, ends, cut.front...); err != nil {
				return err
			}
		}
		if !chosen[i] {
			s := &kafka.Segment{Segment: cut.Segment, Client: f.ends.client, Remembers: cut.remembers}
			if s.Options, err = f.optionsOf(cut); err != nil {
				return err
			}
			before = append(before, s)
			continue
		}
		s, err := f.segment(ctx, cut)
		if err != nil {
			return err
		}
		if s.Replays {
			s.Before = before
		}
		if untilEnd {
			s.FrontEnds = maps.Clone(ends)
		}
		s.Cut, s.Layout = i+1 < len(cuts.segments), cuts.fingerprint()
		if s.Cut {
			s.Encode = passedOn
		}
		f.segments = append(f.segments, s)
	}
	f.awaited = f.awaits(spec.File, cuts)
	return nil
}

// segment makes one ready to run.
func (f *flow) segment(ctx context.Context, cut *cutSegment) (*kafka.Segment, error) {
	partitions, err := f.ends.client.Partitions(ctx, cut.From[0])
	if err != nil {
		return nil, err
	}
	seg := cut.Segment
	name := seg.Name
	if seg.Pipeline, err = guard(seg.Pipeline, cut.front, partitions); err != nil {
		return nil, err
	}
	seg.Name = name
	s := &kafka.Segment{
		Segment: seg, Client: f.ends.client, Front: cut.front, Rejects: f.ends.rejects,
		Remembers: cut.remembers, Replays: cut.replays,
		Encode: final, DecodeMark: codecs.DecodeMark, MaxLine: int(f.common.maxLine), Codec: kafka.LZ4,
		RecordTime: f.common.timeFrom == "record",
		Job: evalstream.Job{
			Workers: f.common.workers, MaxOutOfOrder: time.Duration(f.common.maxOutOfOrder),
			IdleTimeout: time.Duration(f.common.idleTimeout), FailFast: f.common.failFast,
		},
	}
	if s.Options, err = f.optionsOf(cut); err != nil {
		return nil, err
	}
	if f.cache != "" {
		s.Job.StateMemory = int64(f.common.stateMemory)
	}
	// What has been forgotten at the horizon is looked up, all else is in memory.
	s.Whole = f.cache == "" && f.common.horizon == 0
	s.Cache = func(p int32) (evalstream.Store, func() error, error) { return f.open(s, p) }
	if s.Waits, err = anyStep(seg.Pipeline, func(_ evalstream.Step, st evalstream.Stage) bool { _, ok := st.(evalstream.Remote); return ok }); err != nil {
		return nil, err
	}
	s.Session, err = f.sessionTime()
	return s, err
}

// optionsOf are those that decide what the state of a segment is.
func (f *flow) optionsOf(cut *cutSegment) ([]evalstream.Option, error) {
	options, err := stateOptions(cut.stages, f.common, append(slices.Clone(f.kept.sides), evalstream.Option{Name: "from", Value: strings.Join(cut.From, ", ")}))
	// It may be raised for records that are sent again: no other is read twice.
	return slices.DeleteFunc(options, func(o evalstream.Option) bool { return o.Name == "max-line" }), err
}

// damaged says what to do where what is damaged is a copy of the state.
func (f *flow) damaged(err error) error {
	e, ok := errors.AsType[*evalstream.ExitError](err)
	if _, is := errors.AsType[*evalstream.DamagedError](err); !ok || !is {
		return err
	}
	hint := "the changelog cannot be read: stop all members and run evalstream topics reset PIPELINE.yaml, which reads the inputs from their start"
	if f.cache != "" {
		hint = "remove " + f.cache + " and run it again: it is a copy, and is made again from the changelogs, which have all of it"
	}
	return &evalstream.ExitError{Code: e.Code, Err: e.Err, Hint: hint}
}

// sessionTime is how long a member of a group may be silent.
func (f *flow) sessionTime() (time.Duration, error) {
	const name = "EVALSTREAM_KAFKA_SESSION"
	text := f.lookup(name)
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second {
		return 0, evalstream.Usagef("%s: want a duration of at least 1s, got %q", name, text)
	}
	return d, nil
}

// open opens the copy of a partition's state: in memory, or in a directory of its own.
func (f *flow) open(s *kafka.Segment, p int32) (evalstream.Store, func() error, error) {
	switch {
	case s.Whole:
		store := new(statedir.Held)
		return store, store.Clear, nil
	case f.cache == "":
		store, err := statedir.OpenMemory()
		return store, store.Clear, err
	}
	dir := filepath.Join(f.cache, s.Name, strconv.Itoa(int(p)))
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, nil, &evalstream.ExitError{Code: evalstream.ExitState, Err: fmt.Errorf("state: %w", err), Hint: "name another --state DIR"}
	}
	store, err := statedir.Open(dir, true)
	if err != nil {
		return nil, nil, err
	}
	return store, store.Clear, nil
}

// execute runs the segments and says what happened.
func (f *flow) execute(ctx context.Context, sink evalstream.Sink) error {
	f.sums = map[owned]evalstream.Summary{}
	ctx, signals := Watch(ctx, f.drain, f.stderr)
	defer signals.Stop()
	exporter, served, err := f.export(ctx, f.health())
	if err != nil {
		return err
	}
	head := &headline{prefer: f.headline}
	seen := []func(*evalstream.Result){head.Result, f.gates.Result}
	if exporter != nil {
		seen = append(seen, exporter.Result)
	}
	progress := NewProgress(f.stderr, StyleOf(f.common.quiet, isTerminal(f.stderr), f.lookup), 0, func() Snapshot {
		return Snapshot{Headline: head.Text()}
	})
	f.rejects.Tell = f.tell(progress)
	f.ends.told.goTo(progress)
	rejected := &shared{Sink: f.rejects}
	for i, s := range f.segments {
		hooks := progress.Hooks()
		hooks.Block = nil
		hooks.Took = f.counting(s.Steps[0].Name, progress)
		if exporter != nil {
			hooks = both(hooks, viewOf(exporter, s))
		}
		if !f.common.quiet {
			takeoversOf(s, f.tell(progress))
		}
		s.Job.Hooks = hooks
		s.Rejected = rejected
		s.Hooks.Ended = func(p int32, sum evalstream.Summary, _ error) { f.note(s.Name, p, sum) }
		if i == len(f.segments)-1 {
			s.Seen = func(recs []evalstream.Record) { show(recs, seen) }
		}
		if s.To == "" {
			s.Output = &shared{Sink: sink}
		}
	}
	held := f.heldBack()
	looks := held.looks()
	if !f.common.quiet {
		for _, a := range f.awaited {
			looks = append(looks, a.look)
		}
	}
	stop := keepLooking(ctx, f.tell(progress), looks)
	err = f.run(ctx)
	stop()
	progress.Stop()
	sum := f.summary()
	f.notes = append(f.notes, held.notes()...)
	if exporter != nil {
		exporter.Finish(sum)
		if closeErr := served.Close(ctx); err == nil && closeErr != nil {
			err = evalstream.Lost(fmt.Errorf("metrics-addr: %w", closeErr))
		}
	}
	if code := signals.Code(); code != 0 {
		f.summarize(sum)
		if errors.Is(err, ErrStoppedAtOnce) {
			return &signalError{code: code}
		}
		return &signalError{code: code, drained: err == nil}
	}
	if errors.Is(err, evalstream.ErrStopped) {
		f.summarize(sum)
		return &saidError{evalstream.ExitRejects}
	}
	if err != nil {
		return err
	}
	f.summarize(sum)
	if bad := sum.Unbalanced(); len(bad) > 0 {
		return fmt.Errorf("records vanished, which is a bug: %+v", bad)
	}
	return cmp.Or(f.judge(sum), f.gates.judge(f.stderr, f.verb))
}

// run lets all segments run until they have ended or one cannot go on.
func (f *flow) run(ctx context.Context) error {
	for _, s := range f.segments { // before one of them publishes what another refuses
		if err := s.Check(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var first error
	for _, s := range f.segments {
		wg.Go(func() {
			if err := s.Run(ctx); err != nil {
				mu.Lock()
				if first == nil {
					first = err
				}
				mu.Unlock()
				cancel(err)
			}
		})
	}
	wg.Wait()
	return first
}

func (f *flow) drain() {
	for _, s := range f.segments {
		s.Drain()
	}
}

// counting counts what the first step of a segment takes.
func (f *flow) counting(first string, p *Progress) func(step, kind string, n int) {
	return func(step, _ string, n int) {
		if step == first {
			grow(&p.lines, f.lines.Add(int64(n)))
		}
	}
}

// note keeps what the job of a partition did; a later owner here has what the state says.
func (f *flow) note(segment string, p int32, sum evalstream.Summary) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sums[owned{segment, p}] = sum
}

func (f *flow) summary() evalstream.Summary {
	f.mu.Lock()
	defer f.mu.Unlock()
	var sum evalstream.Summary
	for _, s := range f.segments {
		for o, one := range f.sums {
			if o.segment == s.Name {
				sum.Add(one)
			}
		}
		if n := s.Tombstones(); n > 0 {
			f.notes = append(f.notes, plural(n, "tombstone")+" of the topics left out: they retract nothing")
		}
	}
	return sum
}

// shared is a sink that several jobs write to.
type shared struct {
	evalstream.Sink
	mu sync.Mutex
}

// Write hands records on, of one job at a time.
func (s *shared) Write(ctx context.Context, recs []evalstream.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Sink.Write(ctx, recs)
}

// Flush flushes, for one job at a time.
func (s *shared) Flush(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Sink.Flush(ctx)
}

func show(recs []evalstream.Record, to []func(*evalstream.Result)) {
	for i := range recs {
		if r, ok := recs[i].Body.(*evalstream.Result); ok {
			for _, f := range to {
				f(r)
			}
		}
	}
}
