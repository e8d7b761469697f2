package metric

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

// readJSON reads a file of testdata.
func readJSON(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// near reports whether got is within tolerance of want, relative to want.
func near(got, want, tolerance float64) bool {
	return got == want || math.Abs(got-want) <= tolerance*math.Abs(want)
}

func TestIntervalsOfRetrievalGolden(t *testing.T) {
	var golden struct {
		Alpha     float64
		Intervals []struct {
			Successes, N int64
			Wilson       [2]float64
			Beta         [2]float64 `json:"beta_uniform_mixture_cs"`
		}
	}
	readJSON(t, "stats_golden.json", &golden)
	if len(golden.Intervals) == 0 {
		t.Fatal("no intervals")
	}
	f := func(got Interval, want [2]float64) {
		t.Helper()
		if !near(got.Low, want[0], 1e-9) || !near(got.High, want[1], 1e-9) {
			t.Errorf("%s [%v, %v], want %v", got.Method, got.Low, got.High, want)
		}
	}
	for _, g := range golden.Intervals {
		f(Wilson(g.Successes, g.N, 1-golden.Alpha), g.Wilson)
		f(BetaCS(g.Successes, g.N, 1-golden.Alpha), g.Beta)
	}
}

func TestIntervalsOfExactArithmetic(t *testing.T) {
	var golden struct {
		Trials []struct {
			K, N       int64
			Confidence float64
			Wilson     [2]float64
			Beta       [2]float64 `json:"beta_cs"`
		}
		Mixtures []struct {
			Mean, Sigma, R, Confidence float64
			N                          int64
			Bounds                     [2]float64
		}
		Quantiles []struct{ Confidence, Z float64 }
	}
	readJSON(t, "intervals.json", &golden)
	for _, g := range golden.Trials {
		f := func(got Interval, want [2]float64) {
			t.Helper()
			if !near(got.Low, want[0], 1e-10) || !near(got.High, want[1], 1e-10) {
				t.Errorf("%s of %d in %d at %v: [%v, %v], want %v", got.Method, g.K, g.N, g.Confidence, got.Low, got.High, want)
			}
		}
		f(Wilson(g.K, g.N, g.Confidence), g.Wilson)
		f(BetaCS(g.K, g.N, g.Confidence), g.Beta)
	}
	for _, g := range golden.Mixtures {
		got := NormalMixtureCS(g.Mean, g.N, g.Sigma, g.R, g.Confidence)
		if math.Abs(got.Low-g.Bounds[0]) > 1e-14 || math.Abs(got.High-g.Bounds[1]) > 1e-14 {
			t.Errorf("normal mixture of %+v: [%v, %v]", g, got.Low, got.High)
		}
	}
	for _, g := range golden.Quantiles {
		if got := twoSidedZ(g.Confidence); !near(got, g.Z, 1e-12) {
			t.Errorf("z at %v: %v, want %v", g.Confidence, got, g.Z)
		}
	}
}

func TestIntervalsWithoutData(t *testing.T) {
	f := func(got Interval, method, looks string) {
		t.Helper()
		if want := (Interval{Method: method, Looks: looks, Confidence: 0.9, High: 1}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	f(Wilson(0, 0, 0.9), "wilson", "one")
	f(BetaCS(0, 0, 0.9), "beta_cs", "any")
	f(NormalMixtureCS(0, 0, 0.5, 0.1, 0.9), "normal_mixture_cs", "any")
}

func TestIntervalsHoldTheProportionAndMirror(t *testing.T) {
	for n := int64(1); n <= 60; n++ {
		for k := range n + 1 {
			p := float64(k) / float64(n)
			for _, of := range []func(k, n int64, confidence float64) Interval{Wilson, BetaCS} {
				v, m := of(k, n, 0.95), of(n-k, n, 0.95)
				if !(0 <= v.Low && v.Low <= p && p <= v.High && v.High <= 1) {
					t.Errorf("%s of %d in %d: [%v, %v]", v.Method, k, n, v.Low, v.High)
				}
				if math.Abs(v.Low-(1-m.High)) > 1e-15 {
					t.Errorf("%s of %d in %d: low %v, mirrored high %v", v.Method, k, n, v.Low, m.High)
				}
			}
			if w, b := Wilson(k, n, 0.95), BetaCS(k, n, 0.95); b.High-b.Low <= w.High-w.Low {
				t.Errorf("%d in %d: beta_cs is narrower than wilson", k, n)
			}
		}
	}
}

func TestPaired(t *testing.T) {
	var retrieval struct {
		Paired []struct {
			BBetter int64   `json:"b_better"`
			ABetter int64   `json:"a_better"`
			P       float64 `json:"sign_exact_p_two_sided"`
			E       float64 `json:"sign_e_value"`
		}
		Evalue []struct {
			B, C int64
			E    float64 `json:"e_value"`
		}
	}
	readJSON(t, "stats_golden.json", &retrieval)
	var exact struct {
		Pairs []struct {
			B, C int64
			P, E float64
		}
	}
	readJSON(t, "intervals.json", &exact)
	p := func(b, c int64, want float64) {
		t.Helper()
		if got := McNemar(b, c); !near(got, want, 1e-9) {
			t.Errorf("McNemar(%d, %d) = %v, want %v", b, c, got, want)
		}
	}
	e := func(b, c int64, want float64) {
		t.Helper()
		if got := EValue(b, c); !near(got, want, 1e-9) {
			t.Errorf("EValue(%d, %d) = %v, want %v", b, c, got, want)
		}
	}
	for _, g := range retrieval.Paired {
		p(g.BBetter, g.ABetter, g.P)
		e(g.BBetter, g.ABetter, g.E)
	}
	for _, g := range retrieval.Evalue {
		e(g.B, g.C, g.E)
	}
	for _, g := range exact.Pairs {
		p(g.B, g.C, g.P)
		e(g.B, g.C, g.E)
	}
	p(0, 5000, 0)
	e(0, 5000, math.MaxFloat64)
}

func BenchmarkBetaCS(b *testing.B) {
	f := func(name string, k, n int64) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				BetaCS(k, n, 0.95)
			}
		})
	}
	f("30of150", 30, 150)
	f("280716of447000", 280716, 447000)
	f("1of1e9", 1, 1e9)
	f("5e8of1e9", 5e8, 1e9)
}
