//go:build linux

package main

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"

	"evalstream/bench/figure"
)

// table is printed in aligned columns, or as Markdown. The first column is text, the others are numbers.
type table struct {
	title string
	rows  [][]string // the header first
	notes []string
}

type report struct {
	machine string
	tables  []table
}

func newReport(set settings) *report {
	var others []string
	if slices.Contains(set.contestants, "duckdb") {
		others = append(others, "DuckDB "+output("node", "-p", "require('./bench/package.json').dependencies['@duckdb/node-api']"))
	}
	if slices.Contains(set.contestants, "python") {
		others = append(others, output("python3", "--version"))
	}
	return &report{machine: figure.Machine(others...)}
}

// add puts in what was measured, and says whether a bar that must be met was missed.
func (r *report) add(w workload, rounds [][]sample, faults []string, compared int) (missed bool) {
	size := fileSize(w.inputs[0])
	costs := table{
		title: fmt.Sprintf("%s: %d lines, %.1f MB, rounds: %d, medians (least–most)", w.name, w.lines, size/1e6, len(rounds[0])),
		rows:  [][]string{{"contestant", "cores", "wall s", "CPU s", "MB/s", "peak MiB"}},
	}
	for i, c := range w.contestants {
		wall := figure.Of(rounds[i], wallOf)
		costs.rows = append(costs.rows, []string{
			c.title(), fmt.Sprint(c.cores), figure.Spread(wall, "%.3f"),
			fmt.Sprintf("%.2f", figure.Median(figure.Of(rounds[i], cpuOf))),
			fmt.Sprintf("%.0f", size/1e6/figure.Median(wall)),
			fmt.Sprintf("%.0f", figure.Median(figure.Of(rounds[i], rssOf))),
		})
		if query := figure.Of(rounds[i], queryOf); figure.Median(query) > 0 {
			costs.rows = append(costs.rows, []string{
				"– its query alone", fmt.Sprint(c.cores), figure.Spread(query, "%.3f"), "", fmt.Sprintf("%.0f", size/1e6/figure.Median(query)), "",
			})
		}
	}
	switch {
	case compared == 0:
	case len(faults) == 0:
		costs.notes = append(costs.notes, fmt.Sprintf("Answers: all %d results agree within %g, in every round.", compared, tolerance))
	default:
		costs.notes = append(costs.notes, fmt.Sprintf("Answers: %d results compared, AND THEY DIFFER:", compared))
		costs.notes = append(costs.notes, faults...)
	}
	r.tables = append(r.tables, costs)

	ratios := table{
		title: w.name + ": ratios of two runs of the same round, medians (least–most)",
		rows:  [][]string{{"ratio", "wall", "CPU", "aim", "must", ""}},
	}
	for _, q := range w.quotients() {
		if q.over < 0 || q.under < 0 {
			continue
		}
		a, b := rounds[q.over], rounds[q.under]
		wall := divide(figure.Of(a, q.cost), figure.Of(b, q.costUnder))
		if figure.Median(wall) == 0 || math.IsInf(figure.Median(wall), 0) {
			continue
		}
		cpu := ""
		if !q.wallOnly {
			cpu = fmt.Sprintf("%.2f", figure.Median(divide(figure.Of(a, cpuOf), figure.Of(b, cpuOf))))
		}
		row := []string{q.title, figure.Spread(wall, "%.2f"), cpu, "", "", ""}
		if q.must > 0 {
			sign, met, aimed := "≤", figure.Median(wall) <= q.must, figure.Median(wall) <= q.aim
			if q.atLeast {
				sign, met, aimed = "≥", figure.Median(wall) >= q.must, figure.Median(wall) >= q.aim
			}
			row[3], row[4] = fmt.Sprintf("%s %.2f", sign, q.aim), fmt.Sprintf("%s %.2f", sign, q.must)
			switch {
			case !met:
				row[5], missed = "missed", true
			case aimed:
				row[5] = "aim met"
			default:
				row[5] = "must met"
			}
		}
		ratios.rows = append(ratios.rows, row)
	}
	if len(ratios.rows) > 1 {
		r.tables = append(r.tables, ratios)
	}
	return missed
}

// quotient is a ratio of two contestants' costs; over and under are their indices, or -1 where one takes no part.
type quotient struct {
	title           string
	over, under     int
	cost, costUnder func(sample) float64
	wallOnly        bool
	aim, must       float64 // 0: no bar
	atLeast         bool
}

func (w workload) quotients() []quotient {
	ours, ours1 := w.find("evalstream", 2), w.find("evalstream", 1)
	return []quotient{
		{title: "evalstream / DuckDB, 2 cores", over: ours, under: w.find("duckdb", 2), cost: wallOf, costUnder: wallOf, aim: w.aim, must: w.must},
		{title: "evalstream / DuckDB's query alone, 2 cores", over: ours, under: w.find("duckdb", 2), cost: wallOf, costUnder: queryOf, wallOnly: true},
		{title: "evalstream / DuckDB, 1 core", over: ours1, under: w.find("duckdb", 1), cost: wallOf, costUnder: wallOf},
		{title: "evalstream, 1 core / 2 cores", over: ours1, under: ours, cost: wallOf, costUnder: wallOf, aim: 1.6, must: 1.6, atLeast: true},
		{title: "evalstream, 2 cores / python3", over: ours, under: w.find("python", 1), cost: wallOf, costUnder: wallOf},
		{title: "evalstream, 2 cores / wc -l", over: ours, under: w.find("wc", 1), cost: wallOf, costUnder: wallOf},
		{title: "DuckDB, 2 cores / python3", over: w.find("duckdb", 2), under: w.find("python", 1), cost: wallOf, costUnder: wallOf},
	}
}

func wallOf(s sample) float64  { return s.wall }
func cpuOf(s sample) float64   { return s.cpu }
func queryOf(s sample) float64 { return s.query }
func rssOf(s sample) float64   { return s.rss }

func (c contestant) title() string {
	switch c.name {
	case "duckdb":
		return "DuckDB"
	case "python":
		return "python3"
	case "wc":
		return "wc -l"
	}
	return c.name
}

func (r *report) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.machine)
	for _, t := range r.tables {
		fmt.Fprintf(&b, "\n%s\n", t.title)
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, row := range t.rows {
			fmt.Fprintln(w, "  "+strings.TrimRight(strings.Join(row, "\t"), "\t"))
		}
		w.Flush()
		for _, note := range t.notes {
			fmt.Fprintf(&b, "  %s\n", note)
		}
	}
	return b.String()
}

func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Machine: %s.\n", r.machine)
	for _, t := range r.tables {
		figure.WriteMarkdown(&b, t.title, t.rows)
		for _, note := range t.notes {
			fmt.Fprintf(&b, "\n%s\n", note)
		}
	}
	return b.String()
}

func divide(a, b []float64) []float64 {
	q := make([]float64, len(a))
	for i := range a {
		q[i] = a[i] / b[i]
	}
	return q
}

func fileSize(path string) float64 {
	info, err := os.Stat(path)
	if err != nil {
		return math.NaN()
	}
	return float64(info.Size())
}

// output returns what a command prints in one line, or "" if it fails.
func output(name string, args ...string) string {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
