package stages

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"evalstream"
	"evalstream/stages/metric"
	"evalstream/stages/ranking"
)

// heapOf is what lives more after f has run, with what it returns.
func heapOf(f func() any) int64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&before)
	kept := f()
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(kept)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc)
}

func wantHeap(t *testing.T, what string, holds []Holding, got int64) {
	t.Helper()
	want := int64(0)
	for _, h := range holds {
		want += h.Bytes()
	}
	t.Logf("%s: planned %d bytes, measured %d: %+.0f%%", what, want, got, 100*float64(want-got)/float64(got))
	if off := want - got; 10*max(off, -off) > 3*got {
		t.Errorf("%s: planned %d bytes in %+v, measured %d", what, want, holds, got)
	}
}

// id is an id of 12 bytes.
func id(kind byte, n int) string { return fmt.Sprintf("%c%011d", kind, n) }

func process(t *testing.T, s evalstream.Stage, body func(i int) evalstream.Body, n int) {
	t.Helper()
	var out evalstream.Out
	var in [1]evalstream.Record
	for i := range n {
		in[0] = evalstream.Record{Body: body(i), Time: evalstream.NoTime, Seq: evalstream.Seq(i)}
		out.Reset()
		if err := s.Process(context.Background(), in[:], &out); err != nil {
			t.Fatal(err)
		}
		if len(out.Rejects) > 0 {
			t.Fatalf("rejected: %v", out.Rejects[0].Fault)
		}
	}
}

func TestPlannedMemory(t *testing.T) {
	gold := func(units, judgments int64) {
		t.Helper()
		w := Workload{Units: units, Judgments: judgments, IDBytes: 12}
		got := heapOf(func() any {
			g := NewGold("")
			process(t, g, func(i int) evalstream.Body {
				return &evalstream.Qrel{QueryID: id('q', i/int(judgments)), PassageID: id('p', i), Grade: 1}
			}, int(units*judgments))
			return g
		})
		wantHeap(t, fmt.Sprintf("gold of %d units with %d judgments", units, judgments), w.FrozenGold(), got)
	}
	gold(50_000, 1)
	gold(110_000, 1)
	gold(40_000, 5)

	open := func(w Workload, fields ...evalstream.Slice) {
		t.Helper()
		w.IDBytes, w.Measures, w.Fields = 12, 4, int64(len(fields))
		got := heapOf(func() any {
			instance, err := NewScore(OpenScoring{Scoring: Scoring{}})
			if err != nil {
				t.Fatal(err)
			}
			s, err := instance()
			if err != nil {
				t.Fatal(err)
			}
			process(t, s, func(i int) evalstream.Body {
				unit := i / int(w.Runs)
				if w.Depth == 0 {
					return &evalstream.Prediction{Episode: id('e', unit)[:2], Query: id('q', unit)[5:], Run: id('r', i%int(w.Runs)), HasLabel: true, Label: id('l', 1), Slices: fields}
				}
				r := &evalstream.Run{QueryID: id('q', unit), Run: id('r', i%int(w.Runs)), Slices: fields}
				for k := range w.Depth {
					r.Top = append(r.Top, evalstream.Hit{ID: id('p', i+int(k)), Score: -float64(k)})
				}
				return r
			}, int(w.Units*w.Runs))
			process(t, s, func(i int) evalstream.Body {
				unit := i / int(w.Judgments)
				if w.Depth == 0 {
					return &evalstream.Prediction{Episode: id('e', unit)[:2], Query: id('q', unit)[5:], HasGold: true, Gold: id('l', 1)}
				}
				return &evalstream.Qrel{QueryID: id('q', unit), PassageID: id('p', i), Grade: 1}
			}, int(w.Units*w.Judgments))
			return s
		})
		wantHeap(t, fmt.Sprintf("open gold, %+v", w), w.OpenGold(), got)
	}
	open(Workload{Units: 20_000, Runs: 1, Depth: 10, Judgments: 1})
	open(Workload{Units: 9_000, Runs: 3, Depth: 10, Judgments: 3})
	open(Workload{Units: 3_000, Runs: 1, Depth: 100, Judgments: 1})
	open(Workload{Units: 15_000, Runs: 1, Depth: 10, Judgments: 1}, evalstream.Slice{Name: "ticker", Value: `"ABCDEFGHIJ"`}, evalstream.Slice{Name: "company", Value: `"Some firm."`})
	open(Workload{Units: 30_000, Runs: 2, Judgments: 1})

	aggregated := func(w Workload, groups int) {
		t.Helper()
		w.IDBytes, w.Measures = 12, 4
		got := heapOf(func() any {
			instance, err := NewAggregate(Aggregation{By: [][]string{{"run"}, {"run", "ticker"}}})
			if err != nil {
				t.Fatal(err)
			}
			s, err := instance()
			if err != nil {
				t.Fatal(err)
			}
			settings := newSettings("x")
			tickers := []string{}
			for i := range groups {
				tickers = append(tickers, `"`+id('t', i)+`"`)
			}
			process(t, s, func(i int) evalstream.Body {
				unit := i / int(w.Runs)
				v := evalstream.Nano(unit%10) * evalstream.One / 10
				return &evalstream.Score{
					Unit: id('q', unit), Run: id('r', i%int(w.Runs)), Measures: DefaultMeasures(), Values: []evalstream.Nano{v, v, v, v},
					Slices: []evalstream.Slice{{Name: "ticker", Value: tickers[unit%groups]}}, Settings: settings,
				}
			}, int(w.Units*w.Runs))
			return s
		})
		w.Cells = int64(groups+1) * w.Runs
		wantHeap(t, fmt.Sprintf("aggregate, %+v", w), w.Aggregated(), got)
	}
	aggregated(Workload{Units: 100_000, Runs: 1}, 10)
	aggregated(Workload{Units: 300_000, Runs: 1}, 10)
	aggregated(Workload{Units: 70_000, Runs: 4}, 10)
	aggregated(Workload{Units: 40_000, Runs: 1}, 20_000)

	verdicts := func(w Workload) {
		t.Helper()
		w.IDBytes = 12
		got := heapOf(func() any {
			instance, err := NewScore(OpenScoring{Scoring: Scoring{}})
			if err != nil {
				t.Fatal(err)
			}
			s, err := instance()
			if err != nil {
				t.Fatal(err)
			}
			process(t, s, func(i int) evalstream.Body {
				unit := i / int(w.Runs)
				return &evalstream.Verdict{
					SpanID: id('s', unit), TripleID: id('t', unit), Mode: "reflection", Dimension: "faithfulness", PromptVersion: "v1",
					Judge: id('j', i%int(w.Runs)), Value: "1",
				}
			}, int(w.Units*w.Runs))
			return s
		})
		wantHeap(t, fmt.Sprintf("verdicts, %+v", w), w.Judged(), got)
	}
	verdicts(Workload{Units: 40_000, Runs: 3})
	verdicts(Workload{Units: 90_000, Runs: 1})

	sentences := func(w Workload, vectors bool) {
		t.Helper()
		w.IDBytes = 12
		got := heapOf(func() any {
			s := NewInstances(vectors)
			process(t, s, func(i int) evalstream.Body {
				b := &evalstream.Instance{ID: id('i', i), SubjType: "ORGANIZATION", ObjType: "ORGANIZATION"}
				if vectors {
					b.Vector = evalstream.Vector{Values: make([]float32, w.Dims), Fingerprint: "f"}
				}
				return b
			}, int(w.Instances))
			return s
		})
		wantHeap(t, fmt.Sprintf("instances, %+v", w), w.Sentences(vectors), got)
	}
	sentences(Workload{Instances: 50_000}, false)
	sentences(Workload{Instances: 5_000, Dims: 256}, true)

	ranked := func(method string, w Workload) {
		t.Helper()
		w.IDBytes = 12
		got := heapOf(func() any {
			p := NewPassages(method, ranking.DefaultVariant())
			words := 0
			process(t, p, func(i int) evalstream.Body {
				b := &evalstream.Passage{PassageID: id('p', i)}
				if method == RankVector {
					b.Vector.Values = make([]float32, w.Dims)
					return b
				}
				for range w.Words {
					words++
					b.Text += fmt.Sprintf("w%d ", words%977)
				}
				return b
			}, int(w.Passages))
			p.Seal()
			return p
		})
		wantHeap(t, fmt.Sprintf("rank by %s, %+v", method, w), w.Ranked(method), got)
	}
	ranked(RankVector, Workload{Passages: 20_000, Dims: 256})
	ranked(RankVector, Workload{Passages: 50_000, Dims: 16})
	ranked(RankBM25, Workload{Passages: 10_000, Words: 100})
	ranked(RankBM25, Workload{Passages: 40_000, Words: 10})

	// Scores that are all unlike each other.
	w := Workload{Units: 50_000, Runs: 1, IDBytes: 12, Measures: 4}
	got := heapOf(func() any {
		instance, err := NewAggregate(Aggregation{ZeroDivision: metric.ZeroDivisionOne})
		if err != nil {
			t.Fatal(err)
		}
		s, err := instance()
		if err != nil {
			t.Fatal(err)
		}
		settings := newSettings("x")
		process(t, s, func(i int) evalstream.Body {
			v := evalstream.Nano(i)
			return &evalstream.Score{Unit: id('q', i), Run: "r", Measures: DefaultMeasures(), Values: []evalstream.Nano{v, v, v, v}, Settings: settings}
		}, int(w.Units))
		return s
	})
	holds := w.Aggregated()
	holds[3].Count = w.Units
	wantHeap(t, "scores unlike each other", holds, got)
}
