package stages

import (
	"cmp"
	"strings"

	"github.com/zeebo/xxh3"

	"evalstream"
)

// remark is what a person needs who reviews a unit and nobody else does: once a unit, and
// only of units whose verdicts carry it.
type remark struct{ text, triple string }

// mixed is the number of a review that carries the remark, 0 if there is no review.
func (r remark) mixed(review uint64) uint64 {
	if review == 0 || r == (remark{}) {
		return review
	}
	return xxh3.HashStringSeed(r.text, xxh3.HashStringSeed(r.triple, review)) | 1
}

// remark takes in what a verdict carries and says whether the unit's has changed. Of
// several texts, or triples, the least in byte order stands, whichever came first.
func (j *judged) remark(u *judgedUnit, b *evalstream.Verdict) (changed bool) {
	if b.Shown == nil {
		return false
	}
	old := j.remarks[u.hash]
	least := func(held, came string) string {
		if came == "" || held != "" && cmp.Compare(held, came) <= 0 {
			return held
		}
		changed = true
		return strings.Clone(came)
	}
	if is := (remark{least(old.text, b.Shown.Text), least(old.triple, b.Shown.Triple)}); changed {
		j.setRemark(u.hash, is)
	}
	return changed
}

// remarkEntry is about what one costs beside its bytes.
const remarkEntry = 80

func (j *judgedState) setRemark(unit [2]uint64, r remark) {
	if j.remarks == nil {
		j.remarks = map[[2]uint64]remark{}
	}
	old := j.remarks[unit]
	if _, had := j.remarks[unit]; !had {
		j.remarked += remarkEntry
	}
	j.remarked += int64(len(r.text) + len(r.triple) - len(old.text) - len(old.triple))
	j.remarks[unit] = r
}

func (j *judgedState) remarkOf(u *judgedUnit) remark {
	if j.remarks == nil {
		return remark{}
	}
	return j.remarks[u.hash]
}

// reviewAgain says the reviews that stand once more, since what they carry has changed.
func (j *judged) reviewAgain(rec *evalstream.Record, u *judgedUnit, out *evalstream.Out) {
	for i := u.versions; i != 0; {
		v := j.versions.at(i - 1)
		j.gather(u, v)
		j.review(rec, u, v, j.standing(u, v), false, out)
		i = v.next
	}
}
