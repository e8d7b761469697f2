package stages

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"evalstream"
	"evalstream/stages/ranking"
)

// Passages is a frozen passage file: what rank looks through. It is filled as the
// last step of a job, then sealed; a sealed one is shared by all workers.
type Passages struct {
	method      string
	words       *ranking.Words
	vectors     *ranking.Vectors
	fingerprint string

	ids   map[string]struct{} // while it is loaded
	names []string            // by place; sealed: in the order of ids

	received, rejected int64
}

// The methods of rank.
const (
	RankVector = "vector"
	RankBM25   = "bm25"
)

// NewPassages makes an empty set for a method; v, which has been checked, is BM25's.
func NewPassages(method string, v ranking.Variant) *Passages {
	p := &Passages{method: method, ids: map[string]struct{}{}}
	if method == RankBM25 {
		p.words = ranking.NewWords(v)
	}
	return p
}

// Load is for the contract: passages have no changelog.
func (*Passages) Load(_, _ []byte) error { return nil }

// Process takes passages; a second one of the same id is a reject.
func (p *Passages) Process(_ context.Context, in []evalstream.Record, out *evalstream.Out) error {
	for i := range in {
		p.received++
		f, err := p.take(in[i].Body)
		if err != nil {
			return err
		}
		if f != nil {
			p.rejected++
			out.Reject(in[i].Seq, *f)
		}
	}
	return nil
}

func (p *Passages) take(body evalstream.Body) (*evalstream.Fault, error) {
	b, ok := body.(*evalstream.Passage)
	if !ok {
		return &evalstream.Fault{Class: evalstream.ClassStage, Reason: "want passage, got " + body.Kind()}, nil
	}
	if _, ok := p.ids[b.PassageID]; ok {
		return &evalstream.Fault{Class: evalstream.ClassStage, Path: "/passage_id", Reason: fmt.Sprintf("passage %q is there twice", b.PassageID)}, nil
	}
	if p.method == RankBM25 {
		p.words.Add(b.Text)
		p.keep(b.PassageID)
		return nil, nil
	}
	n := len(b.Vector.Values)
	if n == 0 {
		return &evalstream.Fault{Class: evalstream.ClassStage, Path: "/vector", Reason: "passage has no vector; run it through embed first, or rank by --method bm25"}, nil
	}
	switch {
	case p.vectors == nil:
		p.vectors, p.fingerprint = ranking.NewVectors(n), strings.Clone(b.Vector.Fingerprint)
	case b.Vector.Fingerprint != p.fingerprint:
		return nil, mixed("passages", p.fingerprint, fmt.Sprintf("passage %q", b.PassageID), b.Vector.Fingerprint)
	case n != p.vectors.Dims():
		return &evalstream.Fault{Class: evalstream.ClassStage, Path: "/vector", Reason: fmt.Sprintf("want %d dimensions as before, got %d", p.vectors.Dims(), n)}, nil
	}
	p.vectors.Add(b.Vector.Values)
	p.keep(b.PassageID)
	return nil, nil
}

// keep notes the id of the passage that was added; the body's own dies with its block.
func (p *Passages) keep(id string) {
	id = strings.Clone(id)
	p.ids[id] = struct{}{}
	p.names = append(p.names, id)
}

// mixed says that vectors of different models would have met.
func mixed(a, fingerprint, b, other string) error {
	return &evalstream.ExitError{
		Code: evalstream.ExitNotComparable,
		Err:  fmt.Errorf("%s have vectors of fingerprint %s, %s of %s: they lie in different spaces", a, fingerprint, b, other),
		Hint: "embed passages and queries with the same provider, model, dimensions, normalisation and prefixes",
	}
}

// Seal ends loading and puts the passages in the order of their ids.
func (p *Passages) Seal() {
	order := make([]int32, len(p.names))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(p.names[a], p.names[b]) })
	names := make([]string, len(order))
	for i, from := range order {
		names[i] = p.names[from]
	}
	p.names, p.ids = names, nil
	if p.words != nil {
		p.words.Reorder(order)
	}
	if p.vectors != nil {
		p.vectors.Reorder(order)
	}
}

// Len is the number of passages.
func (p *Passages) Len() int { return len(p.names) }

// Tallies accounts for the passages that were loaded.
func (p *Passages) Tallies() []evalstream.Tally {
	return []evalstream.Tally{{Kind: "passage", Received: p.received, Held: p.received - p.rejected, Rejected: p.rejected}}
}
