package metric

import (
	"fmt"
	"math"
)

// Looks says how often an interval may be read while data come in and still hold its confidence.
const (
	LooksOne = "one" // at one n, fixed beforehand
	LooksAny = "any" // at every n: the true value is inside at all times at once with probability Confidence
)

// Interval is a range for the true value, a function of the present counts only.
type Interval struct {
	Method     string  // wilson, beta_cs, normal_mixture_cs or poisson_bootstrap
	Looks      string  // LooksOne or LooksAny
	Confidence float64 // between 0 and 1
	Low, High  float64
}

// Wilson returns Wilson's score interval for k successes in n trials, within [0, 1]; n = 0 gives [0, 1].
// It holds for one look: read again and again, it excludes the true value at some look far more often than 1 − confidence.
func Wilson(k, n int64, confidence float64) Interval {
	checkTrials(k, n, confidence)
	v := Interval{Method: "wilson", Looks: LooksOne, Confidence: confidence, Low: 0, High: 1}
	if n == 0 {
		return v
	}
	z := twoSidedZ(confidence)
	high := func(k float64) float64 {
		n := float64(n)
		return min(1, (k+z*z/2+z*math.Sqrt(k*(n-k)/n+z*z/4))/(n+z*z))
	}
	// The end nearer to 0 comes from the product of the roots, (k/n)²/(1 + z²/n): no cancellation.
	low := func(k float64) float64 {
		n := float64(n)
		return k / n * (k / (n + z*z)) / high(k)
	}
	if k > n-k {
		if k < n {
			v.High = 1 - low(float64(n-k))
		}
		v.Low = 1 - high(float64(n-k))
		return v
	}
	v.Low, v.High = low(float64(k)), high(float64(k))
	return v
}

// BetaCS returns the confidence sequence for k successes in n trials from the uniform mixture of Bernoulli likelihoods (Robbins 1970; Howard, Ramdas, McAuliffe and Sekhon 2021):
// all p with B(k+1, n−k+1) / (p^k (1−p)^(n−k)) < 1/(1 − confidence). n = 0 gives [0, 1]. It holds at any number of looks, and is wider than Wilson's at the same n.
// Both ends are right to 1e-10 of their own size for n up to 1e9.
func BetaCS(k, n int64, confidence float64) Interval {
	checkTrials(k, n, confidence)
	v := Interval{Method: "beta_cs", Looks: LooksAny, Confidence: confidence, Low: 0, High: 1}
	logAlpha := math.Log1p(-confidence)
	switch few := min(k, n-k); {
	case n == 0:
	case few == 0: // p^n = alpha/(n+1)
		t := (logAlpha - math.Log(float64(n)+1)) / float64(n)
		if k == 0 {
			v.High = -math.Expm1(t)
		} else {
			v.Low = math.Exp(t)
		}
	default:
		n, few := float64(n), float64(few)
		limit := math.Log(n+1) + logBinomial(few, n, few/n) - logAlpha
		low, high := solveLikelihood(few, n, limit)
		if float64(k) > few {
			low, high = 1-high, 1-low
		}
		v.Low, v.High = low, high
	}
	return v
}

// solveLikelihood returns both p at which the log-likelihood of k successes in n trials is limit > 0 below its maximum; 0 < k <= n/2.
// It works on u = ln(p/p̂), in which the deviance is convex and p is found to its own relative precision.
func solveLikelihood(k, n, limit float64) (low, high float64) {
	p := k / n
	odds := k / (n - k)
	deviance := func(u float64) (value, slope float64) {
		e := math.Expm1(u)
		t := -odds * e // q = q̂(1 + t)
		return -k*u - (n-k)*math.Log1p(t), k * e * (1 + odds) / (1 + t)
	}
	newton := func(u, end float64) float64 { // end: where the deviance is infinite
		for range 100 {
			value, slope := deviance(u)
			next := u - (value-limit)/slope
			if u > 0 && !(next < end) {
				next = (u + end) / 2
			}
			if math.Abs(next-u) <= 1e-10*math.Abs(next) { // and the error is about its square
				return next
			}
			u = next
		}
		return u
	}
	// Start from the normal approximation; Newton's steps on a convex function come from outside after the first.
	x := math.Sqrt(2 * limit * (1 - p) / k) // standard errors in units of p̂
	end := -math.Log(p)
	start := math.Log1p(x)
	if start >= end {
		start = end - math.Ldexp(end, -3)
	}
	return p * math.Exp(newton(-x, math.Inf(-1))), p * math.Exp(newton(start, end))
}

// NormalMixtureCS returns mean ± √( 2(1+v)/(n r)² · ln(√(1+v)/(1−confidence)) ) with v = n σ² r², cut to [0, 1]: the normal-mixture confidence sequence (Howard et al. 2021) for the mean of n values in [0, 1].
// sigma is the sub-Gaussian scale of one value, 1/2 for values in [0, 1]; r > 0 places the n at which the interval is tightest, and is a setting to print. n = 0 gives [0, 1].
func NormalMixtureCS(mean float64, n int64, sigma, r, confidence float64) Interval {
	checkConfidence(confidence)
	if n < 0 || !(sigma > 0) || !(r > 0) || n > 0 && !(mean >= 0 && mean <= 1) {
		panic(fmt.Sprintf("BUG: metric: normal mixture of mean %v, n %d, sigma %v, r %v", mean, n, sigma, r))
	}
	v := Interval{Method: "normal_mixture_cs", Looks: LooksAny, Confidence: confidence, Low: 0, High: 1}
	if n == 0 {
		return v
	}
	nr := float64(n) * r
	w := 1 + float64(n)*sigma*sigma*r*r
	half := math.Sqrt(2*w*(math.Log(w)/2-math.Log1p(-confidence))) / nr
	v.Low, v.High = max(0, mean-half), min(1, mean+half)
	return v
}

// twoSidedZ returns the z beyond which, on both sides, the standard normal has probability 1 − confidence.
func twoSidedZ(confidence float64) float64 { return math.Sqrt2 * math.Erfinv(confidence) }

// logBinomial returns ln of the binomial probability of k in n at p, 0 <= k <= n, 0 < p < 1, without the cancellation of log-gammas: Loader's saddle-point form (2000).
func logBinomial(k, n, p float64) float64 {
	switch k {
	case 0:
		return n * math.Log1p(-p)
	case n:
		return n * math.Log(p)
	}
	l := n - k
	d := k - n*p
	deviance := k*logOnePlus(d/(n*p), k/(n*p)) + l*logOnePlus(-d/(n*(1-p)), l/(n*(1-p)))
	return stirlingError(n) - stirlingError(k) - stirlingError(l) - deviance + math.Log(n/(2*math.Pi*k*l))/2
}

// logOnePlus returns ln(1+t), from t near 0 and from ratio = 1+t elsewhere, whichever keeps the digits.
func logOnePlus(t, ratio float64) float64 {
	if math.Abs(t) < 0.5 {
		return math.Log1p(t)
	}
	return math.Log(ratio)
}

// stirlingError returns ln m! less Stirling's ½ ln(2πm) + m ln m − m, for whole m >= 1.
func stirlingError(m float64) float64 {
	if m < 16 {
		gamma, _ := math.Lgamma(m + 1)
		return gamma - (math.Log(2*math.Pi*m)/2 + m*math.Log(m) - m)
	}
	s := 1 / (m * m)
	return (1.0/12 - s*(1.0/360-s*(1.0/1260-s*(1.0/1680-s/1188)))) / m
}

func checkTrials(k, n int64, confidence float64) {
	if k < 0 || k > n {
		panic(fmt.Sprintf("BUG: metric: %d successes in %d trials", k, n))
	}
	checkConfidence(confidence)
}

func checkConfidence(confidence float64) {
	if !(confidence > 0 && confidence < 1) {
		panic(fmt.Sprintf("BUG: metric: confidence %v", confidence))
	}
}
