//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tolerance is how far two values may be apart. evalstream rounds each unit's value to 1e-9 before it adds, so that a mean
// is off by half of that at most; the others add floats.
const tolerance = 1e-8

// cell names a result: its metric, its group as field=value, and its window.
type cell struct{ metric, by, window string }

func (c cell) String() string { return fmt.Sprintf("%s by %s, window %s", c.metric, c.by, c.window) }

// answer is what a result says. value is NaN where it is undefined.
type answer struct {
	value, num float64
	den, n     int64
}

type answers map[cell]answer

// checkAnswers compares the answers of every contestant and round with one contestant's first. It returns what differs,
// and the number of results that were compared, 0 if nobody gives answers.
func checkAnswers(w workload, rounds int) (faults []string, compared int, err error) {
	reference := w.reference()
	if reference == nil {
		return nil, 0, nil
	}
	want, err := readFile(reference.answers(0))
	if err != nil {
		return nil, 0, err
	}
	for _, c := range w.contestants {
		for round := range rounds {
			if c.out == "" {
				continue
			}
			got, err := readFile(c.answers(round))
			if err != nil {
				return nil, 0, err
			}
			for _, d := range differences(want, got) {
				faults = append(faults, fmt.Sprintf("%s on %d, round %d, against %s: %s", c.name, c.cores, round+1, reference.name, d))
			}
		}
	}
	return faults, len(want), nil
}

// reference returns the contestant that the others are compared with: DuckDB if it takes part, else python3; nil if
// nobody gives answers.
func (w workload) reference() *contestant {
	for _, name := range []string{"duckdb", "python", "evalstream"} {
		for i, c := range w.contestants {
			if c.name == name {
				return &w.contestants[i]
			}
		}
	}
	return nil
}

// differences says where got is not want, at most ten times. Metrics that want does not have are left alone.
func differences(want, got answers) []string {
	const most = 10
	var diffs []string
	metrics := map[string]bool{}
	for _, c := range sortedCells(want) {
		metrics[c.metric] = true
		a := want[c]
		b, ok := got[c]
		switch {
		case !ok:
			diffs = append(diffs, fmt.Sprintf("%v: missing", c))
		case a.n != b.n || a.den != b.den:
			diffs = append(diffs, fmt.Sprintf("%v: want n %d, den %d, got n %d, den %d", c, a.n, a.den, b.n, b.den))
		case math.IsNaN(a.value) != math.IsNaN(b.value), math.Abs(a.value-b.value) > tolerance:
			diffs = append(diffs, fmt.Sprintf("%v: want value %v, got %v", c, a.value, b.value))
		case math.Abs(a.num-b.num) > tolerance*float64(max(a.den, 1)):
			diffs = append(diffs, fmt.Sprintf("%v: want num %v, got %v", c, a.num, b.num))
		}
	}
	for _, c := range sortedCells(got) {
		if _, ok := want[c]; !ok && metrics[c.metric] {
			diffs = append(diffs, fmt.Sprintf("%v: too much", c))
		}
	}
	if len(diffs) > most {
		diffs = append(diffs[:most], fmt.Sprintf("and %d more", len(diffs)-most))
	}
	return diffs
}

func sortedCells(a answers) []cell {
	cells := make([]cell, 0, len(a))
	for c := range a {
		cells = append(cells, c)
	}
	slices.SortFunc(cells, func(a, b cell) int {
		return strings.Compare(a.metric+"\x00"+a.by+"\x00"+a.window, b.metric+"\x00"+b.by+"\x00"+b.window)
	})
	return cells
}

func readFile(path string) (answers, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	a, err := readAnswers(f)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	return a, nil
}

// readAnswers reads the final results of r; other records are passed over. An error starts with the line's number.
func readAnswers(r io.Reader) (answers, error) {
	all := answers{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<24)
	for number := 1; lines.Scan(); number++ {
		var record struct {
			Kind, Metric string
			By           map[string]json.RawMessage
			Window       json.RawMessage
			Value        *float64
			Num          json.Number
			Den, N       int64
			Final        bool
		}
		if err := json.Unmarshal(lines.Bytes(), &record); err != nil {
			return nil, fmt.Errorf("%d: %w", number, err)
		}
		if record.Kind != "result" || !record.Final {
			continue
		}
		window, err := windowName(record.Window)
		if err != nil {
			return nil, fmt.Errorf("%d: %w", number, err)
		}
		c := cell{record.Metric, groupName(record.By), window}
		if _, ok := all[c]; ok {
			return nil, fmt.Errorf("%d: a second final result for %v", number, c)
		}
		a := answer{value: math.NaN(), den: record.Den, n: record.N}
		if record.Value != nil {
			a.value = *record.Value
		}
		if record.Num != "" {
			if a.num, err = record.Num.Float64(); err != nil {
				return nil, fmt.Errorf("%d: num: %w", number, err)
			}
		}
		all[c] = a
	}
	return all, lines.Err()
}

// groupName writes the fields in order of their names; the number 1 and the text "1" are one value.
func groupName(by map[string]json.RawMessage) string {
	fields := make([]string, 0, len(by))
	for name, raw := range by {
		text := string(raw)
		var s string
		if json.Unmarshal(raw, &s) == nil {
			text = s
		}
		fields = append(fields, name+"="+strconv.Quote(text))
	}
	slices.Sort(fields)
	return strings.Join(fields, ",")
}

// windowName is "all", or the window's start and end in UTC, however they were written.
func windowName(raw json.RawMessage) (string, error) {
	var name string
	if json.Unmarshal(raw, &name) == nil {
		return name, nil
	}
	var window struct{ Start, End time.Time }
	if err := json.Unmarshal(raw, &window); err != nil {
		return "", fmt.Errorf("window: %w", err)
	}
	return window.Start.UTC().Format(time.RFC3339Nano) + "/" + window.End.UTC().Format(time.RFC3339Nano), nil
}
