package codecs

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"evalstream"
)

// readScore reads what AppendRecord writes of a score.
func (d *Decoder) readScore(rec *evalstream.Record) *evalstream.Fault {
	var f *evalstream.Fault
	b := d.scores.one()
	if b.Unit, f = d.id(scoreUnit); f != nil {
		return f
	}
	if b.Run, _, f = d.optionalID(scoreRun); f != nil {
		return f
	}
	if b.Positions, f = d.boolean(scorePosition); f != nil {
		return f
	}
	v := d.at(scoreStatus)
	if v.absent() || d.line[v.from] != '"' {
		return d.want(scoreStatus, "status")
	}
	var ok bool
	if b.Status, ok = evalstream.ParseStatus(d.textOf(v)); !ok {
		return v.fault(d.line, d.r.paths[scoreStatus], "no status "+quote(d.textOf(v))+have(d.textOf(v), statusNames()))
	}
	if f := d.scoreValues(b); f != nil {
		return f
	}
	if f := d.scoreRatings(b); f != nil {
		return f
	}
	var label, gold bool
	if b.Label, label, f = d.optionalID(scoreLabel); f != nil {
		return f
	}
	if b.Gold, gold, f = d.optionalID(scoreGold); f != nil {
		return f
	}
	b.Labelled = label && gold
	if b.Slices, f = d.scoreSlices(); f != nil {
		return f
	}
	if f := d.setTime(rec, scoreTime); f != nil {
		return f
	}
	if b.Revision, f = d.revision(scoreRevision); f != nil {
		return f
	}
	if b.Settings, f = d.settings(scoreSettings); f != nil {
		return f
	}
	rec.Body = b
	return nil
}

func statusNames() []string {
	var names []string
	for _, s := range evalstream.Statuses() {
		names = append(names, s.String())
	}
	return names
}

// object is the members of field f; ok is false if it is absent.
func (d *Decoder) object(f int, what string) (c cursor, ok bool, fault *evalstream.Fault) {
	v := d.at(f)
	if d.null(v) {
		return cursor{}, false, nil
	}
	if d.line[v.from] != '{' {
		return cursor{}, false, d.want(f, what)
	}
	return d.members(v), true, nil
}

// below is the path of a member of field f.
func (d *Decoder) below(f int, name string) string { return d.r.paths[f] + pointerTo(name) }

func (d *Decoder) scoreValues(b *evalstream.Score) *evalstream.Fault {
	c, ok, f := d.object(scoreValues, "object of decimals")
	if !ok {
		return f
	}
	d.nanoBuf = d.nanoBuf[:0]
	same := true // as the last score's measures
	for c.next() {
		n, err := evalstream.ParseNano(d.line[c.value.from:c.value.to])
		if err != nil {
			return d.wantDecimal(c.value, d.below(scoreValues, c.name()))
		}
		i := len(d.nanoBuf)
		d.nanoBuf = append(d.nanoBuf, n)
		same = same && i < len(d.measures) && d.measures[i] == c.name()
	}
	if !same || len(d.measures) != len(d.nanoBuf) {
		// Bodies that were handed out share the old list.
		d.measures = make([]string, 0, len(d.nanoBuf))
		for c := d.members(d.at(scoreValues)); c.next(); {
			d.measures = append(d.measures, strings.Clone(c.name()))
		}
	}
	b.Values = d.nanos.copy(d.nanoBuf)
	b.Measures = d.measures
	return nil
}

func (d *Decoder) wantDecimal(v span, path string) *evalstream.Fault {
	raw := d.line[v.from:v.to]
	if c := raw[0]; c != '-' && (c < '0' || c > '9') {
		return d.wantAt(v, path, "decimal of at most 9 places")
	}
	return v.fault(d.line, path, "want decimal of at most 9 places below 9223372037, got "+cutText(raw))
}

// scoreRatings reads the ratings, or, where there is a dimension, the verdicts of both
// orders.
func (d *Decoder) scoreRatings(b *evalstream.Score) *evalstream.Fault {
	var f *evalstream.Fault
	if b.Dimension, _, f = d.optionalID(scoreDimension); f != nil {
		return f
	}
	judging := b.Dimension != ""
	if b.Ratings, f = d.coderValues(scoreRatings, "object of ratings", judging); f != nil || !judging {
		return f
	}
	if b.Run, _, f = d.optionalID(scoreMode); f != nil {
		return f
	}
	b.Swapped, f = d.coderValues(scoreSwapped, "object of verdicts", true)
	return f
}

func sortCoders(values []evalstream.CoderValue) {
	byCoder := func(a, b evalstream.CoderValue) int { return cmp.Compare(a.Coder, b.Coder) }
	if !slices.IsSortedFunc(values, byCoder) {
		slices.SortFunc(values, byCoder)
	}
}

// scoreSlices reads the fields to group by that are planned.
func (d *Decoder) scoreSlices() ([]evalstream.Slice, *evalstream.Fault) {
	c, ok, f := d.object(scoreSlices, "object of scalars")
	if !ok {
		return nil, f
	}
	d.fieldBuf = d.fieldBuf[:0]
	for c.next() {
		name := c.name()
		if !d.plan.AllSlices && !slices.Contains(d.r.wanted, name) {
			continue
		}
		if lit, ok := d.literalOf(c.value, maxSlice); ok {
			d.fieldBuf = append(d.fieldBuf, evalstream.Slice{Name: name, Value: lit})
		}
	}
	return d.fields.copy(d.fieldBuf), nil
}

func (d *Decoder) boolean(f int) (bool, *evalstream.Fault) {
	v := d.at(f)
	if d.null(v) {
		return false, nil
	}
	switch d.line[v.from] {
	case 't':
		return true, nil
	case 'f':
		return false, nil
	}
	return false, d.want(f, "boolean")
}

// settings reads a digest. Equal digests share one Settings, whose Text is not known.
func (d *Decoder) settings(f int) (*evalstream.Settings, *evalstream.Fault) {
	v := d.at(f)
	if d.null(v) {
		return nil, nil
	}
	if d.line[v.from] != '"' {
		return nil, d.want(f, "digest of 16 hex digits")
	}
	digest := d.textOf(v)
	if s, ok := d.digests[digest]; ok {
		return s, nil
	}
	if len(digest) != 16 || strings.Trim(digest, "0123456789abcdef") != "" {
		return nil, v.fault(d.line, d.r.paths[f], "want digest of 16 hex digits, got "+quote(digest))
	}
	if len(d.digests) >= 64 {
		clear(d.digests)
	}
	s := &evalstream.Settings{Digest: strings.Clone(digest)}
	d.digests[s.Digest] = s
	return s, nil
}

// readPartial reads what AppendRecord writes of a partial. Partials are few, so their
// memory is their own.
func (d *Decoder) readPartial(rec *evalstream.Record) *evalstream.Fault {
	b := &evalstream.Partial{}
	for _, field := range []struct {
		f  int
		to *string
	}{{partialStep, &b.Step}, {partialFamily, &b.Family}, {partialWindow, &b.Window}} {
		text, fault := d.id(field.f)
		if fault != nil {
			return fault
		}
		*field.to = strings.Clone(text)
	}
	var partition, partitions int64
	for _, field := range []struct {
		f  int
		to *int64
	}{
		{partialPartition, &partition},
		{partialPartitions, &partitions},
		{partialPane, &b.Pane},
		{partialN, &b.Cell.N},
		{partialPending, &b.Cell.Pending},
		{partialUnjudged, &b.Cell.Unjudged},
		{partialExpired, &b.Cell.Expired},
		{partialJudged, &b.Judged},
	} {
		if d.null(d.at(field.f)) {
			return d.want(field.f, "integer")
		}
		n, fault := d.integer(field.f, "integer")
		if fault != nil {
			return fault
		}
		*field.to = n
	}
	if partition != int64(int32(partition)) || partitions != int64(int32(partitions)) {
		return d.at(partialPartition).fault(d.line, d.r.paths[partialPartition], "want integers of 32 bits for partition and partitions")
	}
	b.Partition, b.Partitions = int32(partition), int32(partitions)
	var f *evalstream.Fault
	if b.Positions, f = d.boolean(partialPosition); f != nil {
		return f
	}
	settled := evalstream.Record{Time: evalstream.NoTime}
	if f := d.setTime(&settled, partialSettled); f != nil {
		return f
	}
	b.Settled = settled.Time
	c, _, f := d.object(partialBy, "object of scalars")
	if f != nil {
		return f
	}
	for c.next() {
		b.By = append(b.By, evalstream.Slice{Name: strings.Clone(c.name()), Value: string(d.line[c.value.from:c.value.to])})
	}
	if f := d.partialCell(&b.Cell); f != nil {
		return f
	}
	if b.Settings, f = d.settings(partialSettings); f != nil {
		return f
	}
	rec.Body = b
	return nil
}

func (d *Decoder) partialCell(cell *evalstream.Cell) *evalstream.Fault {
	for i, v := range d.elements(d.at(partialMeasures)) {
		if d.line[v.from] != '"' {
			return d.wantAt(v, d.below(partialMeasures, strconv.Itoa(i)), "string")
		}
		cell.Measures = append(cell.Measures, strings.Clone(d.textOf(v)))
	}
	for i, v := range d.elements(d.at(partialSums)) {
		n, err := evalstream.ParseNano(d.line[v.from:v.to])
		if err != nil {
			return d.wantDecimal(v, d.below(partialSums, strconv.Itoa(i)))
		}
		cell.Sums = append(cell.Sums, n)
	}
	c, _, f := d.object(partialCounts, "object of arrays of integers")
	if f != nil {
		return f
	}
	for c.next() {
		row := evalstream.Count{Name: strings.Clone(c.name())}
		for i, v := range d.elements(c.value) {
			n, reason := parseInteger(d.line[v.from:v.to], "integer")
			if reason != "" {
				return v.fault(d.line, d.below(partialCounts, row.Name)+"/"+strconv.Itoa(i), reason)
			}
			row.N = append(row.N, n)
		}
		cell.Counts = append(cell.Counts, row)
	}
	return nil
}
