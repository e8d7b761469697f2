package stages

import (
	"context"

	"evalstream"
)

// Decoder turns a record's line into its body. It is used by one worker at a time.
type Decoder interface {
	// Reset ends the life of the bodies handed out before.
	Reset()
	// Decode reads rec.Raw and sets rec.Body and rec.Time, or says what is wrong.
	Decode(rec *evalstream.Record) *evalstream.Fault
}

// Parse reads lines as bodies. Records that have a body already pass.
type Parse struct {
	decoder                    Decoder
	received, passed, rejected int64
}

// NewParse makes the stage; decoder is called once an instance.
func NewParse(decoder func() (Decoder, error)) func() (evalstream.Stage, error) {
	return func() (evalstream.Stage, error) {
		d, err := decoder()
		if err != nil {
			return nil, err
		}
		return &Parse{decoder: d}, nil
	}
}

// Process decodes each line on its own: a bad one costs itself.
func (p *Parse) Process(_ context.Context, in []evalstream.Record, out *evalstream.Out) error {
	p.decoder.Reset()
	p.received += int64(len(in))
	for i := range in {
		if r, ok := in[i].Body.(*evalstream.Rejected); ok { // by the format's own reader
			out.Reject(in[i].Seq, evalstream.Fault{Class: r.Class, Column: r.At.Column, Reason: r.Reason})
			p.rejected++
			continue
		}
		out.Emit(in[i])
		if in[i].Body != nil {
			p.passed++
			continue
		}
		rec := &out.Records[len(out.Records)-1]
		if f := p.decoder.Decode(rec); f != nil {
			out.Records = out.Records[:len(out.Records)-1]
			out.Reject(in[i].Seq, *f)
			p.rejected++
			continue
		}
		p.passed++
	}
	return nil
}

// Tallies counts lines.
func (p *Parse) Tallies() []evalstream.Tally {
	return []evalstream.Tally{{Kind: "line", Received: p.received, Passed: p.passed, Rejected: p.rejected}}
}
