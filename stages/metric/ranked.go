package metric

import "math"

// Score returns the value of m for one list: the double that trec_eval 9.0.8 computes, but 0 where that
// divides 0 by 0. It is in [0, 1], except for the measures that are Geometric (at most 0) and those that
// ParseMeasure does not know. j.Rel must hold the whole list, or at least m.Depth ranks of it. Cost is
// O(ranks read), and O(min(k, R)) for the best order of ndcg; nothing is allocated once j has grown.
//
// Under TiesExpected it is the mean over all orders of the tied passages; m must have passed Ties.Check.
func (m Measure) Score(j *Judged) float64 {
	v := m.TrecScore(j)
	if math.IsNaN(v) {
		return 0
	}
	return v
}

// TrecScore returns what trec_eval does, NaN included: of an empty list (iprec, 11pt_avg), and of judgments
// without a gain (Rndcg).
func (m Measure) TrecScore(j *Judged) float64 {
	if len(j.ties) > 0 {
		return m.expected(j)
	}
	switch m.Kind {
	case KindSuccess:
		for _, grade := range j.top(m.K) {
			if grade >= j.Gold.Level {
				return 1
			}
		}
	case KindRecall, KindSetRecall:
		return ratio(j.hits(m.K), j.Gold.Relevant)
	case KindPrecision:
		return ratio(j.hits(m.K), m.K)
	case KindRelative:
		return ratio(j.hits(m.K), min(m.K, j.Gold.Relevant))
	case KindRPrecision:
		if j.Gold.Relevant > 0 {
			return ratio(j.hits(j.Gold.Relevant), j.Gold.Relevant)
		}
	case KindMRR:
		for i, grade := range j.top(m.K) {
			if grade >= j.Gold.Level {
				return 1 / float64(i+1)
			}
		}
	case KindMAP:
		return averagePrecision(j, m.K)
	case KindGeometricMAP:
		return logAtLeast(averagePrecision(j, 0))
	case KindBPref:
		return bpref(j)
	case KindGeometricBPref:
		return logAtLeast(bpref(j))
	case KindInfAP:
		return inferredAP(j)
	case KindSetPrecision:
		return ratio(j.retrieved(), len(j.Rel))
	case KindSetMAP:
		r := float64(j.retrieved())
		return quotient(r*r, float64(len(j.Rel))*float64(j.Gold.Relevant))
	case KindSetRelative:
		return ratio(j.retrieved(), min(len(j.Rel), j.Gold.Relevant))
	case KindSetF:
		if j.retrieved() > 0 {
			p, q := ratio(j.retrieved(), len(j.Rel)), ratio(j.retrieved(), j.Gold.Relevant)
			return (m.X + 1) * p * q / (float64(m.X*p) + q)
		}
	case KindUnjudged:
		n := 0
		for _, grade := range j.top(m.K) {
			if grade < 0 {
				n++
			}
		}
		return ratio(n, m.K)
	case KindRBP:
		sum, weight := 0.0, 1.0
		for _, grade := range j.Rel {
			if grade >= j.Gold.Level {
				sum += weight
			}
			weight *= rbpPersistence
		}
		return (1 - rbpPersistence) * sum
	case KindIPrecision:
		level := [1]float64{m.X}
		return interpolated(j, level[:])
	case KindElevenPoint:
		if m.Points != nil {
			return interpolated(j, *m.Points) / float64(len(*m.Points))
		}
		levels := [...]float64{0, .1, .2, .3, .4, .5, .6, .7, .8, .9, 1}
		return interpolated(j, levels[:]) / float64(len(levels))
	case KindRPrecisionMultiple:
		switch c := recallPoint(m.X, j.Gold.Relevant); {
		case c > len(j.Rel):
			return ratio(j.retrieved(), c)
		case c > 0:
			return ratio(j.hits(c), c)
		}
	case KindYAAP:
		s := precisionSum(j, 0)
		return ln((1 + s) / (1 + float64(j.Gold.Relevant) - s))
	case KindRetrieved:
		return float64(len(j.Rel))
	case KindRelevant:
		return float64(j.Gold.Relevant)
	case KindRelevantRetrieved:
		return float64(j.retrieved())
	case KindNonrelevantJudged:
		n := 0
		for _, grade := range j.Rel {
			if grade >= 0 && grade < j.Gold.Level {
				n++
			}
		}
		return float64(n)
	case KindNDCG:
		if m.Gains == nil {
			return ndcg(j, m.K)
		}
		return gainNDCG(j, m.gainTable(j))
	case KindNDCGRelevant:
		return ndcgRelevant(j, m.gainTable(j))
	case KindRNDCG:
		return ndcgAtLevels(j, m.gainTable(j))
	case KindG:
		return normalizedGain(j, m.gainTable(j))
	case KindBinaryG:
		return binaryG(j)
	case KindNone:
	}
	return 0
}

const (
	rbpPersistence = 0.9
	infAPEpsilon   = 1e-5
)

// ratio returns a/b, or 0 if b is 0.
func ratio(a, b int) float64 { return quotient(float64(a), float64(b)) }

func quotient(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func logAtLeast(v float64) float64 { return ln(max(v, leastGeometric)) }

// precisionSum adds up the precision at the rank of each relevant passage of the first k.
func precisionSum(j *Judged, k int) float64 {
	sum, hits := 0.0, 0
	for i, grade := range j.top(k) {
		if grade >= j.Gold.Level {
			hits++
			sum += float64(hits) / float64(i+1)
		}
	}
	return sum
}

func averagePrecision(j *Judged, k int) float64 {
	return quotient(precisionSum(j, k), float64(j.Gold.Relevant))
}

func bpref(j *Judged) float64 {
	sum, above := 0.0, 0
	for _, grade := range j.Rel {
		switch {
		case grade < 0:
		case grade < j.Gold.Level:
			above++
		case above == 0:
			sum++
		default:
			sum += 1 - float64(min(above, j.Gold.Relevant))/float64(min(j.Gold.Nonrelevant, j.Gold.Relevant))
		}
	}
	if j.Gold.Relevant > 0 {
		sum /= float64(j.Gold.Relevant)
	}
	return sum
}

func inferredAP(j *Judged) float64 {
	sum := 0.0
	relevant, nonrelevant, pooled := 0, 0, 0 // above the present rank
	for i, grade := range j.Rel {
		switch {
		case grade == NotPooled:
		case grade < 0:
			pooled++
		case grade < j.Gold.Level:
			nonrelevant++
		default:
			if i == 0 {
				sum++
			} else {
				above := float64(i)
				inPool := float64(relevant+nonrelevant+pooled) / above
				precision := (float64(relevant) + infAPEpsilon) / (float64(relevant+nonrelevant) + 2*infAPEpsilon)
				sum += 1/(above+1) + float64(above/(above+1)*inPool*precision)
			}
			relevant++
		}
	}
	if j.Gold.Relevant > 0 {
		sum /= float64(j.Gold.Relevant)
	}
	return sum
}

// recallPoint returns how many relevant passages make recall x, as trec_eval 9 rounds it.
func recallPoint(x float64, relevant int) int { return int(float64(x*float64(relevant)) + 0.9) }

// interpolated adds up the interpolated precision at some recall levels: the greatest precision at or after
// the rank where the level is reached. It walks the list from its end, and a level waits for those after it,
// so levels that do not ascend are taken late, as in trec_eval.
func interpolated(j *Judged, levels []float64) float64 {
	hits := j.retrieved()
	next := len(levels) - 1
	for next >= 0 && recallPoint(levels[next], j.Gold.Relevant) > hits {
		next--
	}
	best := math.NaN()
	if len(j.Rel) > 0 {
		best = float64(hits) / float64(len(j.Rel))
	}
	sum := 0.0
	for rank := len(j.Rel); rank > 0 && hits > 0 && next >= 0; rank-- {
		best = max(best, float64(hits)/float64(rank))
		if j.Rel[rank-1] >= j.Gold.Level {
			for next >= 0 && recallPoint(levels[next], j.Gold.Relevant) == hits {
				sum += best
				next--
			}
			hits--
		}
	}
	for ; next >= 0; next-- {
		sum += best
	}
	return sum
}

func binaryG(j *Judged) float64 {
	sum, hits := 0.0, 0
	for i, grade := range j.Rel {
		if grade >= j.Gold.Level {
			hits++
			sum += 1 / j.discount(i+2-hits)
		}
	}
	return quotient(sum, float64(j.Gold.Relevant))
}
