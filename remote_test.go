package evalstream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"evalstream"
)

// far is a Remote whose calls answer as the test says. Its records are their lines.
type far struct {
	limits evalstream.Limits
	answer func(ctx context.Context, call int, lines []string) error // nil: yes

	mu       sync.Mutex
	calls    []string // lines of each call, in the order in which the calls began
	times    []time.Duration
	began    time.Time
	inFlight int
	most     int
}

func (f *far) Limits() evalstream.Limits     { return f.limits }
func (*far) Size(rec *evalstream.Record) int { return len(rec.Raw) }

func (f *far) Process(ctx context.Context, in []evalstream.Record, out *evalstream.Out) error {
	var lines []string
	for _, r := range in {
		lines = append(lines, string(r.Raw))
	}
	f.mu.Lock()
	call := len(f.calls)
	f.calls = append(f.calls, strings.Join(lines, " "))
	f.times = append(f.times, time.Since(f.began))
	f.inFlight++
	f.most = max(f.most, f.inFlight)
	f.mu.Unlock()
	defer func() { f.mu.Lock(); f.inFlight--; f.mu.Unlock() }()
	if f.answer != nil {
		if err := f.answer(ctx, call, lines); err != nil {
			return err
		}
	}
	for i := range in {
		out.Emit(in[i])
	}
	return nil
}

// failure is an error of a call.
type failure struct {
	text      string
	temporary bool
	large     bool
	after     time.Duration
}

func (f *failure) Error() string             { return f.text }
func (f *failure) Temporary() bool           { return f.temporary }
func (f *failure) TooLarge() bool            { return f.large }
func (f *failure) RetryAfter() time.Duration { return f.after }

// piped gives one block a step.
type piped struct {
	steps []pipedStep
	seq   evalstream.Seq
}

type pipedStep string

func (p *piped) Read(_ context.Context, b *evalstream.Block) error {
	if len(p.steps) == 0 {
		return io.EOF
	}
	s := p.steps[0]
	p.steps = p.steps[1:]
	b.Data = []byte(strings.ReplaceAll(string(s), " ", "\n") + "\n")
	b.First = p.seq
	b.At = evalstream.Pos{Origin: &evalstream.Origin{Name: "in"}, Line: int64(p.seq) + 1}
	p.seq += evalstream.Seq(strings.Count(string(s), " ") + 1)
	return nil
}

// collect is a sink of lines.
type collect struct{ lines []string }

func (c *collect) Write(_ context.Context, recs []evalstream.Record) error {
	for _, r := range recs {
		if b, ok := r.Body.(*evalstream.Rejected); ok {
			c.lines = append(c.lines, fmt.Sprintf("%s %s %s: %s", r.Pos, b.Line, b.Class, b.Reason))
			continue
		}
		c.lines = append(c.lines, string(r.Raw))
	}
	return nil
}

func (*collect) Flush(context.Context) error { return nil }

// runFar runs one job over f in a bubble of fake time.
func runFar(t *testing.T, f *far, workers int, steps ...pipedStep) (lines, rejects []string, err error) {
	t.Helper()
	f.began = time.Now()
	p, err := evalstream.New("test", evalstream.Step{Name: "far", New: func() (evalstream.Stage, error) { return f, nil }})
	if err != nil {
		t.Fatal(err)
	}
	var out, bad collect
	job := evalstream.Job{Pipeline: p, Source: &piped{steps: steps}, Sink: &out, Rejects: &bad, Workers: workers}
	_, err = job.Run(t.Context())
	return out.lines, bad.lines, err
}

func TestRemoteKeepsOrderWithCallsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{limits: evalstream.Limits{Records: 2, InFlight: 3}}
		f.answer = func(_ context.Context, call int, _ []string) error {
			<-time.After(time.Duration(10-call) * time.Second) // the later, the faster
			return nil
		}
		lines, rejects, err := runFar(t, f, 0, "a b c d e", "f", "g h")
		if err != nil || len(rejects) > 0 {
			t.Fatal(err, rejects)
		}
		if diff := cmp.Diff(strings.Fields("a b c d e f g h"), lines); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if f.most != 3 {
			t.Errorf("calls in flight: want 3, got %d", f.most)
		}
		calls := slices.Sorted(slices.Values(f.calls))
		if diff := cmp.Diff([]string{"a b", "c d", "e", "f", "g h"}, calls); diff != "" {
			t.Errorf("calls (-want +got)\n%s", diff)
		}
	})
}

func TestRemoteBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{limits: evalstream.Limits{Records: 10, Bytes: 4, InFlight: 1}}
		lines, _, err := runFar(t, f, 1, "aa bb cc dddddd e")
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(f.calls)
		if diff := cmp.Diff([]string{"aa bb", "cc", "dddddd", "e"}, f.calls); diff != "" {
			t.Errorf("calls (-want +got)\n%s", diff)
		}
		if diff := cmp.Diff(strings.Fields("aa bb cc dddddd e"), lines); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// A poisoned batch costs the poisoned record, and what has an answer is not asked again.
func TestRemoteBisects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{limits: evalstream.Limits{Records: 8}}
		f.answer = func(_ context.Context, _ int, lines []string) error {
			if slices.Contains(lines, "X") {
				return &failure{text: "status 400: bad input"}
			}
			return nil
		}
		lines, rejects, err := runFar(t, f, 1, "a b c d e X g h")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.Fields("a b c d e g h"), lines); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if diff := cmp.Diff([]string{"in:6 X remote: status 400: bad input"}, rejects); diff != "" {
			t.Errorf("rejects (-want +got)\n%s", diff)
		}
		if diff := cmp.Diff([]string{"a b c d e X g h", "a b c d", "e X g h", "e X", "e", "X", "g h"}, f.calls); diff != "" {
			t.Errorf("calls (-want +got)\n%s", diff)
		}
	})
}

// What the endpoint is found to take is remembered: also batches that were made before
// are cut to it without being asked for.
func TestRemoteLearnsHowMuchIsTooLarge(t *testing.T) {
	f := func(answer func(lines []string) error, wantCalls []string, last int, counter int64, wantRejects ...string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			fr := &far{limits: evalstream.Limits{Records: 8, InFlight: 1}}
			fr.answer = func(_ context.Context, _ int, lines []string) error { return answer(lines) }
			fr.began = time.Now()
			p, err := evalstream.New("test", evalstream.Step{Name: "far", New: func() (evalstream.Stage, error) { return fr, nil }})
			if err != nil {
				t.Fatal(err)
			}
			var out, bad collect
			job := evalstream.Job{Pipeline: p, Source: &piped{steps: []pipedStep{"a b c d e f g h", "i j k l m n"}}, Sink: &out, Rejects: &bad, Workers: 1}
			sum, err := job.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(fr.calls[len(fr.calls)-last:]) // batches of one block are called for in any order
			if d := cmp.Diff(wantCalls, fr.calls); d != "" {
				t.Errorf("calls (-want +got)\n%s", d)
			}
			if d := cmp.Diff(wantRejects, bad.lines); d != "" {
				t.Errorf("rejects (-want +got)\n%s", d)
			}
			if len(out.lines)+len(bad.lines) != 14 {
				t.Errorf("want 14 records, got %d", len(out.lines)+len(bad.lines))
			}
			learned := int64(0)
			for _, c := range sum.Counters {
				learned = c.N
			}
			if learned != counter {
				t.Errorf("counter: want %d, got %d", counter, learned)
			}
		})
	}
	f(func(lines []string) error {
		if len(lines) > 3 {
			return &failure{text: "status 413", large: true}
		}
		return nil
	}, []string{"a b c d e f g h", "a b c d", "a b", "c d", "e f", "g h", "i j", "k l", "m n"}, 3, 2)
	// One record that is too long says nothing of the others.
	f(func(lines []string) error {
		if slices.Contains(lines, "c") {
			return &failure{text: "status 413", large: true}
		}
		return nil
	}, []string{"a b c d e f g h", "a b c d", "a b", "c d", "c", "d", "e f g h", "i j k l m n"}, 1, 0, "in:3 c remote: status 413")
	// And so does a batch that is refused for another reason.
	f(func(lines []string) error {
		if len(lines) > 4 {
			return &failure{text: "status 400"}
		}
		return nil
	}, []string{"a b c d e f g h", "a b c d", "e f g h", "i j k l m n", "i j k", "l m n"}, 1, 0)
}

// Whoever watches is told how many records are waited for, and for how many calls.
func TestRemoteTellsHowItStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{limits: evalstream.Limits{Records: 2, InFlight: 1}, began: time.Now()}
		f.answer = func(_ context.Context, call int, _ []string) error {
			if call == 0 {
				return &failure{text: "busy", temporary: true}
			}
			return nil
		}
		p, err := evalstream.New("test", evalstream.Step{Name: "far", New: func() (evalstream.Stage, error) { return f, nil }})
		if err != nil {
			t.Fatal(err)
		}
		var seen []evalstream.Calls
		hooks := evalstream.Hooks{Calls: func(step string, now evalstream.Calls) {
			if step != "far" {
				t.Errorf("step %q", step)
			}
			seen = append(seen, now)
		}}
		job := evalstream.Job{Pipeline: p, Source: &piped{steps: []pipedStep{"a b c"}}, Sink: &collect{}, Workers: 1, Hooks: hooks}
		if _, err := job.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(seen) != 7 {
			t.Fatalf("want 7 calls of the hook, got %+v", seen)
		}
		if want := (evalstream.Calls{Records: 3}); seen[0] != want {
			t.Errorf("at first: want %+v, got %+v", want, seen[0])
		}
		if resting := slices.IndexFunc(seen, func(c evalstream.Calls) bool { return c.Resting == 1 && c.InFlight == 1 && c.Retries == 1 }); resting < 0 {
			t.Errorf("want one that rests, got %+v", seen)
		}
		if want := (evalstream.Calls{Records: 3, Settled: 3, Retries: 1}); seen[6] != want {
			t.Errorf("at last: want %+v, got %+v", want, seen[6])
		}
	})
}

func TestRemoteRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{limits: evalstream.Limits{Retry: evalstream.Retry{Seed: 7}}}
		f.answer = func(_ context.Context, call int, _ []string) error {
			switch call {
			case 0:
				return &failure{text: "busy", temporary: true}
			case 1:
				return fmt.Errorf("wrapped: %w", &failure{text: "busy", temporary: true, after: 20 * time.Second})
			}
			return nil
		}
		lines, rejects, err := runFar(t, f, 1, "a")
		if err != nil || len(rejects) > 0 || len(lines) != 1 {
			t.Fatal(lines, rejects, err)
		}
		if first := f.times[1]; first > 250*time.Millisecond {
			t.Errorf("first wait: want at most 250ms, got %v", first)
		}
		if asked := f.times[2] - f.times[1]; asked < 20*time.Second || asked > 20*time.Second+50*time.Millisecond {
			t.Errorf("want what was asked for, 20s and at most 50ms, got %v", asked)
		}
	})
}

func TestRemoteGivesUp(t *testing.T) {
	f := func(limits evalstream.Limits, answer func(ctx context.Context, call int, lines []string) error, calls int, wantReject, wantErr string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			fr := &far{limits: limits, answer: answer}
			_, rejects, err := runFar(t, fr, 1, "a")
			if len(fr.calls) != calls {
				t.Errorf("calls: want %d, got %d", calls, len(fr.calls))
			}
			if got := strings.Join(rejects, "\n"); got != wantReject {
				t.Errorf("rejects: want %q, got %q", wantReject, got)
			}
			if got := fmt.Sprint(err); got != wantErr {
				t.Errorf("error: want %q, got %q", wantErr, got)
			}
		})
	}
	busy := func(context.Context, int, []string) error { return &failure{text: "busy", temporary: true} }
	f(evalstream.Limits{Retry: evalstream.Retry{Attempts: 3}}, busy, 3, "in:1 a remote: 3 attempts: busy", "<nil>")
	f(evalstream.Limits{Deadline: time.Minute}, func(context.Context, int, []string) error {
		return &failure{text: "busy", temporary: true, after: time.Hour}
	}, 1, "in:1 a remote: no answer within 1m0s (attempt 1, the next not before 1h0m0s): busy", "<nil>")
	f(evalstream.Limits{Deadline: time.Minute}, func(ctx context.Context, _ int, _ []string) error {
		<-ctx.Done()
		return ctx.Err()
	}, 1, "in:1 a remote: no answer within 1m0s (attempt 1): context deadline exceeded", "<nil>")
	f(evalstream.Limits{}, func(context.Context, int, []string) error {
		return evalstream.Lost(errors.New("wrong key"))
	}, 1, "", "far: wrong key")
	f(evalstream.Limits{Retry: evalstream.Retry{GiveUp: 1}}, func(context.Context, int, []string) error {
		return &failure{text: "nonsense"}
	}, 1, "", "far: 1 records in a row had no answer; the last: nonsense")
}

// stateful is the least stage that remembers.
type stateful struct{}

func (stateful) Process(context.Context, []evalstream.Record, *evalstream.Out) error { return nil }
func (stateful) Load(_, _ []byte) error                                              { return nil }

// The steps after a stateful one go in order, one record after the other: a remote one
// there would have no calls in flight.
func TestRemoteAfterState(t *testing.T) {
	p, err := evalstream.New("test",
		evalstream.Step{Name: "state", New: func() (evalstream.Stage, error) { return stateful{}, nil }},
		evalstream.Step{Name: "far", New: func() (evalstream.Stage, error) { return &far{}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	job := evalstream.Job{Pipeline: p, Source: &piped{steps: []pipedStep{"a"}}, Sink: &collect{}}
	_, err = job.Run(t.Context())
	if want := "far: want it before the first step that remembers units, got it after"; fmt.Sprint(err) != want || evalstream.ExitCode(err) != evalstream.ExitUsage {
		t.Errorf("want %q, got %v", want, err)
	}
}
