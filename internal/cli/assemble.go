package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"evalstream"
	"evalstream/codecs"
	"evalstream/stages"
)

// stage is one verb with its options, as it was spelled.
type stage struct {
	verb, name string
	options    stages.Options
	via        string // topic behind it; "" if it is in one process with the next one
	auto       bool   // it is the parse that reads what another process has written
	partials   int32  // merge: partitions that it gets partials of; 0: as they say
	line       int    // in the pipeline file
	column     int
}

// assemble turns verbs into a pipeline: one way for shell, YAML and ready commands.
// With load it reads gold; without, the pipeline can only be looked at.
func (s *session) assemble(ctx context.Context, list []stage, load bool) (*evalstream.Pipeline, error) {
	c := s.common
	whole := complete(list)
	if err := checkOrder(whole); err != nil {
		return nil, err
	}
	var steps []evalstream.Step
	for i, st := range whole {
		list := whole[:segmentEnd(whole, i)] // what lies behind a cut reads lines
		step := evalstream.Step{Name: st.name, Via: st.via}
		if st.auto && i+1 < len(whole) {
			step.Segment = whole[i+1].name
		}
		var err error
		switch o := st.options.(type) {
		case *stages.ParseOptions:
			step.New, step.Doc, err = parseStep(list, i, o, c)
		case *stages.ContextOptions:
			step.New, step.Doc, err = contextStep(list, i, o)
		case *stages.EmbedOptions:
			step.New, step.Doc, err = s.embedStep(list, i, o, load)
		case *stages.ClassifyOptions:
			step.New, step.Doc, err = s.classifyStep(ctx, o, load)
		case *stages.RankOptions:
			step.New, step.Doc, err = s.rankStep(ctx, o, load)
		case *stages.ScoreOptions:
			step.New, step.Doc, err = s.scoreStep(ctx, whole, i, o, load)
			if topic, ok := topicOf(o.Gold); ok {
				step.Side = []string{topic}
			}
		case *stages.AggregateOptions:
			step.New, step.Doc, err = aggregateStep(whole, i, o, c)
		case *stages.MergeOptions:
			step.Gather = true
			step.New, step.Doc, err = mergeStep(whole, i, o, c)
		default:
			err = evalstream.Usagef("no verb %q", st.verb)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", st.name, err)
		}
		steps = append(steps, step)
	}
	p, err := evalstream.New(s.verb, steps...)
	return p, wrapUsage("%w", err)
}

// complete puts parse in front, and behind each cut, if it is not there: lines are read as
// they say themselves.
func complete(list []stage) []stage {
	var out []stage
	for i, st := range list {
		if st.verb != "parse" && (i == 0 || list[i-1].via != "") {
			name := "parse"
			if i > 0 {
				name = "parse-" + st.name
			}
			out = append(out, stage{verb: "parse", name: name, options: new(stages.ParseOptions), auto: true})
		}
		out = append(out, st)
	}
	if len(list) == 0 {
		return []stage{{verb: "parse", name: "parse", options: new(stages.ParseOptions), auto: true}}
	}
	return out
}

// segmentEnd is the place behind the last stage that is fused with that at i.
func segmentEnd(list []stage, i int) int {
	for ; i < len(list); i++ {
		if list[i].via != "" {
			return i + 1
		}
	}
	return len(list)
}

// behindCut reports whether the stage at i reads what another process may have written.
func behindCut(list []stage, i int) bool {
	return slices.ContainsFunc(list[:i], func(s stage) bool { return s.via != "" })
}

// fused is a list that runs in one process: without cuts, and with gold that came from a
// topic in the stream itself.
func fused(list []stage) []stage {
	out := slices.Clone(list)
	for i := range out {
		out[i].via = ""
	}
	return out
}

// neighbour is the next stage behind i (or before it, with step -1) that the file has; nil
// if there is none.
func neighbour(list []stage, i, step int) *stage {
	for i += step; i >= 0 && i < len(list); i += step {
		if !list[i].auto {
			return &list[i]
		}
	}
	return nil
}

// parseStep plans what is decoded: the fields that later steps group by, or, if the
// records leave this process, all of them.
func parseStep(list []stage, i int, o *stages.ParseOptions, c *common) (func() (evalstream.Stage, error), string, error) {
	unit, err := c.unit()
	if err != nil {
		return nil, "", err
	}
	plan := codecs.Plan{As: o.As, TimeUnit: unit, AllSlices: true, Lines: leaves(list, i), Advice: "--map", RecordTime: c.timeFrom == "record"}
	if list[i].auto {
		plan.Advice = "evalstream parse --map"
	}
	for _, s := range o.Map {
		m, err := codecs.ParseMapping(s)
		if err != nil {
			return nil, "", err
		}
		plan.Map = append(plan.Map, m)
	}
	for _, later := range list[i+1:] {
		if co, ok := later.options.(*stages.ContextOptions); ok {
			if names, err := co.Fields(); err == nil { // else its own step says so
				plan.Texts = names
			}
		}
		if ao, ok := later.options.(*stages.AggregateOptions); ok {
			a, err := ao.Aggregation()
			if err != nil {
				break // that step will say so
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

func (s *session) scoreStep(ctx context.Context, list []stage, i int, o *stages.ScoreOptions, load bool) (func() (evalstream.Stage, error), string, error) {
	scoring, err := o.Scoring()
	if err != nil {
		return nil, "", wrapUsage("%w", err)
	}
	conflict, err := s.common.conflict()
	if err != nil {
		return nil, "", err
	}
	gold := o.Gold
	if _, ok := topicOf(gold); ok {
		gold = ""
	}
	switch gold {
	case "":
		open := stages.OpenScoring{Scoring: scoring, Horizon: s.common.span(), Marked: behindCut(list, i), MaxOutOfOrder: time.Duration(s.common.maxOutOfOrder), Conflict: conflict, Panel: o.Panel}
		f, err := stages.NewScore(open)
		return f, openDoc(list, o), wrapUsage("%w", err)
	case inlineGold:
		f, err := stages.NewScoreFrozen(scoring, nil)
		return f, "against the gold that each prediction carries; remembers nothing", wrapUsage("%w", err)
	}
	var frozen *stages.Gold
	if load {
		if frozen, err = s.loadGold(ctx, gold, scoring.Source); err != nil {
			return nil, "", err
		}
	}
	f, err := stages.NewScoreFrozen(scoring, frozen)
	return f, "against " + o.Gold + ", read whole first", wrapUsage("%w", err)
}

// openDoc says what score does without gold that is read first.
func openDoc(list []stage, o *stages.ScoreOptions) string {
	switch scoredKind(list) {
	case "verdict":
		panel := "no panel decides"
		if len(o.Panel) > 0 {
			panel = "the majority of " + strings.Join(o.Panel, ", ") + " decides"
		}
		return "verdicts of each unit by judge; " + panel + "; remembers each unit"
	case "rating":
		return "ratings of each unit by coder; remembers each unit"
	}
	return "against gold of the stream; remembers each unit"
}

func aggregateStep(list []stage, i int, o *stages.AggregateOptions, c *common) (func() (evalstream.Stage, error), string, error) {
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
	agg.Marked, agg.Replayed = behindCut(list, i), list[i].via != "" // merge is given its partials again
	next := neighbour(list, i, 1)
	agg.Partials = agg.Partials || next != nil && next.verb == "merge"
	if agg.Expect, err = expected(list[:i]); err != nil {
		return nil, "", wrapUsage("%w", err)
	}
	if frozenBefore(list[:i]) {
		// Otherwise score has settled it: what comes here is then no conflict.
		if agg.Conflict, err = c.conflict(); err != nil {
			return nil, "", err
		}
	}
	f, err := stages.NewAggregate(agg)
	doc := fmt.Sprintf("by %s; windows %s; remembers each unit", byText(agg.By), windowsText(agg.Windows))
	return f, doc, wrapUsage("%w", err)
}

func mergeStep(list []stage, i int, o *stages.MergeOptions, c *common) (func() (evalstream.Stage, error), string, error) {
	ao := &o.AggregateOptions
	if prev := neighbour(list, i, -1); prev != nil {
		if before, ok := prev.options.(*stages.AggregateOptions); ok {
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
	if agg.Expect, err = expected(list[:i]); err != nil {
		return nil, "", wrapUsage("%w", err)
	}
	if n := list[i].partials; n > 0 {
		agg.Partitions = n
	}
	f, err := stages.NewMerge(agg)
	return f, "put the partials of all partitions together", wrapUsage("%w", err)
}

// expected is what scores will be, where parse says what every line is.
func expected(before []stage) (*stages.Expectation, error) {
	var as string
	for _, st := range before {
		switch o := st.options.(type) {
		case *stages.ParseOptions:
			if !st.auto {
				as = o.As
			}
		case *stages.ScoreOptions:
			scoring, err := o.Scoring()
			if err != nil {
				return nil, err
			}
			return scoring.Expect(as), nil
		}
	}
	return nil, nil //nolint:nilnil // nothing is expected, and nothing is wrong
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
		if !ok || o.Gold == "" {
			return false
		}
		_, open := topicOf(o.Gold)
		return !open
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
