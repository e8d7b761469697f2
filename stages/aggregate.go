package stages

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"evalstream"
)

// NewAggregate makes aggregate: it remembers what each unit contributes, so that a
// repeat counts once and a correction moves the unit; it publishes results, or
// partials if a.Partials is set. State: see units, and one cell a group, window pane
// and grouping.
func NewAggregate(a Aggregation) (func() (evalstream.Stage, error), error) {
	if err := a.Check(); err != nil {
		return nil, err
	}
	return func() (evalstream.Stage, error) {
		g := &aggregate{timed: a.Timed(), book: newBook(a), fields: a.Fields(), grain: grainOf(&a), horizon: newHorizon(a.Horizon, a.MaxOutOfOrder, a.Marked)}
		g.seen = make([]bool, len(g.fields))
		g.digester = g.Digester()
		return g, g.expect(a.Expect)
	}, nil
}

// aggregate folds scores into cells.
type aggregate struct {
	*book
	fields []string // that groups are made of
	grain  time.Duration
	timed  bool // windows are cut by time
	units  units

	runs     dictionary
	groups   dictionary // values of all fields, joined
	patterns dictionary // what a unit adds, in bytes

	tupleMu sync.RWMutex
	tuples  [][]uint32 // by group: its number in each layout
	seen    []bool     // by field: some unit has it
	nota    bool       // some label is the negative one
	adds    []contribution
	// What Apply sees of them: workers only append.
	known     [][]uint32
	knownAdds []contribution

	base      int64 // pane that slots count from
	hasBase   bool
	digester  evalstream.Digester
	obs       []evalstream.Observation
	received  int64
	replaced  int64
	rejected  int64
	late      int64
	refused   atomic.Int64 // scores that a worker has rejected
	others    atomic.Int64 // records that are no scores
	straight  int64        // units that are positions: held in the cells alone
	forgotten [8]int64
	horizon   horizon
	touched   uint64         // keeps fetching from being optimized away
	reviews   atomic.Int64   // passed
	kept      *aggregateKept // nil without a store
}

// contribution is what a scored unit adds to each of its cells.
type contribution struct {
	values      []evalstream.Nano
	label, gold uint32
	ratings     string
	ballots     uint32
}

// Process digests and applies.
func (a *aggregate) Process(ctx context.Context, in []evalstream.Record, out *evalstream.Out) error {
	a.obs = a.digester.Digest(in, a.obs[:0], out)
	return a.fold(a.obs, in, out)
}

// Every is the rhythm of publishing.
func (a *aggregate) Every() evalstream.Every { return a.options.Every }

// Apply folds observations in order.
func (a *aggregate) Apply(_ context.Context, in []evalstream.Observation, out *evalstream.Out) error {
	return a.fold(in, nil, out)
}

// fold applies observations of records, which are nil where all have a line.
func (a *aggregate) fold(in []evalstream.Observation, recs []evalstream.Record, out *evalstream.Out) error {
	if a.mixed != nil {
		return a.mixed
	}
	a.look()
	a.touched += a.units.fetch(in)
	for i := range in {
		if f := a.apply(&in[i]); f != nil {
			recs = from(recs, &in[i])
			if len(recs) > 0 {
				out.RejectRecord(&recs[0], *f)
				recs = recs[1:]
			} else {
				out.Reject(in[i].Seq, *f)
			}
		}
	}
	if a.kept != nil {
		return a.kept.failed
	}
	return nil
}

// look takes in what the workers have numbered.
func (a *aggregate) look() {
	a.tupleMu.RLock()
	defer a.tupleMu.RUnlock()
	a.known, a.knownAdds = a.tuples, a.adds
}

func (a *aggregate) apply(o *evalstream.Observation) *evalstream.Fault {
	a.received++
	a.scored = a.scored || o.Status == evalstream.Scored
	if limit, due := a.horizon.see(o.Time); due {
		a.sweep(limit)
	}
	late := a.horizon.late(o.Time)
	if o.Unit == ([2]uint64{}) {
		if late != nil {
			a.late++
			return late
		}
		a.straight++
		a.positions = true
		a.add(o.Group, o.Pattern, o.Status, a.paneOf(o.Time), 1)
		if a.kept != nil {
			a.addBase(o.Group, o.Pattern, o.Status, a.paneOf(o.Time))
		}
		return nil
	}
	at := o.Time
	if at == evalstream.NoTime && empty(o.Status) {
		at = a.horizon.arrival()
	}
	pane, err := a.relative(at)
	if err != nil {
		a.rejected++
		return err
	}
	if a.kept != nil {
		a.fetch(o.Unit)
	}
	if late != nil && (!a.ends(o) || !a.units.has(o.Unit, o.Run)) {
		a.late++
		return late
	}
	row, n, isNew := a.units.find(o.Unit, o.Run)
	s := a.units.slots.at(n)
	pattern := o.Pattern | uint32(o.Status)<<statusShift
	switch {
	case isNew:
		if a.kept != nil {
			a.made(row, n)
		}
		a.units.judge(row, false, isJudged(o.Status))
	case late == nil && o.Time != evalstream.NoTime && a.over(s):
		a.again(row, n)
		a.units.judge(row, false, isJudged(o.Status))
	default:
		if a.options.Conflict == Refuse && (s.pattern != pattern || s.group != o.Group || s.pane != pane && !empty(o.Status)) {
			a.rejected++
			return &evalstream.Fault{Class: evalstream.ClassStage, Reason: "unit holds a different score of this run; --on-conflict replace takes the newer one"}
		}
		a.replaced++
		if held := a.units.revision(n); o.Revision < held && (held != 0 || !empty(s.status())) {
			return nil
		}
		if a.kept != nil {
			a.touch(row, n)
		}
		a.units.judge(row, isJudged(s.status()), isJudged(o.Status))
		a.add(s.group, s.pattern&maxPattern, s.status(), a.absolute(s.pane), -1)
	}
	s.group, s.pattern, s.pane = o.Group, pattern, pane
	a.units.setRevision(n, o.Revision)
	a.add(o.Group, o.Pattern, o.Status, a.absolute(pane), 1)
	return nil
}

// ends says that a late observation may be what score says of a unit whose horizon has
// passed: that it has expired.
func (a *aggregate) ends(o *evalstream.Observation) bool {
	return o.Status == evalstream.Expired && a.horizon.settled(o.Time)
}

// over says that a slot's unit ended at the horizon, though the slot is remembered: what
// has a time and is not late is another unit of its name.
func (a *aggregate) over(s *slot) bool {
	limit := a.horizon.limit()
	return limit != evalstream.NoTime && s.pane != math.MinInt32 && (a.absolute(s.pane)+1)*int64(a.grain) <= int64(limit)
}

// again forgets the unit of a slot that another unit is to have. That it was judged
// counts on.
func (a *aggregate) again(row *unitRow, at uint32) {
	s := a.units.slots.at(at)
	if k := a.kept; k != nil {
		a.touch(row, at)
		if isJudged(s.status()) {
			j := judgedSlots{kept: 1, lost: 1}
			for n := row.first; n != 0; n = a.units.slots.at(n - 1).next {
				if isJudged(a.units.slots.at(n - 1).status()) {
					j.judged++
				}
			}
			j.was = row.count - j.judged
			k.setExtra(row.hash, j)
		}
	}
	a.forget(s)
}

// empty says that a slot of this status has no prediction, so that it has no revision
// of its own either: whatever comes for it is newer.
func empty(s evalstream.Status) bool { return s == evalstream.Waiting || s == evalstream.Retracted }

// add adds or takes back one unit in every cell that it belongs to. pane counts in
// grains from 1970.
func (a *aggregate) add(group, pattern uint32, status evalstream.Status, pane, sign int64) {
	if status == evalstream.Waiting || status == evalstream.Retracted {
		return
	}
	groups, contributes := a.known[group], &a.knownAdds[pattern]
	for i := range a.sheets {
		s := &a.sheets[i]
		c := s.cell(groups[s.layout], a.paneIn(s, pane))
		a.change(c, status, contributes, sign)
		if a.kept != nil && sign < 0 && c.empty() {
			a.emptied(i, c)
		}
	}
}

// paneIn is a pane of the finest grain as the sheet's window counts.
func (a *aggregate) paneIn(s *sheet, pane int64) int64 {
	if s.window.All {
		return 0
	}
	return floorDiv(pane*int64(a.grain), int64(s.window.Step))
}

// change adds or takes back one unit in a cell.
func (a *aggregate) change(c *cell, status evalstream.Status, contributes *contribution, sign int64) {
	c.count(status, sign)
	if status != evalstream.Scored {
		return
	}
	switch a.family {
	case retrieval:
		c.values(contributes.values, evalstream.Nano(sign))
	case fewshot:
		c.labels(contributes.label, contributes.gold, sign)
	case agreement:
		c.patterns.AddPattern(contributes.ratings, sign)
	case judging:
		c.vote(contributes.ballots, sign)
	}
}

func (a *aggregate) paneOf(t evalstream.Time) int64 {
	if a.grain == 0 || t == evalstream.NoTime {
		return 0
	}
	return floorDiv(int64(t), int64(a.grain))
}

// relative is a time as a slot keeps it: grains after the first time seen.
func (a *aggregate) relative(t evalstream.Time) (int32, *evalstream.Fault) {
	if a.grain == 0 || t == evalstream.NoTime {
		return math.MinInt32, nil
	}
	p := floorDiv(int64(t), int64(a.grain))
	if !a.hasBase {
		a.base, a.hasBase = p, true
	}
	if d := p - a.base; d > math.MinInt32 && d <= math.MaxInt32 {
		return int32(d), nil
	}
	return 0, &evalstream.Fault{Class: evalstream.ClassStage, Path: "/time", Reason: fmt.Sprintf("time %s is too far from the first time seen for windows this fine", t)}
}

func (a *aggregate) absolute(pane int32) int64 {
	if pane == math.MinInt32 {
		return 0
	}
	return a.base + int64(pane)
}

// Advance closes windows; at the end of the input everything is final.
func (a *aggregate) Advance(_ context.Context, watermark evalstream.Time, out *evalstream.Out) error {
	if a.mixed != nil {
		return a.mixed
	}
	a.watermark, a.judged = watermark, a.units.judged
	if watermark == evalstream.EndOfTime {
		switch {
		case a.ended:
			return nil
		case a.options.Partials:
			a.ended = true
			a.partials(out, true)
			return nil
		}
		a.ended = true
		return a.publish(out, true)
	}
	if limit, due := a.horizon.move(watermark); due {
		a.sweep(limit)
		if a.kept != nil {
			return a.kept.failed
		}
	}
	return nil
}

// grainOf is what the time of a unit is kept in: as fine as the windows need it, and about
// a thousandth of the horizon, so that a unit is forgotten in time.
func grainOf(a *Aggregation) time.Duration {
	const tries = 1 << 16
	g := finest(a.Windows)
	if a.Horizon <= 0 {
		return g
	}
	fine := max(1, a.Horizon/1000)
	if g == 0 {
		return fine
	}
	parts := (g + fine - 1) / fine
	for k := parts; k < parts+tries; k++ { // it must be a part of each window
		if g%k == 0 {
			return g / k
		}
	}
	return g
}

// sweep forgets units older than limit and the grace. Contributions stay in the cells;
// what is still pending has expired, for no gold is waited for any more.
func (a *aggregate) sweep(limit evalstream.Time) {
	limit = before(limit, a.horizon.grace())
	oldest := floorDiv(int64(limit), int64(a.grain))
	old := func(s *slot) bool { return s.pane != math.MinInt32 && a.base+int64(s.pane) < oldest }
	if a.kept != nil {
		a.sweepKept(old)
		return
	}
	a.units.keep(func(s *slot) bool {
		if !old(s) {
			return true
		}
		a.forget(s)
		return false
	})
}

// forget leaves the contribution of a slot to its cells alone.
func (a *aggregate) forget(s *slot) {
	a.expire(s)
	a.forgotten[s.status()]++
	if a.kept != nil {
		a.addBase(s.group, s.pattern&maxPattern, s.status(), a.absolute(s.pane))
	}
}

// expire ends a slot that is about to be forgotten.
func (a *aggregate) expire(s *slot) {
	if s.status() != evalstream.Pending {
		return
	}
	pattern := s.pattern & maxPattern
	a.add(s.group, pattern, evalstream.Pending, a.absolute(s.pane), -1)
	a.add(s.group, pattern, evalstream.Expired, a.absolute(s.pane), 1)
	s.pattern = pattern | uint32(evalstream.Expired)<<statusShift
}

// Tick publishes what was touched since the last.
func (a *aggregate) Tick(_ context.Context, out *evalstream.Out) error {
	if a.mixed != nil {
		return a.mixed
	}
	a.judged, a.settled = a.units.judged, a.horizon.past()
	if a.options.Partials {
		a.partials(out, false)
		a.free(a.freeSaid)
		return nil
	}
	if err := a.publish(out, false); err != nil || !a.scored {
		return err
	}
	a.free(a.freeKept)
	return nil
}

// partials emits the state of the touched cells, or of all.
func (a *aggregate) partials(out *evalstream.Out, all bool) {
	family, _, settings := a.metrics()
	emit := func(p *evalstream.Partial) {
		p.Settings, p.Judged, p.Positions = settings, a.units.judged, a.positions
		p.Partition, p.Partitions = a.options.Partition, a.options.Partitions
		out.Emit(evalstream.Record{Body: p, Time: evalstream.NoTime})
	}
	from := len(out.Records)
	for i := range a.sheets {
		s := &a.sheets[i]
		cells := s.dirty
		if all {
			cells = s.order
		}
		for _, c := range cells {
			emit(&evalstream.Partial{
				Settled: evalstream.NoTime, Family: familyNames()[max(0, family)], By: a.cellBy(s, c), Window: s.window.String(), Pane: c.pane, Cell: a.pack(c),
			})
		}
		s.clean()
	}
	sortByKey(out.Records[from:])
	emit(&evalstream.Partial{Family: judgedFamily, Settled: a.settled})
}

// judgedFamily is a partial that carries the number of judged units alone.
const judgedFamily = evalstream.JudgedFamily

// Tallies reads what is held off the state.
func (a *aggregate) Tallies() []evalstream.Tally {
	t := evalstream.Tally{Received: a.received, Replaced: a.replaced, Late: a.late, Rejected: a.rejected, Held: a.straight}
	t.Received += a.refused.Load()
	t.Rejected += a.refused.Load()
	t.Of[evalstream.Scored] = a.straight
	for _, st := range evalstream.Statuses() {
		t.Held += a.forgotten[st]
		t.Of[st] += a.forgotten[st]
	}
	for i := range uint32(a.units.slots.len()) {
		t.Held++
		t.Of[a.units.slots.at(i).status()]++
	}
	if a.kept != nil {
		a.heldOnShelf(&t)
	}
	n, reviews := a.others.Load(), a.reviews.Load()
	return kinds([]evalstream.Tally{t, {Received: reviews, Passed: reviews}, {Received: n, Rejected: n}}, "score", "review", otherKinds)
}

// Notes says which of the options no unit has answered to.
func (a *aggregate) Notes() []string {
	if len(a.tuples) == 0 {
		return nil
	}
	var notes []string
	if !a.scored && !a.options.Partials {
		notes = append(notes, "no unit is scored, so nobody has said what the metrics are: pending and unjudged units alone have no result")
	}
	for f, name := range a.fields {
		if a.scored && !a.seen[f] && name != "run" && name != "mode" {
			note := fmt.Sprintf("no unit has the field %q; it is (none) in every group", name)
			if meant := evalstream.Nearest(name, []string{"run", "mode", "prompt_version", "dataset", "seed", "k", "episode"}); meant != "" {
				note += fmt.Sprintf("; did you mean %q?", meant)
			}
			notes = append(notes, note)
		}
	}
	if !a.options.Partials {
		notes = append(notes, a.panelNotes()...)
	}
	if a.family == fewshot && a.scored && !a.nota {
		notes = append(notes, fmt.Sprintf("no label is %q, so every label counts as a relation; --negative names the one that is none", a.options.Negative))
	}
	return notes
}
