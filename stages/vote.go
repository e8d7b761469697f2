package stages

import (
	"evalstream"
	"evalstream/stages/metric"
)

// vote is one slot.
type vote struct {
	said uint32 // number of its saying
	next uint32 // vote + 1
}

// aside is what a vote has besides. Streams have it of every vote or of none, mostly.
type aside struct {
	revision int64
	time     evalstream.Time
	slices   uint32 // place + 1
}

// noAside is that of a vote without revision, time and slice fields.
func noAside() aside { return aside{time: evalstream.NoTime} }

// saying is what a judge said, in answer to which prompt version and of which order. A
// stream has few of them, so that votes name theirs by number.
type saying struct {
	judge, version, reason uint32
	vote                   metric.Vote
	swap                   bool
}

// sayings numbers what was said, from 0 on.
type sayings struct {
	ids    map[saying]uint32
	list   []saying
	recent [1 << recentBits]uint32 // numbers + 1 by place: most sayings are one of a few
}

func (s *sayings) id(said saying) uint32 {
	const odd = 0x9e3779b97f4a7c15
	h := (uint64(said.judge)<<40 ^ uint64(said.version)<<20 ^ uint64(said.reason)<<4 ^ uint64(said.vote)) * odd
	if said.swap {
		h = ^h
	}
	recent := &s.recent[h>>(64-recentBits)]
	if id := *recent; id != 0 && s.list[id-1] == said {
		return id - 1
	}
	id, ok := s.ids[said]
	if !ok {
		if s.ids == nil {
			s.ids = make(map[saying]uint32)
		}
		id = uint32(len(s.list))
		s.list = append(s.list, said)
		s.ids[said] = id
	}
	*recent = id + 1
	return id
}

func (s *sayings) of(id uint32) *saying { return &s.list[id] }

// addVote keeps a vote; its number + 1 links it.
func (j *judgedState) addVote(n vote, a aside) uint32 {
	j.votes.push(n)
	at := uint32(j.votes.len())
	j.setAside(at-1, a)
	return at
}

// asideOf is what vote at has besides.
func (j *judgedState) asideOf(at uint32) aside {
	if j.asides.len() == 0 {
		return noAside()
	}
	return *j.asides.at(at)
}

func (j *judgedState) setAside(at uint32, a aside) {
	if j.asides.len() == 0 && a == noAside() {
		return
	}
	for j.asides.len() < j.votes.len() {
		j.asides.push(noAside())
	}
	*j.asides.at(at) = a
}

func (j *judgedState) slicesOf(a aside) []evalstream.Slice {
	if a.slices == 0 {
		return nil
	}
	return j.slices[a.slices-1]
}

// setSlices keeps fields, in the place that the vote has if it has one.
func (j *judgedState) setSlices(a *aside, fields []evalstream.Slice) {
	switch {
	case a.slices != 0:
		j.slices[a.slices-1] = cloneSlices(fields)
	case len(fields) > 0:
		j.slices = append(j.slices, cloneSlices(fields))
		a.slices = uint32(len(j.slices))
	}
}
