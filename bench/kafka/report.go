//go:build linux

package main

import (
	"fmt"
	"strings"

	"evalstream/bench/figure"
)

// report is what was found, as Markdown.
type report struct {
	machine string
	tables  []*table
	bars    []string
	missed  bool
}

// table has a first column of text; the others are numbers.
type table struct {
	title string
	rows  [][]string // the header first
}

func (r *report) table(title string, header ...string) *table {
	t := &table{title: title, rows: [][]string{header}}
	r.tables = append(r.tables, t)
	return t
}

func (t *table) add(row ...string) { t.rows = append(t.rows, row) }

// bar notes what must be reached.
func (r *report) bar(what, got, want string, met bool) {
	verdict := "met"
	if !met {
		verdict, r.missed = "**missed**", true
	}
	r.bars = append(r.bars, fmt.Sprintf("| %s | %s | %s | %s |\n", what, got, want, verdict))
}

func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Machine: %s.\n", r.machine)
	for _, t := range r.tables {
		figure.WriteMarkdown(&b, t.title, t.rows)
	}
	if len(r.bars) > 0 {
		fmt.Fprintf(&b, "\n**Bars**\n\n| what | measured | want | |\n|---|---:|---:|---|\n%s", strings.Join(r.bars, ""))
	}
	return b.String()
}

func wallOf(u usage) float64   { return u.wall }
func cpuOf(u usage) float64    { return u.cpu }
func rateOf(u usage) float64   { return u.rate }
func brokerOf(u usage) float64 { return u.broker }
func rssOf(u usage) float64    { return u.rss }

func thousands(v float64) string {
	if v < 10_000 {
		return fmt.Sprintf("%.1f k", v/1000)
	}
	return fmt.Sprintf("%.0f k", v/1000)
}
