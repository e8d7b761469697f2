package metric

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type cell struct {
	Pattern string
	Units   int64
}

func cells(h *Histogram) []cell {
	var out []cell
	for pattern, units := range h.All() {
		out = append(out, cell{pattern, units})
	}
	return out
}

func TestHistogram(t *testing.T) {
	f := func(units [][]string, want ...cell) {
		t.Helper()
		var h Histogram
		for _, u := range units {
			h.Add(u)
		}
		if d := cmp.Diff(want, cells(&h)); d != "" {
			t.Errorf("%v: (-want +got)\n%s", units, d)
		}
	}
	f(nil)
	f([][]string{{}})
	f([][]string{{"4", "3", "4"}, {"3", "4", "4"}}, cell{"1:3*1;1:4*2;", 2})
	f([][]string{{"a*1;1:b", ""}}, cell{"0:*1;7:a*1;1:b*1;", 1})
}

// randomUnits returns units of up to five ratings, some of them with marks of the pattern's own form.
func randomUnits(rng *rand.Rand, n int) [][]string {
	literals := []string{"1", "1.0", "2", "a:b", "*3;", "é"}
	units := make([][]string, n)
	for i := range units {
		for range 1 + rng.IntN(5) {
			units[i] = append(units[i], literals[rng.IntN(len(literals))])
		}
	}
	return units
}

func TestHistogramAddsTakesBackAndMerges(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for range 50 {
		units := randomUnits(rng, 60)
		var all, first, second, back Histogram
		for i, u := range units {
			all.Add(u)
			if i < 20 {
				first.Add(u)
			} else {
				second.Add(u)
			}
		}
		rng.Shuffle(len(units), func(i, j int) { units[i], units[j] = units[j], units[i] })
		var shuffled Histogram
		for _, u := range units {
			rng.Shuffle(len(u), func(i, j int) { u[i], u[j] = u[j], u[i] })
			back.Remove(u) // before it was added: the order of changes does not matter
			shuffled.Add(u)
		}
		if d := cmp.Diff(cells(&all), cells(&shuffled)); d != "" {
			t.Fatalf("order matters: %s", d)
		}
		var merged Histogram
		merged.Merge(&second)
		merged.Merge(&first)
		if d := cmp.Diff(cells(&all), cells(&merged)); d != "" {
			t.Fatalf("merge: %s", d)
		}
		if all.Units() != 60 {
			t.Fatalf("%d units, want 60", all.Units())
		}
		merged.Subtract(&first)
		if d := cmp.Diff(cells(&second), cells(&merged)); d != "" {
			t.Fatalf("subtract: %s", d)
		}
		back.Merge(&all)
		if got := cells(&back); got != nil {
			t.Fatalf("removing all leaves %v", got)
		}
	}
}

func TestAlphaIsFreeOfOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	var h Histogram
	for range 500 {
		h.Add([]string{"0.1", "0.7", "2", "33"}[rng.IntN(4):])
		h.Add([]string{"0.1", "33"})
	}
	literals, err := h.Literals()
	if err != nil {
		t.Fatal(err)
	}
	for level := NominalLevel; level <= RatioLevel; level++ {
		d, err := OrderDomain(level, literals, nil)
		if err != nil {
			t.Fatal(err)
		}
		counts, err := h.Counts(d)
		if err != nil {
			t.Fatal(err)
		}
		r := Resampling{Replicas: 50, Seed: 1, Confidence: 0.9}
		want, wantInterval := Alpha(d, counts), PoissonBootstrap(d, counts, r)
		for range 10 {
			rng.Shuffle(len(counts), func(i, j int) { counts[i], counts[j] = counts[j], counts[i] })
			split := slices.Clone(counts)
			if split[0].Units > 1 {
				split = append(split, PatternCount{split[0].Pattern, 1})
				split[0].Units--
			}
			if diff := cmp.Diff(want, Alpha(d, split)); diff != "" {
				t.Fatalf("%s: (-want +got)\n%s", level, diff)
			}
			if diff := cmp.Diff(wantInterval, PoissonBootstrap(d, split, r)); diff != "" {
				t.Fatalf("%s: (-want +got)\n%s", level, diff)
			}
		}
	}
}

func TestHistogramRejectsForeignPatterns(t *testing.T) {
	f := func(pattern string) {
		t.Helper()
		var h Histogram
		h.AddPattern(pattern, 1)
		want := "pattern " + quoted(pattern) + ": want length:literal*count; for each literal"
		if _, err := h.Literals(); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", pattern, err, want)
		}
		if _, err := h.Counts(Domain{}); err == nil {
			t.Errorf("%q: want an error", pattern)
		}
	}
	for _, pattern := range []string{"x", "1:", "1:a", "1:a*", "1:a*1", "1:a*0;", "1:a*x;", "2:a*1;", "-1:a*1;", "99:a*1;", "1:a*1;1"} {
		f(pattern)
	}
	var h Histogram
	h.Add([]string{"x", "y"})
	d, err := OrderDomain(NominalLevel, []string{"x"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Counts(d); err == nil || err.Error() != `value "y" is not in the domain` {
		t.Errorf("got %v", err)
	}
}
