package cli

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

const fewshotFile = testdata + "fewshot/predictions_k1_seed160290.ndjson.gz"

// labelCounts is what precision, recall and F1 are made of.
type labelCounts struct {
	Correct, Guessed, Gold int64
	P, R, F1               float64
}

// fewshotGolden is golden.json.
type fewshotGolden struct {
	Runs []struct {
		K       int `json:"k_shot"`
		Seed    int
		Systems map[string]labelCounts
	}
	Spread map[string]map[string][2]float64 `json:"mean_and_sample_std"`
}

func checkCounts(t *testing.T, rs []published, system string, c labelCounts) {
	t.Helper()
	for metric, want := range map[string]struct {
		ratio string
		value float64
	}{
		"precision": {fmt.Sprintf("%d/%d", c.Correct, c.Guessed), c.P},
		"recall":    {fmt.Sprintf("%d/%d", c.Correct, c.Gold), c.R},
		"f1":        {fmt.Sprintf("%d/%d", 2*c.Correct, c.Guessed+c.Gold), c.F1},
	} {
		r := find(t, rs, metric, whose("run", system))
		if r.ratio() != want.ratio || math.Abs(r.value()-want.value) > 1e-12 {
			t.Errorf("%s of %s: %s = %v, want %s = %v", metric, system, r.ratio(), r.value(), want.ratio, want.value)
		}
	}
}

func TestFewshotCounts(t *testing.T) {
	var golden fewshotGolden
	load(t, "fewshot/golden.json", &golden)
	rs := succeed(t, "", "eval", "fewshot", fewshotFile).finals(t)
	if golden.Runs[0].K != 1 || golden.Runs[0].Seed != 160290 || len(golden.Runs[0].Systems) != 3 {
		t.Fatalf("golden.json begins with %+v", golden.Runs[0])
	}
	for system, c := range golden.Runs[0].Systems {
		checkCounts(t, rs, system, c)
		if r := find(t, rs, "f1", whose("run", system)); r.N != 30000 || r.NoInterval == "" || len(r.Interval) != 0 {
			t.Errorf("f1 of %s: n %d, %d intervals (%q); want 30000 and none, with a reason", system, r.N, len(r.Interval), r.NoInterval)
		}
		if r := find(t, rs, "macro_f1", whose("run", system)); r.Of != 10 || r.ratio() != "none" {
			t.Errorf("macro_f1 of %s: of %d, %s; want 10 relations and no ratio", system, r.Of, r.ratio())
		}
	}
}

// predictions writes lines that have exactly these counts: first the correct ones, then guesses where gold is another
// relation, or none; then gold that nothing was guessed for; then agreement on no relation, which counts nowhere.
func predictions(b *strings.Builder, seed, k int, system string, c labelCounts) {
	episode := 0
	line := func(label, gold string) {
		fmt.Fprintf(b, `{"dataset":"d","seed":%d,"k":%d,"episode":%d,"query":0,"run":%q,"label":%q,"gold":%q}`+"\n", seed, k, episode, system, label, gold)
		episode++
	}
	for range c.Correct {
		line("per:children", "per:children")
	}
	wrong, missed := c.Guessed-c.Correct, c.Gold-c.Correct
	both := min(wrong, missed) / 2
	for range both {
		line("org:founded_by", "per:origin")
	}
	for range wrong - both {
		line("org:founded_by", "no_relation")
	}
	for range missed - both {
		line("no_relation", "per:origin")
	}
	for range 7 {
		line("no_relation", "no_relation")
	}
}

func TestFewshotOverSeedsOfGolden(t *testing.T) {
	var golden fewshotGolden
	load(t, "fewshot/golden.json", &golden)
	var b strings.Builder
	means := map[string][]labelCounts{}
	for _, run := range golden.Runs {
		if run.K != 1 {
			continue
		}
		for system, c := range run.Systems {
			predictions(&b, run.Seed, run.K, system, c)
			means[system] = append(means[system], c)
		}
	}
	bySeed := succeed(t, b.String(), "eval", "fewshot", "--by", "run,seed").finals(t)
	rs := succeed(t, b.String(), "eval", "fewshot", "--over", "seed").finals(t)
	for system, seeds := range means {
		if len(seeds) < 3 {
			t.Fatalf("%s: %d seeds", system, len(seeds))
		}
		for metric, of := range map[string]func(labelCounts) float64{
			"precision": func(c labelCounts) float64 { return c.P },
			"recall":    func(c labelCounts) float64 { return c.R },
			"f1":        func(c labelCounts) float64 { return c.F1 },
		} {
			var values []float64
			for _, c := range seeds {
				values = append(values, of(c))
			}
			mean, sd := meanAndDeviation(values)
			r := find(t, rs, metric, whose("run", system))
			if r.N != int64(len(seeds)) || r.Over != "seed" || r.ratio() != "none" || r.SD == nil {
				t.Fatalf("%s of %s: %+v; want a mean over %d seeds", metric, system, r, len(seeds))
			}
			if math.Abs(r.value()-mean) > 1e-12 || math.Abs(*r.SD-sd) > 1e-12 {
				t.Errorf("%s of %s: %v ± %v, want %v ± %v", metric, system, r.value(), *r.SD, mean, sd)
			}
		}
	}
	for _, run := range golden.Runs {
		for system, c := range run.Systems {
			if run.K != 1 {
				continue
			}
			checkCounts(t, keep(bySeed, "seed", fmt.Sprint(run.Seed)), system, c)
		}
	}
}

// keep is the results whose field has a value, as text.
func keep(rs []published, name, value string) []published {
	var kept []published
	for _, r := range rs {
		if fmt.Sprintf("%.0f", r.By[name]) == value || r.By[name] == value {
			kept = append(kept, r)
		}
	}
	return kept
}

// meanAndDeviation is the mean and the sample standard deviation.
func meanAndDeviation(values []float64) (mean, sd float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		sd += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(sd / float64(len(values)-1))
}

// TestFewshotOverOwnSeeds: F1 of the seeds is 2/3, 1/2 and 0. Their mean is not the F1 of all labels together, 12/26.
func TestFewshotOverOwnSeeds(t *testing.T) {
	var b strings.Builder
	predictions(&b, 1, 5, "a", labelCounts{Correct: 4, Guessed: 6, Gold: 6})
	predictions(&b, 2, 5, "a", labelCounts{Correct: 2, Guessed: 3, Gold: 5})
	predictions(&b, 3, 5, "a", labelCounts{Correct: 0, Guessed: 4, Gold: 2})
	predictions(&b, 4, 5, "b", labelCounts{Correct: 1, Guessed: 1, Gold: 1})

	rs := succeed(t, b.String(), "eval", "fewshot", "--over", "seed", "--by", "run", "--by", "").finals(t)
	a := find(t, rs, "f1", whose("run", "a"))
	if want := (2./3 + 1./2 + 0) / 3; math.Abs(a.value()-want) > 1e-12 || a.N != 3 {
		t.Errorf("f1 %v over %d seeds, want %v over 3", a.value(), a.N, want)
	}
	one := find(t, rs, "f1", whose("run", "b"))
	if one.value() != 1 || one.N != 1 || one.SD != nil {
		t.Errorf("f1 %v ± %v over %d seeds, want 1 over 1 without deviation", one.value(), one.SD, one.N)
	}
	all := find(t, rs, "f1", func(p *published) bool { return len(p.By) == 0 })
	if want := (2./3 + 1./2 + 0 + 1) / 4; math.Abs(all.value()-want) > 1e-12 || all.N != 4 {
		t.Errorf("pooled: f1 %v over %d seeds, want %v over 4", all.value(), all.N, want)
	}
	plain := succeed(t, b.String(), "eval", "fewshot").finals(t)
	if got := find(t, plain, "f1", whose("run", "a")).ratio(); got != "12/26" {
		t.Errorf("f1 of all labels: %s, want 12/26", got)
	}
}

// TestFewshotRelations follows one table by hand:
//
//	label gold       a guess counts with its label, gold and correct with the gold label
//	A     A    ×2    A: correct 2, guessed 3, gold 3
//	A     B          B: correct 1, guessed 2, gold 2
//	B     B          C: correct 0, guessed 0, gold 1
//	B     NOTA       D: correct 0, guessed 1, gold 0
//	NOTA  C
//	D     A
//	NOTA  NOTA
func TestFewshotRelations(t *testing.T) {
	var b strings.Builder
	for i, p := range []string{"A A", "A A", "A B", "B B", "B N", "N C", "D A", "N N"} {
		fmt.Fprintf(&b, `{"episode":%d,"query":0,"run":"x","label":%q,"gold":%q}`+"\n", i, p[:1], p[2:])
	}
	args := []string{"eval", "fewshot", "--negative", "N", "--by", "relation", "--by", "run", "--by", "run,relation"}
	rs := succeed(t, b.String(), args...).finals(t)
	for relation, want := range map[string][3]string{
		"A": {"2/3", "2/3", "4/6"},
		"B": {"1/2", "1/2", "2/4"},
		"C": {"0/0", "0/1", "0/1"},
		"D": {"0/1", "0/0", "0/1"},
	} {
		for _, fields := range []int{1, 2} {
			of := func(p *published) bool { return p.By["relation"] == relation && len(p.By) == fields }
			got := [3]string{find(t, rs, "precision", of).ratio(), find(t, rs, "recall", of).ratio(), find(t, rs, "f1", of).ratio()}
			if got != want {
				t.Errorf("relation %s: precision, recall, f1 %v, want %v", relation, got, want)
			}
		}
	}
	run := func(p *published) bool { return p.By["run"] == "x" && len(p.By) == 1 }
	if got := find(t, rs, "precision", run).ratio() + " " + find(t, rs, "recall", run).ratio() + " " + find(t, rs, "f1", run).ratio(); got != "3/6 3/6 6/12" {
		t.Errorf("micro precision, recall, f1 %s, want 3/6 3/6 6/12", got)
	}
	// Precision where nothing was guessed, of C, is 1 as in TACRED's scorer, or what --zero-division says.
	for zero, want := range map[string]float64{"one": (2./3 + .5 + 1 + 0) / 4, "zero": (2./3 + .5 + 0 + 0) / 4} {
		rs := succeed(t, b.String(), append(args, "--zero-division", zero)...).finals(t)
		if r := find(t, rs, "macro_precision", run); math.Abs(r.value()-want) > 1e-12 || r.Of != 4 {
			t.Errorf("--zero-division %s: macro_precision %v of %d relations, want %v of 4", zero, r.value(), r.Of, want)
		}
	}
	rs = succeed(t, b.String(), append(args, "--zero-division", "null")...).finals(t)
	if r := find(t, rs, "precision", func(p *published) bool { return p.By["relation"] == "C" && len(p.By) == 1 }); r.Value != nil || r.Undefined == "" {
		t.Errorf("--zero-division null: precision %v (%q), want null and a reason", r.value(), r.Undefined)
	}
}
