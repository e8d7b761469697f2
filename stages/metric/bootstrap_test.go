package metric

import (
	"math"
	"testing"
)

func counted(t *testing.T, level Level, units [][]string) (Domain, []PatternCount) {
	t.Helper()
	var h Histogram
	for _, u := range units {
		h.Add(u)
	}
	literals, err := h.Literals()
	if err != nil {
		t.Fatal(err)
	}
	d, err := OrderDomain(level, literals, nil)
	if err != nil {
		t.Fatal(err)
	}
	counts, err := h.Counts(d)
	if err != nil {
		t.Fatal(err)
	}
	return d, counts
}

func TestPoissonBootstrap(t *testing.T) {
	// Intervals of other programs over units, from 20,000 replicas: they differ by the draws only.
	f := func(name string, units [][]string, low, high, tolerance float64) {
		t.Helper()
		d, counts := counted(t, NominalLevel, units)
		got := PoissonBootstrap(d, counts, Resampling{Replicas: 4000, Seed: 1, Confidence: 0.95})
		if math.Abs(got.Interval.Low-low) > tolerance || math.Abs(got.Interval.High-high) > tolerance || got.Undefined != "" {
			t.Errorf("%s: %+v, want [%v, %v]", name, got, low, high)
		}
	}
	f("pandalm", readRatings(t, "pandalm/pandalm_ratings.ndjson", []string{"human1", "human2", "human3"}), 0.841, 0.886, 0.003)
	f("newsroom", readRatings(t, "human/newsroom_ratings.ndjson", []string{"relevance"}), 0.031, 0.097, 0.004)

	var golden struct{ Vectors []vector }
	readJSON(t, "alpha_vectors.json", &golden)
	for _, v := range golden.Vectors {
		if v.Name == "k2011_C_string_labels" {
			units, _ := v.units(t)
			f("example C", units, 0.397, 1, 0.02)
		}
	}
}

func TestPoissonBootstrapLeavesOutUndefinedReplicas(t *testing.T) {
	units := [][]string{{"1", "1", "0"}}
	for range 49 {
		units = append(units, []string{"1", "1", "1"})
	}
	d, counts := counted(t, NominalLevel, units)
	got := PoissonBootstrap(d, counts, Resampling{Replicas: 10_000, Seed: 2, Confidence: 0.95})
	// The dissenting unit is drawn 0 times with probability 1/e.
	if share := 1 - float64(got.Used)/10_000; math.Abs(share-1/math.E) > 0.015 {
		t.Errorf("%d of 10000 replicas used", got.Used)
	}
	if got.Interval.Low > 0 || got.Interval.High > 0.01 || got.Undefined != "" {
		t.Errorf("got %+v", got)
	}
}

func TestPoissonBootstrapUndefined(t *testing.T) {
	f := func(units [][]string, want string) {
		t.Helper()
		d, counts := counted(t, NominalLevel, units)
		got := PoissonBootstrap(d, counts, Resampling{Replicas: 10, Confidence: 0.95})
		if got.Undefined != want || got.Used != 0 {
			t.Errorf("%v: %+v, want %s", units, got, want)
		}
	}
	f(nil, NoPairable)
	f([][]string{{"1", "1"}}, NoVariation)
}

// The figures are those of testdata/bootstrap.py, a second implementation: draws must not change with machine, Go version or order.
func TestPoissonBootstrapIsPinned(t *testing.T) {
	d, counts := counted(t, OrdinalLevel, readRatings(t, "human/newsroom_ratings.ndjson", []string{"fluency"}))
	got := PoissonBootstrap(d, counts, Resampling{Replicas: 200, Seed: 7, Confidence: 0.9})
	if got.Used != 200 || math.Abs(got.Interval.Low-(-0.06430605629863477)) > 1e-13 || math.Abs(got.Interval.High-0.025344885909556077) > 1e-13 {
		t.Errorf("got %+v", got)
	}
	other := PoissonBootstrap(d, counts, Resampling{Replicas: 200, Seed: 8, Confidence: 0.9})
	if other.Interval == got.Interval {
		t.Error("another seed gives the same interval")
	}
}

func TestPoissonTable(t *testing.T) {
	for _, mean := range []int64{1, 2, 3, 10, 100, 12345, 1_000_000} {
		table := newPoisson(mean)
		total := table.cumulative[len(table.cumulative)-1]
		// The exact probability of each k, by log-gamma.
		previous, first, second := 0.0, 0.0, 0.0
		for i, c := range table.cumulative {
			k := float64(table.least + int64(i))
			gamma, _ := math.Lgamma(k + 1)
			want := math.Exp(k*math.Log(float64(mean)) - float64(mean) - gamma)
			if got := (c - previous) / total; math.Abs(got-want) > 1e-13+1e-8*want {
				t.Fatalf("mean %d: P(%v) = %v, want %v", mean, k, got, want)
			}
			first += (c - previous) / total * k
			second += (c - previous) / total * (k - float64(mean)) * (k - float64(mean))
			previous = c
		}
		if !near(first, float64(mean), 1e-9) || !near(second, float64(mean), 1e-9) {
			t.Errorf("mean %d: mean %v, variance %v", mean, first, second)
		}
		if n := float64(len(table.cumulative)); n > 21*math.Sqrt(float64(mean))+25 {
			t.Errorf("mean %d: %v entries", mean, n)
		}
		if got := table.at(0); got != table.least {
			t.Errorf("mean %d: least draw %d, want %d", mean, got, table.least)
		}
		if got := table.at(math.MaxUint64); got <= mean {
			t.Errorf("mean %d: greatest draw %d", mean, got)
		}
	}
}
