package stages

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"evalstream"
	"evalstream/stages/metric"
)

// Fields that results of judges add to those of their grouping.
const (
	judgeField  = "judge"
	judgeField2 = "judge2"
)

const noPanel = "no panel decides; name its judges with --panel a,b,c"

// judgingPattern numbers the ballots of a score.
func (d *digester) judgingPattern(s *evalstream.Score) (uint32, *evalstream.Fault) {
	d.ballots.Dimension, d.ballots.Ballots = s.Dimension, d.ballots.Ballots[:0]
	straight, swapped := s.Ratings, s.Swapped
	for len(straight) > 0 || len(swapped) > 0 {
		var b metric.Ballot
		var f *evalstream.Fault
		c := compareCoders(straight, swapped)
		if c <= 0 {
			if b.Straight, f = voteOf(straight[0]); f != nil {
				return 0, f
			}
			b.Judge, straight = straight[0].Coder, straight[1:]
		}
		if c >= 0 {
			if b.Swapped, f = voteOf(swapped[0]); f != nil {
				return 0, f
			}
			b.Judge, swapped = swapped[0].Coder, swapped[1:]
		}
		d.ballots.Ballots = append(d.ballots.Ballots, b)
	}
	d.key = d.ballots.AppendText(append(d.key[:0], 'j'))
	return d.patterns.id(d.key, func(_ uint32, name string) {
		d.a.newContribution(contribution{ballots: d.a.ballots.id([]byte(name[1:]), nil)})
	}), nil
}

func voteOf(c evalstream.CoderValue) (metric.Vote, *evalstream.Fault) {
	if v, ok := metric.ParseVote(c.Value); ok {
		return v, nil
	}
	return metric.NoVote, &evalstream.Fault{Class: evalstream.ClassSchema, Path: "/ratings", Reason: "want 0, 1, good, partial, poor or null of " + c.Coder + ", got " + c.Value}
}

// compareCoders compares the first coders of two lists, an empty one coming last.
func compareCoders(a, b []evalstream.CoderValue) int {
	switch {
	case len(b) == 0:
		return -1
	case len(a) == 0:
		return 1
	}
	return cmp.Compare(a[0].Coder, b[0].Coder)
}

// vote adds sign units with the ballots of a number, or takes them back.
func (c *cell) vote(ballots uint32, sign int64) {
	if ballots < fewBallots {
		for int(ballots) >= len(c.few) {
			c.few = append(c.few, make([]int64, max(8, len(c.few)))...)
		}
		c.few[ballots] += sign
		return
	}
	if c.ballots == nil {
		c.ballots = make(map[uint32]int64)
	}
	if n := c.ballots[ballots] + sign; n != 0 {
		c.ballots[ballots] = n
	} else {
		delete(c.ballots, ballots)
	}
}

// fewBallots is how many numbers a cell counts in a list; those that come first are
// the most frequent ones.
const fewBallots = 256

// allBallots calls f for each number that units have, and how many do.
func (c *cell) allBallots(f func(id uint32, units int64)) {
	for id, units := range c.few {
		if units != 0 {
			f(uint32(id), units)
		}
	}
	for id, units := range c.ballots {
		f(id, units)
	}
}

// ballotsOf is the ballots behind a number. Reading is one goroutine's.
func (b *book) ballotsOf(id uint32) *metric.Ballots {
	for int(id) >= len(b.parsed) {
		b.parsed = append(b.parsed, nil)
	}
	if b.parsed[id] == nil {
		p, err := metric.ParseBallots(b.ballots.name(id))
		if err != nil {
			panic("BUG: stages: " + err.Error()) // it was checked when it was numbered
		}
		b.parsed[id] = &p
	}
	return b.parsed[id]
}

// readJudging appends the results of each dimension D.
//
// Of the panel: D, the mean over all units, undecided ones counting as their lowest
// vote (0 if one is missing); D_judged, the mean over decided ones; D_coverage, the
// share decided; D_unanimous, the share of units in which the whole panel gave one
// verdict; D_alpha, nominal, over the panel's verdicts (without a panel: everyone's);
// for verdicts of three grades also D_good, D_partial and D_poor, the shares of units
// decided so. n is the units, missing those in which one of the panel is missing.
//
// By judge: D_mean of its verdicts; D_leniency, its mean less the panel's, over units
// that both have decided; D_panel_agreement, the share of these with the panel's
// verdict; and of units judged in both orders D_consistent and D_flipped, the shares
// with equal and with unequal verdicts, and D_first_position, the share of answers
// that chose what was shown first. By judge and judge2: D_agreement, the share of
// units in which two judges gave the same verdict.
func (b *book) readJudging(dst []*evalstream.Result, base evalstream.Result, v *view) ([]*evalstream.Result, error) {
	if slices.ContainsFunc(base.By, func(s evalstream.Slice) bool { return s.Name == judgeField || s.Name == judgeField2 }) {
		return dst, evalstream.Usagef("by %s: want fields of units; results by judge come anyway", judgeField)
	}
	base.Settings = b.resultSettings()
	hists := map[string][]metric.BallotCount{}
	v.sum.allBallots(func(id uint32, units int64) {
		p := b.ballotsOf(id)
		hists[p.Dimension] = append(hists[p.Dimension], metric.BallotCount{Ballots: p, Units: units})
	})
	for _, dimension := range slices.Sorted(maps.Keys(hists)) {
		var err error
		hist := hists[dimension]
		if dst, err = b.readPanel(dst, base, dimension, hist); err != nil {
			return dst, err
		}
		dst = b.readJudges(dst, base, dimension, hist)
	}
	return dst, nil
}

func (b *book) readPanel(dst []*evalstream.Result, base evalstream.Result, dimension string, hist []metric.BallotCount) ([]*evalstream.Result, error) {
	panel := metric.Panel(b.options.Panel)
	c := panel.Count(hist)
	base.N, base.OffPanel = c.Units, c.OffPanel
	if len(panel) > 0 {
		base.Missing, base.MissingUnknown = c.Missing, ""
	}
	share := func(name string, halves, den int64, proportion bool) {
		r := base
		r.Metric = dimension + name
		if len(panel) == 0 {
			r.Undefined, r.NoInterval = "no_panel", noPanel
		} else {
			b.halves(&r, halves, den, proportion)
		}
		dst = append(dst, &r)
	}
	share("", c.Halves, c.Units, !c.Graded)
	share("_judged", c.DecidedHalves, c.Decided, !c.Graded)
	share("_coverage", 2*c.Decided, c.Units, true)
	share("_unanimous", 2*c.Unanimous, c.Units, true)
	if c.Graded {
		for _, vote := range []metric.Vote{metric.VoteGood, metric.VotePartial, metric.VotePoor} {
			share("_"+vote.String(), 2*c.Votes[vote], c.Units, true)
		}
	}
	alpha := base
	alpha.Metric = dimension + "_alpha"
	ratings := panel.Ratings(hist)
	literals, err := ratings.Literals()
	if err != nil {
		return dst, err
	}
	domain, err := metric.OrderDomain(metric.NominalLevel, literals, nil)
	if err != nil {
		return dst, err
	}
	counts, err := ratings.Counts(domain)
	if err != nil {
		return dst, err
	}
	b.alpha(&alpha, domain, counts)
	return append(dst, &alpha), nil
}

// halves sets the value halves/2 / den and its intervals.
func (b *book) halves(r *evalstream.Result, halves, den int64, proportion bool) {
	sum := evalstream.Nano(halves) * (evalstream.One / 2)
	setValue(r, metric.Ratio(sum, den, metric.NoUnits))
	b.meanIntervals(r, sum, den, proportion)
}

func (b *book) readJudges(dst []*evalstream.Result, base evalstream.Result, dimension string, hist []metric.BallotCount) []*evalstream.Result {
	panel := metric.Panel(b.options.Panel)
	graded := panel.Count(hist).Graded
	add := func(name string, n, missing int64, judges ...string) *evalstream.Result {
		r := base
		r.Metric, r.N, r.Missing, r.MissingUnknown = dimension+name, n, missing, ""
		r.By = slices.Clone(base.By)
		for i, judge := range judges {
			r.By = append(r.By, evalstream.Slice{Name: [...]string{judgeField, judgeField2}[i], Value: string(evalstream.AppendString(nil, judge))})
		}
		dst = append(dst, &r)
		return &r
	}
	for _, j := range panel.Judges(hist) {
		b.halves(add("_mean", j.Votes, j.Missing, j.Judge), j.Halves, j.Votes, !graded)
		if len(panel) > 0 {
			r := add("_leniency", j.Common, 0, j.Judge)
			setValue(r, metric.Ratio(evalstream.Nano(j.Lenient)*(evalstream.One/2), j.Common, metric.NoUnits))
			r.NoInterval = cmpOr(r.Undefined, "none is known for a difference on the same units")
			b.halves(add("_panel_agreement", j.Common, 0, j.Judge), 2*j.Same, j.Common, true)
		}
		if n := j.Both + j.BothMissing; n > 0 {
			b.halves(add("_consistent", n, j.BothMissing, j.Judge), 2*j.Consistent, j.Both, true)
			b.halves(add("_flipped", n, j.BothMissing, j.Judge), 2*(j.Both-j.Consistent), j.Both, true)
			if !graded {
				b.halves(add("_first_position", n, j.BothMissing, j.Judge), 2*j.First, j.Answers, true)
			}
		}
	}
	for _, p := range panel.Pairs(hist) {
		b.halves(add("_agreement", p.Units, 0, p.A, p.B), 2*p.Same, p.Units, true)
	}
	return dst
}

// panelNotes says that nobody decides, or which of the panel gave no verdict at all.
func (b *book) panelNotes() []string {
	judges, dimensions := map[string]bool{}, map[string]bool{}
	for id := range uint32(len(b.ballots.since(0))) {
		p := b.ballotsOf(id)
		dimensions[p.Dimension] = true
		for _, v := range p.Ballots {
			if v.Straight.Cast() || v.Swapped.Cast() {
				judges[v.Judge] = true
			}
		}
	}
	if b.family != judging || len(dimensions) == 0 {
		return nil
	}
	heard := slices.Sorted(maps.Keys(judges))
	if len(b.options.Panel) == 0 {
		return []string{fmt.Sprintf("no panel decides, so %s and what else needs one are undefined; name its judges here too: --panel %s", slices.Min(slices.Collect(maps.Keys(dimensions))), strings.Join(heard, ","))}
	}
	var notes []string
	for _, judge := range b.options.Panel {
		if judges[judge] {
			continue
		}
		note := "panel: " + judge + " gave no verdict"
		if meant := evalstream.Nearest(judge, heard); meant != "" {
			note += "; did you mean " + meant + "?"
		}
		notes = append(notes, note)
	}
	return notes
}
