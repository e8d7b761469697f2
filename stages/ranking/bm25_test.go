package ranking

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The values are worked out by hand from the formula.
func TestWordsBest(t *testing.T) {
	texts := []string{"The cat, the dog!", "the DOG", "a bird", ""}
	f := func(v Variant, query string, n int, want ...Hit[float64]) {
		t.Helper()
		w := NewWords(v)
		for _, text := range texts {
			w.Add(text)
		}
		var l Lookup
		for range 2 { // the room is clean after a query
			got := append([]Hit[float64](nil), w.Best(&l, query, n)...)
			near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-12 })
			if d := cmp.Diff(want, got, near); d != "" {
				t.Errorf("%q by %s (-want +got)\n%s", query, v, d)
			}
		}
	}
	// |d| is 4, 2, 2, 0: 2 on average. df: the 2, cat 1, dog 2, a 1, bird 1.
	idf := func(df float64) float64 { return math.Log(1 + (4-df+.5)/(df+.5)) }
	part := func(tf, length float64) float64 { return tf * 1.9 / (tf + .9*(1-.4+.4*length/2)) }
	v := DefaultVariant()
	f(v, "Cat", 10, Hit[float64]{0, idf(1) * part(1, 4)})
	f(v, "dog", 10, Hit[float64]{1, idf(2) * part(1, 2)}, Hit[float64]{0, idf(2) * part(1, 4)})
	f(v, "the dog", 1, Hit[float64]{0, idf(2) * (part(2, 4) + part(1, 4))})
	f(v, "cat cat", 10, Hit[float64]{0, 2 * idf(1) * part(1, 4)}) // twice asked, twice counted
	f(v, "bird a", 10, Hit[float64]{2, 2 * idf(1) * part(1, 2)})
	f(v, "zebra é", 10)
	f(v, "", 10)
	plain := v
	plain.PlainIDF, plain.PlainTF = true, true
	f(plain, "bird the", 10, Hit[float64]{2, math.Log(3.5/1.5) / (1 + .9)}) // ln(1) = 0 takes "the" out
	long := v
	long.Pattern = "[a-z]{3}"
	f(long, "do-bir", 10, Hit[float64]{2, math.Log(1+3.5/1.5) * 1.9 / (1 + .9*(.6+.4*1/(7./4)))})
}

func TestWordsTies(t *testing.T) {
	w := NewWords(DefaultVariant())
	for range 5 {
		w.Add("same words")
	}
	w.Reorder([]int32{4, 3, 2, 1, 0})
	var l Lookup
	var got []int32
	for _, h := range w.Best(&l, "words", 3) {
		got = append(got, h.Passage)
	}
	if d := cmp.Diff([]int32{0, 1, 2}, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestVariantFaults(t *testing.T) {
	f := func(change func(v *Variant), want string) {
		t.Helper()
		v := DefaultVariant()
		change(&v)
		if err := v.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	f(func(v *Variant) { v.K1 = -1 }, "k1: want 0 or more, got -1")
	f(func(v *Variant) { v.B = math.NaN() }, "b: want 0 to 1, got NaN")
	f(func(v *Variant) { v.Pattern = "(" }, "tokens: error parsing regexp")
	f(func(v *Variant) { v.Pattern = "" }, "tokens: want a regular expression")
}
