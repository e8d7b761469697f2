package metric

import (
	"cmp"
	"slices"
)

// Grades of passages that have none. All others are 0 or more.
const (
	NotPooled int32 = -1 // the gold does not name the passage
	Unjudged  int32 = -2 // the gold names it with a grade below 0: in the pool, but without a judgment
)

// Gold is what the measures need to know of a query's judgments besides the grades of the ranked passages.
// Build it with NewGold or Reset; after that it is read only and may be shared by any number of goroutines
// and of queries with equal grades.
type Gold struct {
	Level       int32   // the least grade that is relevant
	Relevant    int     // R: judged with grade ≥ Level and ≥ 0
	Nonrelevant int     // NR: judged with 0 ≤ grade < Level
	Grades      []Count // the grades ≥ 0 that occur, greatest first, each once
}

// Count is how many passages were judged with a grade.
type Count struct {
	Grade int32
	N     int
}

// NewGold returns the Gold of a query whose judged passages have these grades, in any order. Grades below 0
// say that the passage is pooled and unjudged, and are not counted. level is 1 unless the user chose another.
func NewGold(grades []int32, level int32) *Gold {
	g := new(Gold)
	g.Reset(grades, level)
	return g
}

// Reset makes g what NewGold returns, in the memory it has. It sorts grades in place, in O(n log n).
func (g *Gold) Reset(grades []int32, level int32) {
	slices.SortFunc(grades, func(a, b int32) int { return cmp.Compare(b, a) })
	*g = Gold{Level: level, Grades: g.Grades[:0]}
	for _, grade := range grades {
		if grade < 0 {
			break
		}
		if n := len(g.Grades); n > 0 && g.Grades[n-1].Grade == grade {
			g.Grades[n-1].N++
		} else {
			g.Grades = append(g.Grades, Count{grade, 1})
		}
		if grade >= level {
			g.Relevant++
		} else {
			g.Nonrelevant++
		}
	}
}

// Judged is one ranked list joined with its gold: what a Measure scores. It is meant to be reused: after the
// first few lists, Reset, appending to Rel, and scoring allocate nothing. Not safe for concurrent use.
type Judged struct {
	Gold *Gold
	Rel  []int32 // the grade at each rank, best rank first; NotPooled or Unjudged where there is none

	// ties holds, under TiesExpected and if there is a tie, the end of each group of equal scores: ranks
	// ties[i-1]+1 to ties[i] may come in any order. Else it is empty.
	ties []int32

	discounts []float64 // log2(rank+1), computed once
	gains     []rankedGain
	scratch   []rankedGain
}

// Reset makes j an empty list of a query with this gold.
func (j *Judged) Reset(gold *Gold) {
	j.Gold = gold
	j.Rel = j.Rel[:0]
	j.ties = j.ties[:0]
}

// discount returns log2(rank+1) for ranks from 1 on.
func (j *Judged) discount(rank int) float64 {
	for len(j.discounts) < rank {
		j.discounts = append(j.discounts, log2(float64(len(j.discounts)+2)))
	}
	return j.discounts[rank-1]
}

// top returns the grades at ranks 1 to k, or all if k is 0 or the list is shorter.
func (j *Judged) top(k int) []int32 {
	if k > 0 && k < len(j.Rel) {
		return j.Rel[:k]
	}
	return j.Rel
}

// hits counts the relevant passages at ranks 1 to k, or in the whole list if k is 0.
func (j *Judged) hits(k int) int {
	n := 0
	for _, grade := range j.top(k) {
		if grade >= j.Gold.Level {
			n++
		}
	}
	return n
}

// retrieved counts the judged relevant passages in the list. It differs from hits(0) only for levels below 0,
// which make unjudged passages count at the ranks, but not in the sum.
func (j *Judged) retrieved() int {
	n := 0
	for _, grade := range j.Rel {
		if grade >= 0 && grade >= j.Gold.Level {
			n++
		}
	}
	return n
}
