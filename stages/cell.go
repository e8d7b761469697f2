package stages

import (
	"fmt"
	"slices"

	"evalstream"
	"evalstream/stages/metric"
)

// cell is what the units of one group and one pane add up to: integers only, so it
// adds, takes back and merges in any order.
type cell struct {
	group uint32
	pane  int64
	dirty bool

	n, pending, unjudged, expired int64

	sums      []evalstream.Nano // retrieval: one a measure
	relations []metric.PRF      // few-shot: by relation number
	patterns  metric.Histogram  // agreement
	few       []int64           // judging: units by number of their ballots, up to fewBallots
	ballots   map[uint32]int64  // and from there on
}

// empty says that nothing is in the cell.
func (c *cell) empty() bool { return c.n == 0 && c.pending == 0 && c.unjudged == 0 && c.expired == 0 }

// count adds sign units of a status.
func (c *cell) count(s evalstream.Status, sign int64) {
	switch s {
	case evalstream.Scored:
		c.n += sign
	case evalstream.Pending:
		c.pending += sign
	case evalstream.Unjudged:
		c.unjudged += sign
	case evalstream.Expired:
		c.expired += sign
	case evalstream.Waiting, evalstream.Retracted:
	}
}

// values adds or takes back one unit's value of each measure.
func (c *cell) values(vs []evalstream.Nano, sign evalstream.Nano) {
	if c.sums == nil {
		c.sums = make([]evalstream.Nano, len(vs))
	}
	sums := c.sums[:len(vs)]
	for i, v := range vs {
		sums[i] += sign * v
	}
}

// checkValue refuses a value that its measure cannot have: a score may come from
// anywhere, and sums and intervals rest on the range.
func (b *book) checkValue(measure int, v evalstream.Nano) *evalstream.Fault {
	low, high := evalstream.Nano(0), evalstream.One
	if b.measures[measure].Geometric() {
		low, high = -12*evalstream.One, 0 // logarithms of values of at least 1e-5
	}
	if v >= low && v <= high {
		return nil
	}
	return &evalstream.Fault{
		Class: evalstream.ClassSchema, Path: "/values/" + b.names[measure],
		Reason: fmt.Sprintf("want a number from %s to %s, got %s", low, high, v),
	}
}

// noRelation is the number of the negative label: it is no relation.
const noRelation = ^uint32(0)

// labels adds or takes back one unit's prediction: a guess counts with its label,
// gold and correct with the gold label.
func (c *cell) labels(label, gold uint32, sign int64) {
	if label != noRelation {
		c.relation(label).Guessed += sign
	}
	if gold != noRelation {
		r := c.relation(gold)
		r.Gold += sign
		if label == gold {
			r.Correct += sign
		}
	}
}

func (c *cell) relation(r uint32) *metric.PRF {
	for int(r) >= len(c.relations) {
		c.relations = append(c.relations, metric.PRF{})
	}
	return &c.relations[r]
}

// merge adds all of o, or takes it back (sign -1).
func (c *cell) merge(o *cell, sign int64) {
	c.n += sign * o.n
	c.pending += sign * o.pending
	c.unjudged += sign * o.unjudged
	c.expired += sign * o.expired
	if len(o.sums) > 0 {
		c.values(o.sums, evalstream.Nano(sign))
	}
	for r, p := range o.relations {
		if p != (metric.PRF{}) {
			q := c.relation(uint32(r))
			q.Guessed += sign * p.Guessed
			q.Gold += sign * p.Gold
			q.Correct += sign * p.Correct
		}
	}
	o.allBallots(func(id uint32, units int64) { c.vote(id, sign*units) })
	if sign > 0 {
		c.patterns.Merge(&o.patterns)
	} else {
		c.patterns.Subtract(&o.patterns)
	}
}

// pack is the cell in the form in which it travels: one for each content, whatever the cell
// has held before.
func (b *book) pack(c *cell) evalstream.Cell {
	out := evalstream.Cell{N: c.n, Pending: c.pending, Unjudged: c.unjudged, Expired: c.expired}
	family, names, _ := b.metrics()
	switch family {
	case retrieval:
		if len(names) > 0 {
			out.Measures, out.Sums = names, make([]evalstream.Nano, len(names))
			copy(out.Sums, c.sums)
		}
	case fewshot:
		for r, p := range c.relations {
			if p != (metric.PRF{}) {
				out.Counts = append(out.Counts, evalstream.Count{Name: b.relations.name(uint32(r)), N: []int64{p.Guessed, p.Gold, p.Correct}})
			}
		}
	case agreement:
		for pattern, units := range c.patterns.All() {
			out.Counts = append(out.Counts, evalstream.Count{Name: pattern, N: []int64{units}})
		}
	case judging:
		c.allBallots(func(id uint32, units int64) {
			out.Counts = append(out.Counts, evalstream.Count{Name: b.ballots.name(id), N: []int64{units}})
		})
	}
	slices.SortFunc(out.Counts, func(x, y evalstream.Count) int { return compareText(x.Name, y.Name) })
	return out
}

// maxUnits is what one partial can count: more would overflow the sums.
const maxUnits = 1 << 29

// unpack reads a cell that pack made, perhaps in another process.
func (b *book) unpack(in *evalstream.Cell) (*cell, error) {
	c := &cell{n: in.N, pending: in.Pending, unjudged: in.Unjudged, expired: in.Expired}
	for _, n := range [...]int64{in.N, in.Pending, in.Unjudged, in.Expired} {
		if n < 0 || n > maxUnits {
			return nil, fmt.Errorf("accumulator: want counts of units from 0 to %d, got %d", maxUnits, n)
		}
	}
	if b.family == retrieval && (in.N > 0 || len(in.Sums) > 0) {
		if len(in.Sums) != len(b.names) {
			return nil, fmt.Errorf("accumulator: want a sum for each of %v, got %d", b.names, len(in.Sums))
		}
		if !slices.Equal(in.Measures, b.names) {
			return nil, fmt.Errorf("accumulator: want measures %v, got %v", b.names, in.Measures)
		}
		c.sums = slices.Clone(in.Sums)
		for i, sum := range c.sums {
			low, high := evalstream.Nano(0), evalstream.Nano(in.N)*evalstream.One
			if b.measures[i].Geometric() {
				low, high = -12*high, 0
			}
			if sum < low || sum > high {
				return nil, fmt.Errorf("accumulator: want a sum of %d values of %s, got %s", in.N, b.names[i], sum)
			}
		}
	}
	for _, row := range in.Counts {
		switch {
		case slices.Min(append(row.N, maxUnits)) < 0 || slices.Max(append(row.N, 0)) > maxUnits:
			return nil, fmt.Errorf("accumulator: row %q: want counts from 0 to %d, got %d", row.Name, maxUnits, row.N)
		case b.family == fewshot && len(row.N) == 3:
			if row.N[2] > min(row.N[0], row.N[1]) {
				return nil, fmt.Errorf("accumulator: row %q: want at most as many correct as guessed and gold, got %d", row.Name, row.N)
			}
			*c.relation(b.relations.id([]byte(row.Name), nil)) = metric.PRF{Guessed: row.N[0], Gold: row.N[1], Correct: row.N[2]}
		case b.family == agreement && len(row.N) == 1:
			var one metric.Histogram
			one.AddPattern(row.Name, 1)
			if _, err := one.Literals(); err != nil {
				return nil, fmt.Errorf("accumulator: %w", err)
			}
			c.patterns.AddPattern(row.Name, row.N[0])
		case b.family == judging && len(row.N) == 1:
			if _, err := metric.ParseBallots(row.Name); err != nil {
				return nil, fmt.Errorf("accumulator: %w", err)
			}
			c.vote(b.ballots.id([]byte(row.Name), nil), row.N[0])
		default:
			return nil, fmt.Errorf("accumulator: row %q has %d numbers, want 3 (few-shot) or 1 (agreement, judging)", row.Name, len(row.N))
		}
	}
	return c, nil
}

func compareText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
