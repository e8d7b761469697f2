package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"evalstream"
	"evalstream/codecs"
	"evalstream/stages"
)

// stage is one verb with its options, as it was spelled.
type stage struct {
	verb, name string
	options    stages.Options
}

// assembly is a pipeline with what was opened for it.
type assembly struct {
	pipeline *evalstream.Pipeline
	gold     *stages.Gold
	goldRun  evalstream.Summary // what loading gold met
	notes    []string           // what a reader of the results should know
}

// assemble turns verbs into a pipeline: one way for shell, YAML and ready commands.
// With load it reads gold; without, the pipeline can only be looked at.
func (e *env) assemble(ctx context.Context, name string, list []stage, c *common, load bool) (*assembly, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	a := new(assembly)
	list = complete(list)
	var steps []evalstream.Step
	for i, s := range list {
		step := evalstream.Step{Name: s.name}
		var err error
		switch o := s.options.(type) {
		case *stages.ParseOptions:
			step.New, step.Doc, err = parseStep(list, i, o, c)
		case *stages.ScoreOptions:
			step.New, step.Doc, err = e.scoreStep(ctx, a, o, c, load)
		case *stages.AggregateOptions:
			step.New, step.Doc, err = aggregateStep(a, list, i, o, c)
		case *stages.MergeOptions:
			step.Gather = true
			step.New, step.Doc, err = mergeStep(list, i, o, c)
		default:
			err = evalstream.Usagef("no verb %q", s.verb)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		steps = append(steps, step)
	}
	p, err := evalstream.New(name, steps...)
	if err != nil {
		return nil, evalstream.Usagef("%w", err)
	}
	a.pipeline = p
	return a, nil
}

// complete puts parse in front if it is not there: lines are read as they say
// themselves.
func complete(list []stage) []stage {
	if len(list) > 0 && list[0].verb == "parse" {
		return list
	}
	return append([]stage{{verb: "parse", name: "parse", options: new(stages.ParseOptions)}}, list...)
}

// parseStep plans what is decoded: the fields that later steps group by, or, if the
// records leave this process, all of them.
func parseStep(list []stage, i int, o *stages.ParseOptions, c *common) (func() (evalstream.Stage, error), string, error) {
	unit, err := c.unit()
	if err != nil {
		return nil, "", err
	}
	plan := codecs.Plan{As: o.As, TimeUnit: unit, AllSlices: true, Lines: i == len(list)-1}
	for _, s := range o.Map {
		m, err := codecs.ParseMapping(s)
		if err != nil {
			return nil, "", err
		}
		plan.Map = append(plan.Map, m)
	}
	for _, later := range list[i+1:] {
		if ao, ok := later.options.(*stages.AggregateOptions); ok {
			a, err := ao.Aggregation()
			if err != nil {
				return nil, "", wrapUsage("%w", err)
			}
			plan.AllSlices, plan.Slices = false, slices.DeleteFunc(a.Fields(), func(f string) bool { return f == "run" })
			plan.NoTime = !a.Timed() && c.horizon == 0
			break
		}
	}
	if _, err := codecs.NewDecoder(plan); err != nil {
		return nil, "", err
	}
	doc := "read lines"
	if o.As != "" {
		doc += " as " + o.As
	}
	if len(plan.Slices) > 0 {
		doc += ", carry " + strings.Join(plan.Slices, ", ")
	}
	return stages.NewParse(func() (stages.Decoder, error) { return codecs.NewDecoder(plan) }), doc, nil
}

// inlineGold says that each prediction carries its own gold.
const inlineGold = "inline"

func (e *env) scoreStep(ctx context.Context, a *assembly, o *stages.ScoreOptions, c *common, load bool) (func() (evalstream.Stage, error), string, error) {
	scoring, err := o.Scoring()
	if err != nil {
		return nil, "", wrapUsage("%w", err)
	}
	conflict, err := c.conflict()
	if err != nil {
		return nil, "", err
	}
	switch {
	case o.Gold == "":
		s := stages.OpenScoring{Scoring: scoring, Horizon: c.span(), Conflict: conflict, Panel: o.Panel}
		f, err := stages.NewScore(s)
		return f, "against gold of the stream; remembers each unit: about 200 B, 24 B a judgment and 40 B a ranked passage", wrapUsage("%w", err)
	case o.Gold == inlineGold:
		f, err := stages.NewScoreFrozen(scoring, nil)
		return f, "against the gold that each prediction carries; remembers nothing", wrapUsage("%w", err)
	}
	if load {
		if a.gold, a.goldRun, err = e.loadGold(ctx, o.Gold, scoring.Source, c); err != nil {
			return nil, "", err
		}
	}
	f, err := stages.NewScoreFrozen(scoring, a.gold)
	return f, "against " + o.Gold + ", read whole first; about 110 B a judgment", wrapUsage("%w", err)
}

func aggregateStep(a *assembly, list []stage, i int, o *stages.AggregateOptions, c *common) (func() (evalstream.Stage, error), string, error) {
	agg, err := o.Aggregation()
	if err != nil {
		return nil, "", wrapUsage("%w", err)
	}
	if agg.Panel, err = panelOf(list[:i+1]); err != nil {
		return nil, "", err
	}
	if err := c.aggregation(&agg); err != nil {
		return nil, "", wrapUsage("%w", err)
	}
	agg.Partials = i+1 < len(list) && list[i+1].verb == "merge"
	if frozenBefore(list[:i]) {
		// Otherwise score has settled it: what comes here is then no conflict.
		if agg.Conflict, err = c.conflict(); err != nil {
			return nil, "", err
		}
	}
	a.notes = append(a.notes, readingNotes(&agg)...)
	f, err := stages.NewAggregate(agg)
	doc := fmt.Sprintf("by %s; windows %s; remembers each unit: 24 B, 20 B a run", byText(agg.By), windowsText(agg.Windows))
	return f, doc, wrapUsage("%w", err)
}

func mergeStep(list []stage, i int, o *stages.MergeOptions, c *common) (func() (evalstream.Stage, error), string, error) {
	ao := &o.AggregateOptions
	if i > 0 {
		if before, ok := list[i-1].options.(*stages.AggregateOptions); ok {
			ao = before // it reads the cells that aggregate fills
		}
	}
	agg, err := ao.Aggregation()
	if err != nil {
		return nil, "", wrapUsage("%w", err)
	}
	if agg.Panel, err = panelOf(list[:i+1]); err != nil {
		return nil, "", err
	}
	if err := c.aggregation(&agg); err != nil {
		return nil, "", wrapUsage("%w", err)
	}
	f, err := stages.NewMerge(agg)
	return f, "put the partials of all partitions together", wrapUsage("%w", err)
}

// panelOf is the panel of the last of the stages; one that names none has that of the
// stages before it.
func panelOf(list []stage) ([]string, error) {
	var panel []string
	for _, s := range list {
		var own []string
		switch o := s.options.(type) {
		case *stages.ScoreOptions:
			own = o.Panel
		case *stages.AggregateOptions:
			own = o.Panel
		case *stages.MergeOptions:
			own = o.Panel
		}
		if own == nil {
			continue
		}
		own = slices.Sorted(slices.Values(own))
		if panel != nil && !slices.Equal(panel, own) {
			return nil, evalstream.Usagef("panel: want the same judges in every stage, got %s after %s; name them once", strings.Join(own, ","), strings.Join(panel, ","))
		}
		panel = own
	}
	return panel, nil
}

func frozenBefore(list []stage) bool {
	return slices.ContainsFunc(list, func(s stage) bool {
		o, ok := s.options.(*stages.ScoreOptions)
		return ok && o.Gold != ""
	})
}

func byText(by [][]string) string {
	var ts []string
	for _, b := range by {
		if len(b) == 0 {
			ts = append(ts, "everything")
		} else {
			ts = append(ts, strings.Join(b, "+"))
		}
	}
	return strings.Join(ts, ", ")
}

func windowsText(ws []stages.Window) string {
	var ts []string
	for _, w := range ws {
		ts = append(ts, w.String())
	}
	return strings.Join(ts, ", ")
}

func readingNotes(a *stages.Aggregation) []string {
	if a.MissHits {
		return []string{"missing queries count as misses (--missing miss)"}
	}
	return nil
}
