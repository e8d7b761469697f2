package stages

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync/atomic"

	"evalstream"
)

// Gold is frozen gold: all judgments of all queries, or the gold labels of all
// units. It is filled by a job as a stage, then sealed; a sealed Gold is shared by
// all workers. It costs 40 bytes a judged unit, 20 a further judgment, and their text.
type Gold struct {
	source    string
	first     string // the one source seen, if source is not given
	anySource bool
	labels    bool // gold labels of few-shot units, not judgments
	conflict  Conflict
	arena     arena
	units     table
	rows      []goldRow // by unit
	more      []goldRow // further judgments of a unit, in a list
	revisions map[goldSlot]int64
	matched   []atomic.Uint32        // by unit, 32 a word
	waited    int                    // units that were looked at for the end
	met       atomic.Bool            // a prediction met its gold
	example   atomic.Pointer[string] // a unit that met none

	received, replaced, rejected, passed int64
}

// goldRow is one judgment of a unit, and where the next is.
type goldRow struct {
	passage text // the label, where gold is labels
	grade   int32
	next    int32 // in more, -1 at the end
}

// withdrawn is the grade of a judgment that was taken back.
const withdrawn = math.MinInt32

// regraded says that two grades mean different things: all below 0 mean the same.
func regraded(was, is int32) bool { return max(was, -1) != max(is, -1) }

func (r *goldRow) withdrawn() bool { return r.grade == withdrawn }

// goldSlot names a judgment: the unit's first, or one of more.
type goldSlot struct {
	first bool
	at    int32
}

// NewGold makes empty gold. source is the one qrel source that is read; with ""
// all records must have one source.
func NewGold(source string) *Gold {
	g := &Gold{source: source}
	g.units.arena = &g.arena
	return g
}

// OnConflict says what a second, different judgment of a passage, or label of a unit,
// does; without it, it replaces. It is called before the first Process.
func (g *Gold) OnConflict(c Conflict) { g.conflict = c }

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
func (*Gold) Load(_, _ []byte) error { return nil }

func (g *Gold) take(b evalstream.Body) *evalstream.Fault {
	switch b := b.(type) {
	case *evalstream.Qrel:
		if f := g.checkSource(b.Source); f != nil {
			if f.Reason == "" {
				g.passed++ // another source than the one that is read
				return nil
			}
			return f
		}
		grade := max(b.Grade, withdrawn+1) // all grades below 0 mean the same
		if b.Withdrawn {
			grade = withdrawn
		}
		if !g.put(b.QueryID, b.PassageID, grade, b.Revision) {
			return conflict(b)
		}
		return nil
	case *evalstream.Prediction:
		if !b.HasGold {
			return &evalstream.Fault{Class: evalstream.ClassSchema, Path: "/gold", Reason: "want a gold label, got none"}
		}
		if !b.Identified() {
			return &evalstream.Fault{Class: evalstream.ClassSchema, Path: "/query", Reason: "gold of its own needs episode or query, got neither"}
		}
		g.labels = true
		if !g.put(string(b.AppendUnit(nil)), b.Gold, 0, b.Revision) {
			return conflict(b)
		}
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
		g.anySource, g.first = true, strings.Clone(source)
	case source != g.first:
		return &evalstream.Fault{Class: evalstream.ClassStage, Path: "/source", Reason: fmt.Sprintf("want gold of one source, got %q beside %q; choose one with --source", source, g.first)}
	}
	return nil
}

// put sets a judgment of a unit. The one with the greatest (revision, position) holds
// the slot. It reports false for one that is refused.
func (g *Gold) put(unit, passage string, grade int32, revision int64) bool {
	u, isNew := g.units.put(unit)
	if isNew {
		g.rows = append(g.rows, goldRow{passage: g.arena.keep(passage), grade: grade, next: -1})
		g.revise(goldSlot{true, u}, revision)
		return true
	}
	slot := goldSlot{true, u}
	row := &g.rows[u]
	for g.arena.string(row.passage) != passage && !g.labels {
		if row.next < 0 {
			row.next = int32(len(g.more))
			g.more = append(g.more, goldRow{passage: g.arena.keep(passage), grade: grade, next: -1})
			g.revise(goldSlot{false, int32(len(g.more) - 1)}, revision)
			return true
		}
		slot = goldSlot{false, row.next}
		row = &g.more[row.next]
	}
	if g.conflict == Refuse && (row.withdrawn() != (grade == withdrawn) || regraded(row.grade, grade) || g.arena.string(row.passage) != passage) {
		return false
	}
	g.replaced++
	if revision < g.revisions[slot] {
		return true
	}
	if g.labels {
		row.passage = g.arena.keep(passage)
	}
	row.grade = grade
	g.revise(slot, revision)
	return true
}

func (g *Gold) revise(slot goldSlot, revision int64) {
	if revision == 0 && g.revisions == nil {
		return
	}
	if g.revisions == nil {
		g.revisions = map[goldSlot]int64{}
	}
	g.revisions[slot] = revision
}

// Seal ends loading.
func (g *Gold) Seal() {
	g.revisions = nil
	g.matched = make([]atomic.Uint32, (len(g.rows)+31)/32)
}

// Units is the number of units that gold names.
func (g *Gold) Units() int { return len(g.rows) }

// fetch brings the first judgments of units that were just found near.
func (g *Gold) fetch(l *lookup) {
	for _, u := range l.numbers {
		if u >= 0 {
			l.touched += g.rows[u].passage.at
		}
	}
	for _, u := range l.numbers {
		if u >= 0 {
			if p := g.rows[u].passage; p.n > 0 {
				l.touched += uint32(g.arena.chunks[p.at>>chunkShift][p.at&chunkMask])
			}
		}
	}
}

// judgments appends what gold says of unit u and marks the unit as asked for. Nothing
// is appended if the unit is not judged.
func (g *Gold) judgments(dst []judgment, u int32) []judgment {
	if u < 0 {
		return dst
	}
	from := len(dst)
	for row := &g.rows[u]; ; row = &g.more[row.next] {
		if row.grade != withdrawn {
			dst = append(dst, judgment{passage: g.arena.string(row.passage), grade: row.grade})
		}
		if row.next < 0 {
			break
		}
	}
	if len(dst) > from {
		if !g.met.Load() {
			g.met.Store(true)
		}
		if w, bit := &g.matched[u/32], uint32(1)<<(u%32); w.Load()&bit == 0 {
			w.Or(bit)
		}
	}
	return dst
}

// missed notes a unit that has no gold.
func (g *Gold) missed(unit string) {
	if g.example.Load() == nil {
		unit = strings.Clone(unit)
		g.example.Store(&unit)
	}
}

// notes says that gold and predictions seem to name different things.
func (g *Gold) notes() []string {
	example := g.example.Load()
	if g.met.Load() || example == nil || len(g.rows) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("no prediction met its gold: predictions name units such as %q, gold such as %q", *example, g.units.key(0))}
}

// waiting calls f for at most n judged units that no worker asked for, and goes on from
// there the next time. It is called after the last prediction. Units that are not mine
// are left as they are.
func (g *Gold) waiting(at *int, n int, mine func(unit string) bool, f func(unit string)) {
	for ; *at < len(g.rows) && n > 0; *at++ {
		u := int32(*at)
		if g.matched[u/32].Load()&(1<<(u%32)) != 0 {
			continue
		}
		if !mine(g.units.key(u)) {
			continue
		}
		if len(g.judgments(nil, u)) > 0 {
			f(g.units.key(u))
			n--
		}
	}
}

// Tallies accounts for the gold that was loaded.
func (g *Gold) Tallies() []evalstream.Tally {
	held := int64(len(g.rows) + len(g.more))
	return []evalstream.Tally{{Kind: "gold", Received: g.received, Passed: g.passed, Held: held, Replaced: g.replaced, Rejected: g.rejected}}
}
