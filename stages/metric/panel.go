package metric

import (
	"cmp"
	"slices"
)

// BallotCount is ballots and the number of units that have them.
type BallotCount struct {
	*Ballots
	Units int64
}

// PanelCounts is what the decisions of a panel add up to: integers, so that they do
// not depend on the order of the units.
type PanelCounts struct {
	Units     int64 // in which any judge was heard
	Decided   int64
	Unanimous int64
	Missing   int64 // units in which one of the panel is missing
	OffPanel  int64 // verdicts, in either order, of judges outside the panel; missing ones count
	// Halves is twice the sum over all units, undecided ones counting as their lowest
	// vote; DecidedHalves that over the decided ones.
	Halves, DecidedHalves int64
	// Votes is how many units were decided as each vote.
	Votes  [VoteGood + 1]int64
	Graded bool // some verdict is of the scale of three
}

// Count adds up the decisions on hist, which is of one dimension. With an empty panel
// there are none: Units, Missing (units with a verdict that is missing) and Graded are set.
func (p Panel) Count(hist []BallotCount) PanelCounts {
	var c PanelCounts
	for _, h := range hist {
		c.Units += h.Units
		d := p.Decide(h.Ballots)
		if d.Missing > 0 {
			c.Missing += h.Units
		}
		for i := range h.Ballots.Ballots {
			b := &h.Ballots.Ballots[i]
			c.Graded = c.Graded || b.Straight.Graded() || b.Swapped.Graded()
			if len(p) > 0 && !slices.Contains(p, b.Judge) {
				c.OffPanel += h.Units * b.heard()
			}
		}
		if len(p) == 0 {
			continue
		}
		c.Halves += h.Units * d.Halves
		if d.Unanimous {
			c.Unanimous += h.Units
		}
		if d.Vote != NoVote {
			c.Decided += h.Units
			c.DecidedHalves += h.Units * d.Halves
			c.Votes[d.Vote] += h.Units
		}
	}
	return c
}

// heard is how many verdicts the ballot has, missing ones included.
func (b *Ballot) heard() int64 {
	var n int64
	for _, v := range [2]Vote{b.Straight, b.Swapped} {
		if v != NoVote {
			n++
		}
	}
	return n
}

// JudgeCounts is what one judge's verdicts add up to.
type JudgeCounts struct {
	Judge   string
	Votes   int64 // units with a straight verdict
	Halves  int64 // twice their sum
	Missing int64 // units in which the judge gave no verdict, in the straight order

	// Against the panel, over units that the panel decided and the judge has a verdict
	// of: their number, those with the panel's verdict, and twice the sum of the judge's
	// numbers less the panel's.
	Common, Same int64
	Lenient      int64

	// Of units heard in both orders: those with both verdicts, those among them whose
	// verdicts are equal, and those with one missing.
	Both, Consistent, BothMissing int64
	// Answers is the verdicts, in either order, of units heard in reverse order as well;
	// First is how many of them chose what was shown first: a 1 straight, a 0 swapped.
	Answers, First int64
}

// Judges adds up each judge's verdicts, by judge ascending.
func (p Panel) Judges(hist []BallotCount) []JudgeCounts {
	at := map[string]*JudgeCounts{}
	for _, h := range hist {
		d := p.Decide(h.Ballots)
		for i := range h.Ballots.Ballots {
			b := &h.Ballots.Ballots[i]
			j := at[b.Judge]
			if j == nil {
				j = &JudgeCounts{Judge: b.Judge}
				at[b.Judge] = j
			}
			j.add(b, d, h.Units)
		}
	}
	js := make([]JudgeCounts, 0, len(at))
	for _, j := range at {
		js = append(js, *j)
	}
	slices.SortFunc(js, func(a, b JudgeCounts) int { return cmp.Compare(a.Judge, b.Judge) })
	return js
}

func (j *JudgeCounts) add(b *Ballot, d Decision, units int64) {
	if b.Straight == MissingVote {
		j.Missing += units
	}
	if b.Straight.Cast() {
		j.Votes += units
		j.Halves += units * b.Straight.Halves()
		if d.Vote != NoVote {
			j.Common += units
			j.Lenient += units * (b.Straight.Halves() - d.Halves)
			if b.Straight == d.Vote {
				j.Same += units
			}
		}
	}
	if b.Straight == NoVote || b.Swapped == NoVote {
		return
	}
	if b.Straight == VoteOne {
		j.First += units
	}
	if b.Swapped == VoteZero {
		j.First += units
	}
	switch {
	case b.Straight.Cast() && b.Swapped.Cast():
		j.Both += units
		j.Answers += 2 * units
		if b.Straight == b.Swapped {
			j.Consistent += units
		}
	default:
		j.BothMissing += units
		if b.Straight.Cast() || b.Swapped.Cast() {
			j.Answers += units
		}
	}
}

// PairCounts is how often two judges agreed.
type PairCounts struct {
	A, B  string // A before B
	Units int64  // in which both gave a straight verdict
	Same  int64
}

// MaxPaired is how many judges are compared pair by pair.
const MaxPaired = 32

// Pairs compares the straight verdicts of each two judges that both have a verdict of
// one unit at least, by their names ascending. With more than [MaxPaired] judges only
// those of the panel are compared.
func (p Panel) Pairs(hist []BallotCount) []PairCounts {
	judges := map[string]bool{}
	for _, h := range hist {
		for i := range h.Ballots.Ballots {
			judges[h.Ballots.Ballots[i].Judge] = true
		}
	}
	all := len(judges) <= MaxPaired
	at := map[[2]string]*PairCounts{}
	for _, h := range hist {
		bs := h.Ballots.Ballots
		for i := range bs {
			if !bs[i].Straight.Cast() || !all && !slices.Contains(p, bs[i].Judge) {
				continue
			}
			for k := range bs[:i] {
				if !bs[k].Straight.Cast() || !all && !slices.Contains(p, bs[k].Judge) {
					continue
				}
				key := [2]string{bs[k].Judge, bs[i].Judge}
				c := at[key]
				if c == nil {
					c = &PairCounts{A: key[0], B: key[1]}
					at[key] = c
				}
				c.Units += h.Units
				if bs[k].Straight == bs[i].Straight {
					c.Same += h.Units
				}
			}
		}
	}
	ps := make([]PairCounts, 0, len(at))
	for _, c := range at {
		ps = append(ps, *c)
	}
	slices.SortFunc(ps, func(a, b PairCounts) int { return cmp.Or(cmp.Compare(a.A, b.A), cmp.Compare(a.B, b.B)) })
	return ps
}

// Ratings is the histogram of ratings that alpha is read from: the straight verdicts
// of the panel, or of all judges if it is empty. Missing ones are not in it.
func (p Panel) Ratings(hist []BallotCount) *Histogram {
	out := new(Histogram)
	var literals []string
	var key []byte
	for _, h := range hist {
		literals = literals[:0]
		for i := range h.Ballots.Ballots {
			b := &h.Ballots.Ballots[i]
			if b.Straight.Cast() && (len(p) == 0 || slices.Contains(p, b.Judge)) {
				literals = append(literals, b.Straight.String())
			}
		}
		if len(literals) > 0 {
			key = AppendPattern(key[:0], literals)
			out.AddPattern(string(key), h.Units)
		}
	}
	return out
}
