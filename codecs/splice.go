package codecs

import (
	"bytes"
	"cmp"
	"slices"

	"evalstream"
)

// edit replaces a piece of the line, or inserts if the piece is empty.
type edit struct {
	at    span
	field string // key to insert before the value, "" to replace a value
	value []byte
}

// splice is the line with its kind and its mapped fields at the top level. A key that
// is there gets its value's bytes replaced, any other is appended before the last
// brace; kind goes first if it was absent. Everything else is the line's own bytes.
// Without anything to do it is the line itself.
func (d *Decoder) splice() []byte {
	r := d.r
	edits := d.edits[:0]
	from := d.space(0)
	kind := d.notes[r.kindAt]
	quoted := r.quoted
	switch {
	case kind.absent():
		edits = append(edits, edit{at: span{int32(from) + 1, int32(from) + 1}, field: "kind", value: quoted})
	case string(d.line[kind.from:kind.to]) != string(quoted):
		edits = append(edits, edit{at: kind, value: quoted})
	}
	end := int32(len(d.line))
	for d.line[end-1] != '}' {
		end--
	}
	end--
	for f, source := range r.source {
		value := d.bytesOf(d.notes[source])
		changed := source != r.own[f]
		if f == runTop && r.kind == "run" && (r.id != r.ownID || r.score != r.ownScore) {
			value, changed = d.spliceEntries(d.notes[source]), true
		}
		if len(d.stamp) > 0 && f == d.stamped {
			value, changed = d.stamp, true
		}
		if changed {
			edits = appendEdit(edits, d.notes[r.own[f]], end, r.fields[f], value)
		}
	}
	for _, m := range r.mapped {
		if m.source != m.own {
			edits = appendEdit(edits, d.notes[m.own], end, m.name, d.bytesOf(d.notes[m.source]))
		}
	}
	d.edits = edits
	if len(edits) == 0 {
		return d.line
	}
	d.lineBuf = d.apply(d.lineBuf[:0], edits, span{0, int32(len(d.line))})
	return d.bytes.copy(d.lineBuf)
}

func (d *Decoder) bytesOf(v span) []byte {
	if v.absent() {
		return nil
	}
	return d.line[v.from:v.to]
}

// appendEdit sets a field to value. A field whose source is absent is not left to its
// own name, which would then be read downstream: it becomes null.
func appendEdit(edits []edit, own span, end int32, field string, value []byte) []edit {
	switch {
	case own.absent() && value == nil:
		return edits
	case own.absent():
		return append(edits, edit{at: span{end, end}, field: field, value: value})
	case value == nil:
		return append(edits, edit{at: own, value: []byte("null")})
	}
	return append(edits, edit{at: own, value: value})
}

// spliceEntries is the ranked list at list with id and score in each entry.
func (d *Decoder) spliceEntries(list span) []byte {
	r := d.r
	dst := []byte{}
	at := list.from
	for i := range d.entries {
		e := &d.entries[i]
		dst = append(dst, d.line[at:e.whole.from]...)
		at = e.whole.to
		var edits []edit
		if r.id != r.ownID {
			edits = appendEdit(edits, d.owns[i].id, at-1, "id", d.bytesOf(e.id))
		}
		if r.score != r.ownScore {
			edits = appendEdit(edits, d.owns[i].score, at-1, "score", d.bytesOf(e.score))
		}
		dst = d.apply(dst, edits, e.whole)
	}
	return append(dst, d.line[at:list.to]...)
}

// apply appends the piece of the line at whole with the edits made.
func (d *Decoder) apply(dst []byte, edits []edit, whole span) []byte {
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(a.at.from, b.at.from) })
	at := whole.from
	for _, e := range edits {
		dst = append(dst, d.line[at:e.at.from]...)
		at = e.at.to
		if e.field == "" {
			dst = append(dst, e.value...)
			continue
		}
		// An object that was decoded is not empty, so there is a member on one side.
		if e.field != "kind" {
			dst = append(dst, ',')
		}
		dst = append(evalstream.AppendString(dst, e.field), ':')
		dst = append(dst, e.value...)
		if e.field == "kind" {
			dst = append(dst, ',')
		}
	}
	return append(dst, d.line[at:whole.to]...)
}

// SpliceFields appends line to dst with fields set at the top level: a key that is
// there gets its value's bytes replaced, any other is appended before the last brace.
// Everything else is the line's own bytes. line is one JSON object that a Decoder has
// read as a body, so its grammar is not checked again and it has a member; fields have
// names of their own, other than kind.
func SpliceFields(dst, line []byte, fields []evalstream.Field) []byte {
	s := scanner{line: line}
	end := int32(bytes.LastIndexByte(line, '}'))
	edits := make([]edit, len(fields))
	for i, f := range fields {
		edits[i] = edit{at: span{end, end}, field: f.Name, value: f.Value}
	}
	for c := s.members(span{int32(s.space(0)), int32(len(line))}); c.next(); {
		for i, f := range fields {
			if c.name() == f.Name {
				edits[i].at, edits[i].field = c.value, ""
			}
		}
	}
	d := Decoder{scanner: s}
	return d.apply(dst, edits, span{0, int32(len(line))})
}
