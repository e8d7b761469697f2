package codecs

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"evalstream"
)

// Plan is what a pipeline reads of its lines. It is decided once, when the pipeline
// is planned.
type Plan struct {
	// As is the kind of every line, whatever the line's own "kind" says.
	// The default, "", lets each line's own "kind" decide.
	As string
	// Map takes fields from elsewhere in the line. A mapped field is never read from
	// its own name. The source stays a field to group by under its own name.
	Map []Mapping
	// Slices names the fields to group by, besides those of the body. A field that is
	// absent, null, an object, an array or a string of more than 64 bytes is left out.
	// The default is none.
	Slices []string
	// Texts names fields that are carried like Slices, whatever their length.
	Texts []string
	// AllSlices carries every remaining scalar top-level field of at most 64 bytes, and
	// the texts of a body that no stage reads (reasoning and warning of a verdict).
	AllSlices bool
	// NoTime says that no step needs the time: it is not read, and not checked.
	NoTime bool
	// TimeUnit is the unit of integer times: a second, milli-, micro- or nanosecond.
	// The default, 0, makes an integer time a fault.
	TimeUnit time.Duration
	// RecordTime takes the time that a record has already, where it has one, in place of
	// that of its line; with Lines it is spliced into that.
	RecordTime bool
	// Lines says that the line goes on: mapped fields and the kind are spliced into it.
	Lines bool
	// Advice is what reads a field from elsewhere in the line, such as --map; faults name
	// it. "" where nothing does.
	Advice string
}

// Mapping takes a field of a body from elsewhere in the line.
type Mapping struct {
	// Field is a field of the kind, any other name for a field to group by, or
	// "top.id" and "top.score" for the entries of a ranked list.
	Field string
	// Pointer is a JSON Pointer (RFC 6901) into the line; for top.id and top.score
	// into the entry. It is not empty.
	Pointer string
}

// ParseMapping parses FIELD=/json/pointer.
func ParseMapping(s string) (Mapping, error) {
	field, pointer, ok := strings.Cut(s, "=")
	if !ok || field == "" {
		return Mapping{}, evalstream.Usagef("map: want FIELD=/json/pointer, got %q", s)
	}
	m := Mapping{Field: field, Pointer: pointer}
	if _, err := m.steps(); err != nil {
		return Mapping{}, err
	}
	return m, nil
}

// String is the form that ParseMapping reads.
func (m Mapping) String() string { return m.Field + "=" + m.Pointer }

// steps splits the pointer into its reference tokens.
func (m Mapping) steps() ([]string, error) {
	rest, ok := strings.CutPrefix(m.Pointer, "/")
	if !ok {
		return nil, evalstream.Usagef("map: %s: want a JSON Pointer that begins with /, got %q (for example %s=/%s)",
			m.Field, m.Pointer, m.Field, strings.ReplaceAll(strings.TrimLeft(m.Pointer, ".$"), ".", "/"))
	}
	steps := strings.Split(rest, "/")
	for i, s := range steps {
		for j := 0; j < len(s); j++ {
			if s[j] == '~' && (j+1 == len(s) || s[j+1] != '0' && s[j+1] != '1') {
				return nil, evalstream.Usagef("map: %s: want ~0 or ~1 after ~ in %q (~0 is ~, ~1 is /)", m.Field, m.Pointer)
			}
		}
		steps[i] = strings.ReplaceAll(strings.ReplaceAll(s, "~1", "/"), "~0", "~")
	}
	return steps, nil
}

// pointerTo is the JSON Pointer of a top-level field.
func pointerTo(name string) string { return "/" + escapeStep(name) }

func escapeStep(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}

// reader is a plan for one kind.
type reader struct {
	kindSpec
	quoted  []byte // the kind as a JSON string
	root    *place
	list    *place   // of the ranked list, nil if the kind has none
	sources int      // values to note a line
	kindAt  int32    // which of them is the line's own kind
	source  []int32  // of each field: which it is
	own     []int32  // of each field: which its own top-level key is
	paths   []string // of each field: the JSON Pointer that it is read from
	mapped  []mappedSlice
	wanted  []string // names of Plan.Slices
	texts   []string // names of Plan.Texts

	// Of an entry of the ranked list; -1 if the kind has none.
	id, score, ownID, ownScore int32
	idPath, scorePath          string
}

// mappedSlice is a field to group by that stands somewhere below the top level.
type mappedSlice struct {
	name        string
	source, own int32
	carried     bool // into the body; otherwise only into the line
}

// noter plans the value that steps lead to from a place, and is its number; prefix
// tells places apart.
type noter func(from *place, prefix string, steps []string) int32

// newReader plans one kind.
func newReader(spec kindSpec, p Plan) (*reader, error) {
	r := &reader{quoted: evalstream.AppendString(nil, spec.kind), kindSpec: spec, root: &place{}, wanted: p.Slices, texts: p.Texts, id: -1, score: -1, ownID: -1, ownScore: -1}
	noted := map[string]int32{}
	note := func(from *place, prefix string, steps []string) int32 {
		key := prefix + "/" + strings.Join(mapAll(steps, escapeStep), "/")
		if at, ok := noted[key]; ok {
			return at
		}
		at := int32(r.sources)
		from.plan(steps, at)
		noted[key] = at
		r.sources++
		return at
	}
	r.kindAt = note(r.root, "", []string{"kind"})
	from := map[string]Mapping{}
	for _, m := range p.Map {
		if old, ok := from[m.Field]; ok {
			return nil, evalstream.Usagef("map: %s is mapped twice, from %s and from %s", m.Field, old.Pointer, m.Pointer)
		}
		from[m.Field] = m
	}
	// Own keys of mapped fields are noted too: they are not fields to group by, and
	// splicing has to know where they stand.
	for _, name := range spec.fields {
		own := note(r.root, "", []string{name})
		source, path := own, pointerTo(name)
		if m, ok := from[name]; ok {
			steps, err := m.steps()
			if err != nil {
				return nil, err
			}
			source, path = note(r.root, "", steps), m.Pointer
		}
		r.source, r.own, r.paths = append(r.source, source), append(r.own, own), append(r.paths, path)
		delete(from, name)
	}
	if spec.kind == "run" {
		if err := r.planEntries(from, note); err != nil {
			return nil, err
		}
	}
	if err := r.planSlices(p, from, note); err != nil {
		return nil, err
	}
	if r.list != nil && (len(r.list.planned) > 0 || len(r.list.members) > 0) {
		return nil, evalstream.Usagef("map: a field is read from inside of top (%s); want top.id or top.score", r.paths[runTop])
	}
	if r.root.crowded() {
		return nil, evalstream.Usagef("%s: more than %d fields of one object are asked for", spec.kind, maxMembers)
	}
	return r, nil
}

// planEntries plans what is read of the entries of the ranked list.
func (r *reader) planEntries(from map[string]Mapping, note noter) error {
	steps, err := Mapping{Pointer: r.paths[runTop]}.steps()
	if err != nil {
		return err
	}
	r.list = r.root.descend(steps)
	r.list.list = true
	entry := r.list.entry()
	one := func(name string) (source, own int32, path string, err error) {
		own = note(entry, "top/-", []string{name})
		m, ok := from["top."+name]
		if !ok {
			return own, own, pointerTo(name), nil
		}
		delete(from, "top."+name)
		steps, err := m.steps()
		if err != nil {
			return 0, 0, "", err
		}
		return note(entry, "top/-", steps), own, m.Pointer, nil
	}
	if r.id, r.ownID, r.idPath, err = one("id"); err != nil {
		return err
	}
	r.score, r.ownScore, r.scorePath, err = one("score")
	return err
}

// planSlices plans the fields to group by; from holds the mappings that are left.
func (r *reader) planSlices(p Plan, from map[string]Mapping, note noter) error {
	if !r.sliced {
		for _, name := range slices.Sorted(maps.Keys(from)) {
			if name == "kind" || p.As != "" {
				return r.noField(name)
			}
		}
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(from)) {
		m := from[name]
		if name == "kind" || strings.HasPrefix(name, "top.") {
			if p.As == "" && name != "kind" {
				continue
			}
			return r.noField(name)
		}
		steps, err := m.steps()
		if err != nil {
			return err
		}
		s := mappedSlice{name: name, carried: p.AllSlices || slices.Contains(p.Slices, name) || slices.Contains(p.Texts, name)}
		if !s.carried && !p.Lines && p.As != "" {
			return evalstream.Usagef("map: %s has no field %q, and nothing groups by it%s", r.kind, name, have(name, r.fields))
		}
		s.source, s.own = note(r.root, "", steps), note(r.root, "", []string{name})
		r.mapped = append(r.mapped, s)
	}
	r.root.slices = p.AllSlices
	// A key is a field to group by unless it is a field's own name: those that the
	// mappings read stay fields to group by.
	for i := range r.root.members {
		m := &r.root.members[i]
		m.slice = p.AllSlices && !r.reserved(m.name)
	}
	for _, name := range slices.Concat(p.Slices, p.Texts) {
		if !r.reserved(name) {
			r.root.member(name).slice = true
		}
	}
	return nil
}

func (r *reader) noField(name string) error {
	return evalstream.Usagef("map: %s has no field %q%s", r.kind, name, have(name, r.fields))
}

// reserved reports whether a top-level key is something else than a field to group by.
func (r *reader) reserved(name string) bool {
	if name == "kind" || slices.Contains(r.fields, name) {
		return true
	}
	return slices.ContainsFunc(r.mapped, func(s mappedSlice) bool { return s.name == name })
}

func mapAll(in []string, f func(string) string) []string {
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = f(s)
	}
	return out
}

// index reads a reference token as an array index.
func index(step string) (int, bool) {
	if step == "" || len(step) > 1 && step[0] == '0' {
		return 0, false
	}
	n, err := strconv.ParseUint(step, 10, 31)
	return int(n), err == nil
}

// checkUnit reports whether u can be the unit of integer times.
func checkUnit(u time.Duration) error {
	switch u {
	case 0, time.Second, time.Millisecond, time.Microsecond, time.Nanosecond:
		return nil
	}
	return evalstream.Usagef("time unit: want s, ms, us or ns, got %v", u)
}
