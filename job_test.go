package evalstream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"evalstream"
)

// word is a body that is its own line.
type word struct{ text string }

func (word) Kind() string                    { return "word" }
func (w word) AppendRoute(dst []byte) []byte { return append(dst, w.text...) }
func (w word) AppendKey(dst []byte) []byte   { return append(dst, w.text...) }

// read gives each line a body; lines that start with ! are faults, and @N is a time.
type read struct{ received, passed, rejected int64 }

func (s *read) Process(_ context.Context, in []evalstream.Record, out *evalstream.Out) error {
	for _, r := range in {
		s.received++
		if r.Raw[0] == '!' {
			s.rejected++
			out.Reject(r.Seq, evalstream.Fault{Class: evalstream.ClassParse, Column: 1, Reason: "word starts with !"})
			continue
		}
		s.passed++
		r.Body, r.Time = word{string(r.Raw)}, evalstream.NoTime
		if t, ok := strings.CutPrefix(string(r.Raw), "@"); ok {
			n, err := strconv.Atoi(t)
			if err != nil {
				return err
			}
			r.Time = evalstream.Time(n)
		}
		out.Emit(r)
	}
	return nil
}

func (s *read) Tallies() []evalstream.Tally {
	return []evalstream.Tally{{Kind: "line", Received: s.received, Passed: s.passed, Rejected: s.rejected}}
}

// count is stateful: it says how many words it has seen at each tick, and at the end.
type count struct {
	every     evalstream.Every
	n, last   int
	watermark evalstream.Time
	ended     bool
}

func (*count) Load(_, _ []byte) error { return nil }

func (s *count) Process(_ context.Context, in []evalstream.Record, _ *evalstream.Out) error {
	for _, r := range in {
		if w := r.Body.(word); w.text == "boom" {
			return errors.New("world is broken")
		}
		s.n++
	}
	return nil
}

func (s *count) Every() evalstream.Every { return s.every }

func (s *count) Tick(_ context.Context, out *evalstream.Out) error {
	s.say(out, "tick")
	return nil
}

func (s *count) Advance(_ context.Context, watermark evalstream.Time, out *evalstream.Out) error {
	s.watermark = watermark
	if watermark == evalstream.EndOfTime && !s.ended {
		s.ended = true
		s.say(out, "end")
	}
	return nil
}

func (s *count) say(out *evalstream.Out, what string) {
	s.last = s.n
	out.Emit(evalstream.Record{Body: word{fmt.Sprintf("%s %d %s", what, s.n, s.watermark)}})
}

// lines is a source of text, cut into blocks of a few lines; from each block on it may
// go back and deliver lines again.
type lines struct {
	text  []string
	at    int
	rng   *rand.Rand
	again int
	wait  <-chan struct{} // before the last line
	where evalstream.Origin
}

func (s *lines) Read(ctx context.Context, b *evalstream.Block) error {
	if s.at == len(s.text) {
		return io.EOF
	}
	from, n := s.at, 1
	if s.rng != nil {
		n += s.rng.IntN(5)
		if s.again > 0 && from > 0 && s.rng.IntN(2) == 0 {
			s.again--
			from -= 1 + s.rng.IntN(from)
		}
	}
	to := min(s.at+n, len(s.text))
	if s.wait != nil && to == len(s.text) {
		select {
		case <-s.wait:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	b.Buf = append(b.Buf[:0], strings.Join(s.text[from:to], "\n")...)
	if to < len(s.text) {
		b.Buf = append(b.Buf, '\n')
	} else {
		b.Unterminated = true
	}
	b.Data, b.First = b.Buf, evalstream.Seq(from)
	b.At = evalstream.Pos{Origin: &s.where, Line: int64(from) + 1}
	s.at = to
	return nil
}

// text is a sink of what bodies say.
type text struct {
	lines   []string
	flushed int
}

func (s *text) Write(_ context.Context, recs []evalstream.Record) error {
	for _, r := range recs {
		switch b := r.Body.(type) {
		case word:
			s.lines = append(s.lines, b.text)
		case *evalstream.Rejected:
			s.lines = append(s.lines, fmt.Sprintf("%s %s %s %s", b.At, b.Stage, b.Class, b.Reason))
		}
	}
	return nil
}

func (s *text) Flush(context.Context) error { s.flushed = len(s.lines); return nil }

func pipeline(t *testing.T, every evalstream.Every) *evalstream.Pipeline {
	t.Helper()
	p, err := evalstream.New("test",
		evalstream.Step{Name: "read", New: func() (evalstream.Stage, error) { return new(read), nil }},
		evalstream.Step{Name: "count", New: func() (evalstream.Stage, error) { return &count{every: every, watermark: evalstream.NoTime}, nil }},
	)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func numbered(n int) []string {
	var ls []string
	for i := range n {
		ls = append(ls, "w"+strconv.Itoa(i))
	}
	return ls
}

// TestOrder checks that a chain without state gives its lines in source order at any
// number of workers, and that redelivered lines are not received again.
func TestOrder(t *testing.T) {
	p, err := evalstream.New("order", evalstream.Step{Name: "read", New: func() (evalstream.Stage, error) { return new(read), nil }})
	if err != nil {
		t.Fatal(err)
	}
	want := numbered(500)
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		out := new(text)
		job := evalstream.Job{Pipeline: p, Source: &lines{text: want, rng: rng, again: 30}, Sink: out, Workers: 1 + rng.IntN(6)}
		sum, err := job.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(out.lines, want) {
			t.Fatalf("seed %d: out of order: %v", seed, out.lines)
		}
		if sum.Lines != 500 || sum.Tallies[0].Received != 500 || out.flushed != 500 {
			t.Errorf("seed %d: lines %d, received %d, flushed %d; want 500 of each", seed, sum.Lines, sum.Tallies[0].Received, out.flushed)
		}
	}
}

// TestTicks checks that ticks by count come after exactly so many records, however
// they were read, with the watermark of the records before.
func TestTicks(t *testing.T) {
	in := []string{"@5", "@3", "", "@9", "!x", "@7", "\r", "@20"}
	want := []string{
		"tick 2 " + evalstream.Time(5).String(), "tick 4 " + evalstream.Time(9).String(), "end 5 end",
	}
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		out, rejects := new(text), new(text)
		job := evalstream.Job{
			Pipeline: pipeline(t, evalstream.Every{Records: 2}), Source: &lines{text: in, rng: rng, where: evalstream.Origin{Name: "in"}},
			Sink: out, Rejects: rejects, Workers: 1 + rng.IntN(4),
		}
		sum, err := job.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(out.lines, want) {
			t.Errorf("seed %d: %q, want %q", seed, out.lines, want)
		}
		if w := []string{"in:5:1 read parse word starts with !"}; !slices.Equal(rejects.lines, w) {
			t.Errorf("seed %d: rejects %q, want %q", seed, rejects.lines, w)
		}
		if sum.Blank != 2 || sum.Rejects != 1 || sum.ByClass[evalstream.ClassParse] != 1 {
			t.Errorf("seed %d: summary %+v", seed, sum)
		}
	}
}

// TestTruncated checks that a last line without its end says so when it is bad.
func TestTruncated(t *testing.T) {
	rejects := new(text)
	job := evalstream.Job{
		Pipeline: pipeline(t, evalstream.Every{}), Source: &lines{text: []string{"!a", "b", "!c"}, where: evalstream.Origin{Name: "in"}},
		Sink: new(text), Rejects: rejects,
	}
	if _, err := job.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"in:1:1 read parse word starts with !", "in:3:1 read parse truncated last line: word starts with !"}
	if !slices.Equal(rejects.lines, want) {
		t.Errorf("rejects %q, want %q", rejects.lines, want)
	}
}

// TestFailFast checks that the first reject ends the job with its exit code.
func TestFailFast(t *testing.T) {
	job := evalstream.Job{Pipeline: pipeline(t, evalstream.Every{}), Source: &lines{text: []string{"a", "!b", "c"}}, Sink: new(text), FailFast: true}
	_, err := job.Run(t.Context())
	if !errors.Is(err, evalstream.ErrStopped) || evalstream.ExitCode(err) != evalstream.ExitRejects {
		t.Errorf("got %v, want ErrStopped with exit code 3", err)
	}
}

// TestWorldBreaks checks that an error about the world ends the job and every worker.
func TestWorldBreaks(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 20 {
		in := append(numbered(50), "boom")
		job := evalstream.Job{Pipeline: pipeline(t, evalstream.Every{}), Source: &lines{text: append(in, numbered(500)...)}, Sink: new(text), Workers: 4}
		if _, err := job.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "world is broken") {
			t.Fatalf("got %v, want the stage's error", err)
		}
	}
	for range 1_000_000 { // a goroutine that has done its work may not have ended yet
		if runtime.NumGoroutine() <= before {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("%d goroutines before, %d after", before, runtime.NumGoroutine())
}

// TestClock checks that ticks by time publish while the input is silent, only if
// something came, and that the end of the context ends the job.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		out := new(text)
		src := &lines{text: []string{"a", "b", "c"}, wait: make(chan struct{})}
		job := evalstream.Job{Pipeline: pipeline(t, evalstream.Every{Interval: time.Second}), Source: src, Sink: out, Workers: 1} // a worker that waits for a mutex is nothing to a bubble
		done := make(chan error, 1)
		go func() {
			_, err := job.Run(ctx)
			done <- err
		}()
		<-time.After(3500 * time.Millisecond) // of the bubble's clock
		synctest.Wait()
		if want := []string{"tick 2 none"}; !slices.Equal(out.lines, want) || out.flushed != 1 {
			t.Errorf("after three ticks: %q (%d flushed), want %q", out.lines, out.flushed, want)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want canceled", err)
		}
	})
}

// TestPanic checks that a bug in a stage ends the job with an error, not the program.
func TestPanic(t *testing.T) {
	p, err := evalstream.New("panic", evalstream.Step{Name: "bug", New: func() (evalstream.Stage, error) { return bug{}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	job := evalstream.Job{Pipeline: p, Source: &lines{text: numbered(100)}, Sink: new(text), Workers: 3}
	if _, err := job.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "panic, which is a bug: ouch") || evalstream.ExitCode(err) != evalstream.ExitInternal {
		t.Errorf("got %v, want the panic as an error with exit code 1", err)
	}
}

// bug is a stage with one.
type bug struct{}

func (bug) Process(context.Context, []evalstream.Record, *evalstream.Out) error { panic("ouch") }
