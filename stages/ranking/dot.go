package ranking

// dot4 is the inner products of row with four queries of its length. Each is four
// sums, over the places 0, 4, 8 …; 1, 5, 9 …; and so on, added up as (0+1)+(2+3), then
// the places beyond the last four. Products are rounded before they are added. So a
// score is the same on every machine, and whatever queries stand beside its own.
func dot4(row []float32, q *[4][]float32) (scores [4]float32) {
	var sums [4][4]float32
	lanes(row, q[0], q[1], q[2], q[3], &sums)
	tail := len(row) &^ 3
	for i := range scores {
		s := &sums[i]
		scores[i] = (s[0] + s[1]) + (s[2] + s[3])
		for k := tail; k < len(row); k++ {
			scores[i] += float32(row[k] * q[i][k])
		}
	}
	return scores
}

// addLanes adds the places before the last len(row)%4 to sums.
func addLanes(row, a, b, c, d []float32, sums *[4][4]float32) {
	for i := 0; i+4 <= len(row); i += 4 {
		for k := range 4 {
			x := row[i+k]
			sums[0][k] += float32(x * a[i+k])
			sums[1][k] += float32(x * b[i+k])
			sums[2][k] += float32(x * c[i+k])
			sums[3][k] += float32(x * d[i+k])
		}
	}
}
