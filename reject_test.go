package evalstream_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"evalstream"
)

// expiring says of each word that its unit has expired, and once more at the end.
type expiring struct {
	stateful
	ended bool
}

func (*expiring) Process(_ context.Context, in []evalstream.Record, out *evalstream.Out) error {
	for _, r := range in {
		r.Raw, r.Body = nil, &evalstream.Score{Unit: string(r.Raw), Status: evalstream.Pending}
		out.Emit(r)
	}
	return nil
}

func (s *expiring) Advance(_ context.Context, _ evalstream.Time, out *evalstream.Out) error {
	if s.ended {
		return nil
	}
	s.ended = true
	out.Emit(evalstream.Record{Body: &evalstream.Score{Unit: "q1", Run: "a", Status: evalstream.Expired}})
	out.Emit(evalstream.Record{Body: &evalstream.Score{Unit: "q2", Status: evalstream.Expired}})
	out.Emit(evalstream.Record{Body: &evalstream.Score{Unit: "q3", Status: evalstream.Expired}})
	out.Emit(evalstream.Record{Body: &evalstream.Partial{Step: "aggregate", By: []evalstream.Slice{{Name: "run", Value: `"a"`}}, Window: "all"}})
	return nil
}

// refuse takes nothing.
type refuse struct{ stateful }

func (refuse) Process(_ context.Context, in []evalstream.Record, out *evalstream.Out) error {
	for _, r := range in {
		if b, ok := r.Body.(*evalstream.Score); ok && b.Unit == "q2" {
			continue
		}
		out.RejectRecord(&r, evalstream.Fault{Class: evalstream.ClassStage, Reason: "no"})
	}
	return nil
}

// What a stage has made of its state and another refuses is told by its name; what comes
// of a line is told by the line, also when both are refused in one turn.
func TestRejectOfWhatHasNoLine(t *testing.T) {
	p, err := evalstream.New("test",
		evalstream.Step{Name: "late", New: func() (evalstream.Stage, error) { return new(expiring), nil }},
		evalstream.Step{Name: "refuse", New: func() (evalstream.Stage, error) { return refuse{}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	var bad collect
	job := evalstream.Job{Pipeline: p, Source: &piped{steps: []pipedStep{"a b"}}, Sink: &collect{}, Rejects: &bad, Workers: 1}
	if _, err := job.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"in:1 a stage: no", "in:2 b stage: no",
		"unit q1/run a (expired)  stage: no", "unit q3 (expired)  stage: no", `partial ["run","all","\"a\"","0","aggregate","0"]  stage: no`,
	}
	if d := cmp.Diff(want, bad.lines); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}
