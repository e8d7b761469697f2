package metric

import (
	"fmt"
	"slices"

	"evalstream"
)

// Ties says in which order passages with equal scores stand.
type Ties uint8

// The tie policies.
const (
	TiesTrec     Ties = iota // by id, greatest first, bytewise: trec_eval's rule, and the default
	TiesRank                 // as given: the order of the list is trusted and its scores are not read
	TiesWorst                // least grade first, then as TiesTrec: the lower bound of measures that grow with the grades at the top
	TiesBest                 // greatest grade first, then as TiesTrec: the upper bound
	TiesExpected             // the mean over all orders, each as likely
)

func tiesNames() []string { return []string{"trec", "rank", "worst", "best", "expected"} }

// ParseTies reads the name of a policy: trec, rank, worst, best, expected.
func ParseTies(name string) (Ties, error) {
	i := slices.Index(tiesNames(), name)
	if i < 0 {
		return 0, evalstream.NoChoice("ties", name, tiesNames()...)
	}
	return Ties(i), nil
}

func (t Ties) String() string { return tiesNames()[t] }

// Check returns an error if m has no value under t. Only TiesExpected restricts: it is computed exactly for
// success@k, recall@k, precision@k, relative_p@k, unj@k, mrr, mrr@k, ndcg, ndcg@k, rprec, rbp and set_*.
func (t Ties) Check(m Measure) error {
	if t != TiesExpected {
		return nil
	}
	switch m.Kind {
	case KindSuccess, KindRecall, KindPrecision, KindRelative, KindUnjudged, KindMRR, KindRPrecision, KindRBP,
		KindSetPrecision, KindSetRecall, KindSetMAP, KindSetRelative, KindSetF:
		return nil
	case KindNDCG:
		if m.Gains == nil {
			return nil
		}
	default:
	}
	return fmt.Errorf("measure %q has no expected value over ties here: want ties trec, rank, worst or best, or another measure", m)
}

// Item is one entry of a ranked list.
type Item struct {
	ID    string
	Score float64
	Rel   int32 // the grade, NotPooled or Unjudged
}

// Sort puts a list in rank order in place: score descending, ties by the policy (TiesExpected as TiesTrec).
// TiesWorst and TiesBest read Rel, the others do not. A list in order already costs one pass, others
// O(n log n). Equal ids with equal scores stay in the given order. -0 and 0 tie. A NaN ties with every score,
// as in trec_eval; the order is then no order, and depends on that of the input.
// scratch is memory to work in; the result is to be passed the next time.
func (t Ties) Sort(items, scratch []Item) []Item {
	var after func(a, b *Item) bool
	switch t {
	case TiesRank:
		return scratch
	case TiesTrec, TiesExpected:
		if inTrecOrder(items) {
			return scratch
		}
		after = func(a, b *Item) bool {
			if a.Score > b.Score || a.Score < b.Score {
				return a.Score < b.Score
			}
			return a.ID < b.ID
		}
	case TiesWorst, TiesBest:
		after = func(a, b *Item) bool {
			switch {
			case a.Score > b.Score || a.Score < b.Score:
				return a.Score < b.Score
			case a.Rel != b.Rel:
				return (a.Rel < b.Rel) == (t == TiesBest)
			}
			return a.ID < b.ID
		}
	}
	scratch = append(scratch[:0], items...)
	mergeSort(items, scratch, after)
	return scratch
}

// inTrecOrder reports whether the list is strictly in trec_eval's order, which it never is beside a NaN.
func inTrecOrder(items []Item) bool {
	for i := 1; i < len(items); i++ {
		a, b := &items[i-1], &items[i]
		if !(a.Score > b.Score || a.Score == b.Score && a.ID > b.ID) {
			return false
		}
	}
	return true
}

// mergeSort sorts a stably, halves first, in the memory of b, which starts as a copy of a. after reports that
// x must stand behind y where x stood before it.
func mergeSort[T any](a, b []T, after func(x, y *T) bool) {
	if len(a) < 2 {
		return
	}
	half := len(a) / 2
	mergeSort(b[:half], a[:half], after)
	mergeSort(b[half:], a[half:], after)
	i, k := 0, half
	for n := range a {
		if i < half && (k == len(b) || !after(&b[i], &b[k])) {
			a[n] = b[i]
			i++
		} else {
			a[n] = b[k]
			k++
		}
	}
}

// Keep returns how many of a sorted list's items must be kept so that measures of this depth can be scored
// under t, at any grades: depth, or up to the end of the tie that depth cuts through.
func (t Ties) Keep(items []Item, depth int) int {
	if depth >= len(items) {
		return len(items)
	}
	if t == TiesTrec || t == TiesRank || depth == 0 {
		return depth
	}
	for depth < len(items) && items[depth].Score == items[depth-1].Score {
		depth++
	}
	return depth
}

// Tied reports whether a tie could have changed a value: a relevant passage, or the boundary after one of the
// ranks in cuts, stands in a group of equal scores. items is sorted, with grades. It is always false under
// TiesRank, which has no ties.
func (t Ties) Tied(items []Item, level int32, cuts []int) bool {
	if t == TiesRank {
		return false
	}
	for i := 1; i < len(items); i++ {
		if items[i].Score != items[i-1].Score {
			continue
		}
		if items[i].Rel >= level || items[i-1].Rel >= level || slices.Contains(cuts, i) {
			return true
		}
	}
	return false
}

// Rank resets j to a list of this gold: it sorts items by the policy and takes their grades. scratch is as in
// Sort.
func (j *Judged) Rank(gold *Gold, items []Item, t Ties, scratch []Item) []Item {
	scratch = t.Sort(items, scratch)
	j.Reset(gold)
	j.Take(items, t)
	return scratch
}

// Take appends the grades of sorted items to j, which was Reset, and their ties if the policy needs them.
func (j *Judged) Take(items []Item, t Ties) {
	tied := false
	for i := range items {
		j.Rel = append(j.Rel, items[i].Rel)
		if t == TiesExpected && i > 0 {
			if items[i].Score == items[i-1].Score {
				tied = true
			} else {
				j.ties = append(j.ties, int32(i))
			}
		}
	}
	if !tied {
		j.ties = j.ties[:0]
	} else {
		j.ties = append(j.ties, int32(len(items)))
	}
}
