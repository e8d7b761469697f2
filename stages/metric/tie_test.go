package metric

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestSort(t *testing.T) {
	nan := math.NaN()
	f := func(policy string, items []Item, want string) {
		t.Helper()
		ties, err := ParseTies(policy)
		if err != nil {
			t.Fatal(err)
		}
		ties.Sort(items, nil)
		var got []string
		for _, it := range items {
			got = append(got, it.ID)
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: got %s, want %s", policy, s, want)
		}
	}
	list := func() []Item {
		return []Item{{"a", 5, 1}, {"é", 5, NotPooled}, {"B", 5, 0}, {"z", 5, 2}, {"top", 9, NotPooled}}
	}
	f("trec", list(), "top é z a B")
	f("rank", list(), "a é B z top")
	f("best", list(), "top z a B é")
	f("worst", list(), "top é B a z")
	f("expected", list(), "top é z a B")
	f("trec", []Item{{"a", math.Copysign(0, -1), 1}, {"b", 0, 0}}, "b a")
	f("trec", []Item{{"a", math.Inf(-1), 1}, {"b", math.Inf(1), 0}}, "b a")
	f("trec", []Item{{"a", nan, 1}, {"b", 4, 0}, {"z", 3, 0}}, "b z a") // trec_eval 9.0.8, edge case score_nan
	f("trec", nil, "")
	f("trec", []Item{{"a", nan, 1}}, "a")
}

func TestParseTiesFault(t *testing.T) {
	if _, err := ParseTies("random"); err == nil || !strings.Contains(err.Error(), "want trec, rank, worst, best or expected") {
		t.Errorf("got %v", err)
	}
}

func TestTied(t *testing.T) {
	f := func(ties Ties, scores []float64, rel []int32, cuts []int, want bool) {
		t.Helper()
		var items []Item
		for i := range scores {
			items = append(items, Item{ID: "p", Score: scores[i], Rel: rel[i]})
		}
		if got := ties.Tied(items, 1, cuts); got != want {
			t.Errorf("%v %v cut at %v: got %v, want %v", scores, rel, cuts, got, want)
		}
	}
	f(TiesTrec, []float64{3, 2, 1}, []int32{0, 1, 0}, []int{1, 2, 3}, false)
	f(TiesTrec, []float64{3, 2, 2}, []int32{0, 1, 0}, []int{1}, true)
	f(TiesTrec, []float64{3, 2, 2}, []int32{1, 0, 0}, []int{1}, false)
	f(TiesTrec, []float64{3, 2, 2}, []int32{1, 0, 0}, []int{2}, true)
	f(TiesRank, []float64{3, 2, 2}, []int32{0, 1, 0}, []int{2}, false)
}

func TestKeep(t *testing.T) {
	items := []Item{{"a", 3, 0}, {"b", 2, 0}, {"c", 2, 0}, {"d", 2, 0}, {"e", 1, 0}}
	f := func(ties Ties, depth, want int) {
		t.Helper()
		if got := ties.Keep(items, depth); got != want {
			t.Errorf("%v at %d: got %d, want %d", ties, depth, got, want)
		}
	}
	f(TiesTrec, 2, 2)
	f(TiesExpected, 2, 4)
	f(TiesWorst, 1, 1)
	f(TiesBest, 9, 5)
}

// One relevant passage tied in a group of t with g above: success@k is (k-g)/t in [0, 1], the reciprocal rank
// the mean of 1/(g+1) … 1/(g+t).
func TestExpectedSingleGold(t *testing.T) {
	f := func(g, n int, name string, want float64) {
		t.Helper()
		var items []Item
		for i := range g + n + 1 {
			items = append(items, Item{ID: string(rune('a' + i)), Score: 9, Rel: NotPooled})
			if i >= g {
				items[i].Score = 5
			}
			if i == g+n {
				items[i].Score = 1
			}
		}
		items[g].Rel = 1
		j := new(Judged)
		j.Rank(NewGold([]int32{1}, 1), items, TiesExpected, nil)
		if got := parse(t, name).Score(j); math.Abs(got-want) > 1e-15 {
			t.Errorf("%s with %d above, tie of %d: got %v, want %v", name, g, n, got, want)
		}
	}
	f(0, 4, "success@1", 0.25)
	f(2, 4, "success@3", 0.25)
	f(2, 4, "success@2", 0)
	f(2, 4, "success@10", 1)
	f(1, 3, "success@3", 2.0/3)
	f(1, 2, "mrr", (0.5+1.0/3)/2)
	f(1, 2, "mrr@2", 0.25)
	f(0, 1, "mrr", 1)
}

// The expected value is the mean over every order, and lies between worst and best.
func TestExpectedIsTheMeanOverOrders(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	names := []string{
		"success@1", "success@3", "recall@1", "recall@2", "recall@4", "precision@1", "precision@3", "precision@9", "mrr", "mrr@2",
		"mrr@4", "ndcg", "ndcg@2", "ndcg@4", "rprec", "relative_p@2", "unj@2", "rbp", "set_p", "set_f", "set_map",
	}
	for range 300 {
		items := make([]Item, 1+rng.IntN(6))
		var judged []int32
		for i := range items {
			items[i] = Item{ID: string(rune('a' + i)), Score: float64(rng.IntN(3)), Rel: int32(rng.IntN(5)) - 2}
			if items[i].Rel >= 0 {
				judged = append(judged, items[i].Rel)
			}
		}
		gold := NewGold(append(judged, 1), 1)
		at := func(ties Ties, m Measure) float64 {
			j := new(Judged)
			j.Rank(gold, slices.Clone(items), ties, nil)
			return m.Score(j)
		}
		for _, name := range names {
			m := parse(t, name)
			if err := TiesExpected.Check(m); err != nil {
				t.Fatal(err)
			}
			sum, orders := 0.0, 0
			everyOrder(len(items), func(order []int) {
				j := &Judged{Gold: gold}
				for i, k := range order {
					if i > 0 && items[order[i-1]].Score < items[k].Score {
						return
					}
					j.Rel = append(j.Rel, items[k].Rel)
				}
				sum += m.Score(j)
				orders++
			})
			got, want := at(TiesExpected, m), sum/float64(orders)
			if math.Abs(got-want) > 1e-12 {
				t.Fatalf("%s of %v: expected %v, mean over %d orders %v", name, items, got, orders, want)
			}
			if m.Kind == KindUnjudged {
				continue
			}
			if low, high := at(TiesWorst, m), at(TiesBest, m); low > got+1e-12 || high < got-1e-12 {
				t.Fatalf("%s of %v: expected %v, outside worst %v and best %v", name, items, got, low, high)
			}
		}
	}
}

func everyOrder(n int, visit func(order []int)) {
	order := make([]int, 0, n)
	var extend func()
	extend = func() {
		if len(order) == n {
			visit(order)
			return
		}
		for i := range n {
			if !slices.Contains(order, i) {
				order = append(order, i)
				extend()
				order = order[:len(order)-1]
			}
		}
	}
	extend()
}

func TestExpectedIsRefused(t *testing.T) {
	for _, name := range []string{"map", "map@3", "bpref", "infap", "iprec@0.1", "11pt_avg", "gm_map", "gm_bpref"} {
		m := parse(t, name)
		if err := TiesExpected.Check(m); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, want an error that names it", name, err)
		}
		if err := TiesWorst.Check(m); err != nil {
			t.Error(err)
		}
	}
}
