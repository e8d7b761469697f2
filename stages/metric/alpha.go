package metric

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Pattern is how often each value was given to one unit.
type Pattern struct {
	Values []int32 // places in the domain, strictly ascending
	Counts []int32 // of the values, 1 or more each
}

// PatternCount is a pattern and the number of units that have it, 0 or more.
type PatternCount struct {
	Pattern
	Units int64
}

// Agreement is what [Alpha] reads.
type Agreement struct {
	// Alpha is at most 1; 0 is chance level, and negative values mean systematic disagreement. It is undefined without a pairable value (NoPairable), and if all pairable values are equal (NoVariation, D_e = 0).
	Alpha Value
	// Observed is the share of equal pairs among the pairs of values within units, a unit of m values weighing m (the diagonal of the coincidence matrix over n), whatever the level.
	// It stays high where one value prevails and alpha is near 0. Undefined without a pairable value.
	Observed  Value
	Units     int64   // pairable units: those with two values or more
	Values    int64   // pairable values: the n of alpha
	Unanimous int64   // pairable units whose values are all equal
	Counts    []int64 // pairable values by place in the domain
}

// Alpha returns Krippendorff's alpha, 1 − D_o/D_e, at the domain's level (Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability").
// Units with fewer than two values are not pairable and count nowhere. The order of hist does not matter, and a pattern may come several times.
// Cost is O(total length of the patterns + values), at ratio level O(squares of these). It panics on patterns that are not as [Pattern] says.
func Alpha(d Domain, hist []PatternCount) Agreement {
	c := newCoincidences(d, hist)
	alpha, reason := c.alpha(c.units)
	a := Agreement{Alpha: Value{Value: alpha, Undefined: reason}, Values: c.n, Counts: c.marginals}
	for i, units := range c.units {
		a.Units += units
		if c.start[i+1]-c.start[i] == 1 {
			a.Unanimous += units
		}
	}
	if c.n == 0 {
		a.Observed = noValue(NoPairable)
	} else {
		a.Observed = some(1 - c.unequal(c.units)/float64(c.n))
	}
	return a
}

// coincidences is a histogram of pairable patterns, distinct and sorted, so that sums over it have one order.
type coincidences struct {
	level   Level
	numbers []float64 // by value, at interval and ratio level: scaled by a power of 2 and shifted where alpha allows it, against overflow and cancellation

	units  []int64 // by pattern
	start  []int   // of each pattern in values and counts, and their end
	values []int32
	counts []int32
	size   []int     // by pattern: its number of values, m
	pairs  []int64   // by pattern: ordered pairs of unequal values, m² − Σ n_c²
	spread []float64 // by pattern, at interval and ratio level: Σ n_c n_k δ² over all ordered pairs / (m − 1)

	sizes  []int   // the distinct m, ascending
	sizeAt []int   // by pattern: place of its m in sizes
	sums   []int64 // scratch, by sizes

	// Of the last call of alpha.
	marginals []int64
	ranks     []float64
	n         int64
}

func newCoincidences(d Domain, hist []PatternCount) *coincidences {
	c := &coincidences{level: d.level, start: []int{0}, marginals: make([]int64, len(d.values))}
	hist = slices.DeleteFunc(slices.Clone(hist), func(p PatternCount) bool {
		checkPattern(d, p)
		return p.Units == 0 || len(p.Values) == 0 || len(p.Values) == 1 && p.Counts[0] == 1
	})
	slices.SortFunc(hist, comparePatterns)
	used := make([]bool, len(d.values))
	for i, p := range hist {
		if i > 0 && comparePatterns(hist[i-1], p) == 0 {
			c.units[len(c.units)-1] += p.Units
			continue
		}
		m, squares := 0, int64(0)
		for j, v := range p.Values {
			used[v] = true
			m += int(p.Counts[j])
			squares += int64(p.Counts[j]) * int64(p.Counts[j])
		}
		c.units = append(c.units, p.Units)
		c.values = append(c.values, p.Values...)
		c.counts = append(c.counts, p.Counts...)
		c.start = append(c.start, len(c.values))
		c.size = append(c.size, m)
		c.pairs = append(c.pairs, int64(m)*int64(m)-squares)
	}
	c.sizes = slices.Clone(c.size)
	slices.Sort(c.sizes)
	c.sizes = slices.Compact(c.sizes)
	c.sums = make([]int64, len(c.sizes))
	for _, m := range c.size {
		at, _ := slices.BinarySearch(c.sizes, m)
		c.sizeAt = append(c.sizeAt, at)
	}
	switch c.level {
	case OrdinalLevel:
		c.ranks = make([]float64, len(d.values))
	case IntervalLevel, RatioLevel:
		c.numbers = scaled(d.numbers, used, c.level == IntervalLevel)
		for i := range c.units {
			c.spread = append(c.spread, c.spreadOf(i, c.numbers))
		}
	}
	return c
}

func checkPattern(d Domain, p PatternCount) {
	ok := len(p.Values) == len(p.Counts) && p.Units >= 0
	for i := 0; ok && i < len(p.Values); i++ {
		ok = p.Values[i] >= 0 && int(p.Values[i]) < len(d.values) && p.Counts[i] >= 1 && (i == 0 || p.Values[i] > p.Values[i-1])
	}
	if !ok {
		panic(fmt.Sprintf("BUG: metric: pattern %v in a domain of %d values", p, len(d.values)))
	}
}

func comparePatterns(a, b PatternCount) int {
	return cmp.Or(slices.Compare(a.Values, b.Values), slices.Compare(a.Counts, b.Counts))
}

// scaled returns the numbers with the largest used one brought to [1/2, 1), and less the smallest used one if shift is set. Both leave alpha as it is.
func scaled(numbers []float64, used []bool, shift bool) []float64 {
	largest, least := 0.0, math.Inf(1)
	for i, x := range numbers {
		if used[i] {
			largest, least = max(largest, math.Abs(x)), min(least, x)
		}
	}
	_, exp := math.Frexp(largest)
	out := make([]float64, len(numbers))
	for i, x := range numbers {
		if !used[i] {
			continue
		}
		out[i] = math.Ldexp(x, -exp)
		if shift {
			out[i] -= math.Ldexp(least, -exp)
		}
	}
	return out
}

// alpha returns alpha with weights as the patterns' units, or the reason why it is undefined.
func (c *coincidences) alpha(weights []int64) (alpha float64, reason string) {
	clear(c.marginals)
	c.n = 0
	for i, w := range weights {
		for j := c.start[i]; j < c.start[i+1]; j++ {
			c.marginals[c.values[j]] += w * int64(c.counts[j])
		}
		c.n += w * int64(c.size[i])
	}
	distinct := 0
	for _, n := range c.marginals {
		if n > 0 {
			distinct++
		}
	}
	switch distinct {
	case 0:
		return 0, NoPairable
	case 1:
		return 0, NoVariation
	}

	var observed, expected float64 // Σ o_ck δ² and Σ n_c n_k δ², over all ordered pairs
	switch c.level {
	case NominalLevel:
		observed = c.unequal(weights)
		for _, n := range c.marginals {
			expected += float64(n) * float64(c.n-n)
		}
	case OrdinalLevel:
		below := int64(0)
		for i, n := range c.marginals {
			c.ranks[i] = float64(2*below + n) // twice the mid rank
			below += n
		}
		for i, w := range weights {
			if w != 0 && c.pairs[i] != 0 {
				observed += float64(float64(w) * c.spreadOf(i, c.ranks))
			}
		}
		expected = squares(c.ranks, c.marginals, c.n)
	case IntervalLevel:
		observed = c.weighted(weights)
		expected = squares(c.numbers, c.marginals, c.n)
	case RatioLevel:
		observed = c.weighted(weights)
		for i, n := range c.marginals {
			for k := 0; n > 0 && k < i; k++ {
				if c.marginals[k] > 0 {
					expected += float64(2 * float64(n) * float64(c.marginals[k]) * ratioDistance(c.numbers[i], c.numbers[k]))
				}
			}
		}
	}
	if expected == 0 { // two numbers too close to tell apart beside the largest
		return 0, NoVariation
	}
	return 1 - float64(c.n-1)*observed/expected, ""
}

// unequal returns Σ o_ck over c ≠ k: whole numbers per m, divided by m − 1 at the end.
func (c *coincidences) unequal(weights []int64) float64 {
	clear(c.sums)
	for i, w := range weights {
		c.sums[c.sizeAt[i]] += w * c.pairs[i]
	}
	total := 0.0
	for i, sum := range c.sums {
		total += float64(sum) / float64(c.sizes[i]-1)
	}
	return total
}

func (c *coincidences) weighted(weights []int64) float64 {
	total := 0.0
	for i, w := range weights {
		total += float64(float64(w) * c.spread[i])
	}
	return total
}

// spreadOf returns Σ n_c n_k δ² / (m − 1) over the ordered pairs of pattern i, 0 exactly if its values are equal.
func (c *coincidences) spreadOf(i int, numbers []float64) float64 {
	values, counts := c.values[c.start[i]:c.start[i+1]], c.counts[c.start[i]:c.start[i+1]]
	if len(values) == 1 {
		return 0
	}
	sum := 0.0
	if c.level == RatioLevel {
		for j, v := range values {
			for k := range j {
				sum += float64(2 * float64(counts[j]) * float64(counts[k]) * ratioDistance(numbers[v], numbers[values[k]]))
			}
		}
		return sum / float64(c.size[i]-1)
	}
	// Σ n_c n_k (x_c − x_k)² = 2m Σ n_c (x_c − x̄)²
	m, origin := float64(c.size[i]), numbers[values[0]]
	for j, v := range values {
		sum += float64(float64(counts[j]) * (numbers[v] - origin))
	}
	mean, around := sum/m, 0.0
	for j, v := range values {
		x := numbers[v] - origin - mean
		around += float64(float64(counts[j]) * x * x)
	}
	return 2 * m * around / (m - 1)
}

// squares returns Σ n_c n_k (x_c − x_k)² over the ordered pairs of values.
func squares(numbers []float64, counts []int64, n int64) float64 {
	sum := 0.0
	for i, count := range counts {
		sum += float64(float64(count) * numbers[i])
	}
	mean, around := sum/float64(n), 0.0
	for i, count := range counts {
		x := numbers[i] - mean
		around += float64(float64(count) * x * x)
	}
	return 2 * float64(n) * around
}

// ratioDistance returns ((a − b)/(a + b))², 0 for two zeros.
func ratioDistance(a, b float64) float64 {
	if a == b {
		return 0
	}
	d := (a - b) / (a + b)
	return d * d
}
