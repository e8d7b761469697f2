package stages

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"evalstream"
	"evalstream/stages/metric"
)

// OpenScoring is score over gold that comes with the stream, in any order.
type OpenScoring struct {
	Scoring
	// Horizon is how long, in event time, a prediction waits for gold and a unit is
	// remembered; 0 is for ever.
	Horizon time.Duration
	// MaxOutOfOrder is how far the watermark stays behind the newest time.
	MaxOutOfOrder time.Duration
	// Marked says that event time comes by Advance, and not with the records.
	Marked   bool
	Conflict Conflict
	// Panel is the judges whose verdicts a unit must have: those that lack one, or whose
	// judges differ, are for review. Empty: whoever was heard is the panel.
	Panel []string
}

// NewScore makes score over the stream's own gold. It remembers, per unit, its gold
// and the predictions that were made for it: about 450 bytes, 64 a judgment, and the
// id and 9 bytes a ranked passage. Whatever comes for a unit, in whatever order, its score is that
// of the greatest (revision, position) of each slot.
func NewScore(s OpenScoring) (func() (evalstream.Stage, error), error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if err := metric.Panel(s.Panel).Check(); err != nil {
		return nil, err
	}
	return func() (evalstream.Stage, error) {
		verdicts := newSettings(judgingSettings)
		return &openScore{
			options: s, ranker: ranker{scoring: &s.Scoring}, names: s.names(),
			settings: [families]*evalstream.Settings{s.retrieval(), newSettings(fewshotSettings), newSettings(agreementSettings), verdicts},
			units:    map[string]*openUnit{}, horizon: newHorizon(s.Horizon, s.MaxOutOfOrder, s.Marked),
			judges: judged{panel: s.Panel, conflict: s.Conflict, settings: verdicts},
		}, nil
	}, nil
}

const agreementSettings = "values compared by literal"

// The families, in the order of their settings.
const (
	retrieval = iota
	fewshot
	agreement
	judging
	families
)

// openScore is score with one state a unit.
type openScore struct {
	options   OpenScoring
	ranker    ranker
	names     []string
	settings  [families]*evalstream.Settings
	units     map[string]*openUnit
	judges    judged
	order     []string // units in the order in which they came, for a reproducible sweep
	source    string
	hasSource bool
	horizon   horizon
	tallies   openTallies
	fields    fields
	standing  []judgment
	hits      []evalstream.Hit
	key       []byte
	kept      *openKept // nil without a store
}

// Process puts each record into its slot and says what became of the unit.
func (o *openScore) Process(_ context.Context, in []evalstream.Record, out *evalstream.Out) error {
	o.judges.begin(in)
	for i := range in {
		rec := &in[i]
		if !isGold(rec.Body) {
			if limit, due := o.horizon.see(rec.Time); due {
				o.sweep(limit, out)
			}
		}
		var f *evalstream.Fault
		var kind int
		switch b := rec.Body.(type) {
		case *evalstream.Run:
			kind, f = ofRuns, o.run(rec, b, out)
		case *evalstream.Prediction:
			if b.HasLabel {
				kind, f = ofPredictions, o.prediction(rec, b, out)
			} else {
				kind, f = ofLabels, o.goldLabel(rec, b, out)
			}
		case *evalstream.Qrel:
			kind, f = ofQrels, o.qrel(rec, b, out)
		case *evalstream.Rating:
			kind, f = ofRatings, o.rating(rec, b, out)
		case *evalstream.Verdict:
			if kind, f = ofVerdicts, o.horizon.late(rec.Time); f == nil {
				f = o.judges.verdict(rec, b, o.judges.hashes[i], o.horizon.limit(), out)
			}
		default:
			kind, f = ofOthers, &evalstream.Fault{Class: evalstream.ClassStage, Reason: "score: want run, prediction, qrel, rating or verdict, got " + b.Kind()}
		}
		t := &o.tallies[kind]
		t.Received++
		if f == nil {
			continue
		}
		if f.Class == evalstream.ClassLate {
			t.Late++
		} else {
			t.Rejected++
		}
		out.Reject(rec.Seq, *f)
	}
	if o.kept != nil {
		return cmp.Or(o.kept.failed, o.judges.kept.failed)
	}
	return nil
}

// isGold says that a record is gold, which never drives event time.
func isGold(b evalstream.Body) bool {
	switch b := b.(type) {
	case *evalstream.Qrel:
		return true
	case *evalstream.Prediction:
		return !b.HasLabel
	}
	return false
}

// unit is what is known of a unit, made empty if it is new. What has ended of it is
// forgotten first; the rest is about to change.
func (o *openScore) unit(id []byte, out *evalstream.Out) *openUnit {
	var u *openUnit
	if o.kept != nil {
		u = o.keptUnit(id)
	} else {
		u = o.units[string(id)]
	}
	if u == nil {
		u = &openUnit{seen: evalstream.NoTime}
		name := string(id)
		o.units[name] = u
		o.order = append(o.order, name)
		return u
	}
	if limit := o.horizon.limit(); limit != evalstream.NoTime && u.due() < limit && o.age(string(id), u, limit, out) {
		*u = openUnit{seen: evalstream.NoTime, shelved: u.shelved}
	}
	return u
}

func (o *openScore) run(rec *evalstream.Record, b *evalstream.Run, out *evalstream.Out) *evalstream.Fault {
	if f := o.horizon.late(rec.Time); f != nil {
		return f
	}
	u := o.unit(append(o.key[:0], b.QueryID...), out)
	r := u.slot(b.Run)
	if r != nil && o.options.Conflict == Refuse && (r.top != packList(b.Top) || r.time != rec.Time || !slices.Equal(r.slices, b.Slices)) {
		return conflict(b)
	}
	if r == nil {
		u.met = true
		u.runs = append(u.runs, openRun{run: strings.Clone(b.Run)})
		r = &u.runs[len(u.runs)-1]
	} else {
		o.tallies[ofRuns].Replaced++
		if b.Revision < r.revision {
			return nil
		}
	}
	r.top = packList(b.Top)
	r.revision, r.time, r.slices = b.Revision, rec.Time, cloneSlices(b.Slices)
	u.see(rec.Time)
	// A run without a name has the slot of the unit that waited, so its score comes last.
	o.wait(rec, b.QueryID, u, false, out)
	o.say(rec, b.QueryID, u, r, true, out)
	return nil
}

func (o *openScore) prediction(rec *evalstream.Record, b *evalstream.Prediction, out *evalstream.Out) *evalstream.Fault {
	if f := o.horizon.late(rec.Time); f != nil {
		return f
	}
	if !b.Identified() {
		o.position(rec, b, out)
		return nil
	}
	o.key = b.AppendUnit(o.key[:0])
	unit := string(o.key)
	u := o.unit(o.key, out)
	r := u.slot(b.Run)
	var s evalstream.Score
	o.fields.reset(1)
	o.fields.fill(&s, b)
	if r != nil && o.options.Conflict == Refuse && (r.label != b.Label || r.hasGold != b.HasGold || r.gold != b.Gold || r.time != rec.Time || !slices.Equal(r.slices, s.Slices)) {
		return conflict(b)
	}
	if r == nil {
		u.met = true
		u.runs = append(u.runs, openRun{run: strings.Clone(b.Run), fewshot: true})
		r = &u.runs[len(u.runs)-1]
	} else {
		o.tallies[ofPredictions].Replaced++
		if b.Revision < r.revision {
			return nil
		}
	}
	r.label, r.gold, r.hasGold = strings.Clone(b.Label), strings.Clone(b.Gold), b.HasGold
	r.revision, r.time, r.slices = b.Revision, rec.Time, cloneSlices(s.Slices)
	u.see(rec.Time)
	o.wait(rec, unit, u, false, out)
	o.say(rec, unit, u, r, true, out)
	return nil
}

// position scores a prediction that only its position identifies: nothing else can
// ever meet it, so it is not remembered.
func (o *openScore) position(rec *evalstream.Record, b *evalstream.Prediction, out *evalstream.Out) {
	s := new(evalstream.Score)
	o.fields.reset(1)
	o.fields.fill(s, b)
	s.Slices = cloneSlices(s.Slices)
	s.Settings = o.settings[fewshot]
	t := &o.tallies[ofPredictions]
	t.Held++
	if b.HasGold {
		s.Labelled, s.Label, s.Gold = true, b.Label, b.Gold
		t.Of[evalstream.Scored]++
	} else {
		s.Status = evalstream.Unjudged
		t.Of[evalstream.Unjudged]++
	}
	out.Emit(evalstream.Record{Body: s, Time: rec.Time, Pos: rec.Pos, Seq: rec.Seq})
}

func (o *openScore) qrel(rec *evalstream.Record, b *evalstream.Qrel, out *evalstream.Out) *evalstream.Fault {
	t := &o.tallies[ofQrels]
	if o.options.Source != "" && b.Source != o.options.Source {
		t.Passed++
		return nil
	}
	if o.options.Source == "" {
		if o.hasSource && b.Source != o.source {
			return &evalstream.Fault{Class: evalstream.ClassStage, Path: "/source", Reason: fmt.Sprintf("want gold of one source, got %q beside %q; choose one with --source", b.Source, o.source)}
		}
		o.hasSource, o.source = true, strings.Clone(b.Source)
	}
	u := o.unit(append(o.key[:0], b.QueryID...), out)
	if g := u.judgment(b.PassageID); g == nil {
		u.gold = append(u.gold, openGold{judgment: judgment{passage: strings.Clone(b.PassageID), grade: b.Grade}, withdrawn: b.Withdrawn, revision: b.Revision})
	} else {
		if o.options.Conflict == Refuse && (g.withdrawn != b.Withdrawn || !b.Withdrawn && regraded(g.grade, b.Grade)) {
			return conflict(b)
		}
		t.Replaced++
		if b.Revision >= g.revision {
			g.grade, g.withdrawn, g.revision = b.Grade, b.Withdrawn, b.Revision
		}
	}
	o.sayAll(rec, b.QueryID, u, o.goldTime(u), out)
	return nil
}

func (o *openScore) goldLabel(rec *evalstream.Record, b *evalstream.Prediction, out *evalstream.Out) *evalstream.Fault {
	if !b.Identified() {
		return &evalstream.Fault{Class: evalstream.ClassSchema, Path: "/query", Reason: "gold of its own needs episode or query, got neither"}
	}
	o.key = b.AppendUnit(o.key[:0])
	unit := string(o.key)
	u := o.unit(o.key, out)
	u.label = true
	if len(u.gold) > 0 {
		g := &u.gold[0]
		if o.options.Conflict == Refuse && g.passage != b.Gold {
			return conflict(b)
		}
		o.tallies[ofLabels].Replaced++
		if b.Revision >= g.revision {
			g.passage, g.revision = strings.Clone(b.Gold), b.Revision
		}
	} else {
		u.gold = append(u.gold, openGold{judgment: judgment{passage: strings.Clone(b.Gold)}, revision: b.Revision})
	}
	o.sayAll(rec, unit, u, o.goldTime(u), out)
	return nil
}

// goldTime dates gold, by the watermark at its arrival, and says whether its unit is
// remembered for longer.
func (o *openScore) goldTime(u *openUnit) (longer bool) {
	at := o.horizon.arrival()
	longer = at > u.seen
	u.see(at)
	return longer
}

// judgments is the gold of u that stands.
func (o *openScore) judgments(u *openUnit) []judgment {
	o.standing = o.standing[:0]
	for i := range u.gold {
		if !u.gold[i].withdrawn {
			o.standing = append(o.standing, u.gold[i].judgment)
		}
	}
	return o.standing
}

func (o *openScore) sayAll(rec *evalstream.Record, unit string, u *openUnit, longer bool, out *evalstream.Out) {
	for i := range u.runs {
		o.say(rec, unit, u, &u.runs[i], false, out)
	}
	o.wait(rec, unit, u, longer, out)
}

// say emits the score of one run if it differs from what was last said, or if the
// prediction itself is new.
func (o *openScore) say(rec *evalstream.Record, unit string, u *openUnit, r *openRun, fresh bool, out *evalstream.Out) {
	status, gold := evalstream.Pending, ""
	var values []evalstream.Nano
	judged := o.judgments(u)
	switch {
	case r.fewshot && r.hasGold:
		status, gold = evalstream.Scored, r.gold
	case len(judged) == 0:
	case r.fewshot:
		status, gold = evalstream.Scored, judged[0].passage
	default:
		status = evalstream.Scored
		o.hits, _ = r.top.hits(o.hits[:0])
		values = o.ranker.value(nil, o.hits, judged)
	}
	if !fresh && r.said && r.status == status && r.saidGold == gold && slices.Equal(r.values, values) {
		return
	}
	r.said, r.status, r.saidGold, r.values = true, status, gold, values
	out.Emit(o.score(rec, unit, r, !fresh))
}

func (o *openScore) score(rec *evalstream.Record, unit string, r *openRun, again bool) evalstream.Record {
	s := &evalstream.Score{
		Unit: strings.Clone(unit), Run: r.run, Status: r.status, Slices: r.slices, Revision: r.revision,
		Settings: o.settings[retrieval], Again: again,
	}
	if r.fewshot {
		s.Settings = o.settings[fewshot]
	}
	if r.status == evalstream.Scored {
		if r.fewshot {
			s.Labelled, s.Label, s.Gold = true, r.label, r.saidGold
		} else {
			s.Measures, s.Values = o.names, r.values
		}
	}
	return evalstream.Record{Body: s, Time: r.time, Pos: rec.Pos, Seq: rec.Seq}
}

// wait says that a judged unit waits for a prediction, or that it no longer does; longer
// has it said again of one that still waits, so that aggregate remembers it as long.
func (o *openScore) wait(rec *evalstream.Record, unit string, u *openUnit, longer bool, out *evalstream.Out) {
	waiting := !u.met && len(o.judgments(u)) > 0
	if waiting == u.waiting && (!waiting || !longer) {
		return
	}
	u.waiting = waiting
	s := &evalstream.Score{Unit: strings.Clone(unit), Status: evalstream.Waiting, Settings: o.settings[retrieval]}
	if u.label {
		s.Settings = o.settings[fewshot]
	}
	if !waiting {
		s.Status = evalstream.Retracted
	}
	out.Emit(evalstream.Record{Body: s, Time: evalstream.NoTime, Pos: rec.Pos, Seq: rec.Seq})
}

// Advance says at the end of the input that a prediction which still waits for gold is
// unjudged.
func (o *openScore) Advance(_ context.Context, watermark evalstream.Time, out *evalstream.Out) error {
	o.judges.begin(nil)
	if watermark != evalstream.EndOfTime {
		if limit, due := o.horizon.move(watermark); due {
			o.sweep(limit, out)
			if o.kept != nil {
				return cmp.Or(o.kept.failed, o.judges.kept.failed)
			}
		}
		return nil
	}
	if o.kept != nil {
		return o.endKept(out)
	}
	o.end(out)
	return o.judges.finish(out)
}

// sweep forgets what is older than limit.
func (o *openScore) sweep(limit evalstream.Time, out *evalstream.Out) {
	o.judges.sweep(limit, out)
	if o.kept != nil {
		o.sweepKept(limit, out)
		return
	}
	kept := o.order[:0]
	var old []string
	for _, unit := range o.order {
		if o.units[unit].due() < limit {
			old = append(old, unit)
		} else {
			kept = append(kept, unit)
		}
	}
	slices.Sort(old)
	for _, unit := range old {
		if o.age(unit, o.units[unit], limit, out) {
			delete(o.units, unit)
		} else {
			kept = append(kept, unit)
		}
	}
	clear(o.order[len(kept):])
	o.order = kept
}

// age ends what is older than limit: each prediction alone, since it is a unit of its
// own with its own time, then ratings by their least time, then gold that nothing asked
// for in time. What was pending has expired; what was scored stands. It reports
// whether nothing is left.
func (o *openScore) age(name string, u *openUnit, limit evalstream.Time, out *evalstream.Out) bool {
	left := u.runs[:0]
	for i := range u.runs {
		r := &u.runs[i]
		if !ended(r.time, limit) {
			left = append(left, *r)
			continue
		}
		if r.status == evalstream.Pending {
			r.status = evalstream.Expired
			out.Emit(o.score(&evalstream.Record{}, name, r, true))
		}
		o.tallies.run(r, r.status)
	}
	clear(u.runs[len(left):])
	u.runs = left
	if ended(u.rated(), limit) {
		o.tallies.ratings(u)
		u.ratings = nil
	}
	if len(u.runs) > 0 || u.seen == evalstream.NoTime || u.seen >= limit {
		return false
	}
	o.tallies.ratings(u)
	o.tallies.gold(u, evalstream.Expired)
	return true
}

// end says what became of what still waits.
func (o *openScore) end(out *evalstream.Out) {
	slices.Sort(o.order)
	for _, unit := range o.order {
		u := o.units[unit]
		for i := range u.runs {
			if r := &u.runs[i]; r.status == evalstream.Pending {
				r.status = o.last(r)
				out.Emit(o.score(&evalstream.Record{}, unit, r, true))
			}
		}
	}
}

// last is the status of a prediction at the end of the input.
func (o *openScore) last(r *openRun) evalstream.Status {
	switch {
	case r.status != evalstream.Pending:
		return r.status
	case ended(r.time, o.horizon.limit()):
		return evalstream.Expired
	}
	return evalstream.Unjudged
}
