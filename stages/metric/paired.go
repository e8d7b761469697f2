package metric

import (
	"fmt"
	"math"
)

// McNemar returns the exact two-sided p-value of McNemar's test: twice the probability of at most min(b, c) heads in b + c tosses of a fair coin, at most 1.
// b and c count the units on which only one of two systems was right; units on which both were right or both wrong say nothing. Without discordant units it is 1.
// It holds for one look. Cost is O(√(b+c)). It reaches 0 only by underflow, below 1e-308.
func McNemar(b, c int64) float64 {
	checkPairs(b, c)
	if b == c {
		return 1
	}
	k, n := float64(min(b, c)), float64(b)+float64(c)
	tail, term := 0.0, 1.0 // in units of the largest term, that of k
	for i := k; term > 1e-17*tail; i-- {
		tail += term
		term *= i / (n - i + 1)
	}
	return min(1, 2*tail*math.Exp(logBinomial(k, n, 0.5)))
}

// EValue returns 2^(b+c) · b! c! / (b+c+1)!, the evidence against "neither system is better" after b and c discordant units: reject at e >= 1/(1 − confidence), at any look.
// It is 1 without discordant units. E-values of independent streams multiply, and their averages are e-values. Results beyond float64 are cut to its largest number.
func EValue(b, c int64) float64 {
	checkPairs(b, c)
	n := float64(b) + float64(c)
	if n == 0 {
		return 1
	}
	return min(math.MaxFloat64, math.Exp(-math.Log1p(n)-logBinomial(float64(b), n, 0.5)))
}

func checkPairs(b, c int64) {
	if b < 0 || c < 0 {
		panic(fmt.Sprintf("BUG: metric: %d and %d discordant units", b, c))
	}
}
