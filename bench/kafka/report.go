//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
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
		fmt.Fprintf(&b, "\n**%s**\n\n", t.title)
		for i, row := range t.rows {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
			if i == 0 {
				fmt.Fprintf(&b, "|---|%s\n", strings.Repeat("---:|", len(row)-1))
			}
		}
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

func of(us []usage, f func(usage) float64) []float64 {
	values := make([]float64, len(us))
	for i, u := range us {
		values[i] = f(u)
	}
	return values
}

// median returns the middle value, or the mean of the middle two; values is not empty.
func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	return (v[len(v)/2] + v[(len(v)-1)/2]) / 2
}

// spread writes the median, and the least and the most in brackets.
func spread(values []float64, format string) string {
	return fmt.Sprintf(format+" ("+format+"–"+format+")", median(values), slices.Min(values), slices.Max(values))
}

func thousands(v float64) string {
	if v < 10_000 {
		return fmt.Sprintf("%.1f k", v/1000)
	}
	return fmt.Sprintf("%.0f k", v/1000)
}

func machine(ctx context.Context) string {
	parts := []string{processor(), fmt.Sprintf("%d processors", runtime.NumCPU()), runtime.Version(), "Apache Kafka 4.4.0"}
	if commit, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--exclude=*").Output(); err == nil {
		parts = append(parts, "commit "+strings.TrimSpace(string(commit)))
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		parts = append(parts, "load "+strings.Fields(string(load))[0]+" at the start")
	}
	return strings.Join(parts, ", ")
}

func processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
