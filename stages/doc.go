// Package stages holds the verbs of the dataflow, one a file, and what they keep.
// Stages do no I/O but for the calls that embed makes, know no clock and no codec, and
// have no lock but those of the dictionaries that the workers of one partition share.
//
// A verb is spelled in text by its [Options], and made in Go by its New function,
// which checks the options and returns what a step calls for each instance.
package stages
