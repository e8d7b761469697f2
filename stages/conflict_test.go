package stages_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"evalstream"
	"evalstream/stages"
)

// refusing runs score and aggregate with on-conflict reject, over gold of the stream or
// gold that comes first, and returns what came of it and the rejects.
func refusing(t *testing.T, golds, recs []evalstream.Record, frozen bool) (results, rejects string) {
	t.Helper()
	a := stages.Aggregation{By: [][]string{{"run"}, {"ticker"}}, Windows: windows(t, "all", "1d")}
	var refused []string
	refuse := func(out *evalstream.Out) {
		for _, r := range out.Rejects {
			refused = append(refused, r.Fault.Reason)
		}
		out.Rejects = nil
	}
	must := func(instance func() (evalstream.Stage, error), err error) evalstream.Stage {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		s, err := instance()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	var score evalstream.Stage
	var out evalstream.Out
	if frozen {
		gold := stages.NewGold("")
		gold.OnConflict(stages.Refuse)
		if err := gold.Process(t.Context(), golds, &out); err != nil {
			t.Fatal(err)
		}
		refuse(&out)
		gold.Seal()
		a.Conflict = stages.Refuse
		score = must(stages.NewScoreFrozen(stages.Scoring{}, gold))
	} else {
		recs = append(append([]evalstream.Record(nil), golds...), recs...)
		score = must(stages.NewScore(stages.OpenScoring{Conflict: stages.Refuse}))
	}
	aggregate := must(stages.NewAggregate(a))
	pass := func(act func(*evalstream.Out) error) {
		t.Helper()
		var out, next evalstream.Out
		if err := act(&out); err != nil {
			t.Fatal(err)
		}
		refuse(&out)
		if len(out.Records) > 0 {
			if err := aggregate.Process(t.Context(), out.Records, &next); err != nil {
				t.Fatal(err)
			}
			refuse(&next)
		}
	}
	for i := range recs {
		recs[i].Seq = evalstream.Seq(i)
		pass(func(out *evalstream.Out) error { return score.Process(t.Context(), recs[i:i+1], out) })
	}
	pass(func(out *evalstream.Out) error {
		return score.(evalstream.Timed).Advance(t.Context(), evalstream.EndOfTime, out)
	})
	var end evalstream.Out
	if err := aggregate.(evalstream.Timed).Advance(t.Context(), evalstream.EndOfTime, &end); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, r := range end.Records {
		b := r.Body.(*evalstream.Result)
		lines = append(lines, fmt.Sprint(b.Metric, b.By, b.Window, b.N, b.Unjudged, b.Missing, b.Value))
	}
	return strings.Join(lines, "\n"), strings.Join(refused, "\n")
}

// TestConflicts checks that a second, different record of a slot is refused in the same
// way over gold of the stream and gold that comes first, and a repeat in neither.
func TestConflicts(t *testing.T) {
	ticker := func(r evalstream.Record, name string) evalstream.Record {
		r.Body.(*evalstream.Run).Slices = []evalstream.Slice{{Name: "ticker", Value: literal(name)}}
		return r
	}
	withdrawn := gold("q", "p", 0)
	withdrawn.Body.(*evalstream.Qrel).Withdrawn = true
	label := func(gold string) evalstream.Record {
		return evalstream.Record{Time: evalstream.NoTime, Body: &evalstream.Prediction{Episode: "1", Query: "1", Gold: gold, HasGold: true}}
	}
	says := func(label string, d float64) evalstream.Record {
		return evalstream.Record{Time: day(d), Body: &evalstream.Prediction{Episode: "1", Query: "1", Run: "a", Label: label, HasLabel: true}}
	}
	f := func(name string, golds, recs []evalstream.Record, want int) {
		t.Helper()
		open, refusedOpen := refusing(t, golds, recs, false)
		frozen, refusedFrozen := refusing(t, golds, recs, true)
		if diff := gocmp.Diff(open, frozen); diff != "" || open == "" {
			t.Errorf("%s: -open +frozen\n%s", name, diff)
		}
		for _, refused := range []string{refusedOpen, refusedFrozen} {
			if n := strings.Count(refused, "--on-conflict replace takes the newer one"); n != want {
				t.Errorf("%s: want %d refused, got %d: %s", name, want, n, refused)
			}
		}
	}
	one := []evalstream.Record{gold("q", "p", 1)}
	same := ticker(runAt("q", "a", 1, "p"), "T")
	f("a repeat", one, []evalstream.Record{same, ticker(runAt("q", "a", 1, "p"), "T")}, 0)
	f("another list", one, []evalstream.Record{same, ticker(runAt("q", "a", 1, "x"), "T")}, 1)
	f("another ticker", one, []evalstream.Record{same, ticker(runAt("q", "a", 1, "p"), "U")}, 1)
	f("another day", one, []evalstream.Record{same, ticker(runAt("q", "a", 2, "p"), "T")}, 1)
	f("the first again", one, []evalstream.Record{same, ticker(runAt("q", "a", 2, "x"), "U"), same}, 1)
	f("a judgment again", append(one, one...), []evalstream.Record{same}, 0)
	f("another grade", append(one, gold("q", "p", 0), gold("q", "p", 2), gold("q", "x", 0)), []evalstream.Record{same}, 2)
	f("grades below 0", []evalstream.Record{gold("q", "p", 1), gold("q", "x", -1), gold("q", "x", -2)}, []evalstream.Record{same}, 0)
	f("withdrawn", append(one, withdrawn), []evalstream.Record{same}, 1)
	f("withdrawn first", []evalstream.Record{withdrawn, withdrawn, gold("q", "p", -1), gold("q", "x", 1)}, []evalstream.Record{same}, 1)
	f("another gold label", []evalstream.Record{label("x"), label("y"), label("x")}, []evalstream.Record{says("x", 1), says("x", 1)}, 1)
	f("another label", []evalstream.Record{label("x")}, []evalstream.Record{says("x", 1), says("y", 1), says("x", 2)}, 2)

	for seed := range seeds(20) {
		rng := rand.New(rand.NewPCG(seed, 9))
		var golds, recs []evalstream.Record
		for range 200 {
			q := fmt.Sprint("q", rng.IntN(40))
			if rng.IntN(3) == 0 {
				golds = append(golds, gold(q, fmt.Sprint("p", rng.IntN(4)), int32(rng.IntN(3))))
			} else {
				recs = append(recs, ticker(runAt(q, fmt.Sprint("m", rng.IntN(2)), float64(rng.IntN(2)), fmt.Sprint("p", rng.IntN(4))), fmt.Sprint(rng.IntN(2))))
			}
		}
		open, _ := refusing(t, golds, recs, false)
		frozen, _ := refusing(t, golds, recs, true)
		if diff := gocmp.Diff(open, frozen); diff != "" {
			t.Fatalf("seed %d: -open +frozen\n%s", seed, diff)
		}
	}
}
