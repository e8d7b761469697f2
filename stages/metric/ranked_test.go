package metric

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func parse(t testing.TB, name string) Measure {
	t.Helper()
	m, err := ParseMeasure(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The values are those of research by hand and of trec_eval 9.0.8's printed four digits; each list is given
// as the grades at its ranks.
func TestScore(t *testing.T) {
	f := func(name string, ranked, judged []int32, want float64) {
		t.Helper()
		j := new(Judged)
		j.Reset(NewGold(append([]int32(nil), judged...), 1))
		j.Rel = append(j.Rel, ranked...)
		if got := parse(t, name).Score(j); math.Abs(got-want) > 5e-5 {
			t.Errorf("%s of %v among %v = %.6f, want %.4f", name, ranked, judged, got, want)
		}
	}
	multi, three := []int32{1, NotPooled, 1}, []int32{1, 1, 1}
	f("success@1", multi, three, 1)
	f("recall@1", multi, three, 0.3333)
	f("recall@3", multi, three, 0.6667)
	f("precision@1", multi, three, 1)
	f("precision@10", multi, three, 0.2)
	f("mrr", multi, three, 1)
	f("map", multi, three, 0.5556)
	f("map@2", multi, three, 0.3333)
	f("gm_map", multi, three, math.Log(5.0/9))
	f("rprec", multi, three, 0.6667)
	f("ndcg@3", multi, three, 0.7039)
	f("relative_p@1", multi, three, 1)
	f("relative_p@5", multi, three, 0.6667)
	f("unj@2", multi, three, 0.5)
	f("unj@10", multi, three, 0.1)
	f("rbp", multi, three, 0.1+0.081)
	f("set_p", multi, three, 0.6667)
	f("set_recall", multi, three, 0.6667)
	f("set_relative_p", multi, three, 0.6667)

	graded, grades := []int32{0, 1, 2, 3}, []int32{3, 0, 1, 2}
	f("ndcg", graded, grades, 0.6138)
	f("ndcg@1", graded, grades, 0)
	f("ndcg@3", graded, grades, 0.3425)
	f("ndcg@10", graded, grades, 0.6138)

	f("set_f@2", []int32{1, NotPooled}, three, 0.375)
	f("set_map", []int32{1, NotPooled}, three, 0.1667)
	f("bpref", []int32{0, 1, NotPooled, 1, 0}, []int32{1, 1, 0, 0}, 0.5)
	f("gm_bpref", []int32{0}, []int32{1, 0}, math.Log(1e-5))
	f("infap", []int32{1}, []int32{1}, 1)
	f("infap", []int32{NotPooled, 1}, []int32{1}, 0.5)
	f("mrr@2", []int32{0, 0, 1}, []int32{1, 0, 0}, 0)
	f("mrr@3", []int32{0, 0, 1}, []int32{1, 0, 0}, 0.3333)
	f("iprec@0.5", []int32{0, 1, 1}, []int32{1, 1}, 0.6667)
	f("11pt_avg", []int32{0, 1, 1}, []int32{1, 1}, 0.6667)

	for _, name := range everyMeasure() {
		want := 0.0
		if parse(t, name).Geometric() {
			want = math.Log(1e-5)
		}
		f(name, nil, []int32{1, 0}, want)           // an empty list is valid
		f(name, []int32{0, 0}, []int32{0, 0}, want) // no relevant passage: 0, not a fault
	}
}

func everyMeasure() []string {
	return []string{
		"success@1", "success@10", "recall@2", "precision@3", "mrr", "mrr@2", "map", "map@3", "ndcg", "ndcg@3", "rprec", "bpref",
		"infap", "set_p", "set_recall", "set_map", "set_relative_p", "set_f", "set_f@2", "relative_p@2", "iprec@0.1",
		"11pt_avg", "gm_map", "gm_bpref", "unj@5", "rbp",
	}
}

// Scores are bounded, a list may be cut to the measure's depth, and a Judged that was used before scores as a new one.
func TestScoreProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	used := new(Judged)
	for range 3000 {
		judged := make([]int32, rng.IntN(8))
		for i := range judged {
			judged[i] = int32(rng.IntN(5)) - 1
		}
		// The list holds some of the judged passages and some others.
		var ranked []int32
		for _, i := range rng.Perm(len(judged)) {
			grade := judged[i]
			if grade < 0 {
				grade = Unjudged
			}
			ranked = append(ranked, grade)
			if rng.IntN(2) == 0 {
				ranked = append(ranked, NotPooled)
			}
			if rng.IntN(4) == 0 {
				break
			}
		}
		gold := NewGold(append([]int32(nil), judged...), 1+int32(rng.IntN(2)))
		for _, name := range everyMeasure() {
			m := parse(t, name)
			used.Reset(gold)
			used.Rel = append(used.Rel, ranked...)
			fresh := &Judged{Gold: gold, Rel: ranked}
			got := m.Score(used)
			if got != m.Score(fresh) {
				t.Fatalf("%s of %v among %v: %v after other lists, %v alone", name, ranked, judged, got, m.Score(fresh))
			}
			if low, high := -11.6, 1.0; !(got >= low && got <= high) || got < 0 && !m.Geometric() {
				t.Fatalf("%s of %v among %v = %v, out of bounds", name, ranked, judged, got)
			}
			if m.Binary() && got != 0 && got != 1 {
				t.Fatalf("%s of %v among %v = %v, want 0 or 1", name, ranked, judged, got)
			}
			if k, bounded := m.Depth(); bounded {
				cut := &Judged{Gold: gold, Rel: ranked[:min(k, len(ranked))]}
				if m.Score(cut) != got {
					t.Fatalf("%s of %v cut to %d = %v, want %v", name, ranked, k, m.Score(cut), got)
				}
			}
		}
	}
}

// Where SingleGold holds, what stands around the relevant passage and behind it changes nothing.
func TestSingleGold(t *testing.T) {
	gold := NewGold([]int32{1}, 1)
	for _, name := range everyMeasure() {
		m := parse(t, name)
		depends := false
		for rank := 1; rank <= 12; rank++ {
			score := func(n int) float64 {
				j := &Judged{Gold: gold}
				for i := 1; i <= n; i++ {
					grade := NotPooled
					if i == rank {
						grade = 1
					}
					j.Rel = append(j.Rel, grade)
				}
				return m.Score(j)
			}
			depends = depends || score(rank) != score(30)
		}
		if depends == m.SingleGold() {
			t.Errorf("%s: SingleGold is %v, but the value depends on more than the rank: %v", name, m.SingleGold(), depends)
		}
	}
}

func TestGeometricMean(t *testing.T) {
	f := func(sum float64, n, missing int, want string) {
		t.Helper()
		if got := fmt.Sprintf("%.4f", GeometricMean(sum, n, missing)); got != want {
			t.Errorf("GeometricMean(%v, %d, %d) = %s, want %s", sum, n, missing, got, want)
		}
	}
	f(0, 1, 0, "1.0000")
	f(math.Log(0.25)+math.Log(0.01), 2, 0, "0.0500")
	f(0, 2, 1, "0.0032") // sqrt(1e-5)
}

// The logarithms are compared with values of glibc 2.36, printed in full.
func TestLogarithms(t *testing.T) {
	f := func(got, want float64) {
		t.Helper()
		if got != want {
			t.Errorf("got %x, want %x", got, want)
		}
	}
	f(log2(3), 0x1.95c01a39fbd68p+0)
	f(ln(1.0/3), -0x1.193ea7aad030bp+0)
	f(log2(5), 0x1.2934f0979a371p+1)
	f(ln(1.0/5), -0x1.9c041f7ed8d33p+0)
	f(log2(7), 0x1.675767f54042dp+1)
	f(ln(1.0/7), -0x1.f2272ae325a58p+0)
	f(log2(11), 0x1.bacea7c065d42p+1)
	f(ln(1.0/11), -0x1.32ee3b77f374cp+1)
	f(log2(1000), 0x1.3ee7b471b3a95p+3)
	f(ln(1.0/1000), -0x1.ba18a998fffap+2)
	f(log2(99999), 0x1.09c1073e06f1cp+4)
	f(ln(1.0/99999), -0x1.7069cdb16e3d9p+3)
	f(exp(-0.10000000000000001), 0x1.cf46d99d52b3ap-1)
	f(exp(-1), 0x1.78b56362cef38p-2)
	f(exp(-3.25), 0x1.3da368521902dp-5)
	f(exp(-11.512925464970229), 0x1.4f8b588e368efp-17)
	f(exp(-0.69314718055994529), 0x1p-1)
}

func BenchmarkScore10(b *testing.B) {
	j := new(Judged)
	gold := NewGold([]int32{1}, 1)
	measures := []Measure{parse(b, "success@1"), parse(b, "recall@10"), parse(b, "mrr"), parse(b, "ndcg@10")}
	b.ReportAllocs()
	sum := 0.0
	for n := 0; b.Loop(); n++ {
		j.Reset(gold)
		for i := range 10 {
			grade := NotPooled
			if i == n%10 {
				grade = 1
			}
			j.Rel = append(j.Rel, grade)
		}
		for _, m := range measures {
			sum += m.Score(j)
		}
	}
	_ = sum
}

func BenchmarkRank10(b *testing.B) {
	j := new(Judged)
	gold := NewGold([]int32{1}, 1)
	items := make([]Item, 10)
	for i := range items {
		items[i] = Item{ID: fmt.Sprintf("passage-%04d", i), Score: 1 - float64(i)/16, Rel: NotPooled}
	}
	var scratch []Item
	b.ReportAllocs()
	for b.Loop() {
		scratch = j.Rank(gold, items, TiesTrec, scratch)
	}
}
