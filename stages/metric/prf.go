package metric

import (
	"fmt"

	"evalstream"
)

// ZeroDivision says what precision, recall and F1 are where they would be 0/0.
type ZeroDivision int

const (
	// ZeroDivisionOne is the TACRED scorer's convention: precision 1 if nothing was guessed, recall 0 if there is no gold, F1 0. The zero value.
	ZeroDivisionOne ZeroDivision = iota
	// ZeroDivisionZero makes all three 0, as scikit-learn does.
	ZeroDivisionZero
	// ZeroDivisionNull leaves them undefined, with the reason.
	ZeroDivisionNull
)

// ParseZeroDivision reads "one", "zero" or "null".
func ParseZeroDivision(s string) (ZeroDivision, error) {
	for z := ZeroDivisionOne; z <= ZeroDivisionNull; z++ {
		if s == z.String() {
			return z, nil
		}
	}
	return 0, evalstream.NoChoice("zero-division", s, "one", "zero", "null")
}

// String returns "one", "zero" or "null".
func (z ZeroDivision) String() string {
	switch z {
	case ZeroDivisionOne:
		return "one"
	case ZeroDivisionZero:
		return "zero"
	case ZeroDivisionNull:
		return "null"
	}
	return fmt.Sprintf("ZeroDivision(%d)", int(z))
}

// PRF counts predicted labels against gold labels, leaving out the negative label (NOTA): where prediction and gold are both negative, nothing is counted.
// A wrong positive label on a unit whose gold is positive counts as guessed and as gold, so it costs precision and recall.
// Counts are read up to 4.6e9.
type PRF struct {
	Guessed int64 // units whose predicted label is positive
	Gold    int64 // units whose gold label is positive
	Correct int64 // units whose predicted label is positive and equals the gold label
}

// Add adds o.
func (c *PRF) Add(o PRF) {
	c.Guessed += o.Guessed
	c.Gold += o.Gold
	c.Correct += o.Correct
}

// Sub takes o back.
func (c *PRF) Sub(o PRF) {
	c.Guessed -= o.Guessed
	c.Gold -= o.Gold
	c.Correct -= o.Correct
}

// Precision returns correct/guessed. With nothing guessed it is 1, 0 or undefined (NothingGuessed), as zero says.
func (c PRF) Precision(zero ZeroDivision) Value {
	v := Ratio(evalstream.NanoCount(c.Correct), c.Guessed, NothingGuessed)
	if c.Guessed == 0 && zero == ZeroDivisionOne {
		v.Undefined, v.Value = "", 1
	}
	return zero.fill(v)
}

// Recall returns correct/gold. Without gold it is 0, or undefined (NoGold) if zero is null.
func (c PRF) Recall(zero ZeroDivision) Value {
	return zero.fill(Ratio(evalstream.NanoCount(c.Correct), c.Gold, NoGold))
}

// F1 returns 2·correct / (guessed + gold), the harmonic mean of precision and recall; 0 if nothing is correct.
// With neither guesses nor gold it is 0, or undefined (NoUnits) if zero is null.
func (c PRF) F1(zero ZeroDivision) Value {
	return zero.fill(Ratio(evalstream.NanoCount(2*c.Correct), c.Guessed+c.Gold, NoUnits))
}

func (z ZeroDivision) fill(v Value) Value {
	if z != ZeroDivisionNull {
		v.Undefined = ""
	}
	return v
}

// Macro returns the unweighted means of the rows' precision, recall and F1, each over the rows where it is defined; F1 is the mean of the rows' F1.
// The caller passes one row per positive label that was seen, as gold or as a guess (a guessed label that never is gold is a row with recall 0).
// The rows' order does not matter. Without a defined row the value is undefined (NoUnits).
func Macro(rows []PRF, zero ZeroDivision) (p, r, f1 Value) {
	over := func(read func(PRF, ZeroDivision) Value) Value {
		values := make([]float64, 0, len(rows))
		for _, row := range rows {
			if v := read(row, zero); v.Defined() {
				values = append(values, v.Value)
			}
		}
		mean, _ := MeanSD(values)
		return mean
	}
	return over(PRF.Precision), over(PRF.Recall), over(PRF.F1)
}
