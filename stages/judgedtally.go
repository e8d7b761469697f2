package stages

import (
	"cmp"
	"maps"
	"slices"

	"evalstream"
	"evalstream/stages/metric"
)

// maxReasons is how many reasons for a missing verdict are counted apart.
const maxReasons = 32

// otherReasons are those beyond maxReasons.
const otherReasons = "other reasons"

// tallied is the verdicts that were received and where they are.
func (j *judged) tallied() evalstream.Tally {
	t := j.tally
	j.eachHeld(func(said *saying, n int64) { hold(&t, said, n) })
	return t
}

// Counters say why verdicts are missing, most frequent first.
func (o *openScore) Counters() []evalstream.Counter {
	ns := maps.Clone(o.judges.reasons)
	if ns == nil {
		ns = map[string]int64{}
	}
	o.judges.eachHeld(func(said *saying, n int64) {
		if said.vote == metric.MissingVote {
			ns[o.judges.names.of(said.reason)] += n
		}
	})
	names := slices.SortedFunc(maps.Keys(ns), func(a, b string) int { return cmp.Or(cmp.Compare(ns[b], ns[a]), cmp.Compare(a, b)) })
	var cs []evalstream.Counter
	rest := ns[otherReasons]
	for _, name := range names {
		switch {
		case name == otherReasons:
		case len(cs) == maxReasons:
			rest += ns[name]
		default:
			cs = append(cs, evalstream.Counter{Name: "verdicts missing, " + cmp.Or(name, "no reason given"), N: ns[name]})
		}
	}
	if rest > 0 {
		cs = append(cs, evalstream.Counter{Name: "verdicts missing, " + otherReasons, N: rest})
	}
	return cs
}

// eachHeld calls f for each saying that verdicts are held of, and how many.
func (j *judged) eachHeld(f func(said *saying, n int64)) {
	ns := make([]int64, len(j.sayings.list))
	for i := range uint32(j.votes.len()) {
		if said := j.votes.at(i).said; said != droppedVote {
			ns[said]++
		}
	}
	// What the shelf cannot give is missing, which shows: the tally does not add up then.
	_ = j.eachOnShelf(func(u *judgedUnit, _ []byte, _ uint64) {
		for i := u.votes; i != 0; i = j.votes.at(i - 1).next {
			said := j.votes.at(i - 1).said
			ns = append(ns, make([]int64, max(0, len(j.sayings.list)-len(ns)))...)
			ns[said]++
		}
	})
	for said, n := range ns {
		if n > 0 {
			f(j.sayings.of(uint32(said)), n)
		}
	}
}

// hold adds n verdicts to a tally.
func hold(t *evalstream.Tally, said *saying, n int64) {
	t.Held += n
	if said.vote.Cast() {
		t.Of[evalstream.Scored] += n
	} else {
		t.Of[evalstream.Unjudged] += n
	}
}

// count adds a verdict that has ended.
func (j *judged) count(said *saying) {
	hold(&j.tally, said, 1)
	if said.vote != metric.MissingVote {
		return
	}
	if j.reasons == nil {
		j.reasons = map[string]int64{}
	}
	reason := j.names.of(said.reason)
	if _, known := j.reasons[reason]; !known && len(j.reasons) >= maxReasons {
		reason = otherReasons
	}
	j.reasons[reason]++
}
