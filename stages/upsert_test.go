package stages_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"evalstream"
	"evalstream/stages"
	"evalstream/stages/metric"
)

// table is a topic of results or partials beside the state that they come of: what was
// written since the last commit is there with the commit or, after a crash, never. The last
// of each key stands, and a result that is withdrawn takes its key away.
type table struct {
	*shelves
	pending  []evalstream.Body
	last     map[string]evalstream.Result
	partials map[string]evalstream.Partial
}

func newTable(rng *rand.Rand, crash int) *table {
	return &table{shelves: newShelves(rng, crash), last: map[string]evalstream.Result{}, partials: map[string]evalstream.Partial{}}
}

func (s *table) Write(_ context.Context, recs []evalstream.Record) error {
	for _, r := range recs {
		switch b := r.Body.(type) {
		case *evalstream.Result:
			kept := *b
			s.pending = append(s.pending, &kept)
		case *evalstream.Partial:
			kept := *b
			s.pending = append(s.pending, &kept)
		}
	}
	return nil
}

func (*table) Flush(context.Context) error { return nil }

func (s *table) Commit(p int32, changes []evalstream.StepChanges, cp *evalstream.Checkpoint) error {
	before := s.commits
	err := s.shelves.Commit(p, changes, cp)
	if s.commits > before {
		for _, b := range s.pending {
			switch b := b.(type) {
			case *evalstream.Result:
				if s.last[resultKey(*b)] = *b; b.Undefined == "withdrawn" {
					delete(s.last, resultKey(*b))
				}
			case *evalstream.Partial:
				s.partials[string(b.AppendKey(nil))] = *b
			}
		}
	}
	s.pending = s.pending[:0]
	return err
}

// End commits what was made at the end of the input.
func (s *table) End(p int32, cp *evalstream.Checkpoint) error { return s.Commit(p, nil, cp) }

// stands is what a reader of the table has, without what depends on how it went.
func (s *table) stands() map[string]evalstream.Result {
	all := maps.Clone(s.last)
	for key, r := range all {
		r.Through, r.Revision, r.Closed = nil, 0, false
		all[key] = r
	}
	return all
}

// run lets the pipeline run until it ends, as often as the store crashes.
func (s *table) run(t *testing.T, rng *rand.Rand, a stages.Aggregation, recs []evalstream.Record) (crashes int) {
	t.Helper()
	a.Every.Records, a.Upserts = 40, true
	score, err := stages.NewScore(stages.OpenScoring{Panel: a.Panel})
	if err != nil {
		t.Fatal(err)
	}
	aggregate, err := stages.NewAggregate(a)
	if err != nil {
		t.Fatal(err)
	}
	p, err := evalstream.New("law", evalstream.Step{Name: "score", New: score}, evalstream.Step{Name: "aggregate", New: aggregate})
	if err != nil {
		t.Fatal(err)
	}
	for {
		job := evalstream.Job{Pipeline: p, Source: newScatter(rng, recs, 1, 0), Sink: s, Store: s, Workers: 1, CommitBytes: 1 + rng.Int64N(5_000)}
		_, err := job.Run(t.Context())
		if err == nil {
			return crashes
		}
		if !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		crashes++
	}
}

// TestPartialsAfterCrashes looks at the last partial of each key: it is that of a run without
// crashes, byte for byte, also of cells that have emptied.
func TestPartialsAfterCrashes(t *testing.T) {
	families := []struct {
		name string
		make func(*rand.Rand, int) []evalstream.Record
		a    stages.Aggregation
	}{
		{"retrieval", retrievalRecords, stages.Aggregation{By: [][]string{{"run", "ticker"}, {}}, Windows: windows(t, "all", "15m", "1h/20m")}},
		{"fewshot", fewshotRecords, stages.Aggregation{By: [][]string{{"run", "relation"}, {"episode"}}, Windows: windows(t, "all", "30m"), Negative: "no_relation"}},
		{"ratings", ratingRecords, stages.Aggregation{By: [][]string{{}, {"mode"}}, Windows: windows(t, "all", "15m"), Level: metric.OrdinalLevel}},
		{"verdicts", verdictRecords, stages.Aggregation{By: [][]string{{"mode"}, {"ticker"}}, Windows: windows(t, "all", "20m"), Panel: []string{"c", "a", "b"}}},
	}
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			f.a.Partials, f.a.Replayed = true, true
			for seed := range seeds(2) {
				rng := rand.New(rand.NewPCG(seed, 7))
				recs := f.make(rng, 400)
				want, got := newTable(rng, 0), newTable(rng, 6)
				want.run(t, rng, f.a, recs)
				n := got.run(t, rng, f.a, recs)
				empty := 0
				for _, p := range want.partials {
					if p.Cell.N == 0 && p.Family != evalstream.JudgedFamily {
						empty++
					}
				}
				if empty == 0 {
					t.Errorf("seed %d: no cell without scored units", seed)
				}
				if diff := cmp.Diff(want.partials, got.partials); diff != "" {
					t.Fatalf("seed %d, %d crashes: -without +with\n%s", seed, n, diff)
				}
			}
		})
	}
}

// TestUpserts is law 1 for who reads the last result of each key, where it was published
// before a crash too: in the end the final results stand, and nothing else.
func TestUpserts(t *testing.T) {
	families := []struct {
		name string
		make func(*rand.Rand, int) []evalstream.Record
		a    stages.Aggregation
	}{
		{"retrieval", retrievalRecords, stages.Aggregation{By: [][]string{{"run", "ticker"}, {}}, Windows: windows(t, "all", "15m", "1h/20m")}},
		{"retrieval folded", retrievalRecords, stages.Aggregation{By: [][]string{{"ticker"}}, Windows: windows(t, "all", "15m"), MaxGroups: 3}},
		{"fewshot", fewshotRecords, stages.Aggregation{By: [][]string{{"run"}, {"run", "relation"}, {"episode"}}, Windows: windows(t, "all", "30m"), Negative: "no_relation"}},
		{"retrieval over", retrievalRecords, stages.Aggregation{By: [][]string{{"run"}}, Over: "ticker", Windows: windows(t, "all", "5m")}},
		{"fewshot over seeds", fewshotRecords, stages.Aggregation{By: [][]string{{"episode"}, {"relation"}}, Windows: windows(t, "all", "15m"), Over: "seed", Negative: "no_relation"}},
		{"ratings", ratingRecords, stages.Aggregation{By: [][]string{{}, {"mode"}}, Windows: windows(t, "all", "15m"), Level: metric.OrdinalLevel, Bootstrap: 20}},
		{"verdicts", verdictRecords, stages.Aggregation{By: [][]string{{"mode"}, {"ticker"}}, Windows: windows(t, "all", "20m"), Panel: []string{"c", "a", "b"}, Intervals: []string{"wilson"}, MaxGroups: 2}},
	}
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			total := 0
			for seed := range seeds(2) {
				rng := rand.New(rand.NewPCG(seed, 6))
				recs := f.make(rng, 400)
				want := map[string]evalstream.Result{}
				for _, r := range publish(t, rng, f.a, recs, setup{workers: 1, partitions: 1}).final() {
					want[resultKey(r)] = r
				}
				for _, crash := range []int{0, 6} {
					s := newTable(rng, crash)
					n := s.run(t, rng, f.a, recs)
					total += n
					got := s.stands()
					for key, r := range got {
						if !r.Final {
							t.Fatalf("seed %d, %d crashes: %q still stands: %+v", seed, n, key, r)
						}
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Fatalf("seed %d, %d crashes: -pipe +table\n%s", seed, n, diff)
					}
				}
			}
			t.Logf("%d crashes", total)
		})
	}
}
