package stages

import (
	"encoding/binary"
	"fmt"
	"strings"

	"evalstream"
)

// openUnit is all that is known of one unit.
type openUnit struct {
	gold    []openGold // retrieval: one a passage; few-shot: the label, in passage
	label   bool       // gold is a label
	runs    []openRun
	ratings []openRating
	waiting bool            // said to be waiting
	met     bool            // a prediction has come
	seen    evalstream.Time // the newest of its predictions, ratings and gold; without runs it ends by this
	shelved *shelved        // nil without a store
}

// openGold is one judgment of a unit, or its label.
type openGold struct {
	judgment
	withdrawn bool
	revision  int64
}

// openRun is the prediction of one run for one unit.
type openRun struct {
	run      string
	top      rankedList // retrieval
	label    string     // few-shot
	gold     string     // few-shot: its own gold
	hasGold  bool
	fewshot  bool
	revision int64
	time     evalstream.Time
	slices   []evalstream.Slice
	status   evalstream.Status
	said     bool
	values   []evalstream.Nano // as last said
	saidGold string
}

// judgment is what is held of a passage, nil if nothing is.
func (u *openUnit) judgment(passage string) *openGold {
	for i := range u.gold {
		if u.gold[i].passage == passage {
			return &u.gold[i]
		}
	}
	return nil
}

func (u *openUnit) see(t evalstream.Time) { u.seen = max(u.seen, t) }

// ended reports whether a time is before limit; what has no time never ends.
func ended(t, limit evalstream.Time) bool { return t != evalstream.NoTime && t < limit }

// due is the time by which the next of what is known of u ends: the end of time if
// nothing does.
func (u *openUnit) due() evalstream.Time {
	due := earlier(evalstream.EndOfTime, u.rated())
	for i := range u.runs {
		due = earlier(due, u.runs[i].time)
	}
	if len(u.runs) == 0 {
		due = earlier(due, u.seen)
	}
	return due
}

// earlier is the lesser of two times, the first if the second is none.
func earlier(a, b evalstream.Time) evalstream.Time {
	if b == evalstream.NoTime {
		return a
	}
	return min(a, b)
}

// rated is the time of a rated unit, the least of its standing ratings; NoTime if none
// has one.
func (u *openUnit) rated() evalstream.Time {
	at := evalstream.EndOfTime
	for i := range u.ratings {
		if !u.ratings[i].Retracted {
			at = earlier(at, u.ratings[i].time)
		}
	}
	if at == evalstream.EndOfTime {
		return evalstream.NoTime
	}
	return at
}

// now is the status that was last said.
func (r *openRun) now() evalstream.Status { return r.status }

func (u *openUnit) slot(run string) *openRun {
	for i := range u.runs {
		if u.runs[i].run == run {
			return &u.runs[i]
		}
	}
	return nil
}

// encode appends the unit in the form in which it is kept.
func (u *openUnit) encode(b []byte) []byte {
	b = append(b, openVersion)
	b = appendFlag(appendFlag(appendFlag(b, u.label), u.waiting), u.met)
	b = binary.AppendVarint(b, int64(u.seen))
	b = binary.AppendUvarint(b, uint64(len(u.gold)))
	for i := range u.gold {
		g := &u.gold[i]
		b = binary.AppendVarint(appendText(b, g.passage), int64(g.grade))
		b = binary.AppendVarint(appendFlag(b, g.withdrawn), g.revision)
	}
	b = binary.AppendUvarint(b, uint64(len(u.runs)))
	for i := range u.runs {
		b = u.runs[i].encode(b)
	}
	b = binary.AppendUvarint(b, uint64(len(u.ratings)))
	for i := range u.ratings {
		r := &u.ratings[i]
		b = appendText(appendText(b, r.Coder), r.Value)
		b = binary.AppendVarint(appendFlag(b, r.Retracted), r.Revision)
		b = appendSlices(binary.AppendVarint(b, int64(r.time)), r.Slices)
	}
	return b
}

func (r *openRun) encode(b []byte) []byte {
	b = appendText(b, r.run)
	b = appendFlag(appendFlag(appendFlag(b, r.fewshot), r.hasGold), r.said)
	b = append(b, byte(r.status))
	b = binary.AppendVarint(binary.AppendVarint(b, r.revision), int64(r.time))
	b = appendSlices(b, r.slices)
	if r.fewshot {
		return appendText(appendText(appendText(b, r.label), r.gold), r.saidGold)
	}
	b = appendText(b, string(r.top))
	b = binary.AppendUvarint(b, uint64(len(r.values)))
	for _, v := range r.values {
		b = binary.AppendVarint(b, int64(v))
	}
	return b
}

// decodeUnit is the inverse of encode.
func decodeUnit(name string, key, val []byte) (*openUnit, error) {
	e := &entry{data: val}
	e.version(openVersion)
	u := &openUnit{label: e.flag(), waiting: e.flag(), met: e.flag(), seen: evalstream.Time(e.varint())}
	for range e.count() {
		u.gold = append(u.gold, openGold{
			judgment: judgment{passage: e.text(), grade: int32(e.varint())}, withdrawn: e.flag(), revision: e.varint(),
		})
	}
	for range e.count() {
		u.runs = append(u.runs, e.run())
	}
	for range e.count() {
		r := openRating{Rating: evalstream.Rating{Coder: e.text(), Value: e.text(), Retracted: e.flag(), Revision: e.varint()}}
		r.time, r.Slices = evalstream.Time(e.varint()), e.slices()
		u.ratings = append(u.ratings, r)
	}
	if err := e.end(); err != nil {
		return nil, fmt.Errorf("unit %q: %w", name, err)
	}
	u.shelved = &shelved{name: name, there: true, sum: sumOf(key, val), due: u.due(), size: int64(len(val)) + unitOverhead}
	return u, nil
}

func (e *entry) run() openRun {
	r := openRun{run: e.text(), fewshot: e.flag(), hasGold: e.flag(), said: e.flag()}
	if b := e.bytes(1); b != nil {
		r.status = evalstream.Status(b[0])
	}
	r.revision, r.time, r.slices = e.varint(), evalstream.Time(e.varint()), e.slices()
	if r.fewshot {
		r.label, r.gold, r.saidGold = e.text(), e.text(), e.text()
		return r
	}
	r.top = rankedList(e.text())
	if _, ok := r.top.hits(nil); !ok && e.err == nil {
		e.err = errShort
	}
	for range e.count() {
		r.values = append(r.values, evalstream.Nano(e.varint()))
	}
	return r
}

func cloneSlices(s []evalstream.Slice) []evalstream.Slice {
	if len(s) == 0 {
		return nil
	}
	out := make([]evalstream.Slice, len(s))
	for i := range s {
		out[i] = evalstream.Slice{Name: strings.Clone(s[i].Name), Value: strings.Clone(s[i].Value)}
	}
	return out
}
