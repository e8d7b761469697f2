package codecs

import (
	"bytes"
	"fmt"
	"iter"
	"math"
	"slices"

	"evalstream"
)

// Decoder reads NDJSON lines as planned. One goroutine uses it at a time.
type Decoder struct {
	plan    Plan
	readers []*reader // one a kind, in the order of specs
	only    *reader   // of every line; nil if each line's own kind decides
	r       *reader   // of the present line
	scanner

	runs        slab[evalstream.Run]
	qrels       slab[evalstream.Qrel]
	predictions slab[evalstream.Prediction]
	ratings     slab[evalstream.Rating]
	scores      slab[evalstream.Score]
	verdicts    slab[evalstream.Verdict]
	passages    slab[evalstream.Passage]
	queries     slab[evalstream.Query]
	hits        slab[evalstream.Hit]
	fields      slab[evalstream.Slice]
	values      slab[evalstream.CoderValue]
	nanos       slab[evalstream.Nano]
	bytes       slab[byte]
	floats      slab[float32]

	hitBuf   []evalstream.Hit
	fieldBuf []evalstream.Slice
	valueBuf []evalstream.CoderValue
	nanoBuf  []evalstream.Nano
	floatBuf []float32
	lineBuf  []byte
	came     evalstream.Time // what the record had before it was read
	stamp    []byte          // literal to splice into the time field; empty: none
	stamped  int             // that field
	edits    []edit
	ids      idSet
	measures []string // of the last score, shared by its equals
	digests  map[string]*evalstream.Settings
}

// NewDecoder checks p and makes a decoder for it. An error is a usage error.
func NewDecoder(p Plan) (*Decoder, error) {
	if err := checkUnit(p.TimeUnit); err != nil {
		return nil, err
	}
	d := &Decoder{plan: p, digests: map[string]*evalstream.Settings{}}
	for _, spec := range specs() {
		if p.As != "" && p.As != spec.kind {
			continue
		}
		r, err := newReader(spec, p)
		if err != nil {
			return nil, err
		}
		d.readers = append(d.readers, r)
		if p.As != "" {
			d.only = r
		}
	}
	if len(d.readers) == 0 {
		return nil, evalstream.Usagef("as: no kind %q%s", p.As, have(p.As, Kinds()))
	}
	return d, nil
}

// Reset ends the life of all bodies, and of all lines spliced, so far.
func (d *Decoder) Reset() {
	d.runs.reset()
	d.qrels.reset()
	d.predictions.reset()
	d.ratings.reset()
	d.scores.reset()
	d.verdicts.reset()
	d.passages.reset()
	d.queries.reset()
	d.hits.reset()
	d.fields.reset()
	d.values.reset()
	d.nanos.reset()
	d.bytes.reset()
	d.floats.reset()
}

// Decode reads rec.Raw, one line without its end, and sets rec.Body and rec.Time
// (NoTime if there is none, and for kinds without event time; Plan.RecordTime keeps the
// one that rec has); with Plan.Lines it
// also sets rec.Raw. Bodies point into the line and live until Reset. A fault leaves
// rec as it was; its position is within the line.
func (d *Decoder) Decode(rec *evalstream.Record) (fault *evalstream.Fault) {
	defer func() {
		if v := recover(); v != nil {
			fault = &evalstream.Fault{Class: evalstream.ClassParse, Reason: fmt.Sprintf("line cannot be read: %v", v)}
		}
	}()
	d.begin(rec.Raw)
	if !d.accept() {
		if f := d.judge(); f != nil {
			return f
		}
	}
	d.came, d.stamp = rec.Time, d.stamp[:0]
	rec.Time = evalstream.NoTime
	if f := d.r.read(d, rec); f != nil {
		rec.Time = d.came
		return f
	}
	if d.plan.Lines {
		rec.Raw = d.splice()
	}
	return nil
}

// accept notes what is planned of a line that is certain to be right.
func (d *Decoder) accept() bool {
	line := d.line
	if !clean(line) {
		return false
	}
	if d.r = d.only; d.r == nil {
		rest, ok := bytes.CutPrefix(line, []byte(kindHead))
		if !ok {
			return false
		}
		kind := rest[:next(rest, 0, '"')]
		if d.r = d.reader(view(kind)); d.r == nil {
			return false
		}
	}
	return d.walk(d.r) == len(line)
}

// judge is accept for every other line: it finds the fault, or notes what is planned.
func (d *Decoder) judge() *evalstream.Fault {
	if f := check(d.line); f != nil {
		return f
	}
	if d.r = d.only; d.r == nil {
		if f := d.choose(); f != nil {
			return f
		}
	}
	if d.walk(d.r) < 0 {
		if d.fault == nil {
			panic("BUG: the walk stops in a line that go-json accepts")
		}
		return d.fault
	}
	return nil
}

// kindHead is what lines written here begin with.
const kindHead = `{"kind":"`

// reader is that of a kind, nil if there is none.
func (d *Decoder) reader(kind string) *reader {
	for _, r := range d.readers {
		if r.kind == kind {
			return r
		}
	}
	return nil
}

// choose picks the reader by the line's own kind.
func (d *Decoder) choose() *evalstream.Fault {
	v, ok := d.find("kind")
	if !ok {
		return schemaFault(d.line, -1, "", `kind is missing; want a "kind" field, or parse --as `+orList(Kinds()))
	}
	raw := d.line[v.from:v.to]
	if raw[0] != '"' {
		return schemaFault(d.line, int(v.from), "/kind", "want string, got "+typeOf(raw))
	}
	kind := d.textOf(v)
	if d.r = d.reader(kind); d.r != nil {
		return nil
	}
	return schemaFault(d.line, int(v.from), "/kind", "no kind "+quote(kind)+have(kind, Kinds()))
}

// find is the value of a top-level key.
func (d *Decoder) find(name string) (v span, ok bool) {
	for c := d.members(span{int32(d.space(0)), int32(len(d.line))}); c.next(); {
		if c.name() == name {
			return c.value, true
		}
	}
	return span{}, false
}

// at is where field f of the kind stands.
func (d *Decoder) at(f int) span { return d.notes[d.r.source[f]] }

// want is the fault of a value of the wrong type, or of a missing one.
func (d *Decoder) want(f int, what string) *evalstream.Fault {
	v := d.at(f)
	if v.absent() {
		reason := "missing; want " + what
		if d.r.source[f] == d.r.own[f] && d.plan.Advice != "" {
			reason += " (" + d.plan.Advice + " " + d.r.fields[f] + "=/POINTER reads it from elsewhere)"
		}
		return &evalstream.Fault{Class: evalstream.ClassSchema, Path: d.r.paths[f], Reason: reason}
	}
	return d.wantAt(v, d.r.paths[f], what)
}

func (d *Decoder) wantAt(v span, path, what string) *evalstream.Fault {
	return schemaFault(d.line, int(v.from), path, "want "+what+", got "+typeOf(d.line[v.from:v.to]))
}

// null reports whether v is absent or null: one bucket wherever a field is optional.
func (d *Decoder) null(v span) bool { return v.absent() || d.line[v.from] == 'n' }

// textOf is the text of the string at v, without escapes.
func (d *Decoder) textOf(v span) string {
	inner := d.line[v.from+1 : v.to-1]
	if int(v.to) <= d.first || bytes.IndexByte(inner, '\\') < 0 {
		return view(inner)
	}
	return unescape(d.line[v.from:v.to])
}

// idAt is the id at v: a string's text or a number's literal.
func (d *Decoder) idAt(v span) (id string, ok bool) {
	switch c := d.line[v.from]; {
	case c == '"':
		return d.textOf(v), true
	case c == '-' || '0' <= c && c <= '9':
		return view(d.line[v.from:v.to]), true
	}
	return "", false
}

// plain reports whether v is a string that ends before the line's first escape: its
// text is what stands between the quotes.
func (d *Decoder) plain(v span) bool {
	return int(v.to) <= d.first && d.line[v.from] == '"'
}

// id reads a required id.
func (d *Decoder) id(f int) (string, *evalstream.Fault) {
	if v := d.at(f); !v.absent() {
		if d.plain(v) {
			return view(d.line[v.from+1 : v.to-1]), nil
		}
		if id, ok := d.idAt(v); ok {
			return id, nil
		}
	}
	return "", d.want(f, "string or number")
}

// optionalID reads an id; null is absent.
func (d *Decoder) optionalID(f int) (id string, has bool, fault *evalstream.Fault) {
	v := d.at(f)
	if d.null(v) {
		return "", false, nil
	}
	if d.plain(v) {
		return view(d.line[v.from+1 : v.to-1]), true, nil
	}
	if id, has = d.idAt(v); !has {
		return "", false, d.want(f, "string or number")
	}
	return id, true, nil
}

// slicesOf is the fields to group by of the line, in its order.
func (d *Decoder) slicesOf() []evalstream.Slice {
	d.fieldBuf = d.fieldBuf[:0]
	for _, s := range d.slices {
		if lit, ok := d.literalOf(s.value, d.r.limit(s.name)); ok {
			d.fieldBuf = append(d.fieldBuf, evalstream.Slice{Name: s.name, Value: lit})
		}
	}
	for _, m := range d.r.mapped {
		if v := d.notes[m.source]; m.carried && !v.absent() {
			if lit, ok := d.literalOf(v, d.r.limit(m.name)); ok {
				d.fieldBuf = append(d.fieldBuf, evalstream.Slice{Name: m.name, Value: lit})
			}
		}
	}
	return d.fields.copy(d.fieldBuf)
}

// maxSlice is the length from which on a string is a text and not a field to group by.
const maxSlice = 64

// limit is the length up to which a string of that name is a field to group by.
func (r *reader) limit(name string) int {
	if len(r.texts) > 0 && slices.Contains(r.texts, name) {
		return math.MaxInt
	}
	return maxSlice
}

// literalOf is the JSON literal of a scalar of at most limit bytes of text; strings
// are quoted in the shortest escaping. ok is false for null, objects and arrays.
func (d *Decoder) literalOf(v span, limit int) (lit string, ok bool) {
	raw := d.line[v.from:v.to]
	switch raw[0] {
	case '{', '[', 'n':
		return "", false
	case '"':
		if bytes.IndexByte(raw, '\\') < 0 {
			return view(raw), len(raw)-2 <= limit
		}
		if limit < len(raw) && len(raw)-2-5*bytes.Count(raw, []byte{'\\'}) > limit {
			return "", false // an escape is at most six bytes for one
		}
		text := unescape(raw)
		if len(text) > limit {
			return "", false
		}
		d.lineBuf = evalstream.AppendString(d.lineBuf[:0], text)
		return view(d.bytes.copy(d.lineBuf)), true
	}
	return view(raw), len(raw) <= limit
}

// setTime reads the event time from field f.
func (d *Decoder) setTime(rec *evalstream.Record, f int) *evalstream.Fault {
	v := d.at(f)
	if d.plan.RecordTime && d.came != evalstream.NoTime {
		rec.Time, d.stamped = d.came, f
		d.stamp = append(evalstream.AppendTime(append(d.stamp, '"'), d.came), '"')
		return nil
	}
	if d.plan.NoTime || d.null(v) {
		return nil
	}
	raw := d.line[v.from:v.to]
	var reason string
	switch c := raw[0]; {
	case c == '"':
		rec.Time, reason = parseTime(d.textOf(v))
	case c == '-' || '0' <= c && c <= '9':
		rec.Time, reason = integerTime(view(raw), d.plan.TimeUnit)
	default:
		return d.want(f, "RFC 3339 time or integer")
	}
	if reason != "" {
		return v.fault(d.line, d.r.paths[f], reason)
	}
	return nil
}

// revision reads field f: an integer, or a time as nanoseconds since 1970.
func (d *Decoder) revision(f int) (int64, *evalstream.Fault) {
	v := d.at(f)
	if d.null(v) {
		return 0, nil
	}
	raw := d.line[v.from:v.to]
	if raw[0] == '"' {
		t, reason := parseTime(d.textOf(v))
		if reason != "" {
			return 0, v.fault(d.line, d.r.paths[f], reason)
		}
		return int64(t), nil
	}
	return d.integer(f, "integer or RFC 3339 time")
}

// integer reads field f, 0 if it is absent or null.
func (d *Decoder) integer(f int, what string) (int64, *evalstream.Fault) {
	v := d.at(f)
	if d.null(v) {
		return 0, nil
	}
	n, reason := parseInteger(d.line[v.from:v.to], what)
	if reason != "" {
		return 0, v.fault(d.line, d.r.paths[f], reason)
	}
	return n, nil
}

// members iterates over an object whose grammar has been checked.
func (s *scanner) members(object span) cursor {
	c := cursor{s: s}
	if s.line[object.from] == '{' {
		c.i = s.space(int(object.from) + 1)
	}
	return c
}

// cursor stands on a member of an object.
type cursor struct {
	s     *scanner
	i     int // of the next key, 0 at the end
	key   int
	value span
}

func (c *cursor) next() bool {
	s := c.s
	if c.i == 0 || s.line[c.i] == '}' {
		return false
	}
	c.key = c.i
	from := s.space(s.space(s.text(c.i)) + 1)
	to := s.skip(from)
	c.value = span{int32(from), int32(to)}
	if c.i = s.space(to); s.line[c.i] == ',' {
		c.i = s.space(c.i + 1)
	}
	return true
}

func (c *cursor) name() string { return c.s.name(c.key) }

// elements iterates over an array whose grammar has been checked; over anything else
// it does not.
func (s *scanner) elements(array span) iter.Seq2[int, span] {
	return func(yield func(int, span) bool) {
		if array.absent() || s.line[array.from] != '[' {
			return
		}
		i := s.space(int(array.from) + 1)
		for n := 0; s.line[i] != ']'; n++ {
			to := s.skip(i)
			if !yield(n, span{int32(i), int32(to)}) {
				return
			}
			if i = s.space(to); s.line[i] == ',' {
				i = s.space(i + 1)
			}
		}
	}
}

// skip is the end of the value at i. It stops at the outermost bracket only, so it
// needs no depth.
func (s *scanner) skip(i int) int {
	open := 0
	for {
		switch s.line[i] {
		case '"':
			i = s.text(i)
		case '{', '[':
			open++
			i++
		case '}', ']':
			open--
			i++
		case ',', ':', ' ', '\t', '\n', '\r':
			i++
			continue
		default:
			i = s.literal(i)
		}
		if open == 0 {
			return i
		}
	}
}
