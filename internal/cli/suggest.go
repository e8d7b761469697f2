package cli

import (
	"fmt"
	"strings"
)

// nearest is the one of names that differs least from name, "" if all differ much.
func nearest(name string, names []string) string {
	best, at := "", 3
	for _, n := range names {
		if d := distance(strings.ToLower(name), strings.ToLower(n)); d < at {
			best, at = n, d
		}
	}
	return best
}

// didYouMean suggests the nearest name, or lists them all.
func didYouMean(name string, names []string) string {
	if best := nearest(name, names); best != "" {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	return fmt.Sprintf(" (have %s)", strings.Join(names, ", "))
}

// distance is the number of letters to change, add, drop or swap.
func distance(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row := rows[0], rows[1], rows[2]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		rows[0], rows[1], rows[2] = last, row, before
	}
	return rows[1][len(b)]
}
