package stages

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

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
// It costs about 250 bytes a unit and 56 a verdict.
type judged struct {
	panel    metric.Panel
	conflict Conflict
	settings *evalstream.Settings
	units    map[string]*judgedUnit
	order    []*judgedUnit // in which they came, for a reproducible sweep
	names    names
	tally    evalstream.Tally

	scores  lent[evalstream.Score]
	values  lent[evalstream.CoderValue]
	ballots metric.Ballots
	reasons []uint32 // of the ballots' straight votes
	key     []byte
}

type judgedUnit struct {
	key                           string
	span, mode, triple, dimension string
	votes                         []vote // by judge, swap and version
	versions                      []judgedVersion
	seen                          evalstream.Time
}

// judgedVersion is a unit as it is known outside.
type judgedVersion struct {
	name     uint32
	unit     string
	slices   []evalstream.Slice // the prompt version
	reviewed uint64             // hash of the review that stands, 0 if none does
}

// vote is one slot.
type vote struct {
	judge, version, reason uint32
	vote                   metric.Vote
	swap                   bool
	revision               int64
	time                   evalstream.Time
	slices                 []evalstream.Slice
}

// begin ends the life of what the last call emitted.
func (j *judged) begin() {
	j.scores.reset()
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
		judge: j.names.id(b.Judge), version: j.names.id(b.PromptVersion), vote: value, swap: b.Swap,
		revision: b.Revision, time: rec.Time,
	}
	if value == metric.MissingVote {
		n.reason = j.names.id(b.Reason)
	}
	i, held := j.find(u.votes, &n)
	if held {
		old := &u.votes[i]
		same := old.vote == n.vote && old.reason == n.reason
		if j.conflict == Refuse && !same {
			return conflict(b)
		}
		j.tally.Replaced++
		if b.Revision < old.revision {
			return nil
		}
		old.revision = b.Revision
		if same && old.time == n.time && slices.Equal(old.slices, b.Slices) {
			return nil
		}
		n.slices = cloneSlices(b.Slices)
		*old = n
	} else {
		n.slices = cloneSlices(b.Slices)
		u.votes = slices.Insert(u.votes, i, n)
	}
	u.seen = max(u.seen, rec.Time)
	j.sayVersions(rec, u, &n, out)
	return nil
}

func (j *judged) unit(b *evalstream.Verdict) *judgedUnit {
	j.key = j.key[:0]
	for _, id := range [...]string{b.SpanID, b.Mode, b.TripleID, b.Dimension} {
		j.key = append(binary.AppendUvarint(j.key, uint64(len(id))), id...)
	}
	u := j.units[string(j.key)]
	if u == nil {
		u = &judgedUnit{
			key: string(j.key), span: strings.Clone(b.SpanID), mode: j.names.keep(b.Mode), triple: strings.Clone(b.TripleID),
			dimension: j.names.keep(b.Dimension), votes: make([]vote, 0, max(1, len(j.panel))), seen: evalstream.NoTime,
		}
		j.units[u.key] = u
		j.order = append(j.order, u)
	}
	return u
}

// find is the place of n's slot among votes, which are few.
func (j *judged) find(votes []vote, n *vote) (at int, held bool) {
	for at := range votes {
		if c := j.compare(&votes[at], n); c >= 0 {
			return at, c == 0
		}
	}
	return len(votes), false
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
	return cmp.Compare(j.names.of(a.version), j.names.of(b.version))
}

// sayVersions says what the unit is now in each prompt version that the vote is an
// answer to.
func (j *judged) sayVersions(rec *evalstream.Record, u *judgedUnit, n *vote, out *evalstream.Out) {
	i := slices.IndexFunc(u.versions, func(v judgedVersion) bool { return v.name == n.version })
	if i < 0 && (n.version != anyVersion || len(u.versions) == 0) {
		if len(u.versions) == 1 && u.versions[0].name == anyVersion {
			j.retract(rec, u, &u.versions[0], out)
			u.versions = u.versions[:0]
		}
		i = len(u.versions)
		u.versions = append(u.versions, j.version(u, n.version))
	}
	if i >= 0 {
		j.say(rec, u, &u.versions[i], out)
		return
	}
	for i := range u.versions {
		j.say(rec, u, &u.versions[i], out)
	}
}

func (j *judged) version(u *judgedUnit, name uint32) judgedVersion {
	v := judgedVersion{name: name}
	b := evalstream.Verdict{SpanID: u.span, Mode: u.mode, TripleID: u.triple, Dimension: u.dimension, PromptVersion: j.names.of(name)}
	v.unit = string(b.AppendUnit(nil))
	if b.PromptVersion != "" {
		v.slices = []evalstream.Slice{{Name: "prompt_version", Value: j.names.keep(string(evalstream.AppendString(nil, b.PromptVersion)))}}
	}
	return v
}

// retract takes back the unit without prompt version: its verdicts now count in the
// versions that others name.
func (j *judged) retract(rec *evalstream.Record, u *judgedUnit, v *judgedVersion, out *evalstream.Out) {
	s := j.scores.one()
	s.Unit, s.Run, s.Dimension, s.Status, s.Settings = v.unit, u.mode, u.dimension, evalstream.Retracted, j.settings
	out.Emit(evalstream.Record{Body: s, Time: evalstream.NoTime, Pos: rec.Pos, Seq: rec.Seq})
	if v.reviewed != 0 {
		out.Emit(evalstream.Record{Body: &evalstream.Review{
			Unit: v.unit, Dimension: u.dimension, SpanID: u.span, TripleID: u.triple, Mode: u.mode, Withdrawn: true,
		}, Time: evalstream.NoTime, Pos: rec.Pos, Seq: rec.Seq})
	}
}

// say emits the score of one version, and its review if it has one or had one.
func (j *judged) say(rec *evalstream.Record, u *judgedUnit, v *judgedVersion, out *evalstream.Out) {
	s := j.scores.one()
	s.Unit, s.Run, s.Dimension, s.Settings, s.Slices = v.unit, u.mode, u.dimension, j.settings, v.slices
	at := j.gather(u, v, s)
	out.Emit(evalstream.Record{Body: s, Time: at, Pos: rec.Pos, Seq: rec.Seq})
	j.review(rec, u, v, false, out)
}

// gather collects the verdicts that are answers to one version, as ballots and, where s
// is not nil, as what s carries: each slice field comes from the first verdict, by judge
// and swap, that has it. It returns the least time.
func (j *judged) gather(u *judgedUnit, v *judgedVersion, s *evalstream.Score) evalstream.Time {
	at := evalstream.NoTime
	j.ballots.Dimension, j.ballots.Ballots, j.reasons = u.dimension, j.ballots.Ballots[:0], j.reasons[:0]
	for i := 0; i < len(u.votes); {
		pick := -1 // of the votes of one judge and order, the one of the version
		from := &u.votes[i]
		for ; i < len(u.votes) && u.votes[i].judge == from.judge && u.votes[i].swap == from.swap; i++ {
			if n := u.votes[i].version; n == v.name || n == anyVersion && pick < 0 {
				pick = i
			}
		}
		if pick < 0 {
			continue
		}
		n := &u.votes[pick]
		j.add(n)
		if at == evalstream.NoTime || n.time != evalstream.NoTime && n.time < at {
			at = n.time
		}
		if s != nil {
			for _, sl := range n.slices {
				if !slices.ContainsFunc(s.Slices, func(have evalstream.Slice) bool { return have.Name == sl.Name }) {
					s.Slices = append(slices.Clip(s.Slices), sl)
				}
			}
		}
	}
	if s != nil {
		s.Ratings, s.Swapped = j.lists()
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
	list := func(of func(b *metric.Ballot) metric.Vote) []evalstream.CoderValue {
		n := 0
		for i := range j.ballots.Ballots {
			if of(&j.ballots.Ballots[i]) != metric.NoVote {
				n++
			}
		}
		if n == 0 {
			return nil
		}
		values := j.values.take(n)[:0]
		for i := range j.ballots.Ballots {
			if b := &j.ballots.Ballots[i]; of(b) != metric.NoVote {
				values = append(values, evalstream.CoderValue{Coder: b.Judge, Value: of(b).Literal()})
			}
		}
		return values
	}
	return list(func(b *metric.Ballot) metric.Vote { return b.Straight }), list(func(b *metric.Ballot) metric.Vote { return b.Swapped })
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
	r := &evalstream.Review{
		Unit: v.unit, Dimension: u.dimension, SpanID: u.span, TripleID: u.triple, Mode: u.mode, PromptVersion: j.names.of(v.name),
		Why: why, Decision: d.Vote.Literal(), Withdrawn: why == evalstream.Settled,
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
			j.key = binary.AppendUvarint(j.key, uint64(j.reasons[i]))
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

// sweep forgets units that were last seen before limit: nobody can come any more.
func (j *judged) sweep(limit evalstream.Time, out *evalstream.Out) {
	kept := j.order[:0]
	for _, u := range j.order {
		if u.seen == evalstream.NoTime || u.seen >= limit {
			kept = append(kept, u)
			continue
		}
		j.end(u, out)
		j.tally = addVotes(j.tally, u)
		delete(j.units, u.key)
	}
	clear(j.order[len(kept):])
	j.order = kept
}

// finish asks for reviews of the units in which a judge was never heard.
func (j *judged) finish(out *evalstream.Out) {
	slices.SortFunc(j.order, func(a, b *judgedUnit) int { return cmp.Compare(a.key, b.key) })
	for _, u := range j.order {
		j.end(u, out)
	}
}

func (j *judged) end(u *judgedUnit, out *evalstream.Out) {
	for i := range u.versions {
		v := &u.versions[i]
		j.gather(u, v, nil)
		j.review(&evalstream.Record{}, u, v, true, out)
	}
}

// tallied is the verdicts that were received and where they are.
func (j *judged) tallied() evalstream.Tally {
	t := j.tally
	for _, u := range j.units {
		t = addVotes(t, u)
	}
	return t
}

func addVotes(t evalstream.Tally, u *judgedUnit) evalstream.Tally {
	for i := range u.votes {
		t.Held++
		if u.votes[i].vote.Cast() {
			t.Of[evalstream.Scored]++
		} else {
			t.Of[evalstream.Unjudged]++
		}
	}
	return t
}

// names numbers strings that repeat, from 1 on; 0 is "".
type names struct {
	ids  map[string]uint32
	list []string
}

// anyVersion is the number of no prompt version: an answer to every version.
const anyVersion = 0

func (n *names) id(s string) uint32 {
	if s == "" {
		return 0
	}
	if id, ok := n.ids[s]; ok {
		return id
	}
	if n.ids == nil {
		n.ids = make(map[string]uint32)
	}
	s = strings.Clone(s)
	n.list = append(n.list, s)
	id := uint32(len(n.list))
	n.ids[s] = id
	return id
}

func (n *names) of(id uint32) string {
	if id == 0 {
		return ""
	}
	return n.list[id-1]
}

// keep is one copy of s for all.
func (n *names) keep(s string) string { return n.of(n.id(s)) }

// lent is memory that is handed out until reset, without moving.
type lent[T any] struct {
	pages [][]T
	page  int // in use
}

const lentPage = 256

func (l *lent[T]) reset() {
	for i := range l.pages {
		l.pages[i] = l.pages[i][:0]
	}
	l.page = 0
}

// take is n zero values.
func (l *lent[T]) take(n int) []T {
	for ; ; l.page++ {
		if l.page == len(l.pages) {
			l.pages = append(l.pages, make([]T, 0, max(n, lentPage)))
		}
		p := l.pages[l.page]
		if from := len(p); from+n <= cap(p) {
			p = p[:from+n]
			l.pages[l.page] = p
			clear(p[from:])
			return p[from:len(p):len(p)]
		}
	}
}

func (l *lent[T]) one() *T { return &l.take(1)[0] }
