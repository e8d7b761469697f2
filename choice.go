package evalstream

import (
	"fmt"
	"strings"
)

// NoChoice says that got is none of the words, at least two, that subject may be:
// "ties: want trec, rank or worst, got "tec"; did you mean "trec"?".
func NoChoice(subject, got string, words ...string) error {
	last := len(words) - 1
	text := fmt.Sprintf("%s: want %s or %s, got %q", subject, strings.Join(words[:last], ", "), words[last], got)
	if meant := Nearest(got, words); meant != "" {
		text += fmt.Sprintf("; did you mean %q?", meant)
	}
	return fmt.Errorf("%s", text)
}

// Nearest is the one of names, the first of equals, that differs least from name: in
// at most two letters that are changed, added, dropped or swapped, but not in all of
// its own. It is "" if there is none. Case does not matter.
func Nearest(name string, names []string) string {
	best, least := "", 3
	for _, n := range names {
		if d := distance(strings.ToLower(name), strings.ToLower(n)); d < least && d < len(n) {
			best, least = n, d
		}
	}
	return best
}

// distance is the number of letters to change, add, drop or swap. What is much longer
// than any name differs in its whole length.
func distance(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
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
