//go:build !amd64

package ranking

func lanes(row, a, b, c, d []float32, sums *[4][4]float32) { addLanes(row, a, b, c, d, sums) }
