package stages

import (
	"context"
	"encoding/json"
	"strings"

	"evalstream"
)

// NewScoreFrozen makes score over gold that is complete: each prediction is scored
// and dropped, on any worker. At the end each judged unit that no prediction asked
// for is said to be waiting. gold may be nil: then only predictions that carry
// their own gold label are scored.
func NewScoreFrozen(s Scoring, gold *Gold) (func() (evalstream.Stage, error), error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	return func() (evalstream.Stage, error) {
		return &frozenScore{
			gold: gold, ranker: ranker{scoring: &s}, names: s.names(),
			retrieval: s.retrieval(), fewshot: newSettings(fewshotSettings),
		}, nil
	}, nil
}

// fewshotSettings says what a few-shot score is: the labels themselves.
const fewshotSettings = "labels compared by name"

// frozenScore is score without state. It emits from slabs that live until its next
// Process call.
type frozenScore struct {
	gold      *Gold
	ranker    ranker
	names     []string
	retrieval *evalstream.Settings
	fewshot   *evalstream.Settings

	scores []evalstream.Score
	values []evalstream.Nano
	fields fields
	lookup lookup
	judged []judgment

	tallies [3]evalstream.Tally // runs, predictions, what is neither

	// mine says which units are this job's, where it has a part of the partitions; nil: all
	// are. waited is then how many were looked at for the end.
	mine   func(route []byte) bool
	waited int

	tracing bool
	trace   []byte // units that were matched since the last Trace
}

// Process scores each prediction on its own.
func (f *frozenScore) Process(_ context.Context, in []evalstream.Record, out *evalstream.Out) error {
	f.begin(len(in))
	units := f.units(in)
	for i := range in {
		switch b := in[i].Body.(type) {
		case *evalstream.Run:
			f.run(&in[i], b, units[i], out)
		case *evalstream.Prediction:
			f.prediction(&in[i], b, units[i], out)
		default:
			f.tallies[2].Received++
			f.tallies[2].Rejected++
			out.Reject(in[i].Seq, evalstream.Fault{Class: evalstream.ClassStage, Reason: "score: want run or prediction beside a gold file, got " + b.Kind()})
		}
	}
	return nil
}

// begin makes room so that the slabs do not move while records point into them.
func (f *frozenScore) begin(n int) {
	if cap(f.scores) < n {
		f.scores = make([]evalstream.Score, 0, n)
	}
	f.scores = f.scores[:0]
	if need := n * len(f.names); cap(f.values) < need {
		f.values = make([]evalstream.Nano, 0, need)
	}
	f.values = f.values[:0]
	f.fields.reset(n)
}

// units finds the unit of each record in the gold, -1 where it has none.
func (f *frozenScore) units(in []evalstream.Record) []int32 {
	if f.gold == nil {
		return f.lookup.find(new(table), len(in), nil)
	}
	units := f.lookup.find(&f.gold.units, len(in), func(i int) string {
		switch b := in[i].Body.(type) {
		case *evalstream.Run:
			return b.QueryID
		case *evalstream.Prediction:
			if b.Identified() {
				return string(b.AppendUnit(nil))
			}
		}
		return ""
	})
	f.gold.fetch(&f.lookup)
	return units
}

func (f *frozenScore) run(rec *evalstream.Record, b *evalstream.Run, unit int32, out *evalstream.Out) {
	t := &f.tallies[0]
	t.Received++
	if f.gold == nil {
		t.Rejected++
		out.Reject(rec.Seq, evalstream.Fault{Class: evalstream.ClassStage, Reason: "score: run needs gold, got none; name it with --gold"})
		return
	}
	s := f.next(rec, out)
	s.Unit, s.Run, s.Slices, s.Revision, s.Settings = b.QueryID, b.Run, b.Slices, b.Revision, f.retrieval
	f.judged = f.gold.judgments(f.judged[:0], unit)
	if len(f.judged) == 0 {
		f.gold.missed(b.QueryID)
		s.Status = evalstream.Unjudged
		t.Held++
		t.Of[evalstream.Unjudged]++
		return
	}
	f.met(unit)
	from := len(f.values)
	f.values = f.ranker.value(f.values, b.Top, f.judged)
	s.Measures, s.Values = f.names, f.values[from:]
	t.Held++
	t.Of[evalstream.Scored]++
}

func (f *frozenScore) prediction(rec *evalstream.Record, b *evalstream.Prediction, unit int32, out *evalstream.Out) {
	t := &f.tallies[1]
	t.Received++
	if !b.HasLabel {
		t.Rejected++
		out.Reject(rec.Seq, evalstream.Fault{Class: evalstream.ClassSchema, Path: "/label", Reason: "missing; want a label (parse --map label=/POINTER reads it from elsewhere)"})
		return
	}
	label, judged := b.Gold, b.HasGold
	s := f.next(rec, out)
	f.fields.fill(s, b)
	if f.gold != nil && !s.Positions { // asked for, even where its own gold counts
		if f.judged = f.gold.judgments(f.judged[:0], unit); len(f.judged) > 0 {
			f.met(unit)
		}
		if !judged && len(f.judged) > 0 {
			label, judged = f.judged[0].passage, true
		}
	}
	s.Settings = f.fewshot
	t.Held++
	if !judged {
		if f.gold != nil {
			f.gold.missed(s.Unit)
		}
		s.Status = evalstream.Unjudged
		t.Of[evalstream.Unjudged]++
		return
	}
	s.Labelled, s.Label, s.Gold = true, b.Label, label
	t.Of[evalstream.Scored]++
}

// next emits an empty score for rec and returns it.
func (f *frozenScore) next(rec *evalstream.Record, out *evalstream.Out) *evalstream.Score {
	f.scores = append(f.scores, evalstream.Score{})
	s := &f.scores[len(f.scores)-1]
	out.Emit(evalstream.Record{Body: s, Time: rec.Time, Pos: rec.Pos, Seq: rec.Seq})
	return s
}

// waitingAtOnce bounds what one Advance emits.
const waitingAtOnce = 1024

// Advance says at the end which judged units wait for a prediction.
func (f *frozenScore) Advance(_ context.Context, watermark evalstream.Time, out *evalstream.Out) error {
	if watermark != evalstream.EndOfTime || f.gold == nil {
		return nil
	}
	settings := f.retrieval
	if f.gold.labels {
		settings = f.fewshot
	}
	at, mine := &f.gold.waited, func(string) bool { return true }
	if f.mine != nil {
		at, mine = &f.waited, func(unit string) bool { return f.mine(f.route(unit)) }
	}
	f.gold.waiting(at, waitingAtOnce, mine, func(unit string) {
		out.Emit(evalstream.Record{
			Body: &evalstream.Score{Unit: unit, Status: evalstream.Waiting, Settings: settings},
			Time: evalstream.NoTime,
		})
	})
	return nil
}

// Place makes Advance speak of the units of some partitions alone.
func (f *frozenScore) Place(mine func(route []byte) bool) { f.mine = mine }

// route is that of the predictions of a unit of gold.
func (f *frozenScore) route(unit string) []byte {
	if !f.gold.labels {
		return []byte(unit)
	}
	var parts []string // dataset, seed, k, episode, query
	if err := json.Unmarshal([]byte(unit), &parts); err != nil || len(parts) < 4 {
		return []byte(unit)
	}
	return (&evalstream.Prediction{Dataset: parts[0], Seed: parts[1], K: parts[2], Episode: parts[3]}).AppendRoute(nil)
}

// Notes says when gold and predictions do not meet.
func (f *frozenScore) Notes() []string {
	if f.gold == nil {
		return nil
	}
	return f.gold.notes()
}

// Tallies accounts for predictions; nothing is replaced, since nothing is kept.
func (f *frozenScore) Tallies() []evalstream.Tally {
	return kinds(f.tallies[:], "run", "prediction", otherKinds)
}

// otherKinds is the row of records that a stage has no use for, each of them a reject.
const otherKinds = "other"

// kinds names the rows that received anything.
func kinds(rows []evalstream.Tally, names ...string) []evalstream.Tally {
	var ts []evalstream.Tally
	for i, t := range rows {
		if t.Received > 0 {
			t.Kind = names[i]
			ts = append(ts, t)
		}
	}
	return ts
}

// fields turns a prediction's own fields into a score's unit and slices, in memory
// that lives until the next reset.
type fields struct {
	slices []evalstream.Slice
	quoted map[string]string
}

func (f *fields) reset(n int) {
	if need := n * predictionFields; cap(f.slices) < need {
		f.slices = make([]evalstream.Slice, 0, need)
	}
	f.slices = f.slices[:0]
}

// predictionFields is how many fields of a prediction can be grouped by.
const predictionFields = 4

// fill sets unit, run, revision and slices of s; dataset, seed, k and episode are
// slices of a few-shot score.
func (f *fields) fill(s *evalstream.Score, b *evalstream.Prediction) {
	s.Run, s.Revision = b.Run, b.Revision
	if b.Identified() {
		s.Unit = string(b.AppendUnit(nil))
	} else {
		s.Positions = true
	}
	from := len(f.slices)
	for _, p := range [predictionFields]struct{ name, value string }{{"dataset", b.Dataset}, {"seed", b.Seed}, {"k", b.K}, {"episode", b.Episode}} {
		if p.value != "" {
			f.slices = append(f.slices, evalstream.Slice{Name: p.name, Value: f.quote(p.value)})
		}
	}
	if len(b.Slices) == 0 {
		s.Slices = f.slices[from:len(f.slices):len(f.slices)]
		return
	}
	s.Slices = append(append(make([]evalstream.Slice, 0, len(f.slices)-from+len(b.Slices)), f.slices[from:]...), b.Slices...)
}

// maxQuoted bounds the memory of quote where values hardly repeat (episodes).
const maxQuoted = 1 << 12

// quote is the JSON string of an id, kept for the next time.
func (f *fields) quote(s string) string {
	if q, ok := f.quoted[s]; ok {
		return q
	}
	if f.quoted == nil || len(f.quoted) >= maxQuoted {
		f.quoted = make(map[string]string)
	}
	q := string(evalstream.AppendString(nil, s))
	f.quoted[strings.Clone(s)] = q
	return q
}
