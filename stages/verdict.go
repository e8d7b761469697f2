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
// It costs about 150 bytes and its ids twice a unit, and 40 bytes a verdict.
type judged struct {
	panel    metric.Panel
	conflict Conflict
	settings *evalstream.Settings
	judgedState
	names   names
	prompts map[uint32][]evalstream.Slice // by prompt version: the field of its name
	tally   evalstream.Tally

	last   uint32 // unit + 1 of the last verdict: those of one unit often come together
	prompt uint32 // version of the last verdict

	scores  lent[evalstream.Score]
	reviews lent[evalstream.Review]
	values  lent[evalstream.CoderValue]
	ballots metric.Ballots
	reasons []uint32 // of the ballots' straight votes
	key     []byte
	kept    *judgedKept // nil without a store
}

// begin ends the life of what the last call emitted.
func (j *judged) begin() {
	j.scores.reset()
	j.reviews.reset()
	j.values.reset()
}

// verdict puts a verdict into its slot and says what became of its unit.
func (j *judged) verdict(rec *evalstream.Record, b *evalstream.Verdict, out *evalstream.Out) *evalstream.Fault {
	value, ok := metric.ParseVote(b.Value)
	if !ok {
		return &evalstream.Fault{Class: evalstream.ClassSchema, Path: "/verdict", Reason: "want 0, 1, good, partial, poor or null, got " + b.Value}
	}
	u := j.unit(b)
	n := vote{
		judge: j.names.id(b.Judge), version: j.versionOf(b.PromptVersion), vote: value, swap: b.Swap,
		revision: b.Revision, time: rec.Time,
	}
	if value == metric.MissingVote {
		n.reason = j.names.id(b.Reason)
	}
	link := j.find(u, &n)
	if at := *link; at != 0 && j.compare(j.votes.at(at-1), &n) == 0 {
		old := j.votes.at(at - 1)
		same := old.vote == n.vote && old.reason == n.reason
		if j.conflict == Refuse && !same {
			return conflict(b)
		}
		j.tally.Replaced++
		if b.Revision < old.revision {
			return nil
		}
		old.revision = b.Revision
		if same && old.time == n.time && slices.Equal(j.slicesOf(old), b.Slices) {
			return nil
		}
		n.next, n.slices = old.next, old.slices
		j.setSlices(&n, b.Slices)
		*old = n
	} else {
		n.next = at
		j.setSlices(&n, b.Slices)
		j.votes.push(n)
		*link = uint32(j.votes.len())
	}
	u.seen = max(u.seen, rec.Time)
	j.sayVersions(rec, u, &n, out)
	return nil
}

// unit is the state of a verdict's unit, made empty if it is new. It is about to change.
func (j *judged) unit(b *evalstream.Verdict) *judgedUnit {
	n := j.units.len()
	u := j.make(b)
	if j.kept != nil {
		if j.units.len() > n {
			j.fetch(u)
		}
		j.kept.touch(j.last - 1)
	}
	return u
}

// make finds the unit of a verdict, or makes it.
func (j *judged) make(b *evalstream.Verdict) *judgedUnit {
	if j.last != 0 {
		u := j.units.at(j.last - 1)
		if j.arena.string(u.triple) == b.TripleID && j.arena.string(u.span) == b.SpanID && j.names.of(u.dimension) == b.Dimension && j.names.of(u.mode) == b.Mode {
			return u
		}
	}
	j.key = j.key[:0]
	for _, id := range [...]string{b.SpanID, b.Mode, b.TripleID, b.Dimension} {
		j.key = append(binary.AppendUvarint(j.key, uint64(len(id))), id...)
	}
	h := xxh3.Hash128(j.key)
	hash := [2]uint64{h.Lo, h.Hi}
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
	j.units.push(judgedUnit{
		hash: hash, span: j.arena.keep(b.SpanID), triple: j.arena.keep(b.TripleID),
		mode: j.names.id(b.Mode), dimension: j.names.id(b.Dimension), seen: evalstream.NoTime,
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

// find is the link to n's slot, or to where it belongs.
func (j *judged) find(u *judgedUnit, n *vote) *uint32 {
	link := &u.votes
	for *link != 0 {
		v := j.votes.at(*link - 1)
		if j.compare(v, n) >= 0 {
			break
		}
		link = &v.next
	}
	return link
}

func (j *judged) compare(a, b *vote) int {
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

// sayVersions says what the unit is now in each prompt version that the vote is an
// answer to.
func (j *judged) sayVersions(rec *evalstream.Record, u *judgedUnit, n *vote, out *evalstream.Out) {
	if first := u.versions; first != 0 && n.version != anyVersion {
		if v := j.versions.at(first - 1); v.name == anyVersion {
			j.retract(rec, u, v, out)
			u.versions = 0
		}
	}
	link := &u.versions
	for ; *link != 0; link = &j.versions.at(*link - 1).next {
		v := j.versions.at(*link - 1)
		if n.version == anyVersion {
			j.say(rec, u, v, out)
		} else if v.name == n.version {
			j.say(rec, u, v, out)
			return
		}
	}
	if n.version == anyVersion && u.versions != 0 {
		return
	}
	j.versions.push(j.version(u, n.version))
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

// score is an empty score of a unit.
func (j *judged) score(u *judgedUnit, v *judgedVersion) *evalstream.Score {
	s := j.scores.one()
	s.Unit, s.Run, s.Dimension, s.Settings = j.arena.string(v.unit), j.names.of(u.mode), j.names.of(u.dimension), j.settings
	return s
}

// retract takes back the unit without prompt version: its verdicts now count in the
// versions that others name.
func (j *judged) retract(rec *evalstream.Record, u *judgedUnit, v *judgedVersion, out *evalstream.Out) {
	s := j.score(u, v)
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
	s := j.score(u, v)
	if v.name != anyVersion {
		s.Slices = j.prompts[v.name]
	}
	at := j.gather(u, v, s)
	s.Ratings, s.Swapped = j.lists()
	out.Emit(evalstream.Record{Body: s, Time: at, Pos: rec.Pos, Seq: rec.Seq})
	j.review(rec, u, v, false, out)
}

// gather collects the verdicts that are answers to one version as ballots and, where s
// is not nil, their slice fields: each comes from the first verdict, by judge and swap,
// that has it. It returns the least time.
func (j *judged) gather(u *judgedUnit, v *judgedVersion, s *evalstream.Score) evalstream.Time {
	at := evalstream.NoTime
	j.ballots.Dimension, j.ballots.Ballots, j.reasons = j.names.of(u.dimension), j.ballots.Ballots[:0], j.reasons[:0]
	for i := u.votes; i != 0; {
		first := j.votes.at(i - 1)
		var pick *vote // of the votes of one judge and order, the one of the version
		for i != 0 {
			n := j.votes.at(i - 1)
			if n.judge != first.judge || n.swap != first.swap {
				break
			}
			if n.version == v.name || n.version == anyVersion && pick == nil {
				pick = n
			}
			i = n.next
		}
		if pick == nil {
			continue
		}
		j.add(pick)
		if at == evalstream.NoTime || pick.time != evalstream.NoTime && pick.time < at {
			at = pick.time
		}
		if s == nil {
			continue
		}
		for _, sl := range j.slicesOf(pick) {
			if !slices.ContainsFunc(s.Slices, func(have evalstream.Slice) bool { return have.Name == sl.Name }) {
				s.Slices = append(slices.Clip(s.Slices), sl)
			}
		}
	}
	return at
}

// add puts a vote on its judge's ballot.
func (j *judged) add(n *vote) {
	name := j.names.of(n.judge)
	bs := j.ballots.Ballots
	if len(bs) == 0 || bs[len(bs)-1].Judge != name {
		bs = append(bs, metric.Ballot{Judge: name})
		j.reasons = append(j.reasons, 0)
	}
	if b := &bs[len(bs)-1]; n.swap {
		b.Swapped = n.vote
	} else {
		b.Straight = n.vote
		j.reasons[len(bs)-1] = n.reason
	}
	j.ballots.Ballots = bs
}

// lists is the ballots as a score carries them.
func (j *judged) lists() (straight, swapped []evalstream.CoderValue) {
	n, m := 0, 0
	for i := range j.ballots.Ballots {
		if j.ballots.Ballots[i].Straight != metric.NoVote {
			n++
		}
		if j.ballots.Ballots[i].Swapped != metric.NoVote {
			m++
		}
	}
	if n > 0 {
		straight = j.values.take(n)[:0]
	}
	if m > 0 {
		swapped = j.values.take(m)[:0]
	}
	for i := range j.ballots.Ballots {
		b := &j.ballots.Ballots[i]
		if b.Straight != metric.NoVote {
			straight = append(straight, evalstream.CoderValue{Coder: b.Judge, Value: b.Straight.Literal()})
		}
		if b.Swapped != metric.NoVote {
			swapped = append(swapped, evalstream.CoderValue{Coder: b.Judge, Value: b.Swapped.Literal()})
		}
	}
	return straight, swapped
}

// review says whether a person should see the unit whose ballots were gathered last.
// Until the end, a judge who was not heard may still come, and does not ask for one.
func (j *judged) review(rec *evalstream.Record, u *judgedUnit, v *judgedVersion, end bool, out *evalstream.Out) {
	d := j.panel.Decide(&j.ballots)
	why := evalstream.Settled
	switch {
	case d.Differ:
		why = evalstream.Split
	case d.Missing > 0 && (end || j.silent()):
		why = evalstream.Missing
	}
	said := j.hash(why)
	if said == v.reviewed {
		return
	}
	v.reviewed = said
	r := j.reviews.one()
	*r = evalstream.Review{
		Unit: j.arena.string(v.unit), Dimension: j.ballots.Dimension, SpanID: j.arena.string(u.span), TripleID: j.arena.string(u.triple), Mode: j.names.of(u.mode), PromptVersion: j.names.of(v.name),
		Why: why, Decision: d.Vote.Literal(), Withdrawn: why == evalstream.Settled,
		Verdicts: j.values.take(len(j.ballots.Ballots) + len(j.panel))[:0],
	}
	for i := range j.ballots.Ballots {
		b := &j.ballots.Ballots[i]
		if b.Straight == metric.NoVote {
			continue
		}
		r.Verdicts = append(r.Verdicts, evalstream.CoderValue{Coder: b.Judge, Value: b.Straight.Literal()})
		if reason := j.names.of(j.reasons[i]); reason != "" && b.Straight == metric.MissingVote {
			r.Reasons = append(r.Reasons, evalstream.CoderValue{Coder: b.Judge, Value: string(evalstream.AppendString(nil, reason))})
		}
	}
	for _, judge := range j.panel {
		byJudge := func(c evalstream.CoderValue, name string) int { return cmp.Compare(c.Coder, name) }
		if i, ok := slices.BinarySearchFunc(r.Verdicts, judge, byJudge); !ok {
			r.Verdicts = slices.Insert(r.Verdicts, i, evalstream.CoderValue{Coder: judge})
		}
	}
	out.Emit(evalstream.Record{Body: r, Time: evalstream.NoTime, Pos: rec.Pos, Seq: rec.Seq})
}

// hash is a number for what a review says, 0 if it is settled.
func (j *judged) hash(why evalstream.Why) uint64 {
	if why == evalstream.Settled {
		return 0
	}
	j.key = append(j.key[:0], byte(why))
	for i := range j.ballots.Ballots {
		if b := &j.ballots.Ballots[i]; b.Straight != metric.NoVote {
			j.key = append(append(j.key, b.Judge...), 0, byte(b.Straight))
			j.key = append(append(j.key, j.names.of(j.reasons[i])...), 0)
		}
	}
	return xxh3.Hash(j.key) | 1
}

// silent says that one of the panel, or any judge if there is none, was heard and gave
// no verdict.
func (j *judged) silent() bool {
	return slices.ContainsFunc(j.ballots.Ballots, func(b metric.Ballot) bool {
		return b.Straight == metric.MissingVote && (len(j.panel) == 0 || slices.Contains(j.panel, b.Judge))
	})
}
