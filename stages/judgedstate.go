package stages

import (
	"evalstream"
)

// judgedState is what grows with the units.
type judgedState struct {
	index    []uint64 // hash, and unit + 1, by hash; 0 is free
	units    column[judgedUnit]
	versions column[judgedVersion]
	votes    column[vote]
	asides   column[aside]        // by vote; empty until one has anything
	slices   [][]evalstream.Slice // of votes; the first is none
	arena    arena
}

type judgedUnit struct {
	hash            [2]uint64
	span, triple    text
	mode, dimension uint32
	votes           uint32 // vote + 1, by judge, swap and version
	versions        uint32 // version + 1, in the order in which they came
	seen            evalstream.Time
}

// judgedVersion is a unit as it is known outside.
type judgedVersion struct {
	unit     text
	reviewed uint64 // hash of the review that stands, 0 if none does
	name     uint32
	next     uint32 // version + 1
	settled  bool   // the end of the input will not ask for another review
}

// grow makes room for one unit more. The hashes stand in the index, so no unit is read.
func (j *judgedState) grow() {
	old := j.index
	j.index = make([]uint64, max(64, 2*len(old)))
	for _, slot := range old {
		if slot != 0 {
			j.place(slot)
		}
	}
}

func (j *judgedState) place(slot uint64) {
	mask := uint32(len(j.index) - 1)
	i := uint32(slot>>32) & mask
	for j.index[i] != 0 {
		i = (i + 1) & mask
	}
	j.index[i] = slot
}

// sweep forgets units that were last seen before limit: nobody can come any more.
func (j *judged) sweep(limit evalstream.Time, out *evalstream.Out) {
	if j.kept != nil {
		j.sweepKept(limit, out)
		return
	}
	old := j.judgedState
	j.judgedState, j.last = judgedState{}, 0
	for n := range uint32(old.units.len()) {
		u := *old.units.at(n)
		if u.seen == evalstream.NoTime || u.seen >= limit {
			j.keep(&old, u)
			continue
		}
		kept := j.judgedState
		j.judgedState = old
		j.end(&u, out)
		j.holdUnit(&j.tally, &u)
		j.judgedState = kept
	}
}

// keep copies a unit from a state that is given up.
func (j *judgedState) keep(old *judgedState, u judgedUnit) {
	u.span, u.triple = j.arena.keep(old.arena.string(u.span)), j.arena.keep(old.arena.string(u.triple))
	votes, versions := u.votes, u.versions
	u.votes, u.versions = 0, 0
	for link := &u.votes; votes != 0; link = &j.votes.at(*link - 1).next {
		v, a := *old.votes.at(votes - 1), old.asideOf(votes-1)
		votes, v.next = v.next, 0
		if a.slices != 0 {
			j.slices = append(j.slices, old.slicesOf(a))
			a.slices = uint32(len(j.slices))
		}
		*link = j.addVote(v, a)
	}
	for link := &u.versions; versions != 0; link = &j.versions.at(*link - 1).next {
		v := *old.versions.at(versions - 1)
		versions, v.next = v.next, 0
		v.unit = j.arena.keep(old.arena.string(v.unit))
		j.versions.push(v)
		*link = uint32(j.versions.len())
	}
	j.units.push(u)
	if 4*j.units.len() > 3*len(j.index) {
		j.grow()
	}
	j.place(u.hash[0]<<32 | uint64(j.units.len()))
}

// finish asks for reviews of the units in which a judge was never heard, by unit.
func (j *judged) finish(out *evalstream.Out) error {
	from := len(out.Records)
	for n := range uint32(j.units.len()) {
		j.end(j.units.at(n), out)
	}
	err := j.eachOnShelf(func(u *judgedUnit, _ []byte, _ uint64) { j.end(u, out) })
	sortByKey(out.Records[from:])
	return err
}

func (j *judged) end(u *judgedUnit, out *evalstream.Out) {
	for i := u.versions; i != 0; {
		v := j.versions.at(i - 1)
		if !v.settled {
			j.gather(u, v)
			j.review(&evalstream.Record{}, u, v, j.standing(u, v), true, out)
		}
		i = v.next
	}
}

// tallied is the verdicts that were received and where they are.
func (j *judged) tallied() evalstream.Tally {
	t := j.tally
	for i := range uint32(j.votes.len()) {
		j.hold(&t, j.votes.at(i))
	}
	// What the shelf cannot give is missing, which shows: the tally does not add up then.
	_ = j.eachOnShelf(func(u *judgedUnit, _ []byte, _ uint64) { j.holdUnit(&t, u) })
	return t
}

// holdUnit adds the votes of a unit to a tally.
func (j *judged) holdUnit(t *evalstream.Tally, u *judgedUnit) {
	for i := u.votes; i != 0; i = j.votes.at(i - 1).next {
		j.hold(t, j.votes.at(i-1))
	}
}

func (j *judged) hold(t *evalstream.Tally, n *vote) {
	t.Held++
	if j.sayings.of(n.said).vote.Cast() {
		t.Of[evalstream.Scored]++
	} else {
		t.Of[evalstream.Unjudged]++
	}
}
