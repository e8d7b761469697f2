package stages

import (
	"maps"
	"slices"

	"evalstream"
	"evalstream/stages/metric"
)

// told is what readers of a window know.
type told struct {
	closed   bool
	final    bool
	revision int64
	said     map[string]*evalstream.Result // where metrics vary: what was published, by key, as withdrawn
}

// varies says that which results a view has depends on its units: on who was heard, and
// on the labels that were met.
func (b *book) varies() bool { return b.family == judging || b.family == fewshot }

// inherits says that another process may have published before this one first does. What
// that was is not known, so all is withdrawn that could have been and is not now.
func (b *book) inherits() bool { return b.options.Upserts && !b.published }

// mayStand says that a result of a window may have been published.
func (b *book) mayStand(r *reader, key cellKey) bool { return r.told[key] != nil || b.inherits() }

// toldOf is what readers know of a view.
func (b *book) toldOf(v *view) *told {
	key := cellKey{v.group, v.pane}
	t := v.reader.told[key]
	if t == nil {
		t = new(told)
		if b.inherits() && b.varies() {
			t.said = b.possible(v)
		}
		v.reader.told[key] = t
	}
	return t
}

// gone appends an empty result for each that was published of the view and is not among
// the present ones. With last, nothing more is published of it.
func (b *book) gone(dst []*evalstream.Result, v *view, present []*evalstream.Result, last bool) []*evalstream.Result {
	t := b.toldOf(v)
	if last && len(t.said) == 0 {
		return dst
	}
	now := make(map[string]*evalstream.Result, len(present))
	for _, r := range present {
		now[string(appendResultKey(nil, r))] = asWithdrawn(r)
	}
	for _, key := range slices.Sorted(maps.Keys(t.said)) {
		if now[key] == nil {
			r := *t.said[key]
			r.Revision = t.revision
			dst = append(dst, &r)
		}
	}
	t.said = now
	return dst
}

// asWithdrawn is a result that takes another one back.
func asWithdrawn(r *evalstream.Result) *evalstream.Result {
	return &evalstream.Result{
		Metric: r.Metric, By: r.By, Window: r.Window, Settings: r.Settings, MissingUnknown: "withdrawn", Undefined: "withdrawn", NoInterval: "withdrawn",
	}
}

// possible is every result that a view could have by what is known of its family: all
// metrics, of all judges and labels. By key, as withdrawn.
func (b *book) possible(v *view) map[string]*evalstream.Result {
	by := b.by(v)
	all := map[string]*evalstream.Result{}
	for _, row := range b.everyRow(v) {
		r := asWithdrawn(row)
		r.By, r.Window = slices.Clone(row.By), v.window
		for i, s := range by {
			if s.Name != relationField { // that is the row's own
				r.By[i] = s
			}
		}
		all[string(appendResultKey(nil, r))] = r
	}
	return all
}

// everyRow reads a view with nothing in it, and those that have everything that is known,
// once for all views of a reader as long as nothing new is.
func (b *book) everyRow(v *view) []*evalstream.Result {
	relations, ballots := b.relations.since(0), b.ballots.since(0)
	known := 1 + len(relations) + len(ballots)
	if v.reader.known == known {
		return v.reader.rows
	}
	var none, all, ungraded cell
	all.n, ungraded.n = 1, 1
	for id := range relations {
		*all.relation(uint32(id)) = metric.PRF{Guessed: 1, Gold: 1, Correct: 1}
	}
	for id := range ballots { // grades have results of their own, and others have some that they have not
		all.vote(uint32(id), 1)
		if one := []metric.BallotCount{{Ballots: b.ballotsOf(uint32(id)), Units: 1}}; !metric.Panel(b.options.Panel).Count(one).Graded {
			ungraded.vote(uint32(id), 1)
		}
	}
	var rows []*evalstream.Result
	for _, sum := range []*cell{&none, &all, &ungraded} {
		one := *v
		one.sum = *sum
		rows, _ = b.readView(rows, &one, b.by(v)) // an error has been met at the first result
	}
	v.reader.rows, v.reader.known = rows, known
	return rows
}
