//go:build linux

// Package figure is what the reports of several benches say alike: of a number that was measured in several rounds, of
// the machine, and of tables in Markdown.
package figure

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
)

// Of takes one number of each round.
func Of[T any](rounds []T, number func(T) float64) []float64 {
	values := make([]float64, len(rounds))
	for i, r := range rounds {
		values[i] = number(r)
	}
	return values
}

// Median returns the middle value, or the mean of the middle two; values is not empty.
func Median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	return (v[len(v)/2] + v[(len(v)-1)/2]) / 2
}

// Spread writes the median, and the least and the most in brackets, each by the format; values is not empty.
func Spread(values []float64, format string) string {
	return fmt.Sprintf(format+" ("+format+"–"+format+")", Median(values), slices.Min(values), slices.Max(values))
}

// Machine says on what it is measured: the processor, Go, what others take part, the commit of the work tree, and how
// busy the machine is.
func Machine(others ...string) string {
	parts := append([]string{processor(), fmt.Sprintf("%d processors", runtime.NumCPU()), runtime.Version()}, others...)
	if commit, err := exec.Command("git", "describe", "--always", "--dirty", "--exclude=*").Output(); err == nil {
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

// WriteMarkdown writes a table under its title. The first of the rows is the header; the first column is text, the others
// are numbers.
func WriteMarkdown(b *strings.Builder, title string, rows [][]string) {
	fmt.Fprintf(b, "\n**%s**\n\n", title)
	for i, row := range rows {
		fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(b, "|---|%s\n", strings.Repeat("---:|", len(row)-1))
		}
	}
}
