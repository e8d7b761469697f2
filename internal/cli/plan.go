package cli

import (
	"context"
	"flag"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"evalstream"
	"evalstream/stages"
)

func (e *env) plan() *cobra.Command {
	c := newCommon()
	common := c.flags("plan")
	w := defaultWorkload()
	own := flag.NewFlagSet("plan", flag.ContinueOnError)
	own.Int64Var(&w.Units, "units", w.Units, "plan memory for `N` units: queries, predictions or rated items")
	own.Int64Var(&w.Runs, "runs", w.Runs, "plan memory for `N` runs of each unit, or coders, or judges")
	own.Int64Var(&w.Depth, "depth", w.Depth, "plan memory for lists of `N` passages; 0: predictions are labels")
	own.Int64Var(&w.Judgments, "judgments", w.Judgments, "plan memory for `N` judgments of each unit")
	own.Int64Var(&w.Passages, "passages", w.Passages, "plan memory for `N` passages to rank")
	own.Int64Var(&w.Words, "words", w.Words, "plan memory for passages of `N` words that differ, ranked by bm25")
	own.Int64Var(&w.Instances, "instances", w.Instances, "plan memory for `N` instances that episodes name")
	own.Int64Var(&w.IDBytes, "id-bytes", w.IDBytes, "plan memory for ids of `N` bytes")
	own.Int64Var(&w.Cells, "cells", w.Cells, "plan memory for `N` groups times windows (default: what one of them takes)")
	cmd := &cobra.Command{
		Use: "plan [flags] PIPELINE.yaml", Short: "check a pipeline file and print its steps and their memory, without reading any record", GroupID: "other", Args: usage(onePipeline),
		Example: "  evalstream plan --units 447000 deploy/pipelines/tatqa.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkWorkload(own); err != nil {
				return err
			}
			spec, list, err := e.load(args[0], common, cmd)
			if err != nil {
				return e.placed(cmd.Context(), args[0], err)
			}
			return e.placed(cmd.Context(), args[0], e.printPlan(cmd, spec, list, c, w))
		},
	}
	addFlags(cmd, own, common)
	return cmd
}

// checkWorkload refuses estimates that are of nothing.
func checkWorkload(own *flag.FlagSet) error {
	var err error
	own.VisitAll(func(f *flag.Flag) {
		n, ok := f.Value.(flag.Getter).Get().(int64)
		least := int64(1)
		if f.Name == "depth" || f.Name == "cells" || f.Name == "words" {
			least = 0
		}
		if most := int64(1_000_000_000_000); err == nil && ok && (n < least || n > most) {
			err = evalstream.Usagef("%s: want a number from %d to %s, got %d", f.Name, least, count(most), n)
		}
	})
	return err
}

func (e *env) printPlan(cmd *cobra.Command, spec *evalstream.Spec, list []stage, c *common, w stages.Workload) error {
	s := &session{env: e, verb: spec.Name, common: c}
	c.fromTopics = readsTopics(spec)
	if err := c.check(); err != nil {
		return err
	}
	ends, err := endsOf(spec, spec.To, spec.Rejects)
	if err != nil {
		return err
	}
	implied := false
	if ends.reads() {
		// Nobody is asked how many partitions there are: what several need is shown.
		whole, err := cutUp(cmd.Context(), list, spec, ends, func(context.Context, string) (int32, error) { return 2, nil })
		if err != nil {
			return err
		}
		implied = len(whole) > len(list)
		list = whole
	}
	p, err := s.assemble(cmd.Context(), list, false)
	if err != nil {
		return err
	}
	p.Name = spec.Name
	var b strings.Builder
	fmt.Fprintf(&b, "pipeline %s: %s → %s\n", spec.Name, orDefault(strings.Join(spec.From, ", "), "stdin"), orDefault(spec.To, "stdout"))
	width := 12
	for _, step := range p.Steps {
		width = max(width, len(step.Name))
	}
	for i, step := range p.Steps {
		hang(&b, fmt.Sprintf("%d  %-*s ", i+1, width, step.Name), step.Doc)
	}
	b.WriteByte('\n')
	if ends.reads() {
		cuts, err := layoutOf(p, list, ends)
		if err != nil {
			return err
		}
		cuts.text(&b, ends, implied)
	}
	holdingsText(&b, w, holdings(list, w))
	growthText(&b, list, c)
	stateText(&b, list, c)
	if _, err := e.stdout.Write([]byte(b.String())); err != nil {
		return lostOutput(err)
	}
	return nil
}

// held is what one step holds.
type held struct {
	step string
	stages.Holding
}

// holdings lists what the stages hold in memory.
func holdings(list []stage, w stages.Workload) []held {
	var hs []held
	w.Dims = defaultDims()
	add := func(s stage, of []stages.Holding) {
		for _, h := range of {
			hs = append(hs, held{s.name, h})
		}
	}
	for _, s := range list {
		switch o := s.options.(type) {
		case *stages.EmbedOptions:
			w.Dims = int64(o.Dims)
		case *stages.RankOptions:
			add(s, w.Ranked(o.Method))
		case *stages.ClassifyOptions:
			add(s, w.Sentences(o.Method == stages.ClassifyPrototype))
		case *stages.ScoreOptions:
			if scoredKind(list) == "verdict" {
				add(s, w.Judged())
				break
			}
			w.Measures = int64(max(1, len(o.Measures)))
			if len(o.Measures) == 0 {
				w.Measures = int64(len(stages.DefaultMeasures()))
			}
			gold := o.Gold
			if _, ok := topicOf(gold); ok {
				gold = ""
			}
			switch gold {
			case "":
				w.Fields = int64(len(fieldsAfter(list)))
				add(s, w.OpenGold())
			case inlineGold:
			default:
				add(s, w.FrozenGold())
			}
		case *stages.AggregateOptions:
			add(s, w.Aggregated())
		}
	}
	return hs
}

// defaultDims is what embed makes if nobody says otherwise.
func defaultDims() int64 {
	o := new(stages.EmbedOptions)
	o.Declare(flag.NewFlagSet("embed", flag.ContinueOnError))
	return int64(o.Dims)
}

// fieldsAfter are the fields that records carry to be grouped by.
func fieldsAfter(list []stage) []string {
	for _, s := range list {
		o, ok := s.options.(*stages.AggregateOptions)
		if !ok {
			continue
		}
		a, err := o.Aggregation()
		if err != nil {
			return nil
		}
		var fields []string
		for _, f := range a.Fields() {
			if f != "run" {
				fields = append(fields, f)
			}
		}
		return fields
	}
	return nil
}

// holdingsText prints a table of what is held.
func holdingsText(b *strings.Builder, w stages.Workload, hs []held) {
	if len(hs) == 0 {
		b.WriteString("memory: no step remembers units\n")
		return
	}
	lists := fmt.Sprintf("lists of %s", count(w.Depth))
	if w.Depth == 0 {
		lists = "labels"
	}
	text := fmt.Sprintf("memory of %s of %s each, %s, %s a unit, ids of %s:", plural(w.Units, "unit"), plural(w.Runs, "run"), lists, plural(w.Judgments, "judgment"), plural(w.IDBytes, "byte"))
	wrap(b, text, helpWidth)
	rows := [][4]string{{"step and what it holds", "bytes each", "number", "MiB"}}
	total := int64(0)
	for _, h := range hs {
		row := [4]string{h.step + ": " + h.What, count(h.Each), "", ""}
		if h.Count > 0 {
			row[2], row[3] = count(h.Count), mebibytes(h.Bytes())
			total += h.Bytes()
		} else {
			row[2] = "as they come"
		}
		rows = append(rows, row)
	}
	rows = append(rows, [4]string{"all that is counted", "", "", mebibytes(total)})
	var widths [4]int
	for _, r := range rows {
		for i, cell := range r {
			widths[i] = max(widths[i], cells(cell))
		}
	}
	for _, r := range rows {
		line := fmt.Sprintf("  %-*s  %*s  %*s  %*s", widths[0], r[0], widths[1], r[1], widths[2], r[2], widths[3], r[3])
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

func mebibytes(n int64) string {
	mib := float64(n) / (1 << 20)
	if mib < 10 {
		return fixed(mib, 1)
	}
	return count(int64(mib + .5))
}

// stateText says what --state does to memory.
func stateText(b *strings.Builder, list []stage, c *common) {
	if c.state == "" {
		return
	}
	of := remembering(list)
	if len(of) == 0 {
		return
	}
	b.WriteByte('\n')
	hang(b, "", fmt.Sprintf("with --state %s: the units of %s take at most %s of memory (--state-memory), each, and others are read back from there; its database takes some 64 MiB more. Cells stay in memory.", c.state, strings.Join(of, " and of "), c.stateMemory.String()))
}

// growthText says what grows as long as records come.
func growthText(b *strings.Builder, list []stage, c *common) {
	cut := false
	for _, s := range list {
		if o, ok := s.options.(*stages.AggregateOptions); ok {
			a, err := o.Aggregation()
			cut = cut || err == nil && a.Timed()
		}
	}
	where := strings.Join(remembering(list), " and ")
	if where == "" {
		return
	}
	b.WriteByte('\n')
	if c.horizon > 0 {
		hang(b, "", fmt.Sprintf("units of %s are forgotten %s of event time after they came: count the units of that span. Cells stay.", where, c.horizon.text()))
	} else {
		hang(b, "", fmt.Sprintf("without horizon: units of %s are remembered for ever, so memory grows with each new one; a record that replaces another adds nothing.", where))
	}
	if cut {
		hang(b, "", "cells grow with event time: one more a group for each window that is begun.")
	}
}

// remembering lists the steps that remember each unit.
func remembering(list []stage) []string {
	var units []string
	for _, s := range list {
		switch o := s.options.(type) {
		case *stages.ScoreOptions:
			if _, topic := topicOf(o.Gold); topic || o.Gold == "" {
				units = append(units, s.name)
			}
		case *stages.AggregateOptions:
			units = append(units, s.name)
		}
	}
	return units
}

// growthNote says how fast the state of a pipeline over topics grows, if nothing bounds
// it; else it is "".
func growthNote(list []stage, c *common) string {
	units := remembering(list)
	if len(units) == 0 || c.horizon > 0 {
		return ""
	}
	w := defaultWorkload()
	bytes := func(units int64) (n int64) {
		w.Units = units
		for _, h := range holdings(list, w) {
			n += h.Bytes()
		}
		return n
	}
	const million = 1_000_000
	each := (bytes(2*million) - bytes(million)) / million
	verb := "remembers"
	if len(units) > 1 {
		verb = "remember"
	}
	return fmt.Sprintf("without horizon %s %s each unit for ever, and the topics do not end: state grows by about %s a unit (1 run, list of %s and 1 judgment), %s MiB a million; evalstream plan counts others, and with horizon: 30d they are forgotten",
		strings.Join(units, " and "), verb, plural(each, "byte"), count(w.Depth), mebibytes(each*million))
}

func defaultWorkload() stages.Workload {
	return stages.Workload{Units: 1_000_000, Runs: 1, Depth: 10, Judgments: 1, IDBytes: 16, Passages: 100_000, Words: 60, Instances: 100_000}
}
