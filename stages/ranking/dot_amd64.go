package ranking

// dotLanes is addLanes in SSE, which every amd64 has; n is a multiple of 4.
//
//go:noescape
func dotLanes(row, a, b, c, d *float32, n int, sums *[4][4]float32)

func lanes(row, a, b, c, d []float32, sums *[4][4]float32) {
	if n := len(row) &^ 3; n > 0 {
		dotLanes(&row[0], &a[:n][0], &b[:n][0], &c[:n][0], &d[:n][0], n, sums)
	}
}
