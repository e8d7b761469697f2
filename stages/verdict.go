package stages

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/zeebo/xxh3"

	"evalstream"
	"evalstream/stages/metric"
)

// judgingSettings says what a score of verdicts is: the verdicts themselves.
const judgingSettings = "verdicts by judge"

// judged is score's state of verdicts. A unit is a (span, mode, triple, dimension,
// prompt version): answers to different questions never meet in one panel. A verdict
// without prompt version, as people give it, is an answer to every version of its
// unit, unless the same judge has one of that version; where no verdict names a
// version, there is one unit without. A slot is a (judge, prompt version, swap).
//
// It costs about 150 bytes and its ids a unit, 8 bytes a verdict, and 24 more if verdicts have
// times, revisions or slice fields.
type judged struct {
	panel    metric.Panel
	conflict Conflict
	settings *evalstream.Settings
	judgedState
	names   names
	sayings sayings
	prompts map[uint32][]evalstream.Slice // by prompt version: the field of its name
	tally   evalstream.Tally              // of what was replaced, and of what has ended
	reasons map[string]int64              // why verdicts were missing that have ended

	last   uint32 // unit + 1 of the last verdict: those of one unit often come together
	prompt uint32 // version of the last verdict

	scores    lent[evalstream.Score]
	reviews   lent[evalstream.Review]
	standings standings
	picks     []uint32    // sayings of the votes that gather picked
	pickedAt  []uint32    // and these votes
	hashes    [][2]uint64 // of the units of the verdicts in hand
	touched   uint64      // keeps fetching from being optimized away
	key       []byte
	kept      *judgedKept // nil without a store
}

// begin ends the life of what the last call emitted, and brings near what will be
// looked at for these records: side by side, not one after the other.
func (j *judged) begin(in []evalstream.Record) {
	j.scores.reset()
	j.reviews.reset()
	j.hashes = j.hashes[:0]
	for i := range in {
		var hash [2]uint64
		if b, ok := in[i].Body.(*evalstream.Verdict); ok {
			hash = j.hash(b)
		}
		j.hashes = append(j.hashes, hash)
	}
	if len(j.index) == 0 {
		return
	}
	mask := uint32(len(j.index) - 1)
	for i := range j.hashes {
		j.touched += j.index[uint32(j.hashes[i][0])&mask]
	}
}

func (j *judged) hash(b *evalstream.Verdict) [2]uint64 {
	// The lengths say where each id ends.
	j.key = append(append(append(append(j.key[:0], b.SpanID...), b.Mode...), b.TripleID...), b.Dimension...)
	j.key = binary.LittleEndian.AppendUint64(j.key, uint64(len(b.SpanID))<<32|uint64(len(b.Mode)))
	j.key = binary.LittleEndian.AppendUint64(j.key, uint64(len(b.TripleID)))
	h := xxh3.Hash128(j.key)
	return [2]uint64{h.Lo, h.Hi}
}

// verdict puts a verdict into its slot and says what became of its unit, which is found
// by hash. What is older than limit has ended.
func (j *judged) verdict(rec *evalstream.Record, b *evalstream.Verdict, hash [2]uint64, limit evalstream.Time, out *evalstream.Out) *evalstream.Fault {
	value, ok := metric.ParseVote(b.Value)
	if !ok {
		return &evalstream.Fault{Class: evalstream.ClassSchema, Path: "/verdict", Reason: "want 0, 1, good, partial, poor or null, got " + b.Value}
	}
	u := j.unit(b, hash)
	if u.due < limit {
		j.age(u, limit, out)
	}
	said := saying{judge: j.names.id(b.Judge), version: j.versionOf(b.PromptVersion), vote: value, swap: b.Swap}
	if value == metric.MissingVote {
		said.reason = j.names.id(b.Reason)
	}
	n, a := vote{said: j.sayings.id(said)}, aside{revision: b.Revision, time: rec.Time}
	var retold bool
	link := j.find(u, &said)
	if at := *link; at != 0 && j.compare(j.sayings.of(j.votes.at(at-1).said), &said) == 0 {
		old, before := j.votes.at(at-1), j.asideOf(at-1)
		same := old.said == n.said && before.time == a.time && slices.Equal(j.slicesOf(before), b.Slices)
		if j.conflict == Refuse && !same {
			return conflict(b)
		}
		j.tally.Replaced++
		if a.revision < before.revision {
			return nil
		}
		a.slices = before.slices
		if !same {
			j.setSlices(&a, b.Slices)
		}
		old.said = n.said
		j.setAside(at-1, a)
		retold = j.remark(u, b)
		if same {
			if retold {
				j.reviewAgain(rec, u, out)
			}
			return nil
		}
	} else {
		retold = j.remark(u, b)
		n.next = at
		j.setSlices(&a, b.Slices)
		*link = j.addVote(n, a)
	}
	u.due = earlier(u.due, rec.Time)
	j.sayVersions(rec, u, said.version, out)
	if retold {
		j.reviewAgain(rec, u, out)
	}
	return nil
}

// unit is the state of a verdict's unit, made empty if it is new. It is about to change.
func (j *judged) unit(b *evalstream.Verdict, hash [2]uint64) *judgedUnit {
	n := j.units.len()
	u := j.make(b, hash)
	if j.kept != nil {
		if j.units.len() > n {
			j.fetch(u)
		}
		j.kept.touch(j.last - 1)
	}
	return u
}

// make finds the unit of a verdict by its hash, or makes it.
func (j *judged) make(b *evalstream.Verdict, hash [2]uint64) *judgedUnit {
	if j.last != 0 {
		if u := j.units.at(j.last - 1); u.hash == hash {
			return u
		}
	}
	if 4*(j.units.len()+1) > 3*len(j.index) {
		j.grow()
	}
	mask := uint32(len(j.index) - 1)
	tag := hash[0] << 32
	i := uint32(hash[0]) & mask
	for ; j.index[i] != 0; i = (i + 1) & mask {
		if at := uint32(j.index[i]); tag == j.index[i]&^(1<<32-1) && j.units.at(at-1).hash == hash {
			j.last = at
			return j.units.at(at - 1)
		}
	}
	var before judgedUnit // the one that came before has the same span, mostly
	if n := j.units.len(); n > 0 {
		before = *j.units.at(uint32(n - 1))
	}
	j.units.push(judgedUnit{
		hash: hash, span: j.arena.again(before.span, b.SpanID), triple: j.arena.again(before.triple, b.TripleID),
		mode: j.names.id(b.Mode), dimension: j.names.id(b.Dimension), due: evalstream.EndOfTime,
	})
	if j.kept != nil {
		j.kept.added()
	}
	j.last = uint32(j.units.len())
	j.index[i] = tag | uint64(j.last)
	return j.units.at(j.last - 1)
}

func (j *judged) versionOf(prompt string) uint32 {
	if j.names.of(j.prompt) != prompt {
		j.prompt = j.names.id(prompt)
	}
	return j.prompt
}

// find is the link to the slot of what was said, or to where it belongs.
func (j *judged) find(u *judgedUnit, said *saying) *uint32 {
	link := &u.votes
	for *link != 0 {
		v := j.votes.at(*link - 1)
		if j.compare(j.sayings.of(v.said), said) >= 0 {
			break
		}
		link = &v.next
	}
	return link
}

// compare compares slots: by judge, swap and version.
func (j *judged) compare(a, b *saying) int {
	if a.judge != b.judge {
		return cmp.Compare(j.names.of(a.judge), j.names.of(b.judge))
	}
	if a.swap != b.swap {
		if b.swap {
			return -1
		}
		return 1
	}
	if a.version == b.version {
		return 0
	}
	return cmp.Compare(j.names.of(a.version), j.names.of(b.version))
}

// sayVersions says what the unit is now in each prompt version that a vote of this one
// is an answer to.
func (j *judged) sayVersions(rec *evalstream.Record, u *judgedUnit, version uint32, out *evalstream.Out) {
	if first := u.versions; first != 0 && version != anyVersion {
		if v := j.versions.at(first - 1); v.name == anyVersion {
			j.retract(rec, u, v, out)
			u.versions = 0
		}
	}
	link := &u.versions
	for ; *link != 0; link = &j.versions.at(*link - 1).next {
		v := j.versions.at(*link - 1)
		if version == anyVersion {
			j.say(rec, u, v, out)
		} else if v.name == version {
			j.say(rec, u, v, out)
			return
		}
	}
	if version == anyVersion && u.versions != 0 {
		return
	}
	j.versions.push(j.version(u, version))
	*link = uint32(j.versions.len())
	j.say(rec, u, j.versions.at(*link-1), out)
}

func (j *judged) version(u *judgedUnit, name uint32) judgedVersion {
	b := evalstream.Verdict{
		SpanID: j.arena.string(u.span), Mode: j.names.of(u.mode), TripleID: j.arena.string(u.triple), Dimension: j.names.of(u.dimension), PromptVersion: j.names.of(name),
	}
	j.key = b.AppendUnit(j.key[:0])
	if name != anyVersion && j.prompts[name] == nil {
		if j.prompts == nil {
			j.prompts = make(map[uint32][]evalstream.Slice)
		}
		j.prompts[name] = []evalstream.Slice{{Name: "prompt_version", Value: string(evalstream.AppendString(nil, b.PromptVersion))}}
	}
	return judgedVersion{name: name, unit: j.arena.keep(asString(j.key))}
}

// retract takes back the unit without prompt version: its verdicts now count in the
// versions that others name.
func (j *judged) retract(rec *evalstream.Record, u *judgedUnit, v *judgedVersion, out *evalstream.Out) {
	s := j.scores.one()
	s.Unit, s.Run, s.Dimension, s.Settings = j.arena.string(v.unit), j.names.of(u.mode), j.names.of(u.dimension), j.settings
	s.Status = evalstream.Retracted
	out.Emit(evalstream.Record{Body: s, Time: evalstream.NoTime, Pos: rec.Pos, Seq: rec.Seq})
	if v.reviewed != 0 {
		out.Emit(evalstream.Record{Body: &evalstream.Review{
			Unit: j.arena.string(v.unit), Dimension: s.Dimension, SpanID: j.arena.string(u.span), TripleID: j.arena.string(u.triple), Mode: s.Run, Withdrawn: true,
		}, Time: evalstream.NoTime, Pos: rec.Pos, Seq: rec.Seq})
	}
}

// say emits the score of one version, and its review if it has one or had one.
func (j *judged) say(rec *evalstream.Record, u *judgedUnit, v *judgedVersion, out *evalstream.Out) {
	at, sliced := j.gather(u, v)
	st := j.standing(u, v)
	s := j.scores.copy(&st.score)
	s.Unit, s.Like = j.arena.string(v.unit), &st.score
	if sliced {
		s.Like = nil
		j.slice(s)
	}
	out.Emit(evalstream.Record{Body: s, Time: at, Pos: rec.Pos, Seq: rec.Seq})
	j.review(rec, u, v, st, false, out)
}

// gather picks the votes that are answers to one version. It returns their least time,
// and whether any has slice fields.
func (j *judged) gather(u *judgedUnit, v *judgedVersion) (at evalstream.Time, sliced bool) {
	at = evalstream.NoTime
	j.picks, j.pickedAt = j.picks[:0], j.pickedAt[:0]
	for i := u.votes; i != 0; {
		first := j.sayings.of(j.votes.at(i - 1).said)
		pick := uint32(0) // of the votes of one judge and order, the one of the version, + 1
		for i != 0 {
			n := j.votes.at(i - 1)
			said := j.sayings.of(n.said)
			if said.judge != first.judge || said.swap != first.swap {
				break
			}
			if said.version == v.name || said.version == anyVersion && pick == 0 {
				pick = i
			}
			i = n.next
		}
		if pick == 0 {
			continue
		}
		j.picks, j.pickedAt = append(j.picks, j.votes.at(pick-1).said), append(j.pickedAt, pick-1)
		a := j.asideOf(pick - 1)
		if at == evalstream.NoTime || a.time != evalstream.NoTime && a.time < at {
			at = a.time
		}
		sliced = sliced || a.slices != 0
	}
	return at, sliced
}

// slice sets the fields of the picked votes: each comes from the first verdict, by judge
// and swap, that has it.
func (j *judged) slice(s *evalstream.Score) {
	for _, pick := range j.pickedAt {
		for _, sl := range j.slicesOf(j.asideOf(pick)) {
			if !slices.ContainsFunc(s.Slices, func(have evalstream.Slice) bool { return have.Name == sl.Name }) {
				s.Slices = append(slices.Clip(s.Slices), sl)
			}
		}
	}
}

// review says whether a person should see the unit. Until the end, a judge who was not
// heard may still come, and does not ask for one.
func (j *judged) review(rec *evalstream.Record, u *judgedUnit, v *judgedVersion, st *standing, end bool, out *evalstream.Out) {
	asks := st.asks
	if end {
		asks = st.asksAtEnd
	}
	v.settled = asks == st.asksAtEnd
	about := j.remarkOf(u)
	asks.hash = about.mixed(asks.hash)
	if asks.hash == v.reviewed {
		return
	}
	v.reviewed = asks.hash
	r := j.reviews.one()
	*r = evalstream.Review{
		Unit: j.arena.string(v.unit), Dimension: st.ballots.Dimension, SpanID: j.arena.string(u.span), TripleID: j.arena.string(u.triple), Mode: j.names.of(u.mode), PromptVersion: j.names.of(v.name),
		Why: asks.why, Decision: st.decided.Literal(), Withdrawn: asks.why == evalstream.Settled,
		Text: about.text, Triple: about.triple, Verdicts: st.verdicts, Reasons: st.reasons,
	}
	out.Emit(evalstream.Record{Body: r, Time: evalstream.NoTime, Pos: rec.Pos, Seq: rec.Seq})
}
