package metric

import (
	"fmt"
	"hash/fnv"
	"slices"
)

// Resampling is how a bootstrap is drawn; equal settings and equal counts give equal draws on every machine.
type Resampling struct {
	Replicas   int // 1 or more; 1,000 for a steady interval
	Seed       uint64
	Confidence float64 // between 0 and 1
}

// Bootstrap is an interval and what it rests on.
type Bootstrap struct {
	Interval  Interval
	Used      int    // replicas with a value; the others had D_e = 0 or no unit
	Undefined string // why there is no interval, "" if there is one
}

// PoissonBootstrap returns the percentile interval of alpha over replicas in which each unit counts Poisson(1) times, so that a pattern with u units counts Poisson(u) times: a function of hash(seed, replica, pattern) and u alone.
// The interval is for one look. Replicas without a value are left out and counted; where one value prevails they are many. If alpha itself is undefined, so is the interval, for the same reason.
// Percentiles interpolate linearly between the sorted replicas. Cost is O(replicas · length of the patterns); memory 160·√u bytes for each distinct u.
func PoissonBootstrap(d Domain, hist []PatternCount, r Resampling) Bootstrap {
	checkConfidence(r.Confidence)
	if r.Replicas < 1 {
		panic(fmt.Sprintf("BUG: metric: bootstrap of %d replicas", r.Replicas))
	}
	c := newCoincidences(d, hist)
	b := Bootstrap{Interval: Interval{Method: "poisson_bootstrap", Looks: LooksOne, Confidence: r.Confidence}}
	if _, b.Undefined = c.alpha(c.units); b.Undefined != "" {
		return b
	}
	draws := make([]draw, len(c.units))
	tables := make(map[int64]poisson)
	var key []byte
	for i, units := range c.units {
		table, ok := tables[units]
		if !ok {
			table = newPoisson(units)
			tables[units] = table
		}
		key = key[:0]
		for j := c.start[i]; j < c.start[i+1]; j++ {
			key = appendCount(key, d.values[c.values[j]], int(c.counts[j]))
		}
		h := fnv.New64a()
		h.Write(key)
		draws[i] = draw{table, scramble(h.Sum64() ^ scramble(r.Seed))}
	}

	alphas := make([]float64, 0, r.Replicas)
	weights := make([]int64, len(draws))
	for replica := range r.Replicas {
		for i, d := range draws {
			weights[i] = d.table.at(scramble(d.stream + uint64(replica+1)*golden))
		}
		if alpha, reason := c.alpha(weights); reason == "" {
			alphas = append(alphas, alpha)
		}
	}
	b.Used = len(alphas)
	if b.Used == 0 {
		b.Undefined = NoVariation
		return b
	}
	slices.Sort(alphas)
	tail := (1 - r.Confidence) / 2
	b.Interval.Low, b.Interval.High = percentile(alphas, tail), percentile(alphas, 1-tail)
	return b
}

// draw is the sequence of one pattern's weights.
type draw struct {
	table  poisson
	stream uint64
}

// golden is 2^64 over the golden ratio: the step of SplitMix64 (Steele, Lea and Flood 2014).
const golden = 0x9e3779b97f4a7c15

// scramble is SplitMix64's output function.
func scramble(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// percentile returns the q-quantile of sorted values, linear between the two nearest.
func percentile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := min(int(at), len(sorted)-1)
	if i == len(sorted)-1 {
		return sorted[i]
	}
	part := at - float64(i)
	return sorted[i] + float64(part*(sorted[i+1]-sorted[i]))
}

// poisson is a Poisson distribution as a table: cumulative weights from least on, up to where the mass left over is beyond float64.
// It is made of products, quotients and sums alone, which IEEE 754 rounds alike everywhere; exp and lgamma are not.
type poisson struct {
	least      int64
	cumulative []float64
}

// newPoisson returns the distribution with a whole mean of 1 or more. Its length is about 20·√mean.
func newPoisson(mean int64) poisson {
	const negligible = 1e-20 // of the largest term, which is 1
	lambda := float64(mean)
	var below []float64 // downwards from mean − 1
	for k, p := lambda, 1.0; k > 0; k-- {
		if p = p * k / lambda; p < negligible {
			break
		}
		below = append(below, p)
	}
	t := poisson{least: mean - int64(len(below)), cumulative: make([]float64, 0, 2*len(below)+32)}
	sum := 0.0
	for _, p := range slices.Backward(below) {
		sum += p
		t.cumulative = append(t.cumulative, sum)
	}
	for k, p := lambda, 1.0; p >= negligible; {
		sum += p
		t.cumulative = append(t.cumulative, sum)
		k++
		p = p * lambda / k
	}
	return t
}

// at returns the quantile of the 53 high bits of a random word.
func (t poisson) at(word uint64) int64 {
	u := float64(word>>11) / (1 << 53) * t.cumulative[len(t.cumulative)-1]
	low, high := 0, len(t.cumulative)-1
	for low < high {
		mid := int(uint(low+high) >> 1)
		if t.cumulative[mid] > u {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return t.least + int64(low)
}
