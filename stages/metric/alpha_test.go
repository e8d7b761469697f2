package metric

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// literal returns a rating as the literal that evalstream compares: numbers as written, text without quotes; "" if it is missing.
func literal(raw json.RawMessage) string {
	if s := string(raw); s != "null" {
		return strings.Trim(s, `"`)
	}
	return ""
}

func present(ratings []json.RawMessage) []string {
	var out []string
	for _, raw := range ratings {
		if s := literal(raw); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// readRatings returns the ratings of each unit of a file: those of the fields, or of the list that is the only field.
func readRatings(t *testing.T, name string, fields []string) [][]string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var units [][]string
	for line := range bytes.Lines(data) {
		var record map[string]json.RawMessage
		if err := json.Unmarshal(line, &record); err != nil {
			t.Fatal(err)
		}
		var ratings []json.RawMessage
		for _, field := range fields {
			raw := record[field]
			if raw[0] != '[' {
				ratings = append(ratings, raw)
			} else if err := json.Unmarshal(raw, &ratings); err != nil {
				t.Fatal(err)
			}
		}
		units = append(units, present(ratings))
	}
	return units
}

type vector struct {
	Name, Level    string
	Ratings        [][]json.RawMessage
	RatingsFile    string          `json:"ratings_file"`
	RatingsField   json.RawMessage `json:"ratings_field"`
	Domain         []json.RawMessage
	Expected       json.RawMessage
	PairableUnits  *int64 `json:"pairable_units"`
	PairableValues *int64 `json:"pairable_values"`
}

// units returns the ratings of each unit, false if they are in a file that is not here.
func (v vector) units(t *testing.T) ([][]string, bool) {
	t.Helper()
	if v.RatingsFile != "" {
		if strings.HasPrefix(v.RatingsFile, "llmbar/") || v.RatingsFile == "human/dices_990_ratings.ndjson" {
			return nil, false
		}
		var fields []string
		if json.Unmarshal(v.RatingsField, &fields) != nil {
			fields = []string{literal(v.RatingsField)}
		}
		return readRatings(t, v.RatingsFile, fields), true
	}
	var units [][]string
	for _, coder := range v.Ratings {
		for i, raw := range coder {
			for len(units) <= i {
				units = append(units, nil)
			}
			units[i] = append(units[i], present([]json.RawMessage{raw})...)
		}
	}
	return units, true
}

func (v vector) order() []string {
	if v.Level != "ordinal" {
		return nil
	}
	return present(v.Domain)
}

func TestAlphaVectors(t *testing.T) {
	var golden struct{ Vectors []vector }
	readJSON(t, "alpha_vectors.json", &golden)
	tried, absent := 0, 0
	for _, v := range golden.Vectors {
		units, ok := v.units(t)
		if !ok {
			absent++
			continue
		}
		tried++
		level, err := ParseLevel(v.Level)
		if err != nil {
			t.Fatal(err)
		}
		var h Histogram
		for _, ratings := range units {
			h.Add(ratings)
		}
		got, err := h.Agreement(level, v.order())
		if err != nil {
			t.Errorf("%s, %s: %v", v.Name, v.Level, err)
			continue
		}
		want, err := strconv.ParseFloat(literal(v.Expected), 64)
		switch {
		case err != nil && got.Alpha.Defined(), err == nil && !got.Alpha.Defined():
			t.Errorf("%s, %s: %+v, want %s", v.Name, v.Level, got.Alpha, v.Expected)
		case math.Abs(got.Alpha.Value-want) > 1e-13:
			t.Errorf("%s, %s: %v, want %v", v.Name, v.Level, got.Alpha.Value, want)
		}
		if v.PairableUnits != nil && *v.PairableUnits != got.Units || v.PairableValues != nil && *v.PairableValues != got.Values {
			t.Errorf("%s, %s: %d units, %d values, want %d, %d", v.Name, v.Level, got.Units, got.Values, *v.PairableUnits, *v.PairableValues)
		}
	}
	if tried != 55 || absent != 5 {
		t.Errorf("tried %d vectors, left out %d of %d", tried, absent, len(golden.Vectors))
	}
}

func TestAlphaIncremental(t *testing.T) {
	var golden struct {
		Sequences []struct {
			Name, Level string
			Events      []struct {
				Op, Unit, Judge string
				Value, Alpha    json.RawMessage
				Units, Values   int64
			}
		}
	}
	readJSON(t, "alpha_incremental.json", &golden)
	events := 0
	for _, s := range golden.Sequences {
		level, err := ParseLevel(s.Level)
		if err != nil {
			t.Fatal(err)
		}
		var h Histogram
		state := make(map[string]map[string]string)
		for i, e := range s.Events {
			events++
			if state[e.Unit] == nil {
				state[e.Unit] = make(map[string]string)
			}
			h.Remove(slices.Collect(maps.Values(state[e.Unit])))
			if e.Op == "retract" {
				delete(state[e.Unit], e.Judge)
			} else {
				state[e.Unit][e.Judge] = literal(e.Value)
			}
			h.Add(slices.Collect(maps.Values(state[e.Unit])))

			got, err := h.Agreement(level, nil)
			if err != nil {
				t.Fatalf("%s, %s, event %d: %v", s.Name, s.Level, i, err)
			}
			want, err := strconv.ParseFloat(literal(e.Alpha), 64)
			if (err == nil) != got.Alpha.Defined() || err == nil && math.Abs(got.Alpha.Value-want) > 1e-13 || got.Units != e.Units || got.Values != e.Values {
				t.Fatalf("%s, %s, event %d: %+v, want %s with %d units, %d values", s.Name, s.Level, i, got, e.Alpha, e.Units, e.Values)
			}
		}
	}
	if events < 400 {
		t.Errorf("%d events", events)
	}
}

func TestAlphaOfLLMBar(t *testing.T) {
	data, err := os.ReadFile("testdata/llmbar/llmbar_winners.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	// The vectors of these names in alpha_vectors.json.
	f := func(mode string, swap int, judges []int, wantUnits, wantValues int64, want float64) {
		t.Helper()
		var h Histogram
		for line := range bytes.Lines(data) {
			var record map[string]json.RawMessage
			var winners [2][]json.RawMessage
			if err := json.Unmarshal(line, &record); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(record[mode], &winners); err != nil {
				t.Fatal(err)
			}
			var ratings []json.RawMessage
			for _, judge := range judges {
				ratings = append(ratings, winners[swap][judge])
			}
			h.Add(present(ratings))
		}
		got, err := h.Agreement(NominalLevel, nil)
		if err != nil || math.Abs(got.Alpha.Value-want) > 1e-13 || got.Units != wantUnits || got.Values != wantValues {
			t.Errorf("%s, swap %d: %+v, %v, want %v", mode, swap, got, err, want)
		}
	}
	all, three := []int{0, 1, 2, 3, 4, 5}, []int{0, 3, 4}
	f("vanilla", 1, all, 419, 2509, 310418.0/1205565)
	f("vanilla", 0, three, 419, 1252, 11791.0/43483)
	f("cot", 1, all, 419, 2503, 183587.0/887900)
	f("cot", 0, three, 419, 1253, 41879.0/180851)
}

func TestAlphaOfPandaLM(t *testing.T) {
	f := func(fields []string, want float64, unanimous int64) {
		t.Helper()
		var h Histogram
		for _, ratings := range readRatings(t, "pandalm/pandalm_ratings.ndjson", fields) {
			h.Add(ratings)
		}
		got, err := h.Agreement(NominalLevel, nil)
		if err != nil || math.Abs(got.Alpha.Value-want) > 5e-7 || unanimous > 0 && got.Unanimous != unanimous {
			t.Errorf("%v: %+v, %v, want %v, %d unanimous", fields, got, err, want, unanimous)
		}
	}
	f([]string{"human1", "human2", "human3"}, 0.864221, 879)
	f([]string{"human1", "human2", "human3", "gpt35", "pandalm7b"}, 0.580139, 0)
}

func TestAgreementUndefinedAndExact(t *testing.T) {
	f := func(level Level, units [][]string, want Agreement) {
		t.Helper()
		var h Histogram
		for _, u := range units {
			h.Add(u)
		}
		got, err := h.Agreement(level, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s of %v: (-want +got)\n%s", level, units, d)
		}
	}
	f(NominalLevel, nil, Agreement{Alpha: Value{Undefined: NoPairable}, Observed: Value{Undefined: NoPairable}, Counts: []int64{}})
	f(NominalLevel, [][]string{{"a"}, {"b"}}, Agreement{Alpha: Value{Undefined: NoPairable}, Observed: Value{Undefined: NoPairable}, Counts: []int64{0, 0}})
	f(NominalLevel, [][]string{{"a", "a"}, {"b"}}, Agreement{
		Alpha: Value{Undefined: NoVariation}, Observed: Value{Value: 1}, Units: 1, Values: 2, Unanimous: 1, Counts: []int64{2, 0},
	})
	f(NominalLevel, [][]string{{"a", "b"}}, Agreement{Alpha: Value{}, Observed: Value{}, Units: 1, Values: 2, Counts: []int64{1, 1}})
	// One number, two spellings.
	f(IntervalLevel, [][]string{{"1", "1.0"}, {"1e0", "1"}}, Agreement{
		Alpha: Value{Undefined: NoVariation}, Observed: Value{Value: 1}, Units: 2, Values: 4, Unanimous: 2, Counts: []int64{4},
	})
	f(NominalLevel, [][]string{{"1", "1.0"}}, Agreement{Alpha: Value{}, Observed: Value{}, Units: 1, Values: 2, Counts: []int64{1, 1}})
	f(IntervalLevel, [][]string{{"0.1", "0.1", "0.1"}, {"0.7", "0.7"}}, Agreement{
		Alpha: Value{Value: 1}, Observed: Value{Value: 1}, Units: 2, Values: 5, Unanimous: 2, Counts: []int64{3, 2},
	})
}

// exactAlpha computes alpha from its definition in rationals.
func exactAlpha(level Level, units [][]int64) *big.Rat {
	marginals, n := make(map[int64]int64), int64(0)
	for _, u := range units {
		if len(u) > 1 {
			for _, x := range u {
				marginals[x]++
				n++
			}
		}
	}
	distance := func(a, b int64) *big.Rat {
		switch {
		case a == b:
			return new(big.Rat)
		case level == NominalLevel:
			return big.NewRat(1, 1)
		case level == IntervalLevel:
			return big.NewRat((a-b)*(a-b), 1)
		case level == RatioLevel:
			return big.NewRat((a-b)*(a-b), (a+b)*(a+b))
		}
		twice := -marginals[a] - marginals[b]
		for g := min(a, b); g <= max(a, b); g++ {
			twice += 2 * marginals[g]
		}
		return big.NewRat(twice*twice, 4)
	}
	observed, expected := new(big.Rat), new(big.Rat)
	for _, u := range units {
		for i, a := range u {
			for j, b := range u {
				if i != j {
					observed.Add(observed, new(big.Rat).Quo(distance(a, b), big.NewRat(int64(len(u)-1), 1)))
				}
			}
		}
	}
	for a, na := range marginals {
		for b, nb := range marginals {
			expected.Add(expected, new(big.Rat).Mul(distance(a, b), big.NewRat(na*nb, 1)))
		}
	}
	if expected.Sign() == 0 {
		return nil
	}
	share := new(big.Rat).Quo(observed, expected)
	return new(big.Rat).Sub(big.NewRat(1, 1), share.Mul(share, big.NewRat(n-1, 1)))
}

func TestAlphaMatchesItsDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		var h Histogram
		var units [][]int64
		values := 1 + rng.IntN(6)
		for range rng.IntN(30) {
			var unit []int64
			var literals []string
			for range rng.IntN(6) {
				x := int64(rng.IntN(values))
				unit, literals = append(unit, x), append(literals, strconv.FormatInt(x, 10))
			}
			units = append(units, unit)
			h.Add(literals)
		}
		for level := NominalLevel; level <= RatioLevel; level++ {
			got, err := h.Agreement(level, nil)
			want := exactAlpha(level, units)
			if err != nil || (want == nil) == got.Alpha.Defined() {
				t.Fatalf("%s of %v: %+v, %v, want %v", level, units, got.Alpha, err, want)
			}
			if want != nil {
				if x, _ := want.Float64(); math.Abs(got.Alpha.Value-x) > 1e-13 {
					t.Fatalf("%s of %v: %v, want %v", level, units, got.Alpha.Value, x)
				}
			}
		}
	}
}

func TestAlphaOfExtremeNumbers(t *testing.T) {
	f := func(want float64, units ...[]string) {
		t.Helper()
		var h Histogram
		for _, u := range units {
			h.Add(u)
		}
		got, err := h.Agreement(IntervalLevel, nil)
		if err != nil || !near(got.Alpha.Value, want, 1e-12) {
			t.Errorf("%v: %+v, %v, want %v", units, got.Alpha, err, want)
		}
	}
	// By hand: D_o = 2/4, D_e = 54/12.
	f(8.0/9, []string{"1", "2"}, []string{"4", "4"})
	f(8.0/9, []string{"1e307", "2e307"}, []string{"4e307", "4e307"})
	f(8.0/9, []string{"1e-300", "2e-300"}, []string{"4e-300", "4e-300"})
	f(8.0/9, []string{"1000000000000001", "1000000000000002"}, []string{"1000000000000004", "1000000000000004"})
	f(8.0/9, []string{"-2", "-1"}, []string{"1", "1"}, []string{"-1e300"})
}

func BenchmarkAlpha(b *testing.B) {
	rng := rand.New(rand.NewPCG(7, 8))
	var h Histogram
	for range 100_000 {
		var u []string
		for range 3 {
			u = append(u, strconv.Itoa(1+rng.IntN(5)))
		}
		h.Add(u)
	}
	literals, err := h.Literals()
	if err != nil {
		b.Fatal(err)
	}
	for level := NominalLevel; level <= RatioLevel; level++ {
		b.Run(level.String(), func(b *testing.B) {
			for b.Loop() {
				if _, err := h.Agreement(level, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(level.String()+"_bootstrap1000", func(b *testing.B) {
			d, err := OrderDomain(level, literals, nil)
			if err != nil {
				b.Fatal(err)
			}
			counts, err := h.Counts(d)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				PoissonBootstrap(d, counts, Resampling{Replicas: 1000, Confidence: 0.95})
			}
		})
	}
	b.Run("change", func(b *testing.B) {
		before, after := []string{"1", "2"}, []string{"1", "2", "3"}
		for b.Loop() {
			h.Remove(before)
			h.Add(after)
		}
	})
}
