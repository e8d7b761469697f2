package cli

import (
	"strings"

	"evalstream"
)

// outputs are the values of -o.
func outputs() []string { return []string{"ndjson", "table", "csv", "md"} }

// output is the sink of results, by default a table for a terminal and NDJSON for a pipe.
// fields are what groups may be made of.
func (e *env) output(format string, fields []string) (evalstream.Sink, func() error, error) {
	switch e.formatOf(format) {
	case "ndjson":
		return e.stdoutSink(), func() error { return nil }, nil
	case "table":
		t := NewTable(e.stdout)
		return t, t.Print, nil
	case "csv":
		c := NewCSV(e.stdout, fields)
		return c, c.End, nil
	case "md":
		m := NewMarkdown(e.stdout)
		return m, m.Print, nil
	}
	return nil, nil, evalstream.Usagef("output: want %s, got %q%s", strings.Join(outputs(), ", "), format, didYouMean(format, outputs()))
}

func (e *env) formatOf(format string) string {
	switch {
	case format != "":
		return format
	case isTerminal(e.stdout):
		return "table"
	}
	return "ndjson"
}

// groupFields are the fields of all groupings, in order.
func groupFields(by [][]string) []string {
	var fields []string
	seen := map[string]bool{}
	for _, names := range by {
		for _, f := range names {
			if !seen[f] {
				seen[f] = true
				fields = append(fields, f)
			}
		}
	}
	return fields
}

// watchable makes a ready command publish each second, for the progress line, where a
// table at the end is all that goes to stdout.
func (e *env) watchable(r *ready) {
	if r.aggregate.Every == "" && e.formatOf(r.output) == "table" && StyleOf(r.common.quiet, isTerminal(e.stderr), e.lookup) == StyleLine {
		r.aggregate.Every = "1s"
	}
}

// fieldsOf are the fields that a ready command's results are grouped by.
func fieldsOf(r *ready) ([]string, error) {
	a, err := r.aggregate.Aggregation()
	if err == nil {
		err = r.common.aggregation(&a)
	}
	if err != nil {
		return nil, wrapUsage("aggregate: %w", err)
	}
	fields := groupFields(a.By)
	if r.parse.As == "verdict" {
		fields = append(fields, "judge", "judge2") // of the results on single judges
	}
	return fields, nil
}

// openReady is where a ready command's results go.
func (e *env) openReady(r *ready) (evalstream.Sink, func() error, error) {
	fields, err := fieldsOf(r)
	if err != nil {
		return nil, nil, err
	}
	e.watchable(r)
	return e.output(r.output, fields)
}
