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
// An inner product is the sum of two float32 sums, over the even and the odd places,
// whatever the other queries are: a score does not depend on its company.
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
		q := 0
		for ; q+4 <= len(queries); q += 4 {
			a, b, c, d := queries[q], queries[q+1], queries[q+2], queries[q+3]
			for p := from; p < to; p++ {
				w, x, y, z := dot4(v.row(p), a, b, c, d)
				s.bests[q].add(Hit[float32]{int32(p), w})
				s.bests[q+1].add(Hit[float32]{int32(p), x})
				s.bests[q+2].add(Hit[float32]{int32(p), y})
				s.bests[q+3].add(Hit[float32]{int32(p), z})
			}
		}
		for ; q < len(queries); q++ {
			for p := from; p < to; p++ {
				s.bests[q].add(Hit[float32]{int32(p), dot(v.row(p), queries[q])})
			}
		}
	}
	for q := range queries {
		found(q, s.bests[q].sorted())
	}
}

func (v *Vectors) row(p int) []float32 { return v.rows[p*v.dims : (p+1)*v.dims] }

// dot and dot4 add in the same order. Products are rounded before they are added, so
// that machines that fuse the two give the same scores.
func dot(row, q []float32) float32 {
	q = q[:len(row)]
	var even, odd float32
	i := 0
	for ; i+2 <= len(row); i += 2 {
		even += float32(row[i] * q[i])
		odd += float32(row[i+1] * q[i+1])
	}
	if i < len(row) {
		even += float32(row[i] * q[i])
	}
	return even + odd
}

func dot4(row, a, b, c, d []float32) (w, x, y, z float32) {
	a, b, c, d = a[:len(row)], b[:len(row)], c[:len(row)], d[:len(row)]
	var w1, x1, y1, z1 float32
	i := 0
	for ; i+2 <= len(row); i += 2 {
		even, odd := row[i], row[i+1]
		w += float32(even * a[i])
		w1 += float32(odd * a[i+1])
		x += float32(even * b[i])
		x1 += float32(odd * b[i+1])
		y += float32(even * c[i])
		y1 += float32(odd * c[i+1])
		z += float32(even * d[i])
		z1 += float32(odd * d[i+1])
	}
	if i < len(row) {
		even := row[i]
		w += float32(even * a[i])
		x += float32(even * b[i])
		y += float32(even * c[i])
		z += float32(even * d[i])
	}
	return w + w1, x + x1, y + y1, z + z1
}
