package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"evalstream"
	"evalstream/codecs"
	"evalstream/topics/file"
)

// session is one command at work: its options, its rejects, and what people are told.
type session struct {
	*env
	verb       string
	common     *common
	rejects    *Rejects
	close      io.Closer          // the rejects file; nil if there is none
	sides      evalstream.Summary // what was read whole before the first record
	closers    []io.Closer        // what was opened for the steps
	files      []*file.Source     // inputs, side inputs too
	notes      []string           // what a reader of the results should know
	kept       *keptState         // nil without --state
	gates      gates
	headline   string // metric that progress shows
	anyRejects bool   // no number of rejects is too many
}

// begin opens what a command needs before its first record. inputs are the edges that
// it reads, none of which may be the rejects file.
func (e *env) begin(verb string, c *common, inputs ...string) (*session, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	s := &session{env: e, verb: verb, common: c, gates: gates{rules: c.failIf}}
	var edges []Edge
	for _, in := range inputs {
		if in == "" || in == inlineGold {
			continue
		}
		edge, err := ParseEdge("input", in)
		if err != nil {
			return nil, err
		}
		edges = append(edges, edge)
	}
	if err := CheckStdin(edges...); err != nil {
		return nil, err
	}
	if err := s.openState(edges); err != nil {
		return nil, err
	}
	var next evalstream.Sink
	if c.rejects != "" && !c.rejectsTopic {
		how := keptIf(s.kept.has())
		if c.appends {
			how = Behind
		}
		sink, closer, err := RejectsSink(c.rejects, edges, how, appendLine)
		if err != nil {
			return nil, errors.Join(err, s.kept.close())
		}
		next, s.close = sink, closer
	}
	s.rejects = NewRejects(next)
	if next != nil {
		s.rejects.All = "all are in " + c.rejects
	}
	s.rejects.Excerpt = isTerminal(e.stderr)
	s.rejects.Tell = s.tell(e.stderr)
	return s, nil
}

// tell prints a message about a reject as a line of its own.
func (s *session) tell(w io.Writer) func(string) {
	return func(message string) { fmt.Fprintf(w, "evalstream %s: %s\n", s.verb, message) }
}

// end closes what begin opened; err is what the command has met so far.
func (s *session) end(ctx context.Context, err error) error {
	if closeErr := s.kept.close(); err == nil {
		err = closeErr
	}
	for _, c := range s.closers {
		if closeErr := c.Close(); err == nil && closeErr != nil {
			err = evalstream.Lost(closeErr)
		}
	}
	if s.close == nil {
		return err
	}
	// A job that stopped has not flushed.
	if flushErr := s.rejects.Flush(ctx); err == nil && flushErr != nil {
		err = flushErr
	}
	if closeErr := s.close.Close(); err == nil && closeErr != nil {
		return evalstream.Lost(fmt.Errorf("rejects: %w", closeErr))
	}
	return err
}

// execute runs an assembled pipeline from in to sink and says what happened.
func (s *session) execute(ctx context.Context, p *evalstream.Pipeline, in *input, sink evalstream.Sink) error {
	state := new(reading)
	ctx, signals := Watch(ctx, func() {
		state.draining.Store(true)
		in.lines.Drain()
	}, s.stderr)
	defer signals.Stop()
	exporter, served, err := s.export(ctx, state.health())
	if err != nil {
		return err
	}
	head := &headline{prefer: s.headline}
	seen := []func(*evalstream.Result){head.Result, s.gates.Result}
	if exporter != nil {
		exporter.Source(in.lines.Progress)
		seen = append(seen, exporter.Result)
	}
	progress := NewProgress(s.stderr, StyleOf(s.common.quiet, isTerminal(s.stderr), s.lookup), 0, func() Snapshot {
		read, total, known := in.lines.Progress()
		return Snapshot{ReadBytes: read, TotalBytes: total, Known: known, Headline: head.Text()}
	})
	hooks := progress.Hooks()
	if exporter != nil {
		hooks = both(hooks, exporter.Hooks())
	}
	s.rejects.Tell = s.tell(progress)
	job := evalstream.Job{
		Pipeline: p, Source: in.Source, Sink: follow(sink, s.kept.publish, seen), Rejects: s.rejects.sink(), Workers: s.common.workers, Partitions: in.partitions,
		MaxOutOfOrder: time.Duration(s.common.maxOutOfOrder), IdleTimeout: time.Duration(s.common.idleTimeout), FailFast: s.common.failFast, Hooks: hooks,
	}
	if s.kept != nil {
		job.Store, job.StateMemory = s.kept.store, int64(s.common.stateMemory)
	}
	state.began.Store(true)
	sum, err := s.run(ctx, &job)
	progress.Stop()
	if exporter != nil {
		exporter.Finish(sum)
		if closeErr := served.Close(ctx); err == nil && closeErr != nil {
			err = evalstream.Lost(fmt.Errorf("metrics-addr: %w", closeErr))
		}
	}
	// The source may be in the middle of a file; an error of closing what was only
	// read tells nothing.
	_ = in.lines.Close()
	if in.notes != nil {
		s.notes = append(s.notes, in.notes()...)
	}
	switch {
	case errors.Is(err, file.ErrClosedPipe):
		return err
	case errors.Is(err, errAbandoned):
		return &signalError{code: signals.Code()}
	case signals.Code() != 0:
		s.summarize(sum)
		if err == nil {
			s.gates.soFar(s.stderr, s.verb)
		}
		return &signalError{code: signals.Code(), drained: err == nil}
	case errors.Is(err, evalstream.ErrStopped):
		s.summarize(sum)
		return &saidError{evalstream.ExitRejects}
	case err != nil:
		return err
	}
	s.summarize(sum)
	if bad := sum.Unbalanced(); len(bad) > 0 {
		return fmt.Errorf("records vanished, which is a bug: %+v", bad)
	}
	return cmp.Or(s.judge(sum), s.gates.judge(s.stderr, s.verb))
}

// errAbandoned says that a job had to be left behind by a command that ends at once.
var errAbandoned = errors.New("job did not end")

// atOnce is how long a job may take to end after a second signal.
const atOnce = 100 * time.Millisecond

// run runs the job. After a second signal a job that waits for a reader of its output
// cannot end, so it is left behind: the program is about to exit.
func (*session) run(ctx context.Context, job *evalstream.Job) (evalstream.Summary, error) {
	done := make(chan struct{})
	var sum evalstream.Summary
	var err error
	go func() {
		defer close(done)
		sum, err = job.Run(ctx)
	}()
	select {
	case <-done:
		return sum, err
	case <-ctx.Done():
	}
	if !errors.Is(context.Cause(ctx), ErrStoppedAtOnce) {
		<-done
		return sum, err
	}
	select {
	case <-done:
		return sum, err
	case <-time.After(atOnce):
		return evalstream.Summary{}, errAbandoned
	}
}

// judge says whether there were too many rejects.
func (s *session) judge(sum evalstream.Summary) error {
	if s.anyRejects {
		return nil
	}
	total := sum.Rejects + s.sides.Rejects
	records := sum.Lines - sum.Blank + s.sides.Lines - s.sides.Blank
	if !s.common.maxRejects.Exceeded(total, records) {
		return nil
	}
	fmt.Fprintf(s.stderr, "evalstream %s: %s of %s, over --max-rejects %s\n", s.verb, plural(total, "reject"), plural(records, "record"), s.common.maxRejects.String())
	return &saidError{evalstream.ExitRejects}
}

// summarize prints where every record went, unless it shall be quiet; rejects are
// always told.
func (s *session) summarize(sum evalstream.Summary) {
	if s.common.quiet && s.rejects.total == 0 {
		return
	}
	sum = joined(s.sides, sum)
	marks := 0
	for _, f := range s.files {
		marks += f.BOMs()
	}
	if marks > 0 {
		s.notes = append(s.notes, fmt.Sprintf("byte order marks skipped at the start of inputs: %d", marks))
	}
	for _, n := range s.notes {
		if _, err := fmt.Fprintf(s.stderr, "note: %s\n", n); err != nil {
			return
		}
	}
	if err := WriteSummary(s.stderr, s.verb, sum, s.rejects); err != nil {
		return // nobody reads stderr: there is no one left to tell
	}
}

func (e *env) lookup(name string) string {
	v, _ := e.getenv(name)
	return v
}

// stdoutSink writes records as NDJSON.
func (e *env) stdoutSink() *file.Sink { return file.NewSink("<stdout>", e.stdout, appendLine) }

// appendLine is a record's line without its newline, which the sink adds.
func appendLine(dst []byte, r *evalstream.Record) []byte {
	dst = codecs.AppendRecord(dst, r)
	return dst[:len(dst)-1]
}

// isTerminal reports whether w is a terminal that people look at.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && f.Name() != os.DevNull
}
