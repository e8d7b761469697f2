package stages

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/zeebo/xxh3"

	"evalstream"
	"evalstream/stages/metric"
)

// standing is what the verdicts of one unit come to. Units whose judges said the same
// share one: it is not changed once it is made.
type standing struct {
	key               string
	ballots           metric.Ballots
	straight, swapped []evalstream.CoderValue // the ballots as a score carries them
	decided           metric.Vote
	asks, asksAtEnd   asking
	verdicts, reasons []evalstream.CoderValue // as a review carries them
}

// asking is why a person should see the unit, and a number for what the review says, 0
// if it is settled.
type asking struct {
	why  evalstream.Why
	hash uint64
}

// standings are those made so far: most units of a stream have one of a few.
type standings struct {
	recent [1 << recentBits]*standing
	made   map[string]*standing
}

// maxStandings bounds their memory where they hardly repeat (many judges, free reasons).
const maxStandings = 1 << 12

// standing is what the picked votes, by judge and swap, come to in a dimension.
func (j *judged) standing(dimension uint32) *standing {
	j.key = binary.AppendUvarint(j.key[:0], uint64(dimension))
	for _, n := range j.picks {
		code := byte(n.vote) << 1
		if n.swap {
			code |= 1
		}
		j.key = append(binary.AppendUvarint(j.key, uint64(n.judge)), code)
		j.key = binary.AppendUvarint(j.key, uint64(n.reason))
	}
	recent := &j.standings.recent[place(j.key)]
	if st := *recent; st != nil && st.key == string(j.key) {
		return st
	}
	st := j.standings.made[string(j.key)]
	if st == nil {
		if j.standings.made == nil || len(j.standings.made) >= maxStandings {
			j.standings.made = make(map[string]*standing)
		}
		st = j.newStanding(dimension)
		j.standings.made[st.key] = st
	}
	*recent = st
	return st
}

func (j *judged) newStanding(dimension uint32) *standing {
	st := &standing{key: string(j.key), ballots: metric.Ballots{Dimension: j.names.of(dimension)}}
	var reasons []uint32 // of the ballots' straight votes
	for _, n := range j.picks {
		name, bs := j.names.of(n.judge), st.ballots.Ballots
		value := evalstream.CoderValue{Coder: name, Value: n.vote.Literal()}
		if len(bs) == 0 || bs[len(bs)-1].Judge != name {
			bs = append(bs, metric.Ballot{Judge: name})
			reasons = append(reasons, 0)
		}
		if b := &bs[len(bs)-1]; n.swap {
			b.Swapped = n.vote
			st.swapped = append(st.swapped, value)
		} else {
			b.Straight = n.vote
			st.straight = append(st.straight, value)
			reasons[len(bs)-1] = n.reason
			if reason := j.names.of(n.reason); reason != "" && n.vote == metric.MissingVote {
				st.reasons = append(st.reasons, evalstream.CoderValue{Coder: name, Value: string(evalstream.AppendString(nil, reason))})
			}
		}
		st.ballots.Ballots = bs
	}
	st.verdicts = slices.Clone(st.straight)
	for _, judge := range j.panel {
		byJudge := func(c evalstream.CoderValue, name string) int { return cmp.Compare(c.Coder, name) }
		if i, ok := slices.BinarySearchFunc(st.verdicts, judge, byJudge); !ok {
			st.verdicts = slices.Insert(st.verdicts, i, evalstream.CoderValue{Coder: judge})
		}
	}
	d := j.panel.Decide(&st.ballots)
	st.decided = d.Vote
	switch {
	case d.Differ:
		st.asks = asking{evalstream.Split, reviewHash(evalstream.Split, st.ballots.Ballots, reasons)}
		st.asksAtEnd = st.asks
	case d.Missing > 0:
		st.asksAtEnd = asking{evalstream.Missing, reviewHash(evalstream.Missing, st.ballots.Ballots, reasons)}
		if j.silent(st.ballots.Ballots) {
			st.asks = st.asksAtEnd
		}
	}
	return st
}

func reviewHash(why evalstream.Why, ballots []metric.Ballot, reasons []uint32) uint64 {
	key := []byte{byte(why)}
	for i := range ballots {
		if b := &ballots[i]; b.Straight != metric.NoVote {
			key = append(append(key, b.Judge...), 0, byte(b.Straight))
			key = binary.AppendUvarint(key, uint64(reasons[i]))
		}
	}
	return xxh3.Hash(key) | 1
}

// silent says that one of the panel, or any judge if there is none, was heard and gave
// no verdict.
func (j *judged) silent(ballots []metric.Ballot) bool {
	return slices.ContainsFunc(ballots, func(b metric.Ballot) bool {
		return b.Straight == metric.MissingVote && (len(j.panel) == 0 || slices.Contains(j.panel, b.Judge))
	})
}
