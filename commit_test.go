package evalstream_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"evalstream"
)

// brittle is a store whose first commit fails, and that takes any other.
type brittle struct {
	commits int
	failed  chan struct{}
}

var errBrittle = errors.New("no")

func (*brittle) Partitions() ([]int32, error)                     { return nil, nil }
func (*brittle) Checkpoint(int32) (*evalstream.Checkpoint, error) { return nil, nil } //nolint:nilnil // there is none
func (*brittle) Get(dst []byte, _ string, _ int32, _ []byte) ([]byte, bool, error) {
	return dst, false, nil
}

func (*brittle) Scan(string, int32, []byte, func(key, val []byte) (bool, error)) error { return nil }

func (b *brittle) Commit(int32, []evalstream.StepChanges, *evalstream.Checkpoint) error {
	if b.commits++; b.commits == 1 {
		close(b.failed)
		return errBrittle
	}
	return nil
}

// two gives a short block and a long one.
type two struct{ seq evalstream.Seq }

func (s *two) Read(_ context.Context, b *evalstream.Block) error {
	if s.seq == 2 {
		return io.EOF
	}
	b.Data, b.First = []byte([]string{"{}\n", "{\"a\":\"long line\"}\n"}[s.seq]), s.seq
	b.At = evalstream.Pos{Origin: &evalstream.Origin{Name: "lines"}, Line: int64(s.seq) + 1}
	s.seq++
	return nil
}

// late works on the second block until the first has met the store.
type late struct{ store *brittle }

func (l late) Process(_ context.Context, in []evalstream.Record, out *evalstream.Out) error {
	if in[0].Seq == 1 {
		<-l.store.failed
	}
	for _, r := range in {
		out.Emit(r)
	}
	return nil
}

// TestNoCommitAfterAFailedOne has the commit of the first block fail by the clock while
// the second is at work: nothing is committed behind changes that the store has not
// taken.
func TestNoCommitAfterAFailedOne(t *testing.T) {
	store := &brittle{failed: make(chan struct{})}
	p, err := evalstream.New("test", evalstream.Step{Name: "late", New: func() (evalstream.Stage, error) { return late{store}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	job := evalstream.Job{Pipeline: p, Source: &two{}, Sink: nobody{}, Workers: 2, Store: store, CommitBytes: 10}
	if _, err := job.Run(t.Context()); !errors.Is(err, errBrittle) {
		t.Errorf("got error %v", err)
	}
	if store.commits != 1 {
		t.Errorf("%d commits after the one that failed", store.commits-1)
	}
}

type nobody struct{}

func (nobody) Write(context.Context, []evalstream.Record) error { return nil }
func (nobody) Flush(context.Context) error                      { return nil }
