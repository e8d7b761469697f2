package stages_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"evalstream"
	"evalstream/stages"
	"evalstream/stages/metric"
)

// scatter is a source of records: partitions, cut into blocks of random size, with a
// suffix of each partition delivered again now and then.
type scatter struct {
	rng    *rand.Rand
	parts  [][]evalstream.Record
	at     []int
	again  int // redeliveries left
	origin *evalstream.Origin
}

func newScatter(rng *rand.Rand, recs []evalstream.Record, partitions, again int) *scatter {
	s := &scatter{rng: rng, parts: make([][]evalstream.Record, partitions), at: make([]int, partitions), again: again, origin: &evalstream.Origin{Name: "records"}}
	for _, r := range recs {
		h := fnv.New32a()
		h.Write(r.Body.AppendRoute(nil))
		p := int(h.Sum32() % uint32(partitions))
		r.Seq = evalstream.Seq(len(s.parts[p]))
		r.Pos = evalstream.Pos{Origin: s.origin, Line: int64(r.Seq) + 1}
		s.parts[p] = append(s.parts[p], r)
	}
	return s
}

func (s *scatter) Read(_ context.Context, b *evalstream.Block) error {
	var open []int
	for p := range s.parts {
		if s.at[p] < len(s.parts[p]) {
			open = append(open, p)
		}
	}
	if len(open) == 0 {
		return io.EOF
	}
	p := open[s.rng.IntN(len(open))]
	from := s.at[p]
	if s.again > 0 && from > 0 && s.rng.IntN(4) == 0 {
		s.again--
		from -= 1 + s.rng.IntN(from)
	}
	to := min(len(s.parts[p]), s.at[p]+1+s.rng.IntN(90))
	s.at[p] = to
	b.Records = s.parts[p][from:to]
	b.Partition, b.First, b.At = int32(p), b.Records[0].Seq, b.Records[0].Pos
	return nil
}

// results keeps the results that a job publishes, and the last review of each unit.
type results struct {
	all     []evalstream.Result
	reviews map[string]evalstream.Review
}

func (s *results) Write(_ context.Context, recs []evalstream.Record) error {
	for _, r := range recs {
		if b, ok := r.Body.(*evalstream.Result); ok {
			s.all = append(s.all, *b)
		}
		if b, ok := r.Body.(*evalstream.Review); ok {
			if s.reviews == nil {
				s.reviews = map[string]evalstream.Review{}
			}
			key, kept := string(b.AppendKey(nil)), *b
			kept.Verdicts = slices.Clone(b.Verdicts)
			if s.reviews[key] = kept; b.Withdrawn {
				delete(s.reviews, key)
			}
		}
	}
	return nil
}

func (*results) Flush(context.Context) error { return nil }

// final is the results that law 1 compares.
func (s *results) final() []evalstream.Result {
	var fs []evalstream.Result
	keys := map[string][]evalstream.Result{}
	for _, r := range s.all {
		if r.Final {
			r.Through, r.Revision, r.Closed = nil, 0, false
			key := resultKey(r)
			keys[key] = append(keys[key], r)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		fs = append(fs, keys[key]...)
	}
	return fs
}

func resultKey(r evalstream.Result) string {
	key := []byte(r.Metric)
	for _, by := range r.By {
		key = append(append(append(append(key, 0), by.Name...), 0), by.Value...)
	}
	if r.Window.All {
		return string(key)
	}
	return fmt.Sprintf("%s %020d %020d", key, r.Window.Start, r.Window.End)
}

type setup struct {
	workers, partitions, again int
	every                      int64
	gold                       *stages.Gold
}

// evaluate runs score and aggregate (and merge, if there are several partitions).
func evaluate(t *testing.T, rng *rand.Rand, a stages.Aggregation, recs []evalstream.Record, s setup) []evalstream.Result {
	t.Helper()
	return publish(t, rng, a, recs, s).final()
}

// publish is evaluate with all that comes out.
func publish(t *testing.T, rng *rand.Rand, a stages.Aggregation, recs []evalstream.Record, s setup) *results {
	t.Helper()
	must := func(f func() (evalstream.Stage, error), err error) func() (evalstream.Stage, error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	var score func() (evalstream.Stage, error)
	if s.gold != nil {
		score = must(stages.NewScoreFrozen(stages.Scoring{}, s.gold))
	} else {
		score = must(stages.NewScore(stages.OpenScoring{Panel: a.Panel}))
	}
	a.Every.Records = s.every
	a.Partials = s.partitions > 1
	steps := []evalstream.Step{{Name: "score", New: score}, {Name: "aggregate", New: must(stages.NewAggregate(a))}}
	if a.Partials {
		steps = append(steps, evalstream.Step{Name: "merge", New: must(stages.NewMerge(a)), Gather: true})
	}
	p, err := evalstream.New("law", steps...)
	if err != nil {
		t.Fatal(err)
	}
	out := new(results)
	job := evalstream.Job{Pipeline: p, Source: newScatter(rng, recs, s.partitions, s.again), Sink: out, Workers: s.workers, Partitions: int32(s.partitions)}
	sum, err := job.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range sum.Unbalanced() {
		t.Errorf("records vanished: %+v", bad)
	}
	if sum.Rejects > 0 {
		t.Errorf("rejects: %v", sum.ByClass)
	}
	return out
}

// interleave shuffles records across slots and keeps the order within each.
func interleave(rng *rand.Rand, recs []evalstream.Record) []evalstream.Record {
	slots := map[string][]evalstream.Record{}
	var keys []string
	for _, r := range recs {
		k := r.Body.Kind() + string(r.Body.AppendKey(nil))
		if slots[k] == nil {
			keys = append(keys, k)
		}
		slots[k] = append(slots[k], r)
	}
	out := make([]evalstream.Record, 0, len(recs))
	var queue []string
	for _, k := range keys {
		for range slots[k] {
			queue = append(queue, k)
		}
	}
	rng.Shuffle(len(queue), func(i, j int) { queue[i], queue[j] = queue[j], queue[i] })
	for _, k := range queue {
		out = append(out, slots[k][0])
		slots[k] = slots[k][1:]
	}
	return out
}

// repeat doubles some records in place.
func repeat(rng *rand.Rand, recs []evalstream.Record) []evalstream.Record {
	var out []evalstream.Record
	for _, r := range recs {
		out = append(out, r)
		if rng.IntN(5) == 0 {
			out = append(out, r)
		}
	}
	return out
}

var begin = time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)

func at(rng *rand.Rand) evalstream.Time {
	t, _ := evalstream.TimeOf(begin.Add(time.Duration(rng.IntN(4*3600)) * time.Second))
	return t
}

func literal(s string) string { return string(evalstream.AppendString(nil, s)) }

// retrievalRecords are runs and qrels with repeats, corrections and revisions.
func retrievalRecords(rng *rand.Rand, n int) []evalstream.Record {
	var recs []evalstream.Record
	for len(recs) < n {
		q := fmt.Sprintf("q%d", rng.IntN(n/5))
		if rng.IntN(3) == 0 {
			recs = append(recs, evalstream.Record{Time: evalstream.NoTime, Body: &evalstream.Qrel{
				QueryID: q, PassageID: fmt.Sprintf("p%d", rng.IntN(8)), Grade: int32(rng.IntN(4)),
				Withdrawn: rng.IntN(8) == 0, Revision: int64(rng.IntN(3)),
			}})
			continue
		}
		run := &evalstream.Run{QueryID: q, Run: fmt.Sprintf("m%d", rng.IntN(3)), Revision: int64(rng.IntN(3))}
		for _, p := range rng.Perm(8)[:rng.IntN(8)] {
			run.Top = append(run.Top, evalstream.Hit{ID: fmt.Sprintf("p%d", p), Score: float64(rng.IntN(5)) / 4})
		}
		if rng.IntN(10) > 0 {
			run.Slices = []evalstream.Slice{{Name: "ticker", Value: literal(fmt.Sprintf("T%d", rng.IntN(6)))}}
		}
		recs = append(recs, evalstream.Record{Time: at(rng), Body: run})
	}
	return recs
}

func fewshotRecords(rng *rand.Rand, n int) []evalstream.Record {
	labels := []string{"no_relation", "org:founded", "org:members", "per:title"}
	var recs []evalstream.Record
	for len(recs) < n {
		p := &evalstream.Prediction{
			Dataset: "d", Seed: fmt.Sprint(1 + rng.IntN(3)), K: "1", Episode: fmt.Sprint(rng.IntN(n / 40)), Query: fmt.Sprint(rng.IntN(3)),
			Revision: int64(rng.IntN(2)),
		}
		tm := evalstream.NoTime
		if rng.IntN(3) == 0 {
			p.Gold, p.HasGold = labels[rng.IntN(4)], true
		} else {
			p.Run, p.Label, p.HasLabel = fmt.Sprintf("s%d", rng.IntN(2)), labels[rng.IntN(4)], true
			tm = at(rng)
		}
		recs = append(recs, evalstream.Record{Time: tm, Body: p})
	}
	// Gold and predictions of one unit share a slot key where run is empty, but not a slot.
	return recs
}

func ratingRecords(rng *rand.Rand, n int) []evalstream.Record {
	var recs []evalstream.Record
	for len(recs) < n {
		r := &evalstream.Rating{
			Unit: fmt.Sprintf("u%d", rng.IntN(n/6)), Coder: fmt.Sprintf("c%d", rng.IntN(4)), Value: fmt.Sprint(1 + rng.IntN(4)),
			Retracted: rng.IntN(9) == 0, Revision: int64(rng.IntN(3)),
			Slices: []evalstream.Slice{{Name: "mode", Value: literal(fmt.Sprintf("m%d", rng.IntN(2)))}},
		}
		if rng.IntN(4) == 0 {
			r.Slices = nil
		}
		recs = append(recs, evalstream.Record{Time: at(rng), Body: r})
	}
	return recs
}

// verdictRecords are verdicts of a panel, of others and of people, with repeats,
// corrections, missing ones, both orders and several prompt versions.
func verdictRecords(rng *rand.Rand, n int) []evalstream.Record {
	judges := []string{"a", "b", "c", "d", "other", "human"}
	dimensions := []string{"faithfulness", "comprehensiveness", "preference"}
	var recs []evalstream.Record
	for len(recs) < n {
		v := &evalstream.Verdict{
			SpanID: fmt.Sprintf("s%d", rng.IntN(n/40)), TripleID: fmt.Sprint(rng.IntN(2)), Mode: fmt.Sprintf("m%d", rng.IntN(2)),
			Dimension: dimensions[rng.IntN(3)], Judge: judges[rng.IntN(6)], Swap: rng.IntN(4) == 0, Revision: int64(rng.IntN(3)),
		}
		if v.Judge != "human" {
			v.PromptVersion = []string{"", "v1", "v1", "v1", "v1", "v2"}[rng.IntN(6)]
		}
		switch {
		case rng.IntN(6) == 0:
			v.Reason = []string{"timeout", "refused", ""}[rng.IntN(3)]
		case v.Dimension == "comprehensiveness":
			v.Value = []string{`"good"`, `"partial"`, `"poor"`}[rng.IntN(3)]
		default:
			v.Value = fmt.Sprint(min(1, rng.IntN(4)))
		}
		if rng.IntN(3) == 0 {
			v.Slices = []evalstream.Slice{{Name: "ticker", Value: literal(fmt.Sprintf("T%d", rng.IntN(3)))}}
		}
		if rng.IntN(4) == 0 {
			v.Shown = &evalstream.Shown{Text: "text of " + v.SpanID, Triple: fmt.Sprintf(`["a","b",%d]`, rng.IntN(2))}
		}
		recs = append(recs, evalstream.Record{Time: at(rng), Body: v})
	}
	return recs
}

func windows(t *testing.T, names ...string) []stages.Window {
	t.Helper()
	var ws []stages.Window
	for _, n := range names {
		w, err := stages.ParseWindow(n)
		if err != nil {
			t.Fatal(err)
		}
		ws = append(ws, w)
	}
	return ws
}

// TestOneDataflow is law 1: whatever the blocks, workers, partitions, order across
// slots, redelivered suffixes and repeats, the final results are equal.
func TestOneDataflow(t *testing.T) {
	families := []struct {
		name string
		make func(*rand.Rand, int) []evalstream.Record
		a    stages.Aggregation
	}{
		{"retrieval", retrievalRecords, stages.Aggregation{By: [][]string{{"run"}, {"run", "ticker"}, {}}, Windows: windows(t, "all", "1h", "1h/15m")}},
		{"retrieval folded", retrievalRecords, stages.Aggregation{By: [][]string{{"run"}, {"ticker"}}, Windows: windows(t, "all", "1h"), MaxGroups: 3}},
		{"fewshot", fewshotRecords, stages.Aggregation{By: [][]string{{"run"}, {"run", "relation"}, {"seed"}}, Windows: windows(t, "all", "2h"), Negative: "no_relation"}},
		{"fewshot over seeds", fewshotRecords, stages.Aggregation{By: [][]string{{"run"}, {"relation"}}, Over: "seed", Negative: "no_relation"}},
		{"ratings", ratingRecords, stages.Aggregation{By: [][]string{{}, {"mode"}}, Windows: windows(t, "all", "1h"), Level: metric.OrdinalLevel, Bootstrap: 50}},
		{"verdicts", verdictRecords, stages.Aggregation{By: [][]string{{"mode"}, {"ticker"}}, Windows: windows(t, "all", "2h"), Panel: []string{"c", "a", "b"}, Intervals: []string{"wilson"}}},
		{"verdicts of an even panel", verdictRecords, stages.Aggregation{By: [][]string{{"run"}, {"prompt_version"}}, Intervals: []string{"poisson_bootstrap"}, Panel: []string{"a", "b", "c", "human"}, Bootstrap: 20, MaxGroups: 1}},
		{"verdicts without a panel", verdictRecords, stages.Aggregation{By: [][]string{{}, {"dimension"}}, Bootstrap: 20}},
	}
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			for seed := range seeds(3) {
				rng := rand.New(rand.NewPCG(seed, 1))
				recs := f.make(rng, 1000)
				first := publish(t, rng, f.a, recs, setup{workers: 1, partitions: 1})
				want := first.final()
				if len(want) < 4 {
					t.Fatalf("seed %d: only %d results", seed, len(want))
				}
				for range 4 {
					s := setup{workers: 1 + rng.IntN(4), partitions: 1 + rng.IntN(4), again: rng.IntN(6), every: int64(rng.IntN(3) * 97)}
					again := publish(t, rng, f.a, repeat(rng, interleave(rng, recs)), s)
					if diff := cmp.Diff(first.reviews, again.reviews); diff != "" {
						t.Fatalf("seed %d, %+v: reviews -want +got\n%s", seed, s, diff)
					}
					got := again.final()
					if !reflect.DeepEqual(want, got) {
						t.Fatalf("seed %d, %+v: -want +got\n%s", seed, s, cmp.Diff(want, got))
					}
				}
			}
		})
	}
}

// TestFrozenIsOpen checks that gold that comes first, as a file, gives what gold
// within the stream gives.
func TestFrozenIsOpen(t *testing.T) {
	f := func(name string, a stages.Aggregation, recs []evalstream.Record, isGold func(evalstream.Body) bool) {
		t.Helper()
		for seed := range seeds(5) {
			rng := rand.New(rand.NewPCG(seed, 2))
			want := evaluate(t, rng, a, recs, setup{workers: 2, partitions: 1})
			gold := stages.NewGold("")
			var golds, predictions []evalstream.Record
			for _, r := range interleave(rng, recs) {
				if isGold(r.Body) {
					golds = append(golds, r)
				} else {
					predictions = append(predictions, r)
				}
			}
			var out evalstream.Out
			if err := gold.Process(t.Context(), golds, &out); err != nil || len(out.Rejects) > 0 {
				t.Fatal(err, out.Rejects)
			}
			gold.Seal()
			got := evaluate(t, rng, a, predictions, setup{workers: 1 + rng.IntN(4), partitions: 1 + rng.IntN(3), gold: gold})
			if !reflect.DeepEqual(want, got) {
				t.Fatalf("%s, seed %d: -open +frozen\n%s", name, seed, cmp.Diff(want, got))
			}
		}
	}
	rng := rand.New(rand.NewPCG(7, 7))
	f("retrieval", stages.Aggregation{By: [][]string{{"run"}, {"ticker"}}, Windows: windows(t, "all", "1h")}, retrievalRecords(rng, 1000),
		func(b evalstream.Body) bool { return b.Kind() == "qrel" })
	f("fewshot", stages.Aggregation{By: [][]string{{"run"}, {"relation"}}, Negative: "no_relation"}, fewshotRecords(rng, 1000),
		func(b evalstream.Body) bool { return !b.(*evalstream.Prediction).HasLabel })
}
