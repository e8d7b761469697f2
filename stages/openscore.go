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

// Conflict says what a second, different observation of a held slot does.
type Conflict uint8

// The ways to meet a conflict.
const (
	Replace Conflict = iota // the greatest (revision, position) wins
	Refuse                  // it is a reject
)

// ParseConflict reads replace or reject.
func ParseConflict(name string) (Conflict, error) {
	switch name {
	case "replace":
		return Replace, nil
	case "reject":
		return Refuse, nil
	}
	return 0, evalstream.NoChoice("on-conflict", name, "replace", "reject")
}

// OpenScoring is score over gold that comes with the stream, in any order.
type OpenScoring struct {
	Scoring
	// Horizon is how long, in event time, a prediction waits for gold and a unit is
	// remembered; 0 is for ever.
	Horizon time.Duration
	// MaxOutOfOrder is how far the watermark stays behind the newest time.
	MaxOutOfOrder time.Duration
	Conflict      Conflict
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
			units:    map[string]*openUnit{}, horizon: newHorizon(s.Horizon, s.MaxOutOfOrder),
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

// The input kinds that are accounted for, in the order of their tallies.
const (
	ofRuns = iota
	ofPredictions
	ofQrels
	ofLabels
	ofRatings
	ofVerdicts
	ofOthers
	inputs
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
	tallies   [inputs]evalstream.Tally
	fields    fields
	standing  []judgment
	hits      []evalstream.Hit
	key       []byte
	kept      *openKept // nil without a store
}

// openUnit is all that is known of one unit.
type openUnit struct {
	gold    []openGold // retrieval: one a passage; few-shot: the label, in passage
	label   bool       // gold is a label
	runs    []openRun
	ratings []openRating
	waiting bool // said to be waiting
	seen    evalstream.Time
	shelved *shelved // nil without a store
}

// openGold is one judgment of a unit, or its label.
type openGold struct {
	judgment
	withdrawn bool
	revision  int64
}

// openRun is the prediction of one run for one unit.
type openRun struct {
	run      string
	top      rankedList // retrieval
	label    string     // few-shot
	gold     string     // few-shot: its own gold
	hasGold  bool
	fewshot  bool
	revision int64
	time     evalstream.Time
	slices   []evalstream.Slice
	status   evalstream.Status
	said     bool
	values   []evalstream.Nano // as last said
	saidGold string
}

type openRating struct {
	evalstream.Rating
	time evalstream.Time
}

// Process puts each record into its slot and says what became of the unit.
func (o *openScore) Process(_ context.Context, in []evalstream.Record, out *evalstream.Out) error {
	o.judges.begin(in)
	for i := range in {
		rec := &in[i]
		if limit, due := o.horizon.see(rec.Time); due {
			o.sweep(limit, out)
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
				f = o.judges.verdict(rec, b, o.judges.hashes[i], out)
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

// unit is what is known of a unit, made empty if it is new. It is about to change.
func (o *openScore) unit(id []byte) *openUnit {
	if o.kept != nil {
		return o.keptUnit(id)
	}
	u := o.units[string(id)]
	if u == nil {
		u = &openUnit{seen: evalstream.NoTime}
		name := string(id)
		o.units[name] = u
		o.order = append(o.order, name)
	}
	return u
}

func (o *openScore) run(rec *evalstream.Record, b *evalstream.Run, out *evalstream.Out) *evalstream.Fault {
	if f := o.horizon.late(rec.Time); f != nil {
		return f
	}
	u := o.unit(append(o.key[:0], b.QueryID...))
	r := u.slot(b.Run)
	if r != nil && o.options.Conflict == Refuse && r.top != packList(b.Top) {
		return conflict(b)
	}
	if r == nil {
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
	o.wait(rec, b.QueryID, u, out)
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
	u := o.unit(o.key)
	r := u.slot(b.Run)
	if r != nil && o.options.Conflict == Refuse && (r.label != b.Label || r.hasGold != b.HasGold || r.gold != b.Gold) {
		return conflict(b)
	}
	if r == nil {
		u.runs = append(u.runs, openRun{run: strings.Clone(b.Run), fewshot: true})
		r = &u.runs[len(u.runs)-1]
	} else {
		o.tallies[ofPredictions].Replaced++
		if b.Revision < r.revision {
			return nil
		}
	}
	var s evalstream.Score
	o.fields.reset(1)
	o.fields.fill(&s, b)
	r.label, r.gold, r.hasGold = strings.Clone(b.Label), strings.Clone(b.Gold), b.HasGold
	r.revision, r.time, r.slices = b.Revision, rec.Time, cloneSlices(s.Slices)
	u.see(rec.Time)
	o.wait(rec, unit, u, out)
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
	u := o.unit(append(o.key[:0], b.QueryID...))
	if u.judge(b.PassageID, b.Grade, b.Withdrawn, b.Revision) {
		t.Replaced++
	}
	o.goldTime(u)
	o.sayAll(rec, b.QueryID, u, out)
	return nil
}

func (o *openScore) goldLabel(rec *evalstream.Record, b *evalstream.Prediction, out *evalstream.Out) *evalstream.Fault {
	if !b.Identified() {
		return &evalstream.Fault{Class: evalstream.ClassSchema, Path: "/query", Reason: "gold of its own needs episode or query, got neither"}
	}
	o.key = b.AppendUnit(o.key[:0])
	unit := string(o.key)
	u := o.unit(o.key)
	u.label = true
	if len(u.gold) > 0 {
		o.tallies[ofLabels].Replaced++
		if g := &u.gold[0]; b.Revision >= g.revision {
			g.passage, g.revision = strings.Clone(b.Gold), b.Revision
		}
	} else {
		u.gold = append(u.gold, openGold{judgment: judgment{passage: strings.Clone(b.Gold)}, revision: b.Revision})
	}
	o.goldTime(u)
	o.sayAll(rec, unit, u, out)
	return nil
}

func (u *openUnit) judge(passage string, grade int32, withdrawn bool, revision int64) (held bool) {
	for i := range u.gold {
		g := &u.gold[i]
		if g.passage != passage {
			continue
		}
		if revision >= g.revision {
			g.grade, g.withdrawn, g.revision = grade, withdrawn, revision
		}
		return true
	}
	u.gold = append(u.gold, openGold{judgment: judgment{passage: strings.Clone(passage), grade: grade}, withdrawn: withdrawn, revision: revision})
	return false
}

// goldTime dates a unit that has only gold: by the watermark at its arrival.
func (o *openScore) goldTime(u *openUnit) {
	if u.seen == evalstream.NoTime {
		u.seen = o.horizon.watermark()
	}
}

func (u *openUnit) see(t evalstream.Time) { u.seen = max(u.seen, t) }

func (u *openUnit) slot(run string) *openRun {
	for i := range u.runs {
		if u.runs[i].run == run {
			return &u.runs[i]
		}
	}
	return nil
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

func (o *openScore) sayAll(rec *evalstream.Record, unit string, u *openUnit, out *evalstream.Out) {
	for i := range u.runs {
		o.say(rec, unit, u, &u.runs[i], false, out)
	}
	o.wait(rec, unit, u, out)
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
	out.Emit(o.score(rec, unit, r))
}

func (o *openScore) score(rec *evalstream.Record, unit string, r *openRun) evalstream.Record {
	s := &evalstream.Score{
		Unit: strings.Clone(unit), Run: r.run, Status: r.status, Slices: r.slices, Revision: r.revision,
		Settings: o.settings[retrieval],
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

// wait says that a judged unit waits for a prediction, or that it no longer does.
func (o *openScore) wait(rec *evalstream.Record, unit string, u *openUnit, out *evalstream.Out) {
	waiting := len(u.runs) == 0 && len(o.judgments(u)) > 0
	if waiting == u.waiting {
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

func (o *openScore) rating(rec *evalstream.Record, b *evalstream.Rating, out *evalstream.Out) *evalstream.Fault {
	if f := o.horizon.late(rec.Time); f != nil {
		return f
	}
	u := o.unit(append(o.key[:0], b.Unit...))
	i, held := slices.BinarySearchFunc(u.ratings, b.Coder, func(r openRating, coder string) int { return cmp.Compare(r.Coder, coder) })
	switch {
	case !held:
		u.ratings = slices.Insert(u.ratings, i, openRating{})
	case o.options.Conflict == Refuse && (u.ratings[i].Value != b.Value || u.ratings[i].Retracted != b.Retracted):
		return conflict(b)
	default:
		o.tallies[ofRatings].Replaced++
		if b.Revision < u.ratings[i].Revision {
			return nil
		}
	}
	u.ratings[i] = openRating{
		Rating: evalstream.Rating{
			Coder: strings.Clone(b.Coder), Value: strings.Clone(b.Value), Retracted: b.Retracted,
			Revision: b.Revision, Slices: cloneSlices(b.Slices),
		},
		time: rec.Time,
	}
	u.see(rec.Time)
	out.Emit(o.ratings(rec, b.Unit, u))
	return nil
}

// ratings is the score of a rated unit: the standing values by coder; each slice
// field from the first coder, in byte order, that carries it; the least time.
func (o *openScore) ratings(rec *evalstream.Record, unit string, u *openUnit) evalstream.Record {
	s := &evalstream.Score{Unit: strings.Clone(unit), Status: evalstream.Retracted, Settings: o.settings[agreement]}
	at := evalstream.NoTime
	for i := range u.ratings {
		r := &u.ratings[i]
		if r.Retracted {
			continue
		}
		s.Status = evalstream.Scored
		s.Ratings = append(s.Ratings, evalstream.CoderValue{Coder: r.Coder, Value: r.Value})
		if at == evalstream.NoTime || r.time != evalstream.NoTime && r.time < at {
			at = r.time
		}
		for _, sl := range r.Slices {
			if !slices.ContainsFunc(s.Slices, func(have evalstream.Slice) bool { return have.Name == sl.Name }) {
				s.Slices = append(s.Slices, sl)
			}
		}
	}
	return evalstream.Record{Body: s, Time: at, Pos: rec.Pos, Seq: rec.Seq}
}

// Advance says at the end of the input that a prediction which still waits for gold is
// unjudged.
func (o *openScore) Advance(_ context.Context, watermark evalstream.Time, out *evalstream.Out) error {
	o.judges.begin(nil)
	if watermark != evalstream.EndOfTime {
		return nil
	}
	if o.kept != nil {
		return o.endKept(out)
	}
	o.end(out)
	return o.judges.finish(out)
}

// sweep forgets the units that are older than limit.
func (o *openScore) sweep(limit evalstream.Time, out *evalstream.Out) {
	o.judges.sweep(limit, out)
	if o.kept != nil {
		o.forgetKept(limit, out)
		return
	}
	kept := o.order[:0]
	var old []string
	for _, unit := range o.order {
		if u := o.units[unit]; u.seen == evalstream.NoTime || u.seen >= limit {
			kept = append(kept, unit)
		} else {
			old = append(old, unit)
		}
	}
	slices.Sort(old)
	for _, unit := range old {
		o.forget(unit, o.units[unit], out)
		delete(o.units, unit)
	}
	clear(o.order[len(kept):])
	o.order = kept
}

// forget ends a unit: what was pending has expired; what was scored stands.
func (o *openScore) forget(unit string, u *openUnit, out *evalstream.Out) {
	for i := range u.runs {
		if r := &u.runs[i]; r.status == evalstream.Pending {
			r.status = evalstream.Expired
			out.Emit(o.score(&evalstream.Record{}, unit, r))
		}
	}
	o.hold(u, evalstream.Expired)
}

func (o *openScore) end(out *evalstream.Out) {
	slices.Sort(o.order)
	for _, unit := range o.order {
		u := o.units[unit]
		for i := range u.runs {
			if r := &u.runs[i]; r.status == evalstream.Pending {
				r.status = evalstream.Unjudged
				out.Emit(o.score(&evalstream.Record{}, unit, r))
			}
		}
	}
}

// hold adds a unit's slots to the tallies; gold that met no prediction counts as
// alone says.
func (o *openScore) hold(u *openUnit, alone evalstream.Status) {
	o.tallies = addHeld(o.tallies, u, alone)
}

func addHeld(ts [inputs]evalstream.Tally, u *openUnit, alone evalstream.Status) [inputs]evalstream.Tally {
	add := func(kind int, s evalstream.Status) {
		ts[kind].Held++
		ts[kind].Of[s]++
	}
	for i := range u.runs {
		if u.runs[i].fewshot {
			add(ofPredictions, u.runs[i].status)
		} else {
			add(ofRuns, u.runs[i].status)
		}
	}
	for i := range u.gold {
		kind, s := ofQrels, alone
		if u.label {
			kind = ofLabels
		}
		switch {
		case u.gold[i].withdrawn:
			s = evalstream.Retracted
		case len(u.runs) > 0:
			s = evalstream.Scored // matched
		}
		add(kind, s)
	}
	for i := range u.ratings {
		if u.ratings[i].Retracted {
			add(ofRatings, evalstream.Retracted)
		} else {
			add(ofRatings, evalstream.Scored)
		}
	}
	return ts
}

// Tallies reads what is held off the state.
func (o *openScore) Tallies() []evalstream.Tally {
	ts := o.tallies
	if o.kept != nil {
		ts = o.heldKept(ts)
	} else {
		for _, u := range o.units {
			ts = addHeld(ts, u, evalstream.Waiting)
		}
	}
	v, j := &ts[ofVerdicts], o.judges.tallied()
	v.Held, v.Replaced, v.Of = j.Held, j.Replaced, j.Of
	return kinds(ts[:], "run", "prediction", "qrel", "gold", "rating", "verdict", otherKinds)
}

func conflict(b evalstream.Body) *evalstream.Fault {
	return &evalstream.Fault{Class: evalstream.ClassStage, Reason: "slot " + string(b.AppendKey(nil)) + " holds a different " + b.Kind() + "; --on-conflict replace takes the newer one"}
}

func cloneSlices(s []evalstream.Slice) []evalstream.Slice {
	if len(s) == 0 {
		return nil
	}
	out := make([]evalstream.Slice, len(s))
	for i := range s {
		out[i] = evalstream.Slice{Name: strings.Clone(s[i].Name), Value: strings.Clone(s[i].Value)}
	}
	return out
}
