package metric

import "slices"

// ndcg is KindNDCG where the gain of a passage is its grade. Every sum is taken in rank order.
func ndcg(j *Judged, k int) float64 {
	dcg := 0.0
	for i, grade := range j.top(k) {
		if grade > 0 {
			dcg += float64(grade) / j.discount(i+1)
		}
	}
	if dcg == 0 {
		return 0
	}
	return quotient(dcg, idealDCG(j, k))
}

// idealDCG returns the discounted gain of the best order of the judged passages, of its first k if k is not 0.
func idealDCG(j *Judged, k int) float64 {
	ideal, rank := 0.0, 0
	for _, c := range j.Gold.Grades {
		if c.Grade <= 0 {
			break
		}
		for range c.N {
			if k > 0 && rank == k {
				return ideal
			}
			rank++
			ideal += float64(c.Grade) / j.discount(rank)
		}
	}
	return ideal
}

// rankedGain is a grade with its gain and with how many passages were judged so.
type rankedGain struct {
	grade int32
	n     int
	gain  float64
}

// gainTable returns the grades with their gains, least gain first: those that m.Gains sets, and the others
// that occur. It costs O(grades²) for the grades that are set.
func (m Measure) gainTable(j *Judged) []rankedGain {
	table := j.gains[:0]
	if m.Gains == nil {
		for _, c := range slices.Backward(j.Gold.Grades) {
			table = append(table, rankedGain{c.Grade, c.N, float64(c.Grade)})
		}
		j.gains = table
		return table
	}
	for _, g := range *m.Gains {
		table = append(table, rankedGain{grade: g.Grade, gain: g.Gain})
	}
	set := len(table)
	below := int32(0) // the grades below this one are in the table
	for _, c := range slices.Backward(j.Gold.Grades) {

		for ; below < c.Grade && below < sparseGrades; below++ {
			if gainOf(table[:set], below) == nil {
				table = append(table, rankedGain{grade: below, gain: float64(below)})
			}
		}
		row := gainOf(table[:set], c.Grade)
		if row == nil {
			table = append(table, rankedGain{grade: c.Grade, gain: float64(c.Grade)})
			row = &table[len(table)-1]
		}
		row.n = c.N
		below = c.Grade + 1
	}
	// trec_eval compares the whole part of the difference of two gains, which is no order: only the same sort
	// of the same rows, those of grades that do not occur among them, gives the same table.
	j.scratch = append(j.scratch[:0], table...)
	mergeSort(table, j.scratch, func(a, b *rankedGain) bool { return int(a.gain-b.gain) > 0 })
	j.gains = table
	return table
}

// sparseGrades bounds the rows for grades that do not occur.
const sparseGrades = 1000

// gainOf returns the first row of a grade, or nil.
func gainOf(table []rankedGain, grade int32) *rankedGain {
	for i := range table {
		if table[i].grade == grade {
			return &table[i]
		}
	}
	return nil
}

func gainAt(j *Judged, table []rankedGain, rank int) float64 {
	if row := gainOf(table, j.Rel[rank-1]); row != nil {
		return row.gain
	}
	return 0
}

// idealGains walks down a gain table: the gain at each rank of the best order.
type idealGains struct {
	table []rankedGain // rows still to be used; the last is the present one
	used  int          // passages of the present row that are used up
}

// gain returns the present gain: that of the rank that next returned last, at first the greatest in the table.
func (w idealGains) gain() float64 {
	if len(w.table) == 0 {
		return 0
	}
	return w.table[len(w.table)-1].gain
}

// next moves to the next rank and returns the gain there, 0 past the end.
func (w *idealGains) next() float64 {
	w.used++
	for len(w.table) > 0 && w.used > w.table[len(w.table)-1].n {
		w.table = w.table[:len(w.table)-1]
		w.used = 1
	}
	return w.gain()
}

// gainWalk steps through a list and the best order side by side, to the end of the longer one: the best order
// ends where its gain is no longer above 0.
type gainWalk struct {
	j     *Judged
	table []rankedGain
	ideal idealGains

	rank      int     // 0 before the first step
	inList    bool    // the list reaches this rank
	inIdeal   bool    // the best order had not ended before this rank
	gain      float64 // of the passage at this rank
	idealGain float64 // of the best order at this rank, may be ≤ 0 where it ends
}

func walkGains(j *Judged, table []rankedGain) gainWalk {
	best := idealGains{table: table}
	return gainWalk{j: j, table: table, ideal: best, idealGain: best.gain()}
}

func (w *gainWalk) step() bool {
	w.inList = w.rank < len(w.j.Rel)
	w.inIdeal = w.idealGain > 0
	if !w.inList && !w.inIdeal {
		return false
	}
	w.rank++
	w.gain = 0
	if w.inList {
		w.gain = gainAt(w.j, w.table, w.rank)
	}
	if w.inIdeal {
		w.idealGain = w.ideal.next()
	}
	return true
}

// add returns dcg with the gain of the present rank added, if there is one.
func (w *gainWalk) add(dcg, gain float64) float64 {
	if gain == 0 {
		return dcg
	}
	return dcg + gain/w.j.discount(w.rank)
}

func gainNDCG(j *Judged, table []rankedGain) float64 {
	dcg, ideal := 0.0, 0.0
	for w := walkGains(j, table); w.step(); {
		dcg = w.add(dcg, w.gain)
		ideal = w.add(ideal, max(w.idealGain, 0))
	}
	if ideal > 0 {
		return dcg / ideal
	}
	return 0
}

// ndcgRelevant is KindNDCGRelevant. Passages with a gain that are not in the list count with the ndcg at its end.
func ndcgRelevant(j *Judged, table []rankedGain) float64 {
	dcg, ideal, sum := 0.0, 0.0, 0.0
	retrieved, relevant := 0, 0
	for w := walkGains(j, table); w.step(); {
		dcg = w.add(dcg, w.gain)
		if w.idealGain > 0 {
			relevant++
			ideal = w.add(ideal, w.idealGain)
		}
		if w.gain > 0 {
			retrieved++
			sum += dcg / ideal
		}
	}
	sum += float64(relevant-retrieved) * dcg / ideal
	if sum > 0 {
		return sum / float64(relevant)
	}
	return 0
}

// ndcgAtLevels is KindRNDCG. The ndcg is taken before each rank where the gain of the best order changes, and
// at the end of a list that is longer than the best order.
func ndcgAtLevels(j *Judged, table []rankedGain) float64 {
	if j.Gold.Relevant == 0 {
		return 0
	}
	dcg, ideal, sum := 0.0, 0.0, 0.0
	levels := 0
	w := walkGains(j, table)
	before := w.idealGain
	sample := func() {
		if ideal > 0 {
			sum += dcg / ideal
			levels++
		}
	}
	longer := false
	for w.step() {
		if w.inIdeal && w.idealGain != before {
			sample()
			before = w.idealGain
		}
		dcg = w.add(dcg, w.gain)
		ideal = w.add(ideal, max(w.idealGain, 0))
		longer = w.inList && !w.inIdeal
	}
	if longer {
		sample()
	}
	return sum / float64(levels)
}

// normalizedGain is KindG. Where the gain of the best order is below 1, 1 is taken for it in the discount.
func normalizedGain(j *Judged, table []rankedGain) float64 {
	sum, ideal := 0.0, 0.0
	cost, gained := 0.0, 0.0
	for w := walkGains(j, table); w.step(); {
		ideal += max(w.idealGain, 0)
		if !w.inList {
			continue
		}
		gained += w.gain
		if w.inIdeal {
			cost += max(w.idealGain, 1)
		} else {
			cost++
		}
		if w.gain != 0 {
			sum += w.gain / log2(2+cost-gained)
		}
	}
	if ideal > 0 {
		return sum / ideal
	}
	return 0
}
