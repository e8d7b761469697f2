package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"evalstream"
)

const (
	defaultWidth  = 80
	defaultGroups = 200
)

// Table is a sink that shows final results to people. It keeps them until Print,
// because the columns depend on all of them; results that are not final, and records
// of other kinds, are left out. A later result replaces an earlier one of the same
// metric, group and window.
//
// There is a block a grouping: groups are rows, and a row a metric.
type Table struct {
	// Width is how many columns a line may take; it is never wider. 0 is 80.
	Width int
	// MaxGroups is how many groups of a grouping are shown; 0 is 200.
	MaxGroups int
	// Metrics is the order of the metrics; others follow as they came.
	Metrics []string

	w        io.Writer
	sections []*section
	settings []string
	notes    []string
}

// section is one grouping.
type section struct {
	names   []string
	groups  []*group
	byKey   map[string]*group
	windows bool // a window other than all
	missing bool // something is missing
}

type group struct {
	values []string
	window evalstream.Window
	rows   []row
}

// row is what a table shows of a result.
type row struct {
	metric, undefined             string
	value                         float64
	interval                      evalstream.Interval
	hasInterval                   bool
	noInterval, missingUnknown    string
	n, missing, pending, unjudged int64
	over                          string
	sd                            float64
	hasSD, agreed                 bool
	of, units, values, offPanel   int64
}

// NewTable shows results on w when Print is called.
func NewTable(w io.Writer) *Table { return &Table{w: w} }

// Note adds a line below the table, after the settings.
func (t *Table) Note(text string) { t.notes = append(t.notes, text) }

// Flush does nothing: see Print.
func (*Table) Flush(context.Context) error { return nil }

// Write keeps the final results among recs.
func (t *Table) Write(_ context.Context, recs []evalstream.Record) error {
	for i := range recs {
		if r, ok := recs[i].Body.(*evalstream.Result); ok && r.Final {
			t.add(r)
		}
	}
	return nil
}

func (t *Table) add(r *evalstream.Result) {
	s := t.section(r)
	g := s.group(r)
	i := slices.IndexFunc(g.rows, func(have row) bool { return have.metric == r.Metric })
	if i < 0 {
		i = len(g.rows)
		g.rows = append(g.rows, row{})
	}
	g.rows[i] = rowOf(r)
	s.missing = s.missing || r.Missing != 0
	if set := r.Settings; set != nil && !slices.Contains(t.settings, set.Text) {
		t.settings = append(t.settings, strings.Clone(set.Text))
	}
}

func (t *Table) section(r *evalstream.Result) *section {
	for _, s := range t.sections {
		if slices.EqualFunc(s.names, r.By, func(name string, by evalstream.Slice) bool { return name == by.Name }) {
			return s
		}
	}
	s := &section{byKey: map[string]*group{}}
	for _, by := range r.By {
		s.names = append(s.names, strings.Clone(by.Name))
	}
	t.sections = append(t.sections, s)
	return s
}

func (s *section) group(r *evalstream.Result) *group {
	key := fmt.Appendf(nil, "%v %d %d", r.Window.All, r.Window.Start, r.Window.End)
	for _, by := range r.By {
		key = evalstream.AppendString(append(key, ' '), by.Value)
	}
	if g := s.byKey[string(key)]; g != nil {
		return g
	}
	g := &group{window: r.Window}
	for _, by := range r.By {
		g.values = append(g.values, shown(by.Value))
	}
	s.byKey[string(key)] = g
	s.groups = append(s.groups, g)
	s.windows = s.windows || !r.Window.All
	return g
}

func rowOf(r *evalstream.Result) row {
	w := row{
		metric: strings.Clone(r.Metric), value: r.Value, undefined: strings.Clone(r.Undefined),
		noInterval: strings.Clone(r.NoInterval), missingUnknown: strings.Clone(r.MissingUnknown),
		n: r.N, missing: r.Missing, pending: r.Pending, unjudged: r.Unjudged,
		over: strings.Clone(r.Over), sd: r.SD, hasSD: r.HasSD, of: r.Of, agreed: r.Agreed, units: r.Units, values: r.Values, offPanel: r.OffPanel,
	}
	for i, in := range r.Intervals {
		if i == 0 || in.Method == "wilson" {
			w.interval, w.hasInterval = in, true
			w.interval.Method = strings.Clone(in.Method)
		}
	}
	return w
}

// Print writes the table, and the settings that define it. It is called once, at the end.
func (t *Table) Print() error {
	width := t.Width
	if width <= 0 {
		width = defaultWidth
	}
	var b strings.Builder
	if len(t.sections) == 0 {
		b.WriteString("no results\n")
	}
	for i, s := range t.sections {
		if i > 0 {
			b.WriteByte('\n')
		}
		t.print(&b, s, width)
	}
	notes := t.below()
	if len(notes) > 0 && len(t.sections) > 0 {
		b.WriteByte('\n')
	}
	for _, n := range notes {
		wrap(&b, n, width)
	}
	_, err := io.WriteString(t.w, b.String())
	return err
}

func (t *Table) print(b *strings.Builder, s *section, width int) {
	t.sort(s)
	most := t.MaxGroups
	if most <= 0 {
		most = defaultGroups
	}
	groups := s.groups[:min(most, len(s.groups))]
	grid{columns: columnsOf(s, groups), groups: groups}.print(b, width)
	if n := len(s.groups) - len(groups); n > 0 {
		wrap(b, "… and "+plural(int64(n), "more group")+" (use -o ndjson)", width)
	}
}

// sort puts windows in the order of time, all time first, and metrics in the order
// asked for.
func (t *Table) sort(s *section) {
	slices.SortStableFunc(s.groups, func(a, b *group) int {
		if a.window.All != b.window.All {
			if a.window.All {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.window.Start, b.window.Start), cmp.Compare(a.window.End, b.window.End))
	})
	place := func(r row) int {
		if i := slices.Index(t.Metrics, r.metric); i >= 0 {
			return i
		}
		return len(t.Metrics)
	}
	for _, g := range s.groups {
		slices.SortStableFunc(g.rows, func(a, b row) int { return place(a) - place(b) })
	}
}

// below is what stands under the table.
func (t *Table) below() []string {
	var notes []string
	about := map[string][]string{} // note: metrics
	metrics := map[string]bool{}
	note := func(text, metric string) {
		if _, ok := about[text]; !ok {
			notes = append(notes, text)
		}
		if !slices.Contains(about[text], metric) {
			about[text] = append(about[text], metric)
		}
	}
	for _, s := range t.sections {
		for _, g := range s.groups {
			for i := range g.rows {
				r := &g.rows[i]
				metrics[r.metric] = true
				if r.hasInterval {
					note("interval: "+methodOf(r.interval), r.metric)
				} else if r.noInterval != "" && r.undefined == "" {
					note("no interval: "+r.noInterval, r.metric)
				}
				if r.missing == 0 && r.missingUnknown != "" && s.missing {
					note("missing ?: "+r.missingUnknown, r.metric)
				}
				if r.over != "" {
					note("mean over "+r.over, r.metric)
				}
			}
		}
	}
	for i, text := range notes {
		if len(about[text]) < len(metrics) {
			notes[i] += " (" + strings.Join(about[text], ", ") + ")"
		}
	}
	for _, s := range t.settings {
		notes = append(notes, "settings: "+s)
	}
	return append(notes, t.notes...)
}

func methodOf(in evalstream.Interval) string {
	s := in.Method
	if in.Parameter != "" {
		s += fmt.Sprintf(" with %s %g", in.Parameter, in.Setting)
	}
	switch in.Looks {
	case "one":
		s += ", valid for one look"
	case "any":
		s += ", valid for any number of looks"
	}
	return s
}
