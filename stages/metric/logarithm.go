package metric

import "math"

// The standard library's Log, Log2 and Exp are within one unit in the last place, and differ between
// architectures. The functions here carry twice the precision and round once: their results are the
// nearest double but for about one argument in a few thousand, and the same on every machine. That is
// what makes a discounted gain equal to the one that a C program gets, and printed digits stable.

// wide is an unevaluated sum of two doubles, hi the nearest double to it.
type wide struct{ hi, lo float64 }

func wideSum(a, b float64) wide {
	s := a + b
	t := s - a
	return wide{s, (a - (s - t)) + (b - t)}
}

func wideProduct(a, b float64) wide {
	p := float64(a * b)
	return wide{p, math.FMA(a, b, -p)}
}

func (a wide) plus(b wide) wide {
	s := wideSum(a.hi, b.hi)
	return wideSum(s.hi, s.lo+a.lo+b.lo)
}

func (a wide) times(b wide) wide {
	p := wideProduct(a.hi, b.hi)
	return wideSum(p.hi, p.lo+float64(a.hi*b.lo)+float64(a.lo*b.hi))
}

func (a wide) over(b wide) wide {
	q := a.hi / b.hi
	p := b.times(wide{q, 0})
	rest := (a.hi - p.hi) - p.lo + a.lo
	return wideSum(q, rest/b.hi)
}

// wideLn2 and wideLog2E are ln 2 and 1/ln 2 to 106 bits.
func wideLn2() wide   { return wide{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56} }
func wideLog2E() wide { return wide{0x1.71547652b82fep0, 0x1.777d0ffda0d24p-56} }

// wideLn returns ln(m) and e, where x = m·2^e and m is near 1. x is finite and greater than 0.
func wideLn(x float64) (ln wide, e float64) {
	m, exp := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m *= 2
		exp--
	}
	// ln m = 2 artanh s = 2s (1 + s²/3 + s⁴/5 + …) with s = (m-1)/(m+1), |s| < 0.172.
	s := wide{m - 1, 0}.over(wideSum(m, 1))
	square := s.times(s)
	z := square.hi
	var tail float64 // from s⁴/5 on, where a double is precise enough
	for k := 33.0; k >= 5; k -= 2 {
		tail = float64(tail*z) + 1/k
	}
	series := square.over(wide{3, 0}).plus(wide{float64(float64(tail*z) * z), 0})
	ln = s.plus(s.times(series))
	return wide{2 * ln.hi, 2 * ln.lo}, float64(exp)
}

func log2(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 1) {
		return math.Log2(x)
	}
	ln, e := wideLn(x)
	l := ln.times(wideLog2E()).plus(wide{e, 0})
	return l.hi
}

func ln(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 1) {
		return math.Log(x)
	}
	l, e := wideLn(x)
	l = l.plus(wideLn2().times(wide{e, 0}))
	return l.hi
}

// exp returns e^x for x in [-700, 700].
func exp(x float64) float64 {
	k := math.Round(x / math.Ln2)
	r := wide{x, 0}.plus(wideLn2().times(wide{-k, 0}))
	const halvings = 9
	r = wide{math.Ldexp(r.hi, -halvings), math.Ldexp(r.lo, -halvings)}
	// e^r - 1 by Taylor's series, |r| < 0.0007; then (1+y)² - 1 = 2y + y², which keeps the low bits.
	y := r
	for n := 8.0; n >= 2; n-- {
		y = r.plus(r.times(y).over(wide{n, 0}))
	}
	for range halvings {
		y = wide{2 * y.hi, 2 * y.lo}.plus(y.times(y))
	}
	return math.Ldexp(y.plus(wide{1, 0}).hi, int(k))
}
