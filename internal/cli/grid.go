package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"
)

const (
	gap       = 2
	minCell   = 3  // a cell that is cut keeps this much
	readable  = 12 // and this much if the line can be had in another way
	stackedBy = "  "
)

// grid is rows of groups under columns.
type grid struct {
	columns []column
	groups  []*group
}

// column is one column of a grid.
type column struct {
	title string
	right bool
	// flexible columns are cut where the line is too long. Names are cut last: what
	// tells metrics apart is often at their end.
	flexible, name bool
	// spare columns are left out, the greatest first, before a name is cut; 0 never is.
	spare int
	// ofGroup says that the cell is the group's: it is shown in its first row only.
	ofGroup bool
	cell    func(g *group, r *row) string
	// spanned says that a text in place of the value may run over this column, and
	// value that it begins in it.
	spanned, value bool
	// stacked is what a group's cell reads on a line of its own; nil: the title and
	// the cell.
	stacked func(cell string) string
}

// columnsOf lists the columns that say something about at least one of the groups.
func columnsOf(s *section, groups []*group) []column {
	var cs []column
	for i, name := range s.names {
		cs = append(cs, column{title: printable(name), flexible: true, ofGroup: true, cell: func(g *group, _ *row) string { return g.values[i] }})
	}
	if s.windows {
		title, text := windowsOf(groups)
		cs = append(cs, column{title: title, flexible: true, ofGroup: true, cell: func(g *group, _ *row) string { return text(g.window) }, stacked: windowInWords(title)})
	}
	values := align(groups, func(r *row) []string {
		if r.undefined != "" {
			return nil
		}
		return []string{fixed(r.value, r.decimals())}
	})
	cs = append(cs,
		column{title: "metric", flexible: true, name: true, cell: func(_ *group, r *row) string { return printable(r.metric) }},
		column{title: "value", value: true, cell: func(_ *group, r *row) string { return values(r) }},
	)
	some := func(has func(r *row) bool) bool {
		for _, g := range groups {
			for i := range g.rows {
				if has(&g.rows[i]) {
					return true
				}
			}
		}
		return false
	}
	if some(func(r *row) bool { return r.hasInterval }) {
		bounds := align(groups, func(r *row) []string {
			if !r.hasInterval || r.undefined != "" {
				return nil
			}
			return []string{fixed(r.interval.Low, r.decimals()), fixed(r.interval.High, r.decimals())}
		})
		cs = append(cs, column{title: intervalTitle(groups), spanned: true, cell: func(_ *group, r *row) string { return bounds(r) }})
	}
	if some(func(r *row) bool { return r.hasSD }) {
		cs = append(cs, column{title: "sd", spanned: true, cell: func(_ *group, r *row) string {
			if !r.hasSD || r.undefined != "" {
				return ""
			}
			return fixed(r.sd, r.decimals())
		}})
	}
	cs = append(cs, column{title: "n", right: true, cell: func(_ *group, r *row) string { return count(r.n) }})
	for _, c := range []struct {
		title string
		spare int
		of    func(r *row) int64
	}{
		{"labels", 0, func(r *row) int64 { return r.of }},
		{"units", 1, func(r *row) int64 { return r.units }},
		{"values", 2, func(r *row) int64 { return r.values }},
		{"missing", 0, func(r *row) int64 { return r.missing }},
		{"off panel", 3, func(r *row) int64 { return r.offPanel }},
		{"pending", 0, func(r *row) int64 { return r.pending }},
		{"unjudged", 0, func(r *row) int64 { return r.unjudged }},
	} {
		if !some(func(r *row) bool { return c.of(r) != 0 }) {
			continue
		}
		cs = append(cs, column{title: c.title, right: true, spare: c.spare, cell: func(_ *group, r *row) string {
			if c.title == "missing" && r.missingUnknown != "" {
				return "?"
			}
			if c.of(r) == 0 && (c.title == "labels" || c.title == "units" || c.title == "values") && !r.agreed {
				return "" // the metric has none
			}
			return count(c.of(r))
		}})
	}
	return cs
}

// align makes numbers of one column stand with their points under each other:
// numbers gives those of a row, nil if it has none. Two are shown as an interval.
func align(groups []*group, numbers func(r *row) []string) func(r *row) string {
	var whole, fraction int
	for _, g := range groups {
		for i := range g.rows {
			for _, s := range numbers(&g.rows[i]) {
				w, f := halves(s)
				whole, fraction = max(whole, len(w)), max(fraction, len(f))
			}
		}
	}
	return func(r *row) string {
		ns := numbers(r)
		if len(ns) == 0 {
			return ""
		}
		w, f := halves(ns[0])
		if len(ns) == 1 {
			return fmt.Sprintf("%*s%-*s", whole, w, fraction, f)
		}
		return fmt.Sprintf("[%*s%s, %s]", whole, w, f, ns[1])
	}
}

// halves is a number before its point, and from it on.
func halves(s string) (whole, fraction string) {
	if i := strings.IndexByte(s, '.'); i >= 0 {
		return s[:i], s[i:]
	}
	return s, ""
}

// cellText is one row laid out: a cell a column, and the text in place of a value.
type cellText struct {
	cells     []string
	undefined string
	first     bool // of its group
}

// print lays the grid out under columns if the cells stay readable, and otherwise
// with each group on a line of its own above its rows.
func (g grid) print(b *strings.Builder, width int) {
	lean := grid{columns: g.lean(width), groups: g.groups}
	lean.lay(b, width)
	var left []string
	for _, c := range g.columns {
		if !slices.ContainsFunc(lean.columns, func(have column) bool { return have.title == c.title }) {
			left = append(left, c.title)
		}
	}
	if len(left) > 0 {
		wrap(b, "no room for "+strings.Join(left, ", ")+" (use -o ndjson)", width)
	}
}

func (g grid) lay(b *strings.Builder, width int) {
	lines := g.lines()
	widths := g.widths(lines)
	if g.shrink(widths, width, readable) || !g.columns[0].ofGroup {
		g.shrink(widths, width, minCell)
		g.widen(widths, lines, width)
		for _, l := range lines {
			g.line(b, l, widths, width, "")
		}
		return
	}
	g.stack(b, lines, width)
}

func (g grid) lines() []cellText {
	title := cellText{cells: make([]string, len(g.columns))}
	for i, c := range g.columns {
		title.cells[i] = c.title
	}
	lines := []cellText{title}
	for _, gr := range g.groups {
		for k := range gr.rows {
			l := cellText{cells: make([]string, len(g.columns)), first: k == 0}
			for i, c := range g.columns {
				if !c.ofGroup || l.first {
					l.cells[i] = c.cell(gr, &gr.rows[k])
				}
			}
			if why := gr.rows[k].undefined; why != "" {
				l.undefined = "undefined (" + printable(why) + ")"
			}
			lines = append(lines, l)
		}
	}
	return lines
}

func (g grid) widths(lines []cellText) []int {
	widths := make([]int, len(g.columns))
	for _, l := range lines {
		for i, s := range l.cells {
			widths[i] = max(widths[i], cells(s))
		}
	}
	return widths
}

// widen gives the value what room is left, if a text in its place needs it.
func (g grid) widen(widths []int, lines []cellText, width int) {
	value, have := -1, 0
	for i, c := range g.columns {
		switch {
		case c.value:
			value, have = i, widths[i]
		case c.spanned:
			have += gap + widths[i]
		}
	}
	need := 0
	for _, l := range lines {
		need = max(need, cells(l.undefined))
	}
	if more := min(need-have, width-total(widths)); more > 0 {
		widths[value] += more
	}
}

// lean is the columns without spare ones that there is no room for, with the groups
// on lines of their own.
func (g grid) lean(width int) []column {
	columns := slices.Clone(g.columns)
	for {
		rest := grid{columns: columns, groups: g.groups}
		if columns[0].ofGroup {
			rest.columns = slices.DeleteFunc(slices.Clone(columns), func(c column) bool { return c.ofGroup })
			if total(rest.widths(rest.lines())) <= width-len(stackedBy) {
				return columns
			}
		} else if total(rest.widths(rest.lines())) <= width {
			return columns
		}
		most := -1
		for i, c := range columns {
			if c.spare > 0 && (most < 0 || c.spare > columns[most].spare) {
				most = i
			}
		}
		if most < 0 {
			return columns
		}
		columns = slices.Delete(columns, most, most+1)
	}
}

// shrink cuts the widest flexible columns, down to least, until a line fits, and
// reports whether it does. Names are cut only to save cells from being cut below
// what is readable.
func (g grid) shrink(widths []int, width, least int) bool {
	room := width - gap*(len(widths)-1)
	if squeeze(widths, room, least, func(i int) bool { return g.columns[i].flexible && !g.columns[i].name }) {
		return true
	}
	return least < readable && squeeze(widths, room, least, func(i int) bool { return g.columns[i].flexible })
}

// squeeze takes from the greatest of widths, where that may be, until they have room.
func squeeze(widths []int, room, least int, may func(i int) bool) bool {
	sum := 0
	for _, w := range widths {
		sum += w
	}
	for ; sum > room; sum-- {
		widest := -1
		for i, w := range widths {
			if may(i) && w > least && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return false
		}
		widths[widest]--
	}
	return true
}

func total(widths []int) int {
	n := gap * (len(widths) - 1)
	for _, w := range widths {
		n += w
	}
	return n
}

// stack prints each group above its rows.
func (g grid) stack(b *strings.Builder, lines []cellText, width int) {
	own := 0
	for g.columns[own].ofGroup {
		own++
	}
	inner := grid{columns: g.columns[own:]}
	rows := make([]cellText, len(lines))
	for i, l := range lines {
		rows[i] = cellText{cells: l.cells[own:], undefined: l.undefined}
	}
	widths := inner.widths(rows)
	inner.shrink(widths, width-len(stackedBy), minCell)
	inner.widen(widths, rows, width-len(stackedBy))
	for i, l := range lines {
		if l.first {
			b.WriteString(g.heading(l.cells[:own], width) + "\n")
		}
		inner.line(b, rows[i], widths, width, stackedBy)
	}
}

// heading is a group on a line of its own: each part is cut as little as can be.
func (g grid) heading(values []string, width int) string {
	parts := make([]string, len(values))
	widths := make([]int, len(values))
	for i, v := range values {
		parts[i] = g.columns[i].title + " " + v
		if f := g.columns[i].stacked; f != nil {
			parts[i] = f(v)
		}
		widths[i] = cells(parts[i])
	}
	squeeze(widths, width-gap*(len(values)-1), minCell, func(int) bool { return true })
	for i := range parts {
		parts[i] = cut(parts[i], widths[i])
	}
	return cut(strings.Join(parts, ", "), width)
}

// line prints one line; a text in place of the value runs over the columns that are
// empty beside it.
func (g grid) line(b *strings.Builder, line cellText, widths []int, width int, indent string) {
	var l strings.Builder
	l.WriteString(indent)
	for i := 0; i < len(g.columns); i++ {
		c, s, w := g.columns[i], line.cells[i], widths[i]
		if l.Len() > len(indent) {
			l.WriteString(strings.Repeat(" ", gap))
		}
		if c.value && line.undefined != "" {
			for s = line.undefined; i+1 < len(g.columns) && g.columns[i+1].spanned; i++ {
				w += gap + widths[i+1]
			}
		}
		s = cut(s, w)
		pad := strings.Repeat(" ", max(0, w-cells(s)))
		if c.right {
			l.WriteString(pad + s)
		} else {
			l.WriteString(s + pad)
		}
	}
	b.WriteString(cut(strings.TrimRight(l.String(), " "), width))
	b.WriteByte('\n')
}

// cells is how many columns of a terminal s takes.
func cells(s string) int { return widthRules().StringWidth(s) }

// cut shortens s to at most n columns, with … where something is missing.
func cut(s string, n int) string { return widthRules().Truncate(s, n, "…") }

// widthRules does not ask the locale, so that a table is the same everywhere.
func widthRules() *runewidth.Condition { return &runewidth.Condition{StrictEmojiNeutral: true} }

// wrap writes text in lines of at most width columns, further lines indented.
func wrap(b *strings.Builder, text string, width int) {
	const indent = "  "
	line := ""
	for word := range strings.FieldsSeq(text) {
		for {
			next := line + " " + word
			if line == "" || line == indent {
				next = line + word
			}
			if cells(next) <= width {
				line = next
				break
			}
			if line == "" || line == indent { // a word longer than a line
				head := runewidth.Truncate(word, max(1, width-len(line)), "")
				if head == "" {
					break
				}
				b.WriteString(line + head + "\n")
				word = word[len(head):]
			} else {
				b.WriteString(line + "\n")
			}
			line = indent
		}
	}
	if strings.TrimSpace(line) != "" {
		b.WriteString(line + "\n")
	}
}
