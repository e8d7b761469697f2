package stages_test

import (
	"iter"
	"os"
	"strconv"
)

// seeds are the first n seeds; EVALSTREAM_SEEDS times as many.
func seeds(n uint64) iter.Seq[uint64] {
	if times, err := strconv.ParseUint(os.Getenv("EVALSTREAM_SEEDS"), 10, 16); err == nil {
		n *= times
	}
	return func(yield func(uint64) bool) {
		for seed := range n {
			if !yield(seed) {
				return
			}
		}
	}
}
