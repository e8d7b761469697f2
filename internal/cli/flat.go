package cli

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"evalstream"
	"evalstream/topics/file"
)

// CSV is a sink that writes each result as a row as it comes: the columns of NDJSON,
// with a column a field of by, a pair of columns a method of intervals, and the window
// as start and end. A cell is empty where NDJSON has null or nothing; by names the fields
// of the grouping, so a field's empty cell is null if by has it.
type CSV struct {
	fields []string
	w      *csv.Writer
	begun  bool
}

// NewCSV writes to w. fields are the names that by may have, in the order of the columns.
func NewCSV(w io.Writer, fields []string) *CSV {
	return &CSV{fields: fields, w: csv.NewWriter(w)}
}

// intervalColumns are the methods that have columns.
func intervalColumns() []string {
	return []string{"wilson", "beta_cs", "normal_mixture_cs", "poisson_bootstrap"}
}

func (s *CSV) header() []string {
	cols := []string{"metric", "by"}
	for _, f := range s.fields {
		cols = append(cols, columnName(f))
	}
	cols = append(cols, "window_start", "window_end", "value", "undefined", "num", "den", "n", "missing", "pending", "unjudged")
	for _, m := range intervalColumns() {
		cols = append(cols, m+"_low", m+"_high")
	}
	return append(cols, "confidence", "over", "sd", "of", "units", "values", "off_panel", "closed", "final", "revision", "through", "settings")
}

// columnName keeps a field apart from the columns that every result has.
func columnName(field string) string {
	if slices.Contains((&CSV{}).header(), field) {
		return "by_" + field
	}
	return field
}

// Write writes the results among recs.
func (s *CSV) Write(_ context.Context, recs []evalstream.Record) error {
	for i := range recs {
		r, ok := recs[i].Body.(*evalstream.Result)
		if !ok {
			continue
		}
		row, err := s.row(r)
		if err != nil {
			return err
		}
		if err := s.begin(); err != nil {
			return err
		}
		if err := s.w.Write(row); err != nil {
			return lostOutput(err)
		}
	}
	return nil
}

func (s *CSV) begin() error {
	if s.begun {
		return nil
	}
	s.begun = true
	return lostOutput(s.w.Write(s.header()))
}

func (s *CSV) row(r *evalstream.Result) ([]string, error) {
	var by []string
	for _, s := range r.By {
		by = append(by, s.Name)
	}
	row := []string{r.Metric, strings.Join(by, ",")}
	for _, f := range s.fields {
		cell := ""
		if i := slices.Index(by, f); i >= 0 {
			cell = csvText(r.By[i].Value)
		}
		row = append(row, cell)
	}
	for _, by := range r.By {
		if !slices.Contains(s.fields, by.Name) {
			return nil, fmt.Errorf("BUG: result by %s, which has no column", by.Name)
		}
	}
	start, end := "", ""
	if !r.Window.All {
		start, end = r.Window.Start.String(), r.Window.End.String()
	}
	value, num, den := "", "", ""
	if r.Undefined == "" {
		value = float(r.Value)
	}
	if r.Ratio {
		num, den = r.Num.String(), integer(r.Den)
	}
	missing := ""
	if r.MissingUnknown == "" {
		missing = integer(r.Missing)
	}
	row = append(row, start, end, value, r.Undefined, num, den, integer(r.N), missing, integer(r.Pending), integer(r.Unjudged))
	confidence := ""
	for _, m := range intervalColumns() {
		low, high := "", ""
		for _, iv := range r.Intervals {
			if iv.Method == m {
				low, high, confidence = float(iv.Low), float(iv.High), float(iv.Confidence)
			}
		}
		row = append(row, low, high)
	}
	sd, of, units, values, settings := "", "", "", "", ""
	if r.HasSD {
		sd = float(r.SD)
	}
	if r.Of != 0 {
		of = integer(r.Of)
	}
	if r.Agreed {
		units, values = integer(r.Units), integer(r.Values)
	}
	if r.Settings != nil {
		settings = r.Settings.Digest
	}
	offPanel := ""
	if r.OffPanel != 0 {
		offPanel = integer(r.OffPanel)
	}
	var through []string
	for _, t := range r.Through {
		through = append(through, evalstream.Pos{Origin: t.Origin, Line: t.Line}.String())
	}
	return append(row, confidence, r.Over, sd, of, units, values, offPanel,
		strconv.FormatBool(r.Closed), strconv.FormatBool(r.Final), integer(r.Revision), strings.Join(through, " "), settings), nil
}

// Flush makes the rows visible.
func (s *CSV) Flush(context.Context) error {
	s.w.Flush()
	return lostOutput(s.w.Error())
}

// End writes the header if there was no row.
func (s *CSV) End() error {
	if err := s.begin(); err != nil {
		return err
	}
	s.w.Flush()
	return lostOutput(s.w.Error())
}

// lostOutput is an error of writing to standard output.
func lostOutput(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EPIPE), errors.Is(err, io.ErrClosedPipe):
		return fmt.Errorf("<stdout>: %w", file.ErrClosedPipe)
	}
	return evalstream.Lost(fmt.Errorf("<stdout>: %w", err))
}

func float(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
func integer(n int64) string { return strconv.FormatInt(n, 10) }

// csvText is a JSON literal as a cell: nothing for null, and a string without its
// quotes, unless it is empty or begins with one, so that no two literals but a number
// and its digits in quotes are one cell.
func csvText(literal string) string {
	if literal == "" || literal == "null" {
		return ""
	}
	if text := plainText(literal); text != "" && text[0] != '"' {
		return text
	}
	return literal
}

// plainText is a JSON literal without the quotes of a string.
func plainText(literal string) string {
	var s string
	if json.Unmarshal([]byte(literal), &s) != nil {
		return literal
	}
	return s
}

// Markdown is a table for a document: what Table shows, with a table a grouping.
type Markdown struct{ *Table }

// NewMarkdown shows results on w when Print is called.
func NewMarkdown(w io.Writer) Markdown { return Markdown{NewTable(w)} }

// Print writes the tables, and the settings that define them. It is called once, at the end.
func (m Markdown) Print() error {
	var b strings.Builder
	if len(m.sections) == 0 {
		b.WriteString("no results\n")
	}
	for i, s := range m.sections {
		if i > 0 {
			b.WriteByte('\n')
		}
		m.sort(s)
		columns := columnsOf(s, s.groups)
		for i, c := range columns {
			b.WriteString("| " + markdownCell(c.title) + " ")
			if i == len(columns)-1 {
				b.WriteString("|\n")
			}
		}
		for _, c := range columns {
			if c.right || c.value {
				b.WriteString("|--:")
			} else {
				b.WriteString("|---")
			}
		}
		b.WriteString("|\n")
		for _, g := range s.groups {
			for k := range g.rows {
				for _, c := range columns {
					cell := strings.TrimSpace(c.cell(g, &g.rows[k]))
					if why := g.rows[k].undefined; c.value && why != "" {
						cell = "undefined (" + printable(why) + ")"
					}
					b.WriteString("| " + markdownCell(cell) + " ")
				}
				b.WriteString("|\n")
			}
		}
	}
	for i, n := range m.below() {
		if i == 0 {
			b.WriteByte('\n')
		}
		b.WriteString("- " + markdownCell(n) + "\n")
	}
	_, err := io.WriteString(m.w, b.String())
	return lostOutput(err)
}

// markdownCell escapes what would end a cell or mean something.
func markdownCell(s string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`, "_", `\_`, "<", "&lt;", "`", "\\`").Replace(s)
}
