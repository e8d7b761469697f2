package codecs

import (
	"encoding/base64"
	"math"
	"strconv"
	"unicode/utf8"

	"evalstream"
)

// AppendRecord appends rec as one NDJSON line with its newline: rec.Raw byte for byte
// if it has one, else the body and the event time.
func AppendRecord(dst []byte, rec *evalstream.Record) []byte {
	if rec.Raw != nil {
		return append(append(dst, rec.Raw...), '\n')
	}
	return append(appendBody(dst, rec.Body, rec.Time), '\n')
}

// AppendBody appends b as one JSON object without event time, kind first. Absent
// optional fields are left out, and so are zero counts of no meaning to the kind.
// A Decoder reads the same body back, except that Settings keeps its digest only.
// It appends {"kind":…} alone for kinds that it does not know.
func AppendBody(dst []byte, b evalstream.Body) []byte {
	return appendBody(dst, b, evalstream.NoTime)
}

func appendBody(dst []byte, b evalstream.Body, t evalstream.Time) []byte {
	o := object{append(dst, '{')}
	o.text("kind", b.Kind())
	switch b := b.(type) {
	case *evalstream.Run:
		o.run(b, t)
	case *evalstream.Qrel:
		o.qrel(b)
	case *evalstream.Prediction:
		o.prediction(b, t)
	case *evalstream.Rating:
		o.rating(b, t)
	case *evalstream.Verdict:
		o.verdict(b, t)
	case *evalstream.Review:
		o.review(b)
	case *evalstream.Score:
		o.score(b, t)
	case *evalstream.Partial:
		o.partial(b)
	case *evalstream.Result:
		o.result(b)
	case *evalstream.Rejected:
		o.reject(b)
	case *evalstream.Mark:
		o.mark(b)
	case *evalstream.Passage:
		o.passage(b)
	case *evalstream.Query:
		o.query(b, t)
	case *evalstream.Instance:
		o.instance(b)
	case *evalstream.Episode:
		o.episode(b)
	}
	return append(o.b, '}')
}

// object appends the members of one JSON object.
type object struct{ b []byte }

func (o *object) key(name string) {
	if c := o.b[len(o.b)-1]; c != '{' && c != '[' {
		o.b = append(o.b, ',')
	}
	o.b = append(evalstream.AppendString(o.b, name), ':')
}

func (o *object) text(name, v string) {
	o.key(name)
	o.b = evalstream.AppendString(o.b, v)
}

// optional leaves the field out if it is empty.
func (o *object) optional(name, v string) {
	if v != "" {
		o.text(name, v)
	}
}

func (o *object) literal(name, v string) {
	o.key(name)
	if v == "" {
		v = "null"
	}
	o.b = append(o.b, v...)
}

func (o *object) int(name string, v int64) {
	o.key(name)
	o.b = strconv.AppendInt(o.b, v, 10)
}

// revision leaves out 0, which is what an absent one means.
func (o *object) revision(v int64) {
	if v != 0 {
		o.int("revision", v)
	}
}

func (o *object) bool(name string, v bool) {
	o.key(name)
	o.b = strconv.AppendBool(o.b, v)
}

func (o *object) nano(name string, v evalstream.Nano) {
	o.key(name)
	o.b = evalstream.AppendNano(o.b, v)
}

func (o *object) float(name string, v float64) {
	o.key(name)
	o.b = appendFloat(o.b, v)
}

func (o *object) time(name string, t evalstream.Time) {
	if t == evalstream.NoTime {
		return
	}
	o.key(name)
	o.b = append(o.b, '"')
	o.b = append(evalstream.AppendTime(o.b, t), '"')
}

// slices appends the fields to group by as members.
func (o *object) slices(ss []evalstream.Slice) {
	for _, s := range ss {
		o.literal(s.Name, s.Value)
	}
}

// nested appends an object.
func (o *object) nested(name string, members func()) {
	o.key(name)
	o.b = append(o.b, '{')
	members()
	o.b = append(o.b, '}')
}

func (o *object) settings(s *evalstream.Settings) {
	if s != nil {
		o.text("settings", s.Digest)
	}
}

func (o *object) run(b *evalstream.Run, t evalstream.Time) {
	o.text("query_id", b.QueryID)
	o.optional("run", b.Run)
	o.key("top")
	o.b = append(o.b, '[')
	for i, h := range b.Top {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = append(o.b, `{"id":`...)
		o.b = append(evalstream.AppendString(o.b, h.ID), `,"score":`...)
		o.b = append(appendFloat(o.b, h.Score), '}')
	}
	o.b = append(o.b, ']')
	o.time("time", t)
	o.revision(b.Revision)
	o.slices(b.Slices)
}

func (o *object) qrel(b *evalstream.Qrel) {
	o.text("query_id", b.QueryID)
	o.text("passage_id", b.PassageID)
	if b.Withdrawn {
		o.literal("grade", "null")
	} else {
		o.int("grade", int64(b.Grade))
	}
	o.optional("source", b.Source)
	o.revision(b.Revision)
}

func (o *object) prediction(b *evalstream.Prediction, t evalstream.Time) {
	o.optional("dataset", b.Dataset)
	o.optional("seed", b.Seed)
	o.optional("k", b.K)
	o.optional("episode", b.Episode)
	o.optional("query", b.Query)
	o.optional("run", b.Run)
	if b.HasLabel {
		o.text("label", b.Label)
	}
	if b.HasGold {
		o.text("gold", b.Gold)
	}
	o.time("time", t)
	o.revision(b.Revision)
	o.slices(b.Slices)
}

func (o *object) rating(b *evalstream.Rating, t evalstream.Time) {
	o.text("unit", b.Unit)
	o.text("coder", b.Coder)
	o.literal("value", b.Value)
	o.time("time", t)
	o.revision(b.Revision)
	o.slices(b.Slices)
}

func (o *object) score(b *evalstream.Score, t evalstream.Time) {
	o.text("unit", b.Unit)
	if b.Positions {
		o.bool("position", true)
	}
	if b.Dimension == "" {
		o.optional("run", b.Run)
	} else {
		o.optional("mode", b.Run)
		o.text("dimension", b.Dimension)
	}
	o.text("status", b.Status.String())
	if len(b.Values) > 0 {
		o.nested("values", func() {
			for i, v := range b.Values {
				o.nano(b.Measures[i], v)
			}
		})
	}
	o.coders("ratings", b.Ratings)
	o.coders("swapped", b.Swapped)
	if b.Labelled {
		o.text("label", b.Label)
		o.text("gold", b.Gold)
	}
	if len(b.Slices) > 0 {
		o.nested("slices", func() { o.slices(b.Slices) })
	}
	o.time("time", t)
	o.revision(b.Revision)
	o.settings(b.Settings)
}

func (o *object) partial(b *evalstream.Partial) {
	o.text("step", b.Step)
	o.int("partition", int64(b.Partition))
	o.int("partitions", int64(b.Partitions))
	o.text("family", b.Family)
	o.nested("by", func() { o.slices(b.By) })
	o.text("window", b.Window)
	o.int("pane", b.Pane)
	if b.Positions {
		o.bool("position", true)
	}
	o.int("n", b.Cell.N)
	o.int("pending", b.Cell.Pending)
	o.int("unjudged", b.Cell.Unjudged)
	o.int("expired", b.Cell.Expired)
	if len(b.Cell.Measures) > 0 {
		o.key("measures")
		o.b = append(o.b, '[')
		for i, m := range b.Cell.Measures {
			if i > 0 {
				o.b = append(o.b, ',')
			}
			o.b = evalstream.AppendString(o.b, m)
		}
		o.b = append(o.b, ']')
	}
	if len(b.Cell.Sums) > 0 {
		o.key("sums")
		o.b = append(o.b, '[')
		for i, v := range b.Cell.Sums {
			if i > 0 {
				o.b = append(o.b, ',')
			}
			o.b = evalstream.AppendNano(o.b, v)
		}
		o.b = append(o.b, ']')
	}
	if len(b.Cell.Counts) > 0 {
		o.nested("counts", func() {
			for _, c := range b.Cell.Counts {
				o.key(c.Name)
				o.b = append(o.b, '[')
				for i, n := range c.N {
					if i > 0 {
						o.b = append(o.b, ',')
					}
					o.b = strconv.AppendInt(o.b, n, 10)
				}
				o.b = append(o.b, ']')
			}
		})
	}
	o.int("judged", b.Judged)
	o.time("settled", b.Settled)
	o.settings(b.Settings)
}

func (o *object) result(b *evalstream.Result) {
	o.text("metric", b.Metric)
	o.nested("by", func() { o.slices(b.By) })
	if b.Window.All {
		o.text("window", "all")
	} else {
		o.nested("window", func() {
			o.time("start", b.Window.Start)
			o.time("end", b.Window.End)
		})
	}
	undefined := b.Undefined
	if undefined == "" && !finite(b.Value) {
		undefined = "not a finite number"
	}
	if undefined == "" {
		o.float("value", b.Value)
	} else {
		o.literal("value", "null")
		o.text("undefined", undefined)
	}
	if b.Ratio {
		o.nano("num", b.Num)
		o.int("den", b.Den)
	} else {
		o.literal("num", "null")
		o.literal("den", "null")
	}
	o.int("n", b.N)
	if b.MissingUnknown == "" {
		o.int("missing", b.Missing)
	} else {
		o.literal("missing", "null")
		o.text("missing_unknown", b.MissingUnknown)
	}
	o.int("pending", b.Pending)
	o.int("unjudged", b.Unjudged)
	o.key("interval")
	o.b = append(o.b, '[')
	for i := range b.Intervals {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = append(o.b, '{')
		o.interval(&b.Intervals[i])
		o.b = append(o.b, '}')
	}
	o.b = append(o.b, ']')
	o.optional("no_interval", b.NoInterval)
	o.optional("over", b.Over)
	if b.HasSD {
		o.float("sd", b.SD)
	}
	if b.Of != 0 {
		o.int("of", b.Of)
	}
	if b.Agreed {
		o.int("units", b.Units)
		o.int("values", b.Values)
	}
	if b.OffPanel != 0 {
		o.int("off_panel", b.OffPanel)
	}
	o.bool("closed", b.Closed)
	o.bool("final", b.Final)
	o.int("revision", b.Revision)
	o.nested("through", func() {
		for _, t := range b.Through {
			o.int(t.Origin.String(), t.Line)
		}
	})
	o.settings(b.Settings)
}

func (o *object) interval(v *evalstream.Interval) {
	o.text("method", v.Method)
	o.text("looks", v.Looks)
	o.float("confidence", v.Confidence)
	o.float("low", v.Low)
	o.float("high", v.High)
	if v.Parameter != "" {
		o.float(v.Parameter, v.Setting)
	}
}

// maxRejectedLine is how much of a rejected line goes on.
const maxRejectedLine = 64 << 10

func (o *object) reject(b *evalstream.Rejected) {
	o.text("pos", b.At.String())
	o.text("stage", b.Stage)
	o.text("class", string(b.Class))
	o.text("reason", b.Reason)
	raw := b.Line
	if len(raw) > maxRejectedLine {
		raw = raw[:maxRejectedLine]
		// A character that the cut splits goes whole.
		for i := 1; i <= utf8.UTFMax; i++ {
			if tail := raw[len(raw)-i:]; utf8.RuneStart(tail[0]) {
				if !utf8.FullRune(tail) {
					raw = raw[:len(raw)-i]
				}
				break
			}
		}
	}
	if utf8.Valid(raw) {
		o.text("raw", view(raw))
	} else {
		o.key("raw_base64")
		o.b = append(o.b, '"')
		o.b = append(base64.StdEncoding.AppendEncode(o.b, raw), '"')
	}
	if len(raw) < len(b.Line) {
		o.int("raw_length", int64(len(b.Line)))
	}
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// appendFloat appends v as the shortest decimal that reads back as v, with an exponent
// outside 1e-6 to 1e21; null if v is not finite.
func appendFloat(dst []byte, v float64) []byte {
	if !finite(v) {
		return append(dst, "null"...)
	}
	if a := math.Abs(v); a == 0 || 1e-6 <= a && a < 1e21 {
		return strconv.AppendFloat(dst, v, 'f', -1, 64)
	}
	n := len(dst)
	dst = strconv.AppendFloat(dst, v, 'e', -1, 64)
	// e-09 is written e-9.
	if e := len(dst) - 4; e > n && dst[e] == 'e' && dst[e+1] == '-' && dst[e+2] == '0' {
		dst[e+2] = dst[e+3]
		dst = dst[:e+3]
	}
	return dst
}
