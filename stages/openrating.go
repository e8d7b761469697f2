package stages

import (
	"cmp"
	"slices"
	"strings"

	"evalstream"
)

// openRating is what a coder says of a unit.
type openRating struct {
	evalstream.Rating
	time evalstream.Time
}

// differs says that a rating is not a repeat of r.
func (r *openRating) differs(b *evalstream.Rating, at evalstream.Time) bool {
	return r.Value != b.Value || r.Retracted != b.Retracted || r.time != at || !slices.Equal(r.Slices, b.Slices)
}

func (o *openScore) rating(rec *evalstream.Record, b *evalstream.Rating, out *evalstream.Out) *evalstream.Fault {
	if f := o.horizon.late(rec.Time); f != nil {
		return f
	}
	u := o.unit(append(o.key[:0], b.Unit...), out)
	i, held := slices.BinarySearchFunc(u.ratings, b.Coder, func(r openRating, coder string) int { return cmp.Compare(r.Coder, coder) })
	switch {
	case !held:
		u.ratings = slices.Insert(u.ratings, i, openRating{})
	case o.options.Conflict == Refuse && u.ratings[i].differs(b, rec.Time):
		return conflict(b)
	default:
		o.tallies[ofRatings].Replaced++
		if b.Revision < u.ratings[i].Revision {
			return nil
		}
	}
	u.ratings[i] = openRating{
		Rating: evalstream.Rating{
			Coder: strings.Clone(b.Coder), Value: strings.Clone(b.Value), Retracted: b.Retracted,
			Revision: b.Revision, Slices: cloneSlices(b.Slices),
		},
		time: rec.Time,
	}
	u.see(rec.Time)
	out.Emit(o.ratings(rec, b.Unit, u))
	return nil
}

// ratings is the score of a rated unit: the standing values by coder; each slice
// field from the first coder, in byte order, that carries it; the least time.
func (o *openScore) ratings(rec *evalstream.Record, unit string, u *openUnit) evalstream.Record {
	s := &evalstream.Score{Unit: strings.Clone(unit), Status: evalstream.Retracted, Settings: o.settings[agreement]}
	at := evalstream.NoTime
	for i := range u.ratings {
		r := &u.ratings[i]
		if r.Retracted {
			continue
		}
		s.Status = evalstream.Scored
		s.Ratings = append(s.Ratings, evalstream.CoderValue{Coder: r.Coder, Value: r.Value})
		if at == evalstream.NoTime || r.time != evalstream.NoTime && r.time < at {
			at = r.time
		}
		for _, sl := range r.Slices {
			if !slices.ContainsFunc(s.Slices, func(have evalstream.Slice) bool { return have.Name == sl.Name }) {
				s.Slices = append(s.Slices, sl)
			}
		}
	}
	return evalstream.Record{Body: s, Time: at, Pos: rec.Pos, Seq: rec.Seq}
}
