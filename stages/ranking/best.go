package ranking

import "slices"

// Hit is a passage, by its place in the order of ids, and its score.
type Hit[S float32 | float64] struct {
	Passage int32
	Score   S
}

// best keeps the best n hits: score descending, then passage ascending. It is a heap
// whose first hit is the worst one kept.
type best[S float32 | float64] struct {
	n    int
	hits []Hit[S]
}

func (b *best[S]) reset(n int) { b.n, b.hits = n, b.hits[:0] }

// worse reports whether x stands behind y.
func worse[S float32 | float64](x, y Hit[S]) bool {
	if x.Score != y.Score {
		return x.Score < y.Score
	}
	return x.Passage > y.Passage
}

func (b *best[S]) add(h Hit[S]) {
	if len(b.hits) < b.n {
		b.hits = append(b.hits, h)
		for i := len(b.hits) - 1; i > 0; {
			above := (i - 1) / 2
			if !worse(b.hits[i], b.hits[above]) {
				return
			}
			b.hits[i], b.hits[above] = b.hits[above], b.hits[i]
			i = above
		}
		return
	}
	if b.n == 0 || !worse(b.hits[0], h) {
		return
	}
	b.hits[0] = h
	for i := 0; ; {
		least := i
		for below := 2*i + 1; below <= 2*i+2 && below < len(b.hits); below++ {
			if worse(b.hits[below], b.hits[least]) {
				least = below
			}
		}
		if least == i {
			return
		}
		b.hits[i], b.hits[least] = b.hits[least], b.hits[i]
		i = least
	}
}

// sorted is the hits, best first. They are b's until reset.
func (b *best[S]) sorted() []Hit[S] {
	slices.SortFunc(b.hits, func(x, y Hit[S]) int {
		if worse(x, y) {
			return 1
		}
		return -1
	})
	return b.hits
}
