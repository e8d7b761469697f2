package stages_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"evalstream"
	"evalstream/stages"
	"evalstream/stages/metric"
)

// shelves is a store in memory whose commits fail now and then: before or after they
// have taken effect, as a kill would have it.
type shelves struct {
	mu      sync.Mutex
	rng     *rand.Rand
	crash   int // one commit in so many crashes; 0: none
	entries map[string]map[string]string
	points  map[int32]evalstream.Checkpoint
	commits int
}

var errCrash = errors.New("crash")

func newShelves(rng *rand.Rand, crash int) *shelves {
	return &shelves{rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), crash: crash, entries: map[string]map[string]string{}, points: map[int32]evalstream.Checkpoint{}}
}

func (s *shelves) Partitions() ([]int32, error) { return slices.Sorted(maps.Keys(s.points)), nil }

func (s *shelves) Checkpoint(p int32) (*evalstream.Checkpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cp, ok := s.points[p]
	if !ok {
		return nil, nil
	}
	cp = copied(cp)
	return &cp, nil
}

func copied(cp evalstream.Checkpoint) evalstream.Checkpoint {
	cp.ByClass, cp.Places, cp.Front, cp.Counters = maps.Clone(cp.ByClass), slices.Clone(cp.Places), slices.Clone(cp.Front), slices.Clone(cp.Counters)
	return cp
}

func shelfName(step string, p int32) string { return fmt.Sprintf("%s/%d", step, p) }

func (s *shelves) Scan(step string, p int32, from []byte, f func(key, val []byte) (bool, error)) error {
	s.mu.Lock()
	es := maps.Clone(s.entries[shelfName(step, p)])
	s.mu.Unlock()
	for _, k := range slices.Sorted(maps.Keys(es)) {
		if k < string(from) {
			continue
		}
		if more, err := f([]byte(k), []byte(es[k])); err != nil || !more {
			return err
		}
	}
	return nil
}

func (s *shelves) Get(dst []byte, step string, p int32, key []byte) ([]byte, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.entries[shelfName(step, p)][string(key)]
	return append(dst, v...), ok, nil
}

func (s *shelves) Commit(p int32, changes []evalstream.StepChanges, cp *evalstream.Checkpoint) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	crash := s.crash > 0 && s.rng.IntN(s.crash) == 0
	if crash && s.rng.IntN(2) == 0 {
		return errCrash
	}
	s.commits++
	for _, c := range changes {
		name := shelfName(c.Step, p)
		if s.entries[name] == nil {
			s.entries[name] = map[string]string{}
		}
		for _, e := range c.Changes {
			if e.Val == nil {
				delete(s.entries[name], string(e.Key))
			} else {
				s.entries[name][string(e.Key)] = string(e.Val)
			}
		}
	}
	s.points[p] = copied(*cp)
	if crash {
		return errCrash
	}
	return nil
}

// kept is a run of a pipeline: what it published at the end, and what it counted.
type outcome struct {
	Final   []evalstream.Result
	Reviews map[string]evalstream.Review
	Summary evalstream.Summary
	Rejects []string
}

// rejectLines is a sink of rejects that is cut back.
type rejectLines struct{ lines []string }

func (r *rejectLines) Write(_ context.Context, recs []evalstream.Record) error {
	for _, rec := range recs {
		b := rec.Body.(*evalstream.Rejected)
		r.lines = append(r.lines, fmt.Sprint(b.At.Line, b.Stage, b.Class, b.Reason))
	}
	return nil
}
func (*rejectLines) Flush(context.Context) error { return nil }
func (r *rejectLines) Length() (int64, error)    { return int64(len(r.lines)), nil }
func (r *rejectLines) CutBack(n int64) error {
	r.lines = r.lines[:n]
	return nil
}

// standing is what a reader of a run's results is left with: the last of each key, if
// it is final. One that is withdrawn is not.
func standing(all []evalstream.Result) []evalstream.Result {
	last := map[string]evalstream.Result{}
	for _, r := range all {
		last[resultKey(r)] = r
	}
	out := &results{all: slices.Collect(maps.Values(last))}
	return out.final()
}

type trial struct {
	workers, partitions int
	memory              int64
	every               int64
	horizon, disorder   time.Duration
	gold                func() *stages.Gold
	by                  stages.Aggregation
	aggregateOnly       bool // the records are scores
}

// survive runs the pipeline until it ends, as often as the store crashes.
func survive(t *testing.T, rng *rand.Rand, store *shelves, recs []evalstream.Record, s trial) (o outcome, crashes int) {
	t.Helper()
	rejects := new(rejectLines)
	out := new(results) // reviews are an output of score: those of all runs count
	var before []evalstream.Result
	for {
		a := s.by
		var score func() (evalstream.Stage, error)
		var err error
		if s.gold != nil {
			score, err = stages.NewScoreFrozen(stages.Scoring{}, s.gold())
		} else {
			score, err = stages.NewScore(stages.OpenScoring{Horizon: s.horizon, MaxOutOfOrder: s.disorder, Panel: a.Panel})
		}
		if err != nil {
			t.Fatal(err)
		}
		a.Every.Records, a.Partials, a.Horizon, a.MaxOutOfOrder = s.every, s.partitions > 1, s.horizon, s.disorder
		aggregate, err := stages.NewAggregate(a)
		if err != nil {
			t.Fatal(err)
		}
		steps := []evalstream.Step{{Name: "score", New: score}, {Name: "aggregate", New: aggregate}}
		if s.aggregateOnly {
			steps = steps[1:]
		}
		if a.Partials {
			merge, err := stages.NewMerge(a)
			if err != nil {
				t.Fatal(err)
			}
			steps = append(steps, evalstream.Step{Name: "merge", New: merge, Gather: true})
		}
		p, err := evalstream.New("law", steps...)
		if err != nil {
			t.Fatal(err)
		}
		out.all = before // what was final before a crash does not come again
		job := evalstream.Job{
			Pipeline: p, Source: newScatter(rng, recs, s.partitions, 0), Sink: out, Workers: s.workers, Partitions: int32(s.partitions),
			MaxOutOfOrder: s.disorder, StateMemory: s.memory, CommitBytes: 1 + rng.Int64N(20_000),
		}
		if store != nil {
			job.Store = store
		}
		if s.partitions == 1 {
			job.Rejects = rejects
		}
		sum, err := job.Run(t.Context())
		if errors.Is(err, errCrash) {
			crashes++
			before = slices.DeleteFunc(out.all, func(r evalstream.Result) bool { return !r.Final })
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range sum.Unbalanced() {
			t.Errorf("records vanished: %+v", bad)
		}
		sum.Tallies = slices.DeleteFunc(sum.Tallies, func(t evalstream.Tally) bool { return t.Step == "merge" })
		return outcome{Final: standing(out.all), Reviews: out.reviews, Summary: sum, Rejects: rejects.lines}, crashes
	}
}

// TestCrash is law 1 for crash points: a job that was killed at any commits and went
// on ends with the results, the counters and the rejects of one that was not, however
// little memory it has.
func TestCrash(t *testing.T) {
	families := []struct {
		name string
		make func(*rand.Rand, int) []evalstream.Record
		a    stages.Aggregation
	}{
		{"retrieval", retrievalRecords, stages.Aggregation{By: [][]string{{"run"}, {"run", "ticker"}, {}}, Windows: windows(t, "all", "1h", "1h/15m")}},
		{"fewshot", fewshotRecords, stages.Aggregation{By: [][]string{{"run"}, {"run", "relation"}, {"seed"}}, Windows: windows(t, "all"), Negative: "no_relation"}},
		{"positions", positionRecords, stages.Aggregation{By: [][]string{{"run"}, {"relation"}}, Windows: windows(t, "all", "2h"), Negative: "no_relation"}},
		{"verdicts", verdictRecords, stages.Aggregation{By: [][]string{{"mode"}, {"ticker"}}, Windows: windows(t, "all", "2h"), Panel: []string{"c", "a", "b"}, Intervals: []string{"wilson"}}},
		{"ratings", ratingRecords, stages.Aggregation{By: [][]string{{}, {"mode"}}, Windows: windows(t, "all", "1h"), Level: metric.OrdinalLevel, Bootstrap: 20}},
	}
	total := 0
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			for seed := range seeds(1) {
				for _, horizon := range []time.Duration{0, 30 * time.Minute} {
					rng := rand.New(rand.NewPCG(seed, 3))
					recs := f.make(rng, 600)
					if horizon > 0 {
						inTime(recs)
					}
					s := trial{partitions: 1, workers: 1, by: f.a, horizon: horizon, disorder: 5 * time.Minute, every: 50}
					want, _ := survive(t, rng, nil, recs, s)
					for _, memory := range []int64{0, 1, 20_000} {
						s.memory, s.workers = memory, 1+rng.IntN(4)
						got, n := survive(t, rng, newShelves(rng, 4), recs, s)
						total += n
						if diff := compare(want, got); diff != "" {
							t.Fatalf("seed %d, horizon %v, memory %d, %d crashes: -want +got\n%s", seed, horizon, memory, n, diff)
						}
					}
				}
			}
		})
	}
	t.Logf("%d crashes", total)
}

// inTime puts records in about the order of their times.
func inTime(recs []evalstream.Record) {
	slices.SortStableFunc(recs, func(a, b evalstream.Record) int {
		return cmp.Compare(a.Time/evalstream.Time(10*time.Minute), b.Time/evalstream.Time(10*time.Minute))
	})
}

func compare(want, got outcome) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	return gocmp.Diff(want, got)
}

// positionRecords are predictions that only their position identifies, among others.
func positionRecords(rng *rand.Rand, n int) []evalstream.Record {
	recs := fewshotRecords(rng, n)
	for i := range recs {
		if p := recs[i].Body.(*evalstream.Prediction); p.HasLabel && rng.IntN(2) == 0 {
			p.Episode, p.Query = "", ""
			p.HasGold, p.Gold = true, "org:founded"
		}
	}
	return recs
}

// TestCrashPartitions is TestCrash over several partitions, whose cells are merged; with a
// horizon, of windows too that are final before a crash.
func TestCrashPartitions(t *testing.T) {
	for seed := range seeds(4) {
		rng := rand.New(rand.NewPCG(seed, 4))
		recs := retrievalRecords(rng, 800)
		inTime(recs)
		s := trial{partitions: 3, workers: 2, horizon: time.Duration(seed/2) * 30 * time.Minute, disorder: 15 * time.Minute, by: stages.Aggregation{By: [][]string{{"run"}, {"ticker"}}, Windows: windows(t, "all", "1h")}, every: 70}
		want, _ := survive(t, rng, nil, recs, s)
		s.memory = int64(seed % 2)
		got, n := survive(t, rng, newShelves(rng, 4), recs, s)
		if diff := compare(want, got); diff != "" {
			t.Fatalf("seed %d, %d crashes: -want +got\n%s", seed, n, diff)
		}
	}
}

// TestCrashFrozen is TestCrash with gold that comes first.
func TestCrashFrozen(t *testing.T) {
	for seed := range seeds(4) {
		rng := rand.New(rand.NewPCG(seed, 5))
		var golds, recs []evalstream.Record
		for _, r := range retrievalRecords(rng, 800) {
			if r.Body.Kind() == "qrel" {
				golds = append(golds, r)
			} else if r.Seq++; rng.IntN(3) > 0 {
				recs = append(recs, r)
			}
		}
		for q := range 400 { // some that nothing asks for
			golds = append(golds, evalstream.Record{Body: &evalstream.Qrel{QueryID: fmt.Sprint("x", q), PassageID: "p", Grade: 1}})
		}
		gold := func() *stages.Gold {
			g := stages.NewGold("")
			var out evalstream.Out
			if err := g.Process(t.Context(), golds, &out); err != nil || len(out.Rejects) > 0 {
				t.Fatal(err, out.Rejects)
			}
			g.Seal()
			return g
		}
		s := trial{partitions: 1, workers: 3, gold: gold, by: stages.Aggregation{By: [][]string{{"run"}, {"ticker"}}, Windows: windows(t, "all", "1h")}}
		want, _ := survive(t, rng, nil, recs, s)
		s.memory = int64(seed % 2)
		got, n := survive(t, rng, newShelves(rng, 3), recs, s)
		if diff := compare(want, got); diff != "" {
			t.Fatalf("seed %d, %d crashes: -want +got\n%s", seed, n, diff)
		}
	}
}
