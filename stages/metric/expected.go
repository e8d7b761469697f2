package metric

// expected is the mean of m over all orders of the passages within each tie. A passage of a group of n stands
// at each of the group's ranks with probability 1/n, so measures that are sums over ranks take each rank with
// the mean gain of its group; success and mrr need the rank of the first relevant one of a group.
func (m Measure) expected(j *Judged) float64 {
	relevant := func(grade int32) float64 {
		if grade >= j.Gold.Level {
			return 1
		}
		return 0
	}
	switch m.Kind {
	case KindRecall:
		return quotient(j.meanSum(m.K, relevant, nil), float64(j.Gold.Relevant))
	case KindPrecision:
		return quotient(j.meanSum(m.K, relevant, nil), float64(m.K))
	case KindRelative:
		return quotient(j.meanSum(m.K, relevant, nil), float64(min(m.K, j.Gold.Relevant)))
	case KindRPrecision:
		if j.Gold.Relevant > 0 {
			return j.meanSum(j.Gold.Relevant, relevant, nil) / float64(j.Gold.Relevant)
		}
		return 0
	case KindUnjudged:
		unjudged := func(grade int32) float64 {
			if grade < 0 {
				return 1
			}
			return 0
		}
		return quotient(j.meanSum(m.K, unjudged, nil), float64(m.K))
	case KindNDCG:
		gain := func(grade int32) float64 { return float64(max(grade, 0)) }
		dcg := j.meanSum(m.K, gain, func(rank int) float64 { return 1 / j.discount(rank) })
		return quotient(dcg, idealDCG(j, m.K))
	case KindRBP:
		weight := 1.0
		return (1 - rbpPersistence) * j.meanSum(0, relevant, func(int) float64 {
			w := weight
			weight *= rbpPersistence
			return w
		})
	case KindSuccess:
		return j.meanFirst(m.K, nil)
	case KindMRR:
		return j.meanFirst(m.K, func(rank int) float64 { return 1 / float64(rank) })
	default: // the order within the list does not count (set_*); Ties.Check refuses the others
		ties := j.ties
		j.ties = nil
		v := m.TrecScore(j)
		j.ties = ties
		return v
	}
}

// meanSum adds up, over ranks 1 to k (all if 0), the mean gain of the rank's group times the rank's weight. A
// nil weight is 1 everywhere, and the sum of a group that lies within k is then exact. weight is called once
// for each rank, in order.
func (j *Judged) meanSum(k int, gain func(grade int32) float64, weight func(rank int) float64) float64 {
	depth := len(j.top(k))
	sum, start := 0.0, 0
	for _, end := range j.ties {
		if start >= depth {
			break
		}
		inGroup := 0.0
		for _, grade := range j.Rel[start:end] {
			inGroup += gain(grade)
		}
		within, n := min(int(end), depth)-start, int(end)-start
		switch {
		case weight != nil:
			weights := 0.0
			for rank := start + 1; rank <= start+within; rank++ {
				weights += weight(rank)
			}
			sum += inGroup * weights / float64(n)
		case within == n:
			sum += inGroup
		default:
			sum += inGroup * float64(within) / float64(n)
		}
		start = int(end)
	}
	return sum
}

// meanFirst returns the mean of value(rank of the first relevant passage), 0 where that is past k (0: the end).
// A nil value is 1: the probability that there is one within k.
func (j *Judged) meanFirst(k int, value func(rank int) float64) float64 {
	depth := len(j.top(k))
	start := 0
	for _, end := range j.ties {
		n, hits := int(end)-start, 0
		for _, grade := range j.Rel[start:end] {
			if grade >= j.Gold.Level {
				hits++
			}
		}
		if hits > 0 {
			return firstOfTie(start, n, hits, min(n-hits+1, depth-start), value)
		}
		start = int(end)
	}
	return 0
}

// firstOfTie is meanFirst for a tie of n passages with some hits, behind start ranks without one, where the
// first hit counts if it stands at one of the tie's first places.
func firstOfTie(start, n, hits, places int, value func(rank int) float64) float64 {
	sum, none := 0.0, 1.0 // none: the probability that no hit stands at the places before
	switch {
	case hits == 1 && value == nil:
		return float64(max(places, 0)) / float64(n)
	case hits == 1:
		for p := range places {
			sum += value(start + p + 1)
		}
		return sum / float64(n)
	}
	for p := range places {
		left := float64(n - p)
		if value != nil {
			sum += float64(none * float64(hits) / left * value(start+p+1))
		}
		none *= (left - float64(hits)) / left
	}
	if value == nil {
		return 1 - none
	}
	return sum
}
