package metric

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"evalstream"
)

func TestPRFOfTACRED(t *testing.T) {
	type system struct {
		Correct, Guessed, Gold int64
		P, R, F1               float64
	}
	var golden struct {
		Runs []struct {
			K       int `json:"k_shot"`
			Seed    int
			Systems map[string]system
		}
		Full map[string]map[string]system `json:"full_test_set"`
	}
	readJSON(t, "fs_tacred_golden.json", &golden)
	seen := 0
	f := func(name string, g system) {
		t.Helper()
		seen++
		c := PRF{Guessed: g.Guessed, Gold: g.Gold, Correct: g.Correct}
		p, r, f1 := c.Precision(ZeroDivisionOne), c.Recall(ZeroDivisionOne), c.F1(ZeroDivisionOne)
		want := []Value{
			{Value: g.P, Num: evalstream.NanoCount(g.Correct), Den: g.Guessed, HasRatio: true},
			{Value: g.R, Num: evalstream.NanoCount(g.Correct), Den: g.Gold, HasRatio: true},
			{Value: f1.Value, Num: evalstream.NanoCount(2 * g.Correct), Den: g.Guessed + g.Gold, HasRatio: true},
		}
		if d := cmp.Diff(want, []Value{p, r, f1}); d != "" {
			t.Errorf("%s: (-want +got)\n%s", name, d)
		}
		if !near(f1.Value, g.F1, 1e-15) { // the reference takes 2PR/(P+R)
			t.Errorf("%s: F1 %v, want %v", name, f1.Value, g.F1)
		}
	}
	for _, run := range golden.Runs {
		for name, g := range run.Systems {
			f(name, g)
		}
	}
	for name, golds := range golden.Full {
		for gold, g := range golds {
			f(name+" "+gold, g)
		}
	}
	if seen < 12 {
		t.Errorf("%d systems, want 12 or more", seen)
	}
}

func TestPRFZeroDivision(t *testing.T) {
	f := func(c PRF, zero string, p, r, f1 Value) {
		t.Helper()
		z, err := ParseZeroDivision(zero)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []*Value{&p, &r, &f1} {
			v.HasRatio = true
		}
		p.Den, r.Den, f1.Den = c.Guessed, c.Gold, c.Guessed+c.Gold
		p.Num, r.Num, f1.Num = evalstream.NanoCount(c.Correct), evalstream.NanoCount(c.Correct), evalstream.NanoCount(2*c.Correct)
		if d := cmp.Diff([]Value{p, r, f1}, []Value{c.Precision(z), c.Recall(z), c.F1(z)}); d != "" {
			t.Errorf("%+v, %s: (-want +got)\n%s", c, zero, d)
		}
	}
	zero, one := Value{}, Value{Value: 1}
	null := func(reason string) Value { return Value{Undefined: reason} }

	none := PRF{}
	f(none, "one", one, zero, zero)
	f(none, "zero", zero, zero, zero)
	f(none, "null", null(NothingGuessed), null(NoGold), null(NoUnits))

	silent := PRF{Gold: 5}
	f(silent, "one", one, zero, zero)
	f(silent, "zero", zero, zero, zero)
	f(silent, "null", null(NothingGuessed), zero, zero)

	eager := PRF{Guessed: 5}
	f(eager, "one", zero, zero, zero)
	f(eager, "zero", zero, zero, zero)
	f(eager, "null", zero, null(NoGold), zero)

	half := PRF{Guessed: 2, Gold: 2, Correct: 1}
	f(half, "null", Value{Value: 0.5}, Value{Value: 0.5}, Value{Value: 0.5})

	if _, err := ParseZeroDivision("nan"); err == nil || err.Error() != `zero-division: want one, zero or null, got "nan"` {
		t.Errorf("got %v", err)
	}
}

func TestPRFTakesBack(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var sum, want PRF
	for range 100 {
		o := PRF{rng.Int64N(9), rng.Int64N(9), rng.Int64N(9)}
		sum.Add(o)
		if rng.IntN(2) == 0 {
			sum.Sub(o)
		} else {
			want.Add(o)
		}
	}
	if sum != want {
		t.Errorf("got %+v, want %+v", sum, want)
	}
}

func TestMacro(t *testing.T) {
	f := func(rows []PRF, zero ZeroDivision, p, r, f1 Value) {
		t.Helper()
		gotP, gotR, gotF1 := Macro(rows, zero)
		if d := cmp.Diff([]Value{p, r, f1}, []Value{gotP, gotR, gotF1}); d != "" {
			t.Errorf("%v, %s: (-want +got)\n%s", rows, zero, d)
		}
	}
	// Gold a, a, b and guesses a, b, c, by hand: P 1, 0, 0; R 1/2, 0, none; F1 2/3, 0, 0.
	rows := []PRF{{Guessed: 1, Gold: 2, Correct: 1}, {Guessed: 1, Gold: 1}, {Guessed: 1}}
	third := Value{Value: 1.0 / 3}
	f(rows, ZeroDivisionZero, third, Value{Value: 0.5 / 3}, Value{Value: 2.0 / 3 / 3})
	f(rows, ZeroDivisionNull, third, Value{Value: 0.25}, Value{Value: 2.0 / 3 / 3})
	f([]PRF{{Gold: 3}}, ZeroDivisionOne, Value{Value: 1}, Value{}, Value{})
	f([]PRF{{Gold: 3}}, ZeroDivisionNull, Value{Undefined: NoUnits}, Value{}, Value{})
	f(nil, ZeroDivisionOne, Value{Undefined: NoUnits}, Value{Undefined: NoUnits}, Value{Undefined: NoUnits})
}

func TestMeanSD(t *testing.T) {
	f := func(values []float64, wantMean, wantSD Value) {
		t.Helper()
		mean, sd := MeanSD(values)
		if mean.Undefined != wantMean.Undefined || sd.Undefined != wantSD.Undefined ||
			!near(mean.Value, wantMean.Value, 1e-15) || !near(sd.Value, wantSD.Value, 1e-14) {
			t.Errorf("%v: %+v, %+v, want %+v, %+v", values, mean, sd, wantMean, wantSD)
		}
	}
	f(nil, Value{Undefined: NoUnits}, Value{Undefined: OneValue})
	f([]float64{0.25}, Value{Value: 0.25}, Value{Undefined: OneValue})
	f([]float64{0.1, 0.1, 0.1}, Value{Value: 0.1}, Value{})
	f([]float64{1, 2, 3, 4}, Value{Value: 2.5}, Value{Value: math.Sqrt(5.0 / 3)})
	// Python 3.11, statistics.stdev.
	f([]float64{5.78, 6.91, 5.19, 5.42, 6.2}, Value{Value: 5.9}, Value{Value: 0.6817257513105984})

	values := []float64{1e16, 1, -1e16, 0.1, 3}
	a, b := MeanSD(values)
	for range 20 {
		rand.New(rand.NewPCG(1, uint64(len(values)))).Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
		c, d := MeanSD(values)
		if a != c || b != d {
			t.Fatalf("order changes %v, %v to %v, %v", a, b, c, d)
		}
	}
}

func TestRatio(t *testing.T) {
	f := func(num evalstream.Nano, den int64, want Value) {
		t.Helper()
		want.Num, want.Den, want.HasRatio = num, den, true
		if got := Ratio(num, den, NoUnits); got != want {
			t.Errorf("Ratio(%s, %d) = %+v, want %+v", num, den, got, want)
		}
	}
	f(0, 0, Value{Undefined: NoUnits})
	f(0, 3, Value{})
	f(evalstream.One, 3, Value{Value: 1.0 / 3})
	f(280716*evalstream.One, 447000, Value{Value: 280716.0 / 447000})
	f(333333333, 2, Value{Value: 0.1666666665})
	f(-evalstream.One/2, 1, Value{Value: -0.5})
	f(math.MaxInt64, math.MaxInt64, Value{Value: 1e-9})
}
