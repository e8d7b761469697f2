package stages

import (
	"encoding/binary"
	"slices"
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"evalstream"
	"evalstream/stages/metric"
)

// digester is the half of aggregate that a worker does: names become numbers.
type digester struct {
	a                      *aggregate
	runs, groups, patterns memo
	key                    []byte
	literals               []string
	ballots                metric.Ballots
	settings               *evalstream.Settings
	likes                  map[*evalstream.Score]likeness
	// What was not observed is counted by the stage, or here if a store wants to know
	// it block by block.
	apart                    bool
	refused, others, reviews int64
}

// likeness is what an observation has of a score that many are like.
type likeness struct{ run, group, pattern uint32 }

// maxLikes bounds their memory where they hardly repeat.
const maxLikes = 1 << 13

// Digester makes a worker's half; it shares the stage's dictionaries.
func (a *aggregate) Digester() evalstream.Digester {
	return &digester{a: a, runs: memo{of: &a.runs}, groups: memo{of: &a.groups}, patterns: memo{of: &a.patterns}, apart: a.kept != nil}
}

// count adds to a counter of the stage, or to the worker's own.
func (d *digester) count(stage *atomic.Int64, own *int64) {
	if d.apart {
		*own++
	} else {
		stage.Add(1)
	}
}

// Tallies is what this worker has not observed, if that is counted apart.
func (d *digester) Tallies() []evalstream.Tally {
	return []evalstream.Tally{
		{Kind: "score", Received: d.refused, Rejected: d.refused},
		{Kind: "review", Received: d.reviews, Passed: d.reviews},
		{Kind: otherKinds, Received: d.others, Rejected: d.others},
	}
}

// Digest appends an observation for each score.
func (d *digester) Digest(in []evalstream.Record, dst []evalstream.Observation, out *evalstream.Out) []evalstream.Observation {
	for i := range in {
		s, ok := in[i].Body.(*evalstream.Score)
		if _, review := in[i].Body.(*evalstream.Review); review {
			d.count(&d.a.reviews, &d.reviews)
			out.Emit(in[i])
			continue
		}
		if !ok {
			d.count(&d.a.others, &d.others)
			out.RejectRecord(&in[i], evalstream.Fault{Class: evalstream.ClassStage, Reason: "aggregate: want score, got " + in[i].Body.Kind()})
			continue
		}
		if s.Again && in[i].Time == evalstream.NoTime && d.a.timed {
			continue // its prediction was rejected for that when it came
		}
		o, f := d.observe(s, in[i].Time)
		if f != nil {
			d.count(&d.a.refused, &d.refused)
			out.RejectRecord(&in[i], *f)
			continue
		}
		o.Seq = in[i].Seq
		dst = append(dst, o)
	}
	return dst
}

// from is recs from the one on that an observation was made of.
func from(recs []evalstream.Record, o *evalstream.Observation) []evalstream.Record {
	i := slices.IndexFunc(recs, func(r evalstream.Record) bool {
		s, ok := r.Body.(*evalstream.Score)
		return ok && r.Seq == o.Seq && r.Time == o.Time && s.Status == o.Status && (s.Positions || unitHash(s) == o.Unit)
	})
	if i < 0 {
		return nil
	}
	return recs[i:]
}

// unitHash stands for the name of a unit; it is never zero.
func unitHash(s *evalstream.Score) [2]uint64 {
	h := xxh3.HashString128(s.Unit)
	return [2]uint64{h.Lo, h.Hi | 1}
}

func (d *digester) observe(s *evalstream.Score, at evalstream.Time) (o evalstream.Observation, f *evalstream.Fault) {
	o.Time, o.Status, o.Revision = at, s.Status, s.Revision
	if at == evalstream.NoTime && d.a.timed && s.Status != evalstream.Waiting && s.Status != evalstream.Retracted {
		return o, &evalstream.Fault{Class: evalstream.ClassSchema, Path: "/time", Reason: "want a time, since windows are cut by it, got none"}
	}
	if !s.Positions {
		o.Unit = unitHash(s)
	}
	if l, ok := d.likes[s.Like]; ok && s.Like != nil {
		o.Run, o.Group, o.Pattern = l.run, l.group, l.pattern
		return o, nil
	}
	d.key = append(d.key[:0], s.Run...)
	o.Run = d.runs.id(d.key, nil)
	if s.Status == evalstream.Scored {
		if o.Pattern, f = d.pattern(s); f != nil {
			return o, f
		}
	} else {
		o.Pattern = d.nothing()
	}
	d.key = d.key[:0]
	for _, name := range d.a.fields {
		d.key = appendField(d.key, s, name)
	}
	o.Group = d.groups.id(d.key, d.a.newTuple)
	if s.Like != nil {
		if d.likes == nil || len(d.likes) >= maxLikes {
			d.likes = make(map[*evalstream.Score]likeness)
		}
		d.likes[s.Like] = likeness{o.Run, o.Group, o.Pattern}
	}
	return o, nil
}

// appendField appends a field's literal and a separator; an absent field has none.
func appendField(dst []byte, s *evalstream.Score, name string) []byte {
	judged := s.Dimension != ""
	switch {
	case name == "run", judged && name == "mode":
		if s.Run != "" {
			dst = evalstream.AppendString(dst, s.Run)
		}
	case judged && name == "dimension":
		dst = evalstream.AppendString(dst, s.Dimension)
	default:
		for i := range s.Slices {
			if s.Slices[i].Name == name {
				dst = append(dst, s.Slices[i].Value...)
				break
			}
		}
	}
	return append(dst, fieldEnd)
}

// fieldEnd separates literals; no JSON literal has it.
const fieldEnd = 0

// newTuple numbers a new group in each layout.
func (a *aggregate) newTuple(id uint32, joined string) {
	literals := splitFields(joined)
	numbers := make([]uint32, len(a.layouts))
	for i, l := range a.layouts {
		var key []byte
		for _, f := range l.fields {
			key = append(append(key, literals[f]...), fieldEnd)
		}
		numbers[i] = l.groups.id(key, nil)
	}
	a.tupleMu.Lock()
	defer a.tupleMu.Unlock()
	a.tuples = append(a.tuples, numbers)
	for f, literal := range literals {
		a.seen[f] = a.seen[f] || literal != ""
	}
}

func splitFields(joined string) []string {
	var fields []string
	for len(joined) > 0 {
		n := 0
		for joined[n] != fieldEnd {
			n++
		}
		fields = append(fields, joined[:n])
		joined = joined[n+1:]
	}
	return fields
}

// nothing is the contribution of a unit that is not scored.
func (d *digester) nothing() uint32 {
	d.key = append(d.key[:0], 'n')
	return d.patterns.id(d.key, func(uint32, string) { d.a.newContribution(contribution{}) })
}

func (a *aggregate) newContribution(c contribution) {
	a.tupleMu.Lock()
	defer a.tupleMu.Unlock()
	a.adds = append(a.adds, c)
}

// pattern numbers what a scored unit adds.
func (d *digester) pattern(s *evalstream.Score) (uint32, *evalstream.Fault) {
	family := agreement
	switch {
	case s.Values != nil:
		family = retrieval
	case s.Labelled:
		family = fewshot
	case s.Dimension != "":
		family = judging
	}
	if family == agreement && len(s.Ratings) == 0 {
		return 0, &evalstream.Fault{Class: evalstream.ClassSchema, Reason: "want values, label and gold, or ratings of a scored unit, got none"}
	}
	if s.Settings != d.settings || d.settings == nil {
		if f := d.a.begin(family, s.Measures, s.Settings); f != nil {
			return 0, f
		}
		d.settings = s.Settings
	}
	switch family {
	case retrieval:
		d.key = append(d.key[:0], 'v')
		for i, v := range s.Values {
			if f := d.a.checkValue(i, v); f != nil {
				return 0, f
			}
			for shift := 0; shift < 64; shift += 8 {
				d.key = append(d.key, byte(uint64(v)>>shift))
			}
		}
		return d.patterns.id(d.key, func(uint32, string) {
			d.a.newContribution(contribution{values: slices.Clone(s.Values)})
		}), nil
	case fewshot:
		// By length, since a label may have any byte.
		d.key = binary.AppendUvarint(append(d.key[:0], 'l'), uint64(len(s.Label)))
		d.key = append(append(d.key, s.Label...), s.Gold...)
		return d.patterns.id(d.key, func(uint32, string) {
			d.a.newContribution(contribution{label: d.a.relation(s.Label), gold: d.a.relation(s.Gold)})
		}), nil
	}
	if family == judging {
		return d.judgingPattern(s)
	}
	d.literals = d.literals[:0]
	for _, r := range s.Ratings {
		d.literals = append(d.literals, ratingText(r.Value))
	}
	d.key = metric.AppendPattern(append(d.key[:0], 'r'), d.literals)
	return d.patterns.id(d.key, func(_ uint32, name string) {
		d.a.newContribution(contribution{ratings: name[1:]})
	}), nil
}

// relation is the number of a label, noRelation for the negative one.
func (a *aggregate) relation(label string) uint32 {
	if label == a.options.Negative {
		a.tupleMu.Lock()
		a.nota = true
		a.tupleMu.Unlock()
		return noRelation
	}
	return a.relations.id([]byte(label), nil)
}
