// Package metric holds the computations of evalstream: values in, values out.
// It knows no record, no context, no clock and no global random source, so a metric is the same whichever stage, process or partition reads it.
//
// What accumulates is integers: a score is a [evalstream.Nano], everything else is a count. Sums are therefore exact, free of order, mergeable, and able to take back what they added.
// Floats appear on reading, in a fixed order. What cannot be computed is a [Value] with a reason, never NaN.
// Arguments that no data can cause (more successes than trials, a confidence of 2) are programming faults and panic with "BUG:"; literals that come from data give errors.
package metric
