package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"evalstream"
)

func partitions(lens ...int) [][][]byte {
	var ps [][][]byte
	for p, n := range lens {
		var lines [][]byte
		for i := range n {
			lines = append(lines, fmt.Appendf(nil, "%d/%d", p, i))
		}
		ps = append(ps, lines)
	}
	return ps
}

// Whatever the seed: every line comes, each at its Seq and offset, the first time in
// order, and again only as a suffix of what has come.
func TestSource(t *testing.T) {
	ps := partitions(300, 0, 1, 77)
	again := int64(0)
	for seed := range uint64(20) {
		s := New(Options{Seed: seed, MaxLines: 1 + int(seed), Redeliver: float64(seed%3) / 3}, ps...)
		next := make([]int64, len(ps))
		var b evalstream.Block
		for {
			err := s.Read(t.Context(), &b)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			p := b.Partition
			if b.At.Line != int64(b.First) || b.At.Origin.String() != fmt.Sprintf("memory[%d]", p) {
				t.Fatalf("block at %v with first %d", b.At, b.First)
			}
			if int64(b.First) > next[p] {
				t.Fatalf("seed %d: partition %d jumps from %d to %d", seed, p, next[p], b.First)
			}
			at := int64(b.First)
			for l := range bytes.Lines(b.Data) {
				if want := fmt.Sprintf("%d/%d\n", p, at); string(l) != want {
					t.Fatalf("got line %q, want %q", l, want)
				}
				at++
			}
			next[p] = max(next[p], at)
		}
		if d := cmp.Diff([]int64{300, 0, 1, 77}, next); d != "" {
			t.Errorf("seed %d: %s", seed, d)
		}
		if seed%3 == 0 && s.Delivered() != 378 {
			t.Errorf("seed %d: %d lines without redelivery, want 378", seed, s.Delivered())
		}
		again += s.Delivered() - 378
	}
	if again == 0 {
		t.Error("nothing came again")
	}
}

func TestSourceIsOfItsSeed(t *testing.T) {
	read := func(seed uint64) (firsts []string) {
		s := New(Options{Seed: seed, MaxLines: 5, Redeliver: .3}, partitions(50, 50)...)
		var b evalstream.Block
		for s.Read(t.Context(), &b) == nil {
			firsts = append(firsts, fmt.Sprint(b.Partition, b.First, len(b.Data)))
		}
		return firsts
	}
	if d := cmp.Diff(read(4), read(4)); d != "" {
		t.Error(d)
	}
	if cmp.Equal(read(4), read(5)) {
		t.Error("two seeds give the same blocks")
	}
}

func TestLines(t *testing.T) {
	f := func(in string, want ...string) {
		t.Helper()
		var got []string
		for _, l := range Lines(in) {
			got = append(got, string(l))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%q: %s", in, d)
		}
	}
	f("")
	f("\n", "")
	f("a\n\nb", "a", "", "b")
	f("a\r\nb\n", "a\r", "b")
}

// The runner sees each line once, whatever comes again.
func TestJobReceivesOnce(t *testing.T) {
	pass := evalstream.Step{Name: "pass", New: func() (evalstream.Stage, error) { return passing{}, nil }}
	p, err := evalstream.New("test", pass)
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(10) {
		sink := NewSink(func(dst []byte, r *evalstream.Record) []byte { return append(dst, r.Raw...) })
		job := evalstream.Job{
			Pipeline: p, Sink: sink, Workers: 1 + int(seed%4), Partitions: 2,
			Source: New(Options{Seed: seed, MaxLines: 7, Redeliver: .4}, partitions(200, 100)...),
		}
		sum, err := job.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for _, l := range sink.Lines() {
			seen[l]++
		}
		if sum.Lines != 300 || len(seen) != 300 || len(sink.Lines()) != 300 {
			t.Errorf("seed %d: %d lines in, %d out, %d of them different; want 300 each", seed, sum.Lines, len(sink.Lines()), len(seen))
		}
		if sink.Flushes() == 0 {
			t.Error("sink was never flushed")
		}
	}
}

type passing struct{}

func (passing) Process(_ context.Context, in []evalstream.Record, out *evalstream.Out) error {
	for _, r := range in {
		out.Emit(r)
	}
	return nil
}
