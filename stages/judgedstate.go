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
	dropped  int                  // votes that are of no unit any more
	remarks  map[[2]uint64]remark // by hash of the unit, of those that have one
	remarked int64                // bytes of these
}

type judgedUnit struct {
	hash            [2]uint64
	span, triple    text
	mode, dimension uint32
	votes           uint32          // vote + 1, by judge, swap and version
	versions        uint32          // version + 1, in the order in which they came
	due             evalstream.Time // no verdict of the unit is older, the end of time if none has a time
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
			j.endVersion(u, v, out)
		}
		i = v.next
	}
}

// endVersion asks for the review of a version whose votes were gathered.
func (j *judged) endVersion(u *judgedUnit, v *judgedVersion, out *evalstream.Out) {
	if !v.settled {
		j.review(&evalstream.Record{}, u, v, j.standing(u, v), true, out)
	}
}
