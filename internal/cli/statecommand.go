package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"evalstream"
	"evalstream/stages"
	statedir "evalstream/topics/state"
)

// state is the commands that look at a state directory.
func (e *env) state() *cobra.Command {
	cmd := parent(&cobra.Command{Use: "state", Short: "look at a state that --state keeps: show, export, verify", GroupID: "other"})
	sub := func(name, short, long string, f func(context.Context, *inspection) error) *cobra.Command {
		c := &cobra.Command{
			Use: name + " DIR", Short: short, Long: long, Args: usage(cobra.ExactArgs(1)),
			Example: "  evalstream eval retrieval --state state --qrels testdata/tatqa/tatqa_dev.qrels testdata/tatqa/tatqa_dev.bm25.run\n  evalstream state " + name + " state",
			RunE: func(cmd *cobra.Command, args []string) error {
				return e.inspect(cmd.Context(), args[0], f)
			},
		}
		cmd.AddCommand(c)
		return c
	}
	sub("show", "print how far a state has come and what is in it", "show: print how far a state has come and what is in it.", e.showState)
	step := ""
	export := sub("export", "print what a state holds as NDJSON", "export: print what a state holds as NDJSON.\n\nOf score the records that hold its slots, which score reads again, with other options\ntoo; of aggregate its cells, as partials that merge reads.", func(ctx context.Context, in *inspection) error { return e.exportState(ctx, in, step) })
	export.Flags().StringVar(&step, "step", "", "print what this `STEP` holds alone, such as score (default: all steps)")
	sub("verify", "read a whole state and check that it adds up", "verify: read a whole state and check that it adds up: no entry is missing or changed,\nevery record is accounted for, and the cells are what the units make of them.\nExit code 5 if not.", e.verifyState)
	return cmd
}

// inspection is a state with its steps, loaded.
type inspection struct {
	dir     string
	store   *statedir.Store
	options []evalstream.Option
	points  map[int32]*evalstream.Checkpoint
	order   []int32
	steps   []inspectedStep
}

type inspectedStep struct {
	name      string
	partition int32
	keeper    evalstream.Keeper
	entries   int64
	bytes     int64
}

// inspect loads a state as a job would, without its sources.
func (e *env) inspect(ctx context.Context, dir string, f func(context.Context, *inspection) error) (err error) {
	store, err := statedir.Open(dir, false)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := store.Close(); err == nil {
			err = closeErr
		}
	}()
	in := &inspection{dir: dir, store: store, points: map[int32]*evalstream.Checkpoint{}}
	if in.options, err = store.Options(); err != nil {
		return err
	}
	if in.order, err = store.Partitions(); err != nil {
		return err
	}
	for _, p := range in.order {
		if in.points[p], err = store.Checkpoint(p); err != nil {
			return err
		}
	}
	if len(in.order) > 0 {
		if err := e.loadSteps(ctx, in); err != nil {
			return err
		}
	}
	return f(ctx, in)
}

// loadSteps makes the stages that the options of the state spell.
func (e *env) loadSteps(ctx context.Context, in *inspection) error {
	c := newCommon()
	fs := c.flags("state")
	fields := map[string]map[string]json.RawMessage{}
	var steps []string
	for _, o := range in.options {
		step, field, ofStep := strings.Cut(o.Name, ".")
		switch {
		case o.Name == stepsOption:
			steps = strings.Fields(o.Value)
		case ofStep:
			if fields[step] == nil {
				fields[step] = map[string]json.RawMessage{}
			}
			fields[step][field] = json.RawMessage(o.Value)
		case fs.Lookup(o.Name) != nil:
			if err := fs.Set(o.Name, o.Value); err != nil {
				return evalstream.Damaged(fmt.Errorf("state %s: option %s: %w", in.dir, o.Name, err))
			}
		}
	}
	var list []stage
	for _, s := range steps {
		name, verb, _ := strings.Cut(s, "=")
		st, err := stageFrom(name, verb, fields[name])
		if err != nil {
			return evalstream.Damaged(fmt.Errorf("state %s: %w", in.dir, err))
		}
		list = append(list, st)
	}
	s := &session{env: e, verb: "state", common: c}
	p, err := s.assemble(ctx, list, false)
	if err != nil {
		return evalstream.Damaged(fmt.Errorf("state %s: %w", in.dir, err))
	}
	for _, partition := range in.order {
		for _, step := range p.Steps {
			if err := in.load(step, partition); err != nil {
				return err
			}
		}
	}
	return nil
}

// stageFrom is a verb with its options as they were saved.
func stageFrom(name, verb string, fields map[string]json.RawMessage) (stage, error) {
	for _, v := range stages.All() {
		if v.Name != verb {
			continue
		}
		o := v.Options()
		data, err := json.Marshal(fields)
		if err == nil {
			err = json.Unmarshal(data, o)
		}
		return stage{verb: verb, name: name, options: o}, err
	}
	return stage{}, fmt.Errorf("no verb %q", verb)
}

// load gives a step what it has put.
func (in *inspection) load(step evalstream.Step, partition int32) error {
	st, err := step.New()
	if err != nil {
		return err
	}
	var k evalstream.Keeper
	switch st := st.(type) {
	case evalstream.Kept:
		k = st
	case evalstream.Traced:
		k = st.Follower()
	default:
		return nil
	}
	s := inspectedStep{name: step.Name, partition: partition, keeper: k}
	k.Keep(evalstream.Shelf{
		Get: func(dst, key []byte) ([]byte, bool, error) { return in.store.Get(dst, step.Name, partition, key) },
		Scan: func(from []byte, f func(key, val []byte) (bool, error)) error {
			return in.store.Scan(step.Name, partition, from, f)
		},
	})
	err = in.store.Scan(step.Name, partition, nil, func(key, val []byte) (bool, error) {
		s.entries++
		s.bytes += int64(len(key) + len(val))
		err := k.Load(key, val)
		return err == nil, err
	})
	if err == nil {
		err = k.Loaded()
	}
	if err == nil {
		in.steps = append(in.steps, s)
		return nil
	}
	if _, known := errors.AsType[*evalstream.ExitError](err); !known {
		err = evalstream.Damaged(fmt.Errorf("state %s: %s: %w", in.dir, step.Name, err))
	}
	return err
}

func (e *env) showState(_ context.Context, in *inspection) error {
	w := bufio.NewWriter(e.stdout)
	fmt.Fprintf(w, "state %s, %s on disk\n", in.dir, sizeText(diskBytes(in.dir)))
	for _, o := range in.options {
		fmt.Fprintf(w, "  %s %s\n", o.Name, o.Value)
	}
	if len(in.order) == 0 {
		fmt.Fprintln(w, "nothing was read yet")
	}
	for _, p := range in.order {
		cp := in.points[p]
		for _, at := range cp.Places {
			fmt.Fprintf(w, "%s: read to line %s\n", at.Origin.String(), count(at.Line))
		}
		fmt.Fprintf(w, "%s = %s blank + %s read\n", plural(cp.Lines, "line"), count(cp.Blank), count(cp.Lines-cp.Blank))
		for _, t := range cp.Front {
			if t.Received > 0 {
				fmt.Fprintln(w, tallyText(t))
			}
		}
		if cp.Rejects > 0 {
			fmt.Fprintf(w, "%s: %s\n", plural(cp.Rejects, "reject"), classes(cp.ByClass))
		}
		if cp.Newest != evalstream.NoTime {
			fmt.Fprintf(w, "newest time %s\n", cp.Newest)
		}
	}
	for _, s := range in.steps {
		fmt.Fprintf(w, "%s: %s entries, %s\n", s.name, count(s.entries), sizeText(s.bytes))
		if t, ok := s.keeper.(evalstream.Tallied); ok {
			for _, row := range t.Tallies() {
				row.Step = s.name
				fmt.Fprintln(w, tallyText(row))
			}
		}
	}
	return w.Flush()
}

func (e *env) exportState(ctx context.Context, in *inspection, step string) error {
	names := make([]string, len(in.steps))
	for i, s := range in.steps {
		names[i] = s.name
	}
	if step != "" && !slices.Contains(names, step) {
		return evalstream.Usagef("step: want one of %s, got %q%s", strings.Join(names, ", "), step, didYouMean(step, names))
	}
	sink := e.stdoutSink()
	for _, s := range in.steps {
		if step != "" && s.name != step {
			continue
		}
		x, ok := s.keeper.(stages.Inspected)
		if !ok {
			continue
		}
		err := x.Export(func(r evalstream.Record) error {
			if p, ok := r.Body.(*evalstream.Partial); ok {
				p.Step, p.Partition, p.Partitions = s.name, s.partition, int32(len(in.order))
			}
			return sink.Write(ctx, []evalstream.Record{r})
		})
		if err != nil {
			return err
		}
	}
	return sink.Flush(ctx)
}

func (e *env) verifyState(_ context.Context, in *inspection) error {
	entries := int64(0)
	if err := in.store.Entries(func(int32, string, []byte, []byte) error {
		entries++
		return nil
	}); err != nil {
		return err
	}
	if entries > 0 && len(in.steps) == 0 {
		return &evalstream.ExitError{
			Code: evalstream.ExitState, Err: fmt.Errorf("state %s: names no steps, so there is nothing to compare with", in.dir),
			Hint: "the copy that a pipeline over topics keeps has none: state show reads it, and it may be removed, for the changelog has all of it",
		}
	}
	for _, s := range in.steps {
		entries -= s.entries
		if x, ok := s.keeper.(stages.Inspected); ok {
			if err := x.Verify(); err != nil {
				return evalstream.Damaged(fmt.Errorf("state %s: %s: %w", in.dir, s.name, err))
			}
		}
	}
	if entries != 0 {
		return evalstream.Damaged(fmt.Errorf("state %s: entries of no step: %d", in.dir, entries))
	}
	total := int64(0)
	for _, s := range in.steps {
		total += s.entries
	}
	_, err := fmt.Fprintf(e.stdout, "state %s: %s entries of %s, all of them add up\n", in.dir, count(total), plural(int64(len(in.steps)), "step"))
	return err
}

// diskBytes is what the files of a directory take.
func diskBytes(dir string) int64 {
	total := int64(0)
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // a file that went while we looked takes nothing
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
		return nil
	})
	return total
}

func sizeText(n int64) string {
	for _, u := range []unit{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.factor {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(u.factor), u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}
