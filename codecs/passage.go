package codecs

import (
	"encoding/base64"
	"encoding/binary"
	"math"

	"evalstream"
)

const (
	passageID = iota
	passageDoc
	passageText
	passageCompany
	passageTicker
	passageEvent
	passageDate
	passageContext
	passageVector
)

const (
	queryID = iota
	queryText
	queryDoc
	queryVector
	queryTime
)

func passageFields() []string {
	return []string{"passage_id", "doc_id", "text", "company", "ticker", "event", "date", "context", "vector"}
}

func queryFields() []string { return []string{"query_id", "text", "doc_id", "vector", "time"} }

func (d *Decoder) readPassage(rec *evalstream.Record) *evalstream.Fault {
	b := d.passages.one()
	*b = evalstream.Passage{}
	var f *evalstream.Fault
	if b.PassageID, f = d.id(passageID); f != nil {
		return f
	}
	if b.Text, f = d.textField(passageText); f != nil {
		return f
	}
	for field, to := range [...]*string{
		passageDoc: &b.DocID, passageCompany: &b.Company, passageTicker: &b.Ticker,
		passageEvent: &b.Event, passageDate: &b.Date, passageContext: &b.Context,
	} {
		if to == nil {
			continue
		}
		if *to, _, f = d.optionalID(field); f != nil {
			return f
		}
	}
	if b.Vector, f = d.vector(passageVector); f != nil {
		return f
	}
	b.Slices = d.slicesOf()
	rec.Body = b
	return nil
}

func (d *Decoder) readQuery(rec *evalstream.Record) *evalstream.Fault {
	b := d.queries.one()
	*b = evalstream.Query{}
	var f *evalstream.Fault
	if b.QueryID, f = d.id(queryID); f != nil {
		return f
	}
	if b.Text, f = d.textField(queryText); f != nil {
		return f
	}
	if b.DocID, _, f = d.optionalID(queryDoc); f != nil {
		return f
	}
	if b.Vector, f = d.vector(queryVector); f != nil {
		return f
	}
	if f := d.setTime(rec, queryTime); f != nil {
		return f
	}
	b.Slices = d.slicesOf()
	rec.Body = b
	return nil
}

// textField reads a required string.
func (d *Decoder) textField(f int) (string, *evalstream.Fault) {
	v := d.at(f)
	if v.absent() || d.line[v.from] != '"' {
		return "", d.want(f, "string")
	}
	return d.textOf(v), nil
}

// vector reads {fingerprint, f32: base64 of little-endian float32} or {fingerprint,
// values: [numbers]}; null and absent are none. Values are not in the line's memory,
// but live as long as the body.
func (d *Decoder) vector(f int) (evalstream.Vector, *evalstream.Fault) {
	var v evalstream.Vector
	c, ok, fault := d.object(f, "object with fingerprint and f32 or values")
	if !ok {
		return v, fault
	}
	d.floatBuf = d.floatBuf[:0]
	for c.next() {
		raw := d.line[c.value.from:c.value.to]
		switch name := c.name(); name {
		case "fingerprint", "f32":
			if raw[0] != '"' {
				return v, d.wantAt(c.value, d.below(f, name), "string")
			}
			if name == "fingerprint" {
				v.Fingerprint = d.textOf(c.value)
			} else if !d.base64Floats(d.textOf(c.value)) {
				return v, c.value.fault(d.line, d.below(f, name), "want base64 of little-endian float32")
			}
		case "values":
			if raw[0] != '[' {
				return v, d.wantAt(c.value, d.below(f, name), "array of numbers")
			}
			for _, e := range d.elements(c.value) {
				n, reason := parseFloat(d.line[e.from:e.to])
				if reason == "" && math.Abs(n) > math.MaxFloat32 {
					reason = "want a number of 32 bits, got " + cutText(d.line[e.from:e.to])
				}
				if reason != "" {
					return v, e.fault(d.line, d.below(f, name), reason)
				}
				d.floatBuf = append(d.floatBuf, float32(n))
			}
		}
	}
	at := d.at(f)
	if v.Fingerprint == "" {
		return v, at.fault(d.line, d.below(f, "fingerprint"), "missing; want what made the vector, since vectors of different models must not meet")
	}
	norm := 0.0
	for _, x := range d.floatBuf {
		norm += float64(x) * float64(x)
	}
	if math.IsNaN(norm) || math.IsInf(norm, 0) || norm == 0 {
		return v, at.fault(d.line, d.r.paths[f], "want a vector of finite numbers that are not all 0")
	}
	v.Values = d.floats.copy(d.floatBuf)
	return v, nil
}

// base64Floats fills floatBuf.
func (d *Decoder) base64Floats(text string) bool {
	raw, err := base64.StdEncoding.AppendDecode(d.lineBuf[:0], []byte(text))
	d.lineBuf = raw
	if err != nil || len(raw)%4 != 0 {
		return false
	}
	for ; len(raw) > 0; raw = raw[4:] {
		d.floatBuf = append(d.floatBuf, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
	}
	return true
}

// AppendVector appends v as the value of a field.
func AppendVector(dst []byte, v evalstream.Vector) []byte {
	o := object{append(dst, '{')}
	o.text("fingerprint", v.Fingerprint)
	o.key("f32")
	raw := make([]byte, 0, 4*len(v.Values))
	for _, x := range v.Values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	o.b = append(o.b, '"')
	o.b = append(base64.StdEncoding.AppendEncode(o.b, raw), '"')
	return append(o.b, '}')
}

func (o *object) vector(v evalstream.Vector) {
	if len(v.Values) == 0 {
		return
	}
	o.key("vector")
	o.b = AppendVector(o.b, v)
}

func (o *object) passage(b *evalstream.Passage) {
	o.text("passage_id", b.PassageID)
	o.optional("doc_id", b.DocID)
	o.text("text", b.Text)
	o.optional("company", b.Company)
	o.optional("ticker", b.Ticker)
	o.optional("event", b.Event)
	o.optional("date", b.Date)
	o.optional("context", b.Context)
	o.vector(b.Vector)
	o.slices(b.Slices)
}

func (o *object) query(b *evalstream.Query, t evalstream.Time) {
	o.text("query_id", b.QueryID)
	o.text("text", b.Text)
	o.optional("doc_id", b.DocID)
	o.vector(b.Vector)
	o.time("time", t)
	o.slices(b.Slices)
}
