package ranking

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	diff "github.com/google/go-cmp/cmp"
)

// plain is the search without blocks, heaps or four queries at a time.
func plain(v *Vectors, q []float32, n int) []Hit[float32] {
	var all []Hit[float32]
	for p := range v.Len() {
		var sums [4][4]float32
		row := v.row(p)
		addLanes(row, q, q, q, q, &sums)
		score := (sums[0][0] + sums[0][1]) + (sums[0][2] + sums[0][3])
		for k := len(row) &^ 3; k < len(row); k++ {
			score += float32(row[k] * q[k])
		}
		all = append(all, Hit[float32]{int32(p), score})
	}
	slices.SortFunc(all, func(a, b Hit[float32]) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Passage, b.Passage))
	})
	return all[:min(n, len(all))]
}

func TestVectorsBest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	vector := func(dims int) []float32 {
		v := make([]float32, dims)
		for i := range v {
			v[i] = float32(rng.IntN(5)) - 2 + rng.Float32()*float32(rng.IntN(2)) // many ties
		}
		return v
	}
	var s Search
	f := func(dims, passages, queries, n int) {
		t.Helper()
		v := NewVectors(dims)
		for range passages {
			v.Add(vector(dims))
		}
		var qs [][]float32
		for range queries {
			qs = append(qs, vector(dims))
		}
		seen := 0
		v.Best(&s, qs, n, func(q int, hits []Hit[float32]) {
			seen++
			if d := diff.Diff(plain(v, qs[q], n), append([]Hit[float32](nil), hits...)); d != "" {
				t.Errorf("%d dims, %d passages, query %d of %d, best %d (-plain +got)\n%s", dims, passages, q, queries, n, d)
			}
		})
		if seen != queries {
			t.Errorf("want %d queries, got %d", queries, seen)
		}
	}
	f(1, 100, 5, 10)
	f(2, 300, 9, 1)
	f(7, 5000, 6, 20) // more than one tile
	f(384, 400, 4, 10)
	f(3, 4, 3, 10)
	f(3, 0, 2, 10)
	f(3, 10, 0, 10)
	if t.Failed() {
		return
	}
	v := NewVectors(2)
	v.Add([]float32{1, 0})
	v.Add([]float32{0, 1})
	v.Add([]float32{2, 0})
	v.Reorder([]int32{2, 0, 1})
	v.Best(&s, [][]float32{{1, .5}}, 2, func(_ int, hits []Hit[float32]) {
		if d := diff.Diff([]Hit[float32]{{0, 2}, {1, 1}}, hits); d != "" {
			t.Errorf("after Reorder (-want +got)\n%s", d)
		}
	})
}

func BenchmarkVectorsBest(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	const dims, passages = 384, 20_000
	v := NewVectors(dims)
	row := make([]float32, dims)
	for range passages {
		for i := range row {
			row[i] = rng.Float32()
		}
		v.Add(row)
	}
	for _, queries := range []int{1, 64} {
		qs := make([][]float32, queries)
		for q := range qs {
			qs[q] = v.row(q)
		}
		b.Run(map[int]string{1: "single", 64: "blocked"}[queries], func(b *testing.B) {
			var s Search
			for b.Loop() {
				v.Best(&s, qs, 10, func(int, []Hit[float32]) {})
			}
			b.ReportMetric(float64(b.N)*float64(queries)*passages/b.Elapsed().Seconds()/1e6, "Mvectors/s")
		})
	}
}
