package cli

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"evalstream"
)

// plainDecimals is for values without an interval: as many as trec_eval prints.
const plainDecimals = 4

// decimals is how many digits after the point say something: one more than the
// first in which half the interval shows. 2 to 6.
func (r *row) decimals() int {
	half := (r.interval.High - r.interval.Low) / 2
	if !r.hasInterval || !(half > 0) || math.IsInf(half, 0) {
		return plainDecimals
	}
	return min(6, max(2, 1+int(math.Ceil(-math.Log10(half)))))
}

func fixed(v float64, decimals int) string { return strconv.FormatFloat(v, 'f', decimals, 64) }

// count is an integer in groups of three digits.
func count(n int64) string {
	s := strconv.FormatInt(n, 10)
	digits := strings.TrimPrefix(s, "-")
	var b strings.Builder
	b.WriteString(s[:len(s)-len(digits)])
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// plural is a count with its noun.
func plural(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return count(n) + " " + noun
}

// shown is a JSON literal as people read it: strings without their quotes, unless
// what is left would read as something else.
func shown(literal string) string {
	if literal == "" || literal == "null" {
		return "(none)"
	}
	if literal[0] != '"' {
		return printable(literal)
	}
	var s string
	if json.Unmarshal([]byte(literal), &s) != nil {
		return printable(literal)
	}
	if s == "" || strings.TrimSpace(s) != s || s[0] == '"' || s == "(none)" || json.Valid([]byte(s)) {
		return printable(literal)
	}
	return printable(s)
}

// printable replaces what would move a terminal's cursor or hide text.
func printable(s string) string {
	if !strings.ContainsFunc(s, hidden) {
		return strings.Clone(s)
	}
	var b strings.Builder
	for _, r := range s {
		if hidden(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// hidden says that r is neither a graphic character nor a part of one: joiners
// between letters are.
func hidden(r rune) bool { return !unicode.IsGraphic(r) && r != '\u200c' && r != '\u200d' }

// windowsOf says how the windows of groups are shown: by their start, with the
// length in the title if they have one length only.
func windowsOf(groups []*group) (title string, text func(evalstream.Window) string) {
	var lengths []evalstream.Time
	seconds := false
	for _, g := range groups {
		if g.window.All {
			continue
		}
		if n := g.window.End - g.window.Start; !slices.Contains(lengths, n) {
			lengths = append(lengths, n)
		}
		seconds = seconds || g.window.Start%evalstream.Time(time.Minute) != 0
	}
	form := "2006-01-02 15:04"
	if seconds {
		form = "2006-01-02 15:04:05.999999999"
	}
	title = "window from (UTC)"
	if len(lengths) == 1 {
		title = Duration(lengths[0]).text() + " from (UTC)"
	}
	return title, func(w evalstream.Window) string {
		if w.All {
			return "all"
		}
		s := time.Unix(0, int64(w.Start)).UTC().Format(form)
		if len(lengths) > 1 {
			s += " " + Duration(w.End-w.Start).text()
		}
		return s
	}
}

// windowInWords reads a cell of the column of that title out of it.
func windowInWords(title string) func(string) string {
	return func(cell string) string {
		if cell == "all" {
			return "all time"
		}
		return strings.TrimSuffix(title, "(UTC)") + cell + " UTC"
	}
}

// intervalTitle names the confidence if all rows have the same.
func intervalTitle(groups []*group) string {
	var levels []float64
	for _, g := range groups {
		for i := range g.rows {
			if r := &g.rows[i]; r.hasInterval && !slices.Contains(levels, r.interval.Confidence) {
				levels = append(levels, r.interval.Confidence)
			}
		}
	}
	if len(levels) != 1 {
		return "interval"
	}
	return strconv.FormatFloat(100*levels[0], 'g', 6, 64) + "% interval"
}
