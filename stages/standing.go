package stages

import (
	"cmp"
	"slices"

	"github.com/zeebo/xxh3"

	"evalstream"
	"evalstream/stages/metric"
)

// standing is what the verdicts of one unit come to. Units of one mode, dimension and
// prompt version whose judges said the same share one: it is not changed once it is made.
type standing struct {
	key               standingKey
	said              []uint32         // sayings, by judge and swap
	score             evalstream.Score // without unit
	ballots           metric.Ballots
	decided           metric.Vote
	asks, asksAtEnd   asking
	verdicts, reasons []evalstream.CoderValue // as a review carries them
}

type standingKey struct{ mode, dimension, version uint32 }

// asking is why a person should see the unit, and a number for what the review says, 0
// if it is settled.
type asking struct {
	why  evalstream.Why
	hash uint64
}

// standings are those made so far, by the hash of what they are made of. Most units of
// a stream have one of a few, so the last one of each of a few places comes first.
type standings struct {
	recent [1 << recentBits]*standing
	made   map[uint64]*standing
}

// maxStandings bounds their memory where they hardly repeat (many judges, free reasons).
const maxStandings = 1 << 12

// standing is what the picked votes of a unit, by judge and swap, come to.
func (j *judged) standing(u *judgedUnit, v *judgedVersion) *standing {
	const odd = 0x9e3779b97f4a7c15
	key := standingKey{u.mode, u.dimension, v.name}
	h := (uint64(key.mode)<<40 ^ uint64(key.dimension)<<20 ^ uint64(key.version)) * odd
	for _, said := range j.picks {
		h = (h ^ h>>32 ^ uint64(said)) * odd
	}
	recent := &j.standings.recent[h>>(64-recentBits)]
	if (*recent).is(key, j.picks) {
		return *recent
	}
	st := j.standings.made[h]
	if !st.is(key, j.picks) {
		if j.standings.made == nil || len(j.standings.made) >= maxStandings {
			j.standings.made = make(map[uint64]*standing)
		}
		st = j.newStanding(key)
		j.standings.made[h] = st
	}
	*recent = st
	return st
}

// is says whether the standing, nil if there is none, is made of what was said.
func (st *standing) is(key standingKey, said []uint32) bool {
	return st != nil && st.key == key && slices.Equal(st.said, said)
}

func (j *judged) newStanding(key standingKey) *standing {
	st := &standing{key: key, said: slices.Clone(j.picks), ballots: metric.Ballots{Dimension: j.names.of(key.dimension)}}
	st.score = evalstream.Score{Run: j.names.of(key.mode), Dimension: st.ballots.Dimension, Settings: j.settings}
	if key.version != anyVersion {
		st.score.Slices = j.prompts[key.version]
	}
	var reasons []string // of the ballots' straight votes
	for _, said := range j.picks {
		n := j.sayings.of(said)
		name, bs := j.names.of(n.judge), st.ballots.Ballots
		value := evalstream.CoderValue{Coder: name, Value: n.vote.Literal()}
		if len(bs) == 0 || bs[len(bs)-1].Judge != name {
			bs = append(bs, metric.Ballot{Judge: name})
			reasons = append(reasons, "")
		}
		if b := &bs[len(bs)-1]; n.swap {
			b.Swapped = n.vote
			st.score.Swapped = append(st.score.Swapped, value)
		} else {
			b.Straight = n.vote
			st.score.Ratings = append(st.score.Ratings, value)
			reasons[len(bs)-1] = j.names.of(n.reason)
			if reason := j.names.of(n.reason); reason != "" && n.vote == metric.MissingVote {
				st.reasons = append(st.reasons, evalstream.CoderValue{Coder: name, Value: string(evalstream.AppendString(nil, reason))})
			}
		}
		st.ballots.Ballots = bs
	}
	st.verdicts = slices.Clone(st.score.Ratings)
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

func reviewHash(why evalstream.Why, ballots []metric.Ballot, reasons []string) uint64 {
	key := []byte{byte(why)}
	for i := range ballots {
		if b := &ballots[i]; b.Straight != metric.NoVote {
			key = append(append(key, b.Judge...), 0, byte(b.Straight))
			key = append(append(key, reasons[i]...), 0)
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
