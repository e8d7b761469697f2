package cli

import (
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

// execute runs an assembled pipeline from in to sink and says what happened.
func (e *env) execute(ctx context.Context, a *assembly, in *input, sink evalstream.Sink, c *common) error {
	limit, err := parseLimit(c.maxRejects)
	if err != nil {
		return err
	}
	rejects, err := e.rejects(c, in.Source)
	if err != nil {
		return err
	}
	ctx, signals := watchSignals(ctx, in.lines.Drain, e.stderr)
	defer signals.stop()
	job := evalstream.Job{
		Pipeline: a.pipeline, Source: in.Source, Sink: sink, Rejects: rejects, Workers: c.workers,
		MaxOutOfOrder: time.Duration(c.maxOutOfOrder), FailFast: c.failFast,
	}
	sum, err := job.Run(ctx)
	for _, closer := range a.closers {
		err = errors.Join(err, closer.Close())
	}
	if closeErr := rejects.close(); err == nil {
		err = closeErr
	}
	if signals.code() != 0 && (err == nil || ctx.Err() != nil) {
		e.summarize(a, sum, rejects, c)
		return &signalError{signals.code()}
	}
	if err != nil && evalstream.ExitCode(err) != evalstream.ExitRejects {
		return err
	}
	e.summarize(a, sum, rejects, c)
	if !c.quiet {
		e.tell(a, sum)
	}
	if bad := sum.Unbalanced(); len(bad) > 0 {
		return fmt.Errorf("records vanished, which is a bug: %+v", bad)
	}
	if err != nil {
		return err
	}
	total := sum.Rejects + a.goldRun.Rejects
	for _, side := range a.sides {
		total += side.Rejects
	}
	if limit.exceeded(total, sum.Lines-sum.Blank+a.goldRun.Lines-a.goldRun.Blank) {
		fmt.Fprintf(e.stderr, "evalstream: %d records rejected, over --max-rejects %s\n", total, limit)
		return &saidError{evalstream.ExitRejects}
	}
	return nil
}

// rejectSink keeps the first rejects for people and hands all to the rejects edge.
type rejectSink struct {
	first []string
	out   *file.Sink
	file  *os.File
}

const shownRejects = 10

func (e *env) rejects(c *common, _ evalstream.Source) (*rejectSink, error) {
	s := new(rejectSink)
	if c.rejects == "" {
		return s, nil
	}
	path, err := edgePath(c.rejects)
	if err != nil {
		return nil, err
	}
	if path == "-" {
		s.out = file.NewSink("<stdout>", e.stdout, appendLine)
		return s, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, evalstream.Lost(fmt.Errorf("rejects: %w", err))
	}
	if c.rejectsOpened != path {
		if err := f.Truncate(0); err != nil {
			return nil, evalstream.Lost(fmt.Errorf("rejects: %w", err))
		}
		c.rejectsOpened = path
	}
	s.file, s.out = f, file.NewSink(path, f, appendLine)
	return s, nil
}

// Write keeps the text of the first rejects.
func (s *rejectSink) Write(ctx context.Context, recs []evalstream.Record) error {
	for i := range recs {
		if r, ok := recs[i].Body.(*evalstream.Rejected); ok && len(s.first) < shownRejects {
			s.first = append(s.first, fmt.Sprintf("%s: %s: %s", r.At, r.Stage, r.Reason))
		}
	}
	if s.out == nil {
		return nil
	}
	return s.out.Write(ctx, recs)
}

// Flush makes them visible.
func (s *rejectSink) Flush(ctx context.Context) error {
	if s.out == nil {
		return nil
	}
	return s.out.Flush(ctx)
}

func (s *rejectSink) close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
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
