package stages

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"evalstream"
)

// Gold is frozen gold: all judgments of all queries, or the gold labels of all
// units. It is filled as a Sink of qrel or prediction records, then sealed; a
// sealed Gold is shared by all workers.
type Gold struct {
	source    string
	sources   string // the one source seen, if source is not given
	anySource bool
	labels    bool // gold labels of few-shot units, not judgments
	arena     arena
	units     table
	rows      []goldRow // by unit: head of its judgments
	next      []goldSlot
	judgments []judgment // sealed: the judgments of each unit side by side
	spans     []span     // sealed: by unit
	matched   []atomic.Uint32
	waited    atomic.Bool

	received, replaced, rejected int64
	held                         int64 // slots, once sealed
}

type goldRow struct{ first int32 }

// goldSlot is one (unit, passage, source), in a list a unit.
type goldSlot struct {
	judgment
	withdrawn bool
	revision  int64
	next      int32
}

type span struct{ from, to int32 }

// NewGold makes empty gold. source is the one qrel source that is read; with ""
// all records must have one source.
func NewGold(source string) *Gold {
	return &Gold{source: source}
}

// Process takes gold records in order; others, and a second source, are rejects.
func (g *Gold) Process(_ context.Context, in []evalstream.Record, out *evalstream.Out) error {
	for i := range in {
		g.received++
		if f := g.take(in[i].Body); f != nil {
			g.rejected++
			out.Reject(in[i].Seq, *f)
		}
	}
	return nil
}

// Load is for the contract: gold has no changelog.
func (g *Gold) Load(_, _ []byte) error { return nil }

func (g *Gold) take(b evalstream.Body) *evalstream.Fault {
	switch b := b.(type) {
	case *evalstream.Qrel:
		if f := g.checkSource(b.Source); f != nil {
			if f.Reason == "" {
				g.replaced++ // another source than the one that is read
				return nil
			}
			return f
		}
		g.put(b.QueryID, b.PassageID, b.Grade, b.Withdrawn, b.Revision)
		return nil
	case *evalstream.Prediction:
		if !b.HasGold {
			return &evalstream.Fault{Class: evalstream.ClassSchema, Path: "/gold", Reason: "want a gold label, got none"}
		}
		if !b.Identified() {
			return &evalstream.Fault{Class: evalstream.ClassSchema, Path: "/query", Reason: "gold of its own needs episode or query, got neither"}
		}
		g.label(string(b.AppendUnit(nil)), b.Gold, b.Revision)
		return nil
	}
	return &evalstream.Fault{Class: evalstream.ClassStage, Reason: "want gold (qrel, or prediction with gold), got " + b.Kind()}
}

// checkSource returns nil for gold to read, an empty fault for gold to pass over.
func (g *Gold) checkSource(source string) *evalstream.Fault {
	switch {
	case g.source != "":
		if source != g.source {
			return &evalstream.Fault{}
		}
	case !g.anySource:
		g.anySource, g.sources = true, strings.Clone(source)
	case source != g.sources:
		return &evalstream.Fault{Class: evalstream.ClassStage, Path: "/source", Reason: fmt.Sprintf("want gold of one source, got %q beside %q; choose one with --source", source, g.sources)}
	}
	return nil
}

func (g *Gold) unit(id string) int32 {
	u, isNew := g.units.put(id, &g.arena)
	if isNew {
		g.rows = append(g.rows, goldRow{first: -1})
	}
	return u
}

func (g *Gold) put(query, passage string, grade int32, withdrawn bool, revision int64) {
	u := g.unit(query)
	for i := g.rows[u].first; i >= 0; i = g.next[i].next {
		s := &g.next[i]
		if s.passage != passage {
			continue
		}
		g.replaced++
		if revision >= s.revision {
			s.grade, s.withdrawn, s.revision = grade, withdrawn, revision
		}
		return
	}
	g.next = append(g.next, goldSlot{judgment: judgment{passage: g.arena.keep(passage), grade: grade}, withdrawn: withdrawn, revision: revision, next: g.rows[u].first})
	g.rows[u].first = int32(len(g.next) - 1)
}

func (g *Gold) label(unit, label string, revision int64) {
	g.labels = true
	u := g.unit(unit)
	if i := g.rows[u].first; i >= 0 {
		g.replaced++
		if s := &g.next[i]; revision >= s.revision {
			s.passage, s.revision = g.arena.keep(label), revision
		}
		return
	}
	g.next = append(g.next, goldSlot{judgment: judgment{passage: g.arena.keep(label)}, revision: revision, next: -1})
	g.rows[u].first = int32(len(g.next) - 1)
}

// Seal ends loading.
func (g *Gold) Seal() {
	g.judgments = make([]judgment, 0, len(g.next))
	g.spans = make([]span, len(g.rows))
	for u, row := range g.rows {
		from := int32(len(g.judgments))
		for i := row.first; i >= 0; i = g.next[i].next {
			if !g.next[i].withdrawn {
				g.judgments = append(g.judgments, g.next[i].judgment)
			}
		}
		slices.Reverse(g.judgments[from:])
		g.spans[u] = span{from, int32(len(g.judgments))}
	}
	g.held = int64(len(g.next))
	g.rows, g.next = nil, nil
	g.matched = make([]atomic.Uint32, (len(g.spans)+31)/32)
}

// Units is the number of judged units.
func (g *Gold) Units() int { return len(g.spans) }

// of returns the judgments of a unit; none means that it is not judged.
func (g *Gold) of(unit string) []judgment {
	u := g.units.get(unit)
	if u < 0 {
		return nil
	}
	s := g.spans[u]
	if s.from < s.to {
		if w, bit := &g.matched[u/32], uint32(1)<<(u%32); w.Load()&bit == 0 {
			w.Or(bit)
		}
	}
	return g.judgments[s.from:s.to]
}

// waiting calls f for each judged unit that of was never asked for; only the first
// call of all workers does.
func (g *Gold) waiting(f func(unit string)) {
	if g.waited.Swap(true) {
		return
	}
	for u, s := range g.spans {
		if s.from < s.to && g.matched[u/32].Load()&(1<<(u%32)) == 0 {
			f(g.units.key(int32(u)))
		}
	}
}

// Tallies accounts for the gold that was loaded.
func (g *Gold) Tallies() []evalstream.Tally {
	held := g.held + int64(len(g.next))
	return []evalstream.Tally{{Kind: "gold", Received: g.received, Held: held, Replaced: g.replaced, Rejected: g.rejected}}
}
