package stages

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"evalstream"
	"evalstream/stages/metric"
)

// book holds the cells of every grouping and window, and what they are named by.
// aggregate fills it with units, merge with partials; both read it the same way.
type book struct {
	options   Aggregation
	groupings []grouping
	layouts   []layout
	sheets    []sheet // layout by layout, its windows side by side
	watermark evalstream.Time
	settled   evalstream.Time // windows that end by then cannot change; NoTime: none can be told
	freed     evalstream.Time // those that end by then were published as final, and are let go
	judged    int64
	ended     bool // the final results are out
	published bool // some results are
	scored    bool // a scored unit has come, or the family was known beforehand
	positions bool // some units are positions, which gold cannot wait for

	mu        sync.Mutex // family and settings are set by whichever worker sees them first
	family    int        // -1: not known yet
	measures  []metric.Measure
	names     []string
	settings  *evalstream.Settings // of the scores
	reading   *evalstream.Settings // of results: the scores', and how they are read
	mixed     error
	relations dictionary
	ballots   dictionary // texts of metric.Ballots

	parsed []*metric.Ballots // by number in ballots; the reader's
}

// layout is the fields that cells are kept by. Groupings that differ in the relation
// alone read the same cells.
type layout struct {
	fields []int // in the aggregation's fields
	names  []string
	groups *dictionary // values of the fields, joined
}

// sheet is the cells of one layout and one window.
type sheet struct {
	layout  int
	window  Window
	groups  *dictionary
	readers []reader
	recent  []*cell // by group: the cell used last
	cells   map[cellKey]*cell
	order   []*cell // in the order of their making
	dirty   []*cell
}

// reader is a grouping that is published from a sheet, and what was published of each
// window, by group and first pane.
type reader struct {
	grouping *grouping
	told     map[cellKey]*told
	means    map[string]*evalstream.Result // over a field: those that were published, by key, as withdrawn
	rows     []*evalstream.Result          // of everyRow, when so much was known
	known    int
}

type cellKey struct {
	group uint32
	pane  int64
}

func newBook(a Aggregation) *book {
	b := &book{options: a, family: -1, watermark: evalstream.NoTime, settled: evalstream.NoTime, freed: evalstream.NoTime}
	b.group(a.By)
	return b
}

// group lays out the sheets.
func (b *book) group(by [][]string) {
	b.groupings = b.options.groupings(by)
	all := b.options.Fields()
	for i := range b.groupings {
		g := &b.groupings[i]
		k := slices.IndexFunc(b.layouts, func(l layout) bool { return slices.Equal(l.fields, g.fields) })
		if k < 0 {
			k = len(b.layouts)
			l := layout{fields: g.fields, groups: new(dictionary)}
			for _, f := range g.fields {
				l.names = append(l.names, all[f])
			}
			b.layouts = append(b.layouts, l)
			for _, w := range b.options.Windows {
				b.sheets = append(b.sheets, sheet{layout: k, window: w, groups: l.groups, cells: map[cellKey]*cell{}})
			}
		}
		for w := range b.options.Windows {
			s := &b.sheets[k*len(b.options.Windows)+w]
			s.readers = append(s.readers, reader{grouping: g, told: map[cellKey]*told{}, means: map[string]*evalstream.Result{}})
		}
	}
}

// familyOf is the number of a family's name, -1 if there is none.
func familyOf(name string) int {
	names := familyNames()
	return slices.Index(names[:], name)
}

func familyNames() [families]string {
	return [families]string{"retrieval", "fewshot", "agreement", "judging"}
}

// begin sets the family at the first scored unit and checks every other against it.
func (b *book) begin(family int, names []string, settings *evalstream.Settings) *evalstream.Fault {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.family < 0 {
		b.family, b.settings = family, settings
		for _, name := range names {
			m, err := metric.ParseMeasure(name)
			if err != nil {
				b.family = -1
				return &evalstream.Fault{Class: evalstream.ClassSchema, Path: "/values", Reason: err.Error()}
			}
			b.measures = append(b.measures, m)
		}
		b.names = slices.Clone(names)
		return nil
	}
	if b.family != family {
		return &evalstream.Fault{Class: evalstream.ClassStage, Reason: fmt.Sprintf("want %s scores, got %s; aggregate one family at a time", familyNames()[b.family], familyNames()[family])}
	}
	if settings != nil && b.settings != nil && settings.Digest != b.settings.Digest {
		if b.mixed == nil {
			b.mixed = evalstream.NotComparable("settings %s and %s in one aggregation; score everything with the same options", b.settings, settings)
		}
		return nil
	}
	if !slices.Equal(b.names, names) {
		return &evalstream.Fault{Class: evalstream.ClassSchema, Path: "/values", Reason: fmt.Sprintf("want measures %v, got %v", b.names, names)}
	}
	return nil
}

// metrics is what is known of the scores while workers may be seeing the first one.
func (b *book) metrics() (family int, names []string, settings *evalstream.Settings) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.family, b.names, b.settings
}

// expect takes in what the scores will be.
func (b *book) expect(e *Expectation) error {
	if e == nil {
		return nil
	}
	b.scored = true
	if f := b.begin(familyOf(e.Family), e.Measures, e.Settings); f != nil {
		return f
	}
	return nil
}

// cell is the cell of a group and a pane, made empty if it is new, and marked as touched.
func (s *sheet) cell(group uint32, pane int64) *cell {
	for int(group) >= len(s.recent) {
		s.recent = append(s.recent, nil)
	}
	c := s.recent[group]
	if c == nil || c.pane != pane {
		key := cellKey{group, pane}
		if c = s.cells[key]; c == nil {
			c = &cell{group: group, pane: pane}
			s.cells[key] = c
			s.order = append(s.order, c)
		}
		s.recent[group] = c
	}
	if !c.dirty {
		c.dirty = true
		s.dirty = append(s.dirty, c)
	}
	return c
}

// free lets go of the cells of which every window ends by then, and tells which.
func (s *sheet) free(then evalstream.Time, gone func(*cell)) {
	if s.window.All {
		return
	}
	left := s.order[:0]
	for _, c := range s.order {
		if s.window.from(c.pane).End > then {
			left = append(left, c)
			continue
		}
		delete(s.cells, cellKey{c.group, c.pane})
		if s.recent[c.group] == c {
			s.recent[c.group] = nil
		}
		gone(c)
	}
	clear(s.order[len(left):])
	s.order = left
	for i := range s.readers {
		maps.DeleteFunc(s.readers[i].told, func(k cellKey, _ *told) bool { return s.window.from(k.pane).End <= then })
		maps.DeleteFunc(s.readers[i].means, func(_ string, r *evalstream.Result) bool { return r.Window.End <= then })
	}
}

func (s *sheet) clean() {
	for _, c := range s.dirty {
		c.dirty = false
	}
	s.dirty = s.dirty[:0]
}
