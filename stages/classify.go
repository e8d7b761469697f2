package stages

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/bits"
	"strconv"

	"github.com/zeebo/xxh3"

	"evalstream"
)

// ClassifyOptions are the options of classify.
type ClassifyOptions struct {
	Method    string
	Instances string // an edge
	Name      string // of the run; "": the method
	Negative  string
	DrawSeed  uint64
	Threshold string
}

// The methods of classify.
const (
	ClassifyEntityType = "entity-type"
	ClassifyPrototype  = "prototype"
)

// Declare adds the flags.
func (o *ClassifyOptions) Declare(fs *flag.FlagSet) {
	fs.StringVar(&o.Method, "method", ClassifyEntityType, "`METHOD` entity-type (a relation of the support sentences with the query's pair of entity types, drawn from their list) or prototype (the relation whose mean support vector is nearest by cosine)")
	fs.StringVar(&o.Instances, "instances", o.Instances, "`EDGE` of the instances that the episodes name, read whole first (required); with vectors for prototype")
	fs.StringVar(&o.Name, "name", "", "`NAME` of the run (default: the method)")
	fs.StringVar(&o.Negative, "negative", "no_relation", "the `LABEL` that is no relation (NOTA)")
	fs.Uint64Var(&o.DrawSeed, "draw-seed", 1, "entity-type: `N` that the draws are made from")
	fs.StringVar(&o.Threshold, "nota-below", "", "prototype: cosine below which the answer is NOTA, a `NUMBER` (default: never)")
}

// threshold reads nota-below.
func (o *ClassifyOptions) threshold() (float64, error) {
	if o.Threshold == "" {
		return math.Inf(-1), nil
	}
	v, err := strconv.ParseFloat(o.Threshold, 64)
	if err != nil || math.IsNaN(v) {
		return 0, fmt.Errorf("nota-below: want a number, got %q", o.Threshold)
	}
	return v, nil
}

// Check refuses what cannot be done.
func (o *ClassifyOptions) Check() error {
	if o.Method != ClassifyEntityType && o.Method != ClassifyPrototype {
		return evalstream.NoChoice("method", o.Method, ClassifyEntityType, ClassifyPrototype)
	}
	if o.Instances == "" {
		return errors.New("instances: want an edge, as in --instances instances.ndjson, got none")
	}
	if o.Threshold != "" && o.Method != ClassifyPrototype {
		return errors.New("nota-below: want --method prototype with it")
	}
	_, err := o.threshold()
	return err
}

// String says how labels are given, in full.
func (o *ClassifyOptions) String() string {
	if o.Method == ClassifyEntityType {
		return fmt.Sprintf("entity-type: drawn evenly from the list of relations of support sentences with the query's (subject type, object type), a relation as often as it has such sentences; %s if there is none; draw seed %d", o.Negative, o.DrawSeed)
	}
	s := "prototype: the target whose mean support vector is nearest by cosine, the first of equals"
	if o.Threshold != "" {
		s += fmt.Sprintf("; %s below %s", o.Negative, o.Threshold)
	}
	return s
}

// NewClassify makes classify over loaded instances: each episode becomes a prediction
// a query, whose place in the episode (from 0) is its name and whose id is a field.
//
// A draw is a hash of seed, episode and the query's place, scaled to the length of the
// list: it does not depend on what was drawn before, nor on which worker draws.
func NewClassify(o ClassifyOptions, instances *Instances) (func() (evalstream.Stage, error), error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	threshold, err := o.threshold()
	if err != nil {
		return nil, err
	}
	if o.Name == "" {
		o.Name = o.Method
	}
	return func() (evalstream.Stage, error) {
		return &classify{options: o, instances: instances, threshold: threshold}, nil
	}, nil
}

type classify struct {
	options   ClassifyOptions
	instances *Instances
	threshold float64

	support    [][]int32 // of the present episode: rows of instances, by target
	queries    []int32
	list       []string
	prototypes []float64
	key        []byte

	received, passed, rejected int64
}

// Process labels the queries of each episode.
func (c *classify) Process(_ context.Context, in []evalstream.Record, out *evalstream.Out) error {
	for i := range in {
		c.received++
		b, ok := in[i].Body.(*evalstream.Episode)
		if !ok {
			c.rejected++
			out.Reject(in[i].Seq, evalstream.Fault{Class: evalstream.ClassStage, Reason: "classify: want episode, got " + in[i].Body.Kind()})
			continue
		}
		if f := c.find(b); f != nil {
			c.rejected++
			out.Reject(in[i].Seq, *f)
			continue
		}
		c.passed++
		c.label(&in[i], b, out)
	}
	return nil
}

// find looks up the instances of an episode.
func (c *classify) find(b *evalstream.Episode) *evalstream.Fault {
	row := func(id, path string) (int32, *evalstream.Fault) {
		n, ok := c.instances.ids[id]
		if !ok {
			return 0, &evalstream.Fault{Class: evalstream.ClassStage, Path: path, Reason: fmt.Sprintf("instance %q is not in %s", id, c.options.Instances)}
		}
		return n, nil
	}
	for len(c.support) < len(b.Targets) {
		c.support = append(c.support, nil)
	}
	for t, ids := range b.Support {
		c.support[t] = c.support[t][:0]
		if len(ids) == 0 && c.options.Method == ClassifyPrototype {
			return &evalstream.Fault{Class: evalstream.ClassStage, Path: "/support/" + strconv.Itoa(t), Reason: "want an instance at least, got none"}
		}
		for k, id := range ids {
			n, f := row(id, fmt.Sprintf("/support/%d/%d", t, k))
			if f != nil {
				return f
			}
			c.support[t] = append(c.support[t], n)
		}
	}
	c.queries = c.queries[:0]
	for q := range b.Queries {
		n, f := row(b.Queries[q].ID, fmt.Sprintf("/queries/%d/id", q))
		if f != nil {
			return f
		}
		c.queries = append(c.queries, n)
	}
	return nil
}

func (c *classify) label(rec *evalstream.Record, b *evalstream.Episode, out *evalstream.Out) {
	if c.options.Method == ClassifyPrototype {
		c.average(len(b.Targets))
	}
	for q, row := range c.queries {
		label := c.options.Negative
		if c.options.Method == ClassifyEntityType {
			label = c.draw(b, q, row)
		} else if t := c.nearest(row, len(b.Targets)); t >= 0 {
			label = b.Targets[t]
		}
		asked := &b.Queries[q]
		fields := append([]evalstream.Slice{{Name: "id", Value: string(evalstream.AppendString(nil, asked.ID))}}, b.Slices...)
		if asked.SourceRelation != "" {
			fields = append(fields, evalstream.Slice{Name: "source_relation", Value: string(evalstream.AppendString(nil, asked.SourceRelation))})
		}
		out.Emit(evalstream.Record{
			Body: &evalstream.Prediction{
				Dataset: b.Dataset, Seed: b.Seed, K: b.K, Episode: b.Episode, Query: strconv.Itoa(q), Run: c.options.Name,
				Label: label, HasLabel: true, Gold: asked.Gold, HasGold: asked.HasGold, Slices: fields,
			},
			Time: rec.Time, Pos: rec.Pos, Seq: rec.Seq,
		})
	}
}

// draw picks from the relations of the support sentences with the query's types.
func (c *classify) draw(b *evalstream.Episode, q int, row int32) string {
	types := c.instances.rows[row]
	c.list = c.list[:0]
	for t, target := range b.Targets {
		for _, s := range c.support[t] {
			if c.instances.rows[s] == types {
				c.list = append(c.list, target)
			}
		}
	}
	if len(c.list) == 0 {
		return c.options.Negative
	}
	c.key = strconv.AppendInt(b.AppendKey(c.key[:0]), int64(q), 10)
	n, _ := bits.Mul64(xxh3.HashSeed(c.key, c.options.DrawSeed), uint64(len(c.list)))
	return c.list[n]
}

// average fills the mean support vector of each target.
func (c *classify) average(targets int) {
	dims := c.instances.dims
	c.prototypes = append(c.prototypes[:0], make([]float64, targets*dims)...)
	for t := range targets {
		mean := c.prototypes[t*dims : (t+1)*dims]
		for _, s := range c.support[t] {
			for i, x := range c.instances.vector(s) {
				mean[i] += float64(x)
			}
		}
		for i := range mean {
			mean[i] /= float64(len(c.support[t]))
		}
	}
}

// nearest is the target with the greatest cosine, -1 if that is below the threshold or
// no mean has a direction.
func (c *classify) nearest(row int32, targets int) int {
	v, dims := c.instances.vector(row), c.instances.dims
	best, at := math.Inf(-1), -1
	for t := range targets {
		var dot, norm, own float64
		for i, m := range c.prototypes[t*dims : (t+1)*dims] {
			x := float64(v[i])
			dot += float64(x * m)
			norm += float64(m * m)
			own += float64(x * x)
		}
		if norm == 0 {
			continue
		}
		if cosine := dot / math.Sqrt(norm*own); cosine > best {
			best, at = cosine, t
		}
	}
	if best < c.threshold {
		return -1
	}
	return at
}

// Tallies counts episodes.
func (c *classify) Tallies() []evalstream.Tally {
	return []evalstream.Tally{{Kind: "episode", Received: c.received, Passed: c.passed, Rejected: c.rejected}}
}
