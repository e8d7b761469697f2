package codecs

import (
	"fmt"
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
	// AllSlices carries every remaining scalar top-level field of at most 64 bytes.
	AllSlices bool
	// NoTime says that no step needs the time: it is not read, and not checked.
	NoTime bool
	// TimeUnit is the unit of integer times: a second, milli-, micro- or nanosecond.
	// The default, 0, makes an integer time a fault.
	TimeUnit time.Duration
	// Lines says that the line goes on: mapped fields and the kind are spliced into it.
	Lines bool
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

// kindSpec is what the wire knows of a kind.
type kindSpec struct {
	kind   string
	fields []string // top-level keys that are not fields to group by
	sliced bool     // remaining scalars are fields to group by
	read   func(*Decoder, *evalstream.Record) *evalstream.Fault
}

// The places of fields in the tables of specs.
const (
	runQuery = iota
	runName
	runTop
	runTime
	runRevision
)

const (
	qrelQuery = iota
	qrelPassage
	qrelGrade
	qrelSource
	qrelRevision
	qrelTime
)

const (
	predDataset = iota
	predSeed
	predK
	predEpisode
	predQuery
	predRun
	predLabel
	predGold
	predRevision
	predTime
	predScore
)

const (
	ratingUnit = iota
	ratingCoder
	ratingValue
	ratingRevision
	ratingTime
)

const (
	scoreUnit = iota
	scoreRun
	scoreStatus
	scoreValues
	scoreRatings
	scoreLabel
	scoreGold
	scorePosition
	scoreSlices
	scoreTime
	scoreRevision
	scoreSettings
	scoreMode
	scoreDimension
	scoreSwapped
)

const (
	partialStep = iota
	partialPartition
	partialPartitions
	partialFamily
	partialBy
	partialWindow
	partialPane
	partialN
	partialPending
	partialUnjudged
	partialExpired
	partialMeasures
	partialSums
	partialCounts
	partialJudged
	partialSettings
)

// specs lists the kinds that can be read.
func specs() []kindSpec {
	return []kindSpec{
		{"run", []string{"query_id", "run", "top", "time", "revision"}, true, (*Decoder).readRun},
		{"qrel", []string{"query_id", "passage_id", "grade", "source", "revision", "time"}, false, (*Decoder).readQrel},
		{"prediction", []string{"dataset", "seed", "k", "episode", "query", "run", "label", "gold", "revision", "time", "score"}, true, (*Decoder).readPrediction},
		{"rating", []string{"unit", "coder", "value", "revision", "time"}, true, (*Decoder).readRating},
		{"score", []string{"unit", "run", "status", "values", "ratings", "label", "gold", "position", "slices", "time", "revision", "settings", "mode", "dimension", "swapped"}, false, (*Decoder).readScore},
		{"verdict", verdictFields(), true, (*Decoder).readVerdict},
		{"review", reviewFields(), false, (*Decoder).readReview},
		{"partial", []string{"step", "partition", "partitions", "family", "by", "window", "pane", "n", "pending", "unjudged", "expired", "measures", "sums", "counts", "judged", "settings"}, false, (*Decoder).readPartial},
	}
}

// Kinds lists the kinds that a Decoder reads.
func Kinds() []string {
	var names []string
	for _, s := range specs() {
		names = append(names, s.kind)
	}
	return names
}

// reader is a plan for one kind.
type reader struct {
	kindSpec
	root            *place
	sources         int      // values to note a line
	source          []int32  // of each field: which noted value it is
	own             []int32  // of each field: its own top-level key, -1 if nobody asks
	paths           []string // of each field: the JSON Pointer that it is read from
	mapped          []mappedSlice
	wanted          []string // names of Plan.Slices
	kindAt          int32    // the line's own kind
	quoted          []byte   // the kind as a JSON string
	id              int32    // values of an entry of the ranked list
	score           int32
	idPath          string
	scorePath       string
	ownID, ownScore int32
}

// mappedSlice is a field to group by that stands somewhere below the top level.
type mappedSlice struct {
	name        string
	source, own int32
	carried     bool // into the body; otherwise only into the line
}

// newReader plans one kind.
func newReader(spec kindSpec, p Plan) (*reader, error) {
	r := &reader{quoted: evalstream.AppendString(nil, spec.kind), kindSpec: spec, root: &place{}, wanted: p.Slices, id: -1, score: -1, ownID: -1, ownScore: -1}
	noted := map[string]int32{}
	note := func(from *place, prefix string, steps []string) (int32, error) {
		key := prefix + "/" + strings.Join(mapAll(steps, escapeStep), "/")
		if at, ok := noted[key]; ok {
			return at, nil
		}
		at := int32(r.sources)
		if err := from.plan(steps, at); err != nil {
			return 0, err
		}
		noted[key] = at
		r.sources++
		return at, nil
	}
	top := func(name string) (int32, error) { return note(r.root, "", []string{name}) }
	var err error
	if r.kindAt, err = top("kind"); err != nil {
		return nil, err
	}
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
		own, err := top(name)
		if err != nil {
			return nil, err
		}
		source, path := own, pointerTo(name)
		if m, ok := from[name]; ok {
			steps, err := m.steps()
			if err != nil {
				return nil, err
			}
			if source, err = note(r.root, "", steps); err != nil {
				return nil, err
			}
			path = m.Pointer
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
	return r, nil
}

// planEntries plans what is read of the entries of the ranked list.
func (r *reader) planEntries(from map[string]Mapping, note func(*place, string, []string) (int32, error)) error {
	steps, err := Mapping{Pointer: r.paths[runTop]}.steps()
	if err != nil {
		return err
	}
	list := r.root.descend(steps)
	list.list = true
	entry := list.entry()
	one := func(name string) (source, own int32, path string, err error) {
		if own, err = note(entry, "top/-", []string{name}); err != nil {
			return 0, 0, "", err
		}
		source, path = own, pointerTo(name)
		if m, ok := from["top."+name]; ok {
			steps, err := m.steps()
			if err != nil {
				return 0, 0, "", err
			}
			if source, err = note(entry, "top/-", steps); err != nil {
				return 0, 0, "", err
			}
			path = m.Pointer
			delete(from, "top."+name)
		}
		return source, own, path, nil
	}
	if r.id, r.ownID, r.idPath, err = one("id"); err != nil {
		return err
	}
	r.score, r.ownScore, r.scorePath, err = one("score")
	return err
}

// planSlices plans the fields to group by; from holds the mappings that are left.
func (r *reader) planSlices(p Plan, from map[string]Mapping, note func(*place, string, []string) (int32, error)) error {
	if !r.sliced {
		for name := range from {
			if name == "kind" || p.As != "" {
				return evalstream.Usagef("map: %s has no field %q (have %s)", r.kind, name, strings.Join(r.fields, ", "))
			}
		}
		return nil
	}
	for _, name := range sortedKeys(from) {
		m := from[name]
		if name == "kind" || strings.HasPrefix(name, "top.") {
			if p.As == "" && name != "kind" {
				continue
			}
			return evalstream.Usagef("map: %s has no field %q (have %s)", r.kind, name, strings.Join(r.fields, ", "))
		}
		steps, err := m.steps()
		if err != nil {
			return err
		}
		s := mappedSlice{name: name, carried: p.AllSlices || slices.Contains(p.Slices, name)}
		if s.source, err = note(r.root, "", steps); err != nil {
			return err
		}
		if s.own, err = note(r.root, "", []string{name}); err != nil {
			return err
		}
		r.mapped = append(r.mapped, s)
	}
	r.root.slices = p.AllSlices
	// A key is a field to group by unless it is a field's own name: those that the
	// mappings read stay fields to group by.
	for i := range r.root.members {
		m := &r.root.members[i]
		m.slice = p.AllSlices && !r.reserved(m.name)
	}
	for _, name := range p.Slices {
		if !r.reserved(name) {
			r.root.member(name).slice = true
		}
	}
	return nil
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

func sortedKeys(m map[string]Mapping) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
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
	return evalstream.Usagef("time unit: want s, ms, us or ns, got %v", fmt.Sprint(u))
}
