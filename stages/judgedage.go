package stages

import (
	"evalstream"
)

// droppedVote is what is said in a vote that is of no unit any more.
const droppedVote = ^uint32(0)

// age ends what is older than limit. A version is a unit of its own and ends by its own
// time, the least of the verdicts that count in it; its verdicts go with it. Those
// without prompt version, which count in others too, go with the last version, or once
// they are old themselves: no version that is left counts them then.
func (j *judged) age(u *judgedUnit, limit evalstream.Time, out *evalstream.Out) {
	link := &u.versions
	for *link != 0 {
		v := j.versions.at(*link - 1)
		at, _ := j.gather(u, v)
		if !ended(at, limit) {
			link = &v.next
			continue
		}
		j.endVersion(u, v, out)
		*link = v.next
		if v.name != anyVersion {
			j.drop(u, func(said *saying, _ evalstream.Time) bool { return said.version == v.name })
		}
	}
	j.drop(u, func(said *saying, at evalstream.Time) bool {
		return u.versions == 0 || said.version == anyVersion && ended(at, limit)
	})
	u.due = j.oldest(u)
	if r, ok := j.remarks[u.hash]; ok && u.votes == 0 {
		delete(j.remarks, u.hash)
		j.remarked -= remarkEntry + int64(len(r.text)+len(r.triple))
	}
}

// drop takes votes out of their unit.
func (j *judged) drop(u *judgedUnit, old func(said *saying, at evalstream.Time) bool) {
	link := &u.votes
	for *link != 0 {
		at := *link - 1
		n := j.votes.at(at)
		if said := j.sayings.of(n.said); old(said, j.asideOf(at).time) {
			j.count(said)
			*link, n.said = n.next, droppedVote
			j.dropped++
		} else {
			link = &n.next
		}
	}
}

// oldest is the least time of a unit's votes, the end of time if none has one.
func (j *judgedState) oldest(u *judgedUnit) evalstream.Time {
	due := evalstream.EndOfTime
	for i := u.votes; i != 0; i = j.votes.at(i - 1).next {
		due = earlier(due, j.asideOf(i-1).time)
	}
	return due
}

// sweep ends what is older than limit in all units, and forgets those of which nothing
// is left.
func (j *judged) sweep(limit evalstream.Time, out *evalstream.Out) {
	k := j.kept
	if k != nil {
		j.settle()
		if k.failed = j.sweepShelf(limit, out); k.failed != nil {
			return
		}
	}
	for n := range uint32(j.units.len()) {
		u := j.units.at(n)
		if u.due >= limit {
			continue
		}
		j.age(u, limit, out)
		switch {
		case k == nil:
		case u.votes == 0:
			k.remove(j.unitKey(u), k.sums[n])
		default:
			k.touch(n)
		}
	}
	if k != nil {
		j.settle()
	}
	if j.dropped > 0 {
		j.compact()
	}
}

// compact gives up the memory of what was dropped.
func (j *judged) compact() {
	old, k := j.judgedState, j.kept
	var sums []uint64
	if k != nil {
		sums, k.sums, k.marked = k.sums, nil, nil
	}
	j.judgedState, j.last = judgedState{}, 0
	for n := range uint32(old.units.len()) {
		u := *old.units.at(n)
		if u.votes == 0 {
			continue
		}
		j.keep(&old, u)
		if k != nil {
			k.added()
			k.sums[len(k.sums)-1] = sums[n]
		}
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
	if r, ok := old.remarks[u.hash]; ok {
		j.setRemark(u.hash, r)
	}
	j.units.push(u)
	if 4*j.units.len() > 3*len(j.index) {
		j.grow()
	}
	j.place(u.hash[0]<<32 | uint64(j.units.len()))
}

// sweepShelf is sweep for the units that are on the shelf alone. Of those that end in
// part, the rest comes into memory.
func (j *judged) sweepShelf(limit evalstream.Time, out *evalstream.Out) error {
	type rest struct {
		key, val []byte
		sum      uint64
	}
	var left []rest
	k := j.kept
	err := j.eachOnShelf(func(u *judgedUnit, key []byte, sum uint64) {
		if u.due >= limit {
			return
		}
		if j.age(u, limit, out); u.votes == 0 {
			k.remove(key, sum)
		} else {
			left = append(left, rest{key, j.encodeUnit(u), sum})
		}
	})
	for _, r := range left {
		if err != nil {
			break
		}
		_, err = j.decode(r.key, r.val)
		k.sums[len(k.sums)-1] = r.sum
		k.touch(uint32(j.units.len() - 1))
	}
	return err
}
