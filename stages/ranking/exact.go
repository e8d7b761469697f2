package ranking

// Vectors is passages by vector, in one piece of memory: 4 bytes a number.
type Vectors struct {
	dims int
	rows []float32
}

// NewVectors makes an empty set of vectors of that many dimensions, at least 1.
func NewVectors(dims int) *Vectors { return &Vectors{dims: dims} }

// Dims is the number of dimensions.
func (v *Vectors) Dims() int { return v.dims }

// Len is the number of vectors.
func (v *Vectors) Len() int { return len(v.rows) / v.dims }

// Add appends a vector of Dims numbers: passage Len() before the call.
func (v *Vectors) Add(row []float32) { v.rows = append(v.rows, row...) }

// Reorder puts the vectors in a new order: place i gets the vector that was at order[i].
func (v *Vectors) Reorder(order []int32) {
	rows := make([]float32, 0, len(v.rows))
	for _, from := range order {
		rows = append(rows, v.rows[int(from)*v.dims:(int(from)+1)*v.dims]...)
	}
	v.rows = rows
}

// Search is one goroutine's room for searching.
type Search struct {
	bests []best[float32]
}

// tileBytes is how much of the passages is gone over for all queries before the next
// piece: it stays in a core's own cache.
const tileBytes = 128 << 10

// Best calls found with the best n passages of each query, by inner product (cosine,
// if the vectors have length 1), equal scores by passage. A query has Dims numbers.
// The passages are read once for all queries of the call. hits are valid during found.
//
// A score does not depend on the other queries: see dot4.
func (v *Vectors) Best(s *Search, queries [][]float32, n int, found func(query int, hits []Hit[float32])) {
	for len(s.bests) < len(queries) {
		s.bests = append(s.bests, best[float32]{})
	}
	for q := range queries {
		s.bests[q].reset(n)
	}
	tile := max(1, tileBytes/4/v.dims)
	for from := 0; from < v.Len(); from += tile {
		to := min(from+tile, v.Len())
		for q := 0; q < len(queries); q += 4 {
			// The last four may be fewer: the first of them fills the places.
			four := [4][]float32{queries[q], queries[q], queries[q], queries[q]}
			n := copy(four[:], queries[q:])
			for p := from; p < to; p++ {
				for i, score := range dot4(v.row(p), &four) {
					if i < n {
						s.bests[q+i].add(Hit[float32]{int32(p), score})
					}
				}
			}
		}
	}
	for q := range queries {
		found(q, s.bests[q].sorted())
	}
}

func (v *Vectors) row(p int) []float32 { return v.rows[p*v.dims : (p+1)*v.dims] }
