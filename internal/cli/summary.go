package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"evalstream"
)

// WriteSummary tells people what a job did: lines, then for each step and kind where
// the records went, in parts that add up, then the rejects by class. verb stands in
// front of each reject that rejects has kept; rejects may be nil.
func WriteSummary(w io.Writer, verb string, sum evalstream.Summary, rejects *Rejects) error {
	var b strings.Builder
	if rejects != nil {
		for _, m := range rejects.first {
			b.WriteString("evalstream " + verb + ": " + m + "\n")
		}
		if more := rejects.total - int64(min(rejects.kept, keptRejects)); more > 0 {
			fmt.Fprintf(&b, "evalstream %s: and %s (%s)\n", verb, plural(more, "more reject"), cmp.Or(rejects.All, "--rejects FILE keeps them all"))
		}
	}
	fmt.Fprintf(&b, "%s = %s blank + %s read\n", plural(sum.Lines, "line"), count(sum.Blank), count(sum.Lines-sum.Blank))
	for _, t := range sum.Tallies {
		b.WriteString(tallyText(t) + "\n")
	}
	for _, c := range sum.Counters {
		if c.N != 0 {
			fmt.Fprintf(&b, "%s: %s: %s\n", c.Step, c.Name, count(c.N))
		}
	}
	for _, note := range sum.Notes {
		b.WriteString("note: " + note + "\n")
	}
	if sum.Rejects > 0 {
		fmt.Fprintf(&b, "%s: %s\n", plural(sum.Rejects, "reject"), classes(sum.ByClass))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// tallyText is one row: "score run: received 10 = held 9 (scored 9) + replaced 0 + rejected 1 + late 0".
func tallyText(t evalstream.Tally) string {
	var parts []string
	part := func(name string, n int64) { parts = append(parts, name+" "+count(n)) }
	holds := t.Held != 0 || t.Replaced != 0
	if t.Passed != 0 || !holds {
		part("passed", t.Passed)
	}
	if holds {
		part("held", t.Held)
		var of []string
		for _, s := range evalstream.Statuses() {
			if n := t.Of[s]; n != 0 {
				of = append(of, statusName(t.Kind, s)+" "+count(n))
			}
		}
		if len(of) > 0 {
			parts[len(parts)-1] += " (" + strings.Join(of, ", ") + ")"
		}
		part("replaced", t.Replaced)
	}
	part("rejected", t.Rejected)
	part("late", t.Late)
	line := fmt.Sprintf("%s %s: received %s = %s", t.Step, t.Kind, count(t.Received), strings.Join(parts, " + "))
	if !t.Balanced() {
		line += "; this does not add up, which is a fault of evalstream: please report it"
	}
	return line
}

// statusName is a status as it is said of a kind: gold that has met a prediction is
// matched.
func statusName(kind string, s evalstream.Status) string {
	if s == evalstream.Scored && (kind == "qrel" || kind == "gold") {
		return "matched"
	}
	return s.String()
}

// classes lists counts by class, the greatest first.
func classes(by map[evalstream.Class]int64) string {
	var names []evalstream.Class
	for c, n := range by {
		if n != 0 {
			names = append(names, c)
		}
	}
	slices.SortFunc(names, func(a, b evalstream.Class) int {
		if by[a] != by[b] {
			if by[a] > by[b] {
				return -1
			}
			return 1
		}
		return strings.Compare(string(a), string(b))
	})
	parts := make([]string, len(names))
	for i, c := range names {
		parts[i] = string(c) + " " + count(by[c])
	}
	return strings.Join(parts, ", ")
}
