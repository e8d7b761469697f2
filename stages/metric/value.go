package metric

import (
	"fmt"
	"math"
	"slices"

	"evalstream"
)

// Reasons why a [Value] is undefined.
const (
	NoUnits        = "no_units"        // nothing to take a mean of
	NothingGuessed = "nothing_guessed" // precision: no positive label was predicted
	NoGold         = "no_gold"         // recall: no positive label was expected
	OneValue       = "one_value"       // spread: fewer than two values
	NoVariation    = "no_variation"    // alpha: all pairable values are equal, so D_e = 0
	NoPairable     = "no_pairable"     // alpha: no unit has two values
)

// Value is a metric as read: a number, or the reason why there is none.
type Value struct {
	Value     float64         // finite; 0 if Undefined is set
	Undefined string          // the reason, "" if there is a value
	Num       evalstream.Nano // numerator
	Den       int64           // denominator; 0 beside a value says that a convention gave it
	HasRatio  bool            // Num and Den are set: the value is Num/Den (alpha, macro means and spreads are not of that form)
}

// Defined reports whether there is a value.
func (v Value) Defined() bool { return v.Undefined == "" }

// Ratio returns num/den: the float64 nearest to the exact quotient. With den = 0 it is undefined for the reason given.
// A mean is the sum of scores over their count, a proportion NanoCount(hits) over trials. It panics if den is negative.
func Ratio(num evalstream.Nano, den int64, reason string) Value {
	v := Value{Num: num, Den: den, HasRatio: true}
	switch {
	case den < 0:
		panic(fmt.Sprintf("BUG: metric: denominator %d", den))
	case den == 0:
		v.Undefined = reason
	default:
		v.Value = num.Over(den)
	}
	return v
}

func some(x float64) Value { return Value{Value: x} }

func noValue(reason string) Value { return Value{Undefined: reason} }

// MeanSD returns the mean of values and their sample standard deviation (divisor n − 1), the same in any order of the values.
// The mean of no value is undefined, and so is the deviation of fewer than two.
func MeanSD(values []float64) (mean, sd Value) {
	if len(values) == 0 {
		return noValue(NoUnits), noValue(OneValue)
	}
	values = slices.Clone(values)
	slices.Sort(values)
	n := float64(len(values))
	sum := 0.0
	for _, x := range values {
		sum += x
	}
	m := sum / n
	if len(values) == 1 {
		return some(m), noValue(OneValue)
	}
	if values[0] == values[len(values)-1] {
		return some(values[0]), some(0)
	}
	squares := 0.0
	for _, x := range values {
		squares += float64((x - m) * (x - m))
	}
	return some(m), some(math.Sqrt(squares / (n - 1)))
}
