package stages

import (
	"encoding/json"
	"fmt"
	"slices"

	"evalstream"
)

// Inspected is a stage whose kept state can be looked at, once it is loaded.
type Inspected interface {
	evalstream.Keeper
	evalstream.Tallied
	// Verify says what does not add up.
	Verify() error
	// Export calls emit for what is kept: of score the records that hold the slots, which
	// score reads again; of aggregate its cells, which merge reads.
	Export(emit func(evalstream.Record) error) error
}

// balanced says that every tally adds up.
func balanced(ts []evalstream.Tally) error {
	for _, t := range ts {
		if !t.Balanced() {
			return fmt.Errorf("%s: received %d, but %d are held, passed, replaced, rejected or late", t.Kind, t.Received, t.Passed+t.Held+t.Replaced+t.Rejected+t.Late)
		}
	}
	return nil
}

// Verify checks that each record that was received is held or accounted for.
func (o *openScore) Verify() error { return balanced(o.Tallies()) }

// Export emits the records of each unit, by name: its gold first.
func (o *openScore) Export(emit func(evalstream.Record) error) error {
	var failed error
	put := func(b evalstream.Body, at evalstream.Time) {
		if failed == nil {
			failed = emit(evalstream.Record{Body: b, Time: at})
		}
	}
	err := o.kept.each(o, o.kept.inMemory(o), "", func(u *openUnit) bool {
		o.export(u, put)
		return failed == nil
	})
	if err == nil {
		err = failed
	}
	if err == nil {
		err = o.judges.export(put)
	}
	if err == nil {
		err = failed
	}
	return err
}

func (o *openScore) export(u *openUnit, put func(evalstream.Body, evalstream.Time)) {
	name := u.shelved.name
	for i := range u.gold {
		g := &u.gold[i]
		if !u.label {
			put(&evalstream.Qrel{QueryID: name, PassageID: g.passage, Grade: g.grade, Withdrawn: g.withdrawn, Source: o.source, Revision: g.revision}, evalstream.NoTime)
			continue
		}
		p := predictionOf(name)
		p.Gold, p.HasGold, p.Revision = g.passage, true, g.revision
		put(p, evalstream.NoTime)
	}
	for i := range u.runs {
		r := &u.runs[i]
		if !r.fewshot {
			top, _ := r.top.hits(nil)
			put(&evalstream.Run{QueryID: name, Run: r.run, Top: top, Revision: r.revision, Slices: r.slices}, r.time)
			continue
		}
		p := predictionOf(name)
		p.Run, p.Label, p.HasLabel, p.Gold, p.HasGold, p.Revision = r.run, r.label, true, r.gold, r.hasGold, r.revision
		p.Slices = slices.DeleteFunc(slices.Clone(r.slices), func(s evalstream.Slice) bool {
			return slices.Contains([]string{"dataset", "seed", "k", "episode"}, s.Name)
		})
		put(p, r.time)
	}
	for i := range u.ratings {
		r := &u.ratings[i]
		rating := r.Rating
		rating.Unit = name
		put(&rating, r.time)
	}
}

// predictionOf reads the name of a few-shot unit.
func predictionOf(unit string) *evalstream.Prediction {
	var ids [5]string
	_ = json.Unmarshal([]byte(unit), &ids) // it was made here
	return &evalstream.Prediction{Dataset: ids[0], Seed: ids[1], K: ids[2], Episode: ids[3], Query: ids[4]}
}

// export emits the verdicts of each unit.
func (j *judged) export(put func(evalstream.Body, evalstream.Time)) error {
	one := func(u *judgedUnit) {
		about := j.remarkOf(u)
		for i := u.votes; i != 0; {
			n, a := j.votes.at(i-1), j.asideOf(i-1)
			said := j.sayings.of(n.said)
			b := &evalstream.Verdict{
				SpanID: j.arena.string(u.span), TripleID: j.arena.string(u.triple), Mode: j.names.of(u.mode), Dimension: j.names.of(u.dimension),
				Judge: j.names.of(said.judge), PromptVersion: j.names.of(said.version), Swap: said.swap, Reason: j.names.of(said.reason),
				Value: said.vote.Literal(), Revision: a.revision, Slices: j.slicesOf(a),
			}
			if about != (remark{}) {
				b.Shown = &evalstream.Shown{Text: about.text, Triple: about.triple}
			}
			put(b, a.time)
			i = n.next
		}
	}
	for n := range uint32(j.units.len()) {
		one(j.units.at(n))
	}
	return j.eachOnShelf(func(u *judgedUnit, _ []byte, _ uint64) { one(u) })
}

// Verify checks that each score that was received is held or accounted for, and that
// the cells of each grouping and window are their bases and slots: no unit more or less.
func (a *aggregate) Verify() error {
	ts := a.Tallies()
	if err := balanced(ts); err != nil {
		return err
	}
	var held [6]int64
	for _, t := range ts {
		if t.Kind == "score" {
			held = t.Of
		}
	}
	for i := range a.sheets {
		s := &a.sheets[i]
		var sum cell
		for _, c := range s.order {
			sum.n += c.n
			sum.pending += c.pending
			sum.unjudged += c.unjudged
			sum.expired += c.expired
		}
		for _, row := range [...]struct {
			status evalstream.Status
			n      int64
		}{{evalstream.Scored, sum.n}, {evalstream.Pending, sum.pending}, {evalstream.Unjudged, sum.unjudged}, {evalstream.Expired, sum.expired}} {
			if row.n != held[row.status] && !a.positions {
				return fmt.Errorf("window %s: cells have %d units that are %s, slots and bases %d", s.window, row.n, row.status, held[row.status])
			}
		}
	}
	return nil
}

// Export emits the cells as partials.
func (a *aggregate) Export(emit func(evalstream.Record) error) error {
	var out evalstream.Out
	a.partials(&out, true)
	for _, r := range out.Records {
		if err := emit(r); err != nil {
			return err
		}
	}
	return nil
}
