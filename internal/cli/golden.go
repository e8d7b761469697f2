package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"evalstream"
	"evalstream/codecs"
	"evalstream/stages"
)

const (
	caseIn  = ".in."
	caseOut = ".out.ndjson"
	// caseGold is what score reads in place of its gold, as from a file: final results do
	// not depend on when gold comes.
	caseGold = ".gold.ndjson"
	// shownDifferences is how many differences of a case are told.
	shownDifferences = 20
)

func (e *env) test() *cobra.Command {
	var update bool
	c := newCommon()
	set := c.flags("test")
	cmd := &cobra.Command{
		Use: "test [--update] PIPELINE.yaml [DIR]", Short: "run a pipeline file on its golden cases", GroupID: "other", Args: usage(cobra.RangeArgs(1, 2)),
		Long: "test: run a pipeline file on its golden cases.\n\nA case is a file NAME.in.ndjson (or another format, compressed too) in DIR, by default the folder that tests: names, beside the pipeline file, or else PIPELINE.tests. It is read in place of from:. NAME.gold.ndjson beside it, if it is there, is read whole in place of the gold: of score, such as a topic of judgments. What comes out is compared with NAME.out.ndjson: final results in any order and without through, revision and closed; other records, and rejects, in order. Exit code 10 if they differ.\n\n" +
			"--update writes NAME.out.ndjson.",
		Example: "  evalstream test deploy/pipelines/retrieval.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, list, err := e.load(args[0], set, cmd)
			if err != nil {
				return e.placed(cmd.Context(), args[0], err)
			}
			dir := strings.TrimSuffix(args[0], filepath.Ext(args[0])) + ".tests"
			if spec.Tests != "" {
				dir = filepath.Join(filepath.Dir(args[0]), spec.Tests)
			}
			if len(args) > 1 {
				dir = args[1]
			}
			g := &goldenCases{env: e, name: spec.Name, common: c, list: list, update: update, file: args[0]}
			return e.placed(cmd.Context(), args[0], g.all(cmd.Context(), dir))
		},
	}
	cmd.Flags().BoolVar(&update, "update", false, "write what comes out as what is wanted from now on")
	addFlags(cmd, set)
	return cmd
}

// goldenCases runs the cases of one pipeline.
type goldenCases struct {
	*env
	name, file string
	common     *common
	list       []stage
	update     bool
}

// all runs each case of a folder, in the order of their names.
func (g *goldenCases) all(ctx context.Context, dir string) error {
	cases, err := filepath.Glob(filepath.Join(dir, "*"+caseIn+"*"))
	if err != nil {
		return evalstream.Usagef("test: %s: %w", dir, err)
	}
	if len(cases) == 0 {
		return &evalstream.ExitError{
			Code: evalstream.ExitUsage, Err: fmt.Errorf("want cases NAME.in.ndjson in %s, got none", dir),
			Hint: "put a few input lines there and run evalstream test --update " + g.file,
		}
	}
	failed := 0
	for _, in := range cases {
		differences, err := g.one(ctx, in)
		if err != nil {
			return err
		}
		if err := g.tell(in, differences); err != nil {
			return err
		}
		if len(differences) > 0 {
			failed++
		}
	}
	if failed == 0 {
		return nil
	}
	_, err = fmt.Fprintf(g.stdout, "cases that differ: %d of %d; if that is right: evalstream test --update %s\n", failed, len(cases), g.file)
	if err != nil {
		return lostOutput(err)
	}
	return &saidError{evalstream.ExitGate}
}

// caseName is NAME of the input file of a case.
func caseName(in string) string {
	name, _, _ := strings.Cut(filepath.Base(in), caseIn)
	return name
}

func (g *goldenCases) tell(in string, differences []string) error {
	var b strings.Builder
	switch {
	case g.update:
		b.WriteString("wrote  " + caseName(in) + caseOut + "\n")
	case len(differences) == 0:
		b.WriteString("ok    " + caseName(in) + "\n")
	default:
		b.WriteString("FAIL  " + caseName(in) + "\n")
	}
	for i, d := range differences {
		if i == shownDifferences {
			b.WriteString("  and " + plural(int64(len(differences)-i), "more difference") + "\n")
			break
		}
		b.WriteString("  " + d + "\n")
	}
	_, err := g.stdout.Write([]byte(b.String()))
	return lostOutput(err)
}

// one runs a case and returns how its output differs from what is wanted.
func (g *goldenCases) one(ctx context.Context, in string) ([]string, error) {
	got, err := g.run(ctx, in)
	if err != nil {
		if evalstream.ExitCode(err) == evalstream.ExitUsage {
			return nil, err
		}
		return []string{err.Error()}, nil
	}
	path := filepath.Join(filepath.Dir(in), caseName(in)+caseOut)
	if g.update {
		if err := os.WriteFile(path, got, 0o666); err != nil {
			return nil, evalstream.Lost(err)
		}
		return nil, nil
	}
	want, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return []string{filepath.Base(path) + " is not there; --update writes it"}, nil
	}
	if err != nil {
		return nil, evalstream.Lost(err)
	}
	wanted, err := outcomes(want)
	if err != nil {
		return nil, evalstream.Usagef("%s:%w", path, err)
	}
	given, err := outcomes(got)
	if err != nil {
		return nil, fmt.Errorf("%s: output: %w", in, err)
	}
	return differ(wanted, given), nil
}

// run is the final output of the pipeline on one input: records, then rejects.
func (g *goldenCases) run(ctx context.Context, in string) (lines []byte, err error) {
	list, gold, err := g.withGold(in)
	if err != nil {
		return nil, err
	}
	out, rejects := &kept{inputs: []string{in}}, &kept{inputs: []string{in}}
	if gold != "" {
		out.inputs, rejects.inputs = append(out.inputs, gold), append(rejects.inputs, gold)
	}
	s := &session{env: g.env, verb: g.name, common: g.common, rejects: NewRejects(rejects)}
	if err := g.common.check(); err != nil {
		return nil, err
	}
	defer func() { err = s.end(ctx, err) }()
	p, err := s.assemble(ctx, fused(list), true)
	if err != nil {
		return nil, err
	}
	input, err := s.open(ctx, []string{in}, false, nil)
	if err != nil {
		return nil, err
	}
	job := evalstream.Job{
		Pipeline: p, Source: input.Source, Sink: out, Rejects: s.rejects, Workers: g.common.workers,
		MaxOutOfOrder: time.Duration(g.common.maxOutOfOrder), IdleTimeout: time.Duration(g.common.idleTimeout), FailFast: g.common.failFast,
	}
	_, err = job.Run(ctx)
	_ = input.lines.Close() // it was only read
	if err != nil && !errors.Is(err, evalstream.ErrStopped) {
		return nil, err
	}
	return append(out.lines, rejects.lines...), nil
}

// withGold is the stages with the gold of a case, if it has one of its own, and where that is.
func (g *goldenCases) withGold(in string) (list []stage, gold string, err error) {
	path := filepath.Join(filepath.Dir(in), caseName(in)+caseGold)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return g.list, "", nil
	}
	list = slices.Clone(g.list)
	for i, st := range list {
		if o, ok := st.options.(*stages.ScoreOptions); ok {
			mine := *o
			mine.Gold = path
			list[i].options = &mine
			return list, path, nil
		}
	}
	return nil, "", evalstream.Usagef("%s: want a step score to give it to, got none", path)
}

// kept is a sink that keeps lines, of results the final ones in a form that does not
// depend on how they came about.
type kept struct {
	inputs []string
	lines  []byte
}

// Write keeps recs.
func (k *kept) Write(_ context.Context, recs []evalstream.Record) error {
	for _, rec := range recs {
		switch b := rec.Body.(type) {
		case *evalstream.Result:
			if !b.Final {
				continue
			}
			r := *b
			r.Through, r.Revision, r.Closed = nil, 0, true
			rec.Body = &r
		case *evalstream.Rejected:
			r := *b
			if o := r.At.Origin; o != nil && slices.Contains(k.inputs, o.Name) {
				r.At.Origin = &evalstream.Origin{Name: filepath.Base(o.Name)}
			}
			rec.Body = &r
		}
		k.lines = codecs.AppendRecord(k.lines, &rec)
	}
	return nil
}

// Flush does nothing.
func (*kept) Flush(context.Context) error { return nil }

// outcome is a record as it is compared.
type outcome struct {
	key    string
	fields map[string]any
}

// outcomes reads lines. Results that are not final are left out.
func outcomes(data []byte) ([]outcome, error) {
	var all []outcome
	seen := map[string]int{}
	n := 0
	for line := range bytes.Lines(data) {
		n++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		fields := map[string]any{}
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.UseNumber()
		if err := dec.Decode(&fields); err != nil {
			return nil, fmt.Errorf("%d: want a JSON object, got %w", n, err)
		}
		kind, _ := fields["kind"].(string)
		if kind == "result" {
			if final, _ := fields["final"].(bool); !final {
				continue
			}
			for _, name := range []string{"through", "revision", "closed"} {
				delete(fields, name)
			}
			all = append(all, outcome{fmt.Sprintf("result %v %s %s", fields["metric"], compact(fields["by"]), compact(fields["window"])), fields})
			continue
		}
		if kind == "" {
			kind = "record"
		}
		seen[kind]++
		all = append(all, outcome{fmt.Sprintf("%s %d", kind, seen[kind]), fields})
	}
	return all, nil
}

// compact is a value as JSON with sorted keys.
func compact(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // it was decoded from JSON
	return strings.TrimSuffix(b.String(), "\n")
}

// differ lists how got differs from want, a field a line.
func differ(want, got []outcome) []string {
	var ds []string
	given := map[string]outcome{}
	for _, o := range got {
		given[o.key] = o
	}
	wanted := map[string]bool{}
	for _, w := range want {
		wanted[w.key] = true
		g, ok := given[w.key]
		if !ok {
			ds = append(ds, w.key+": want "+compact(w.fields)+", got none")
			continue
		}
		names := slices.Sorted(maps.Keys(w.fields))
		for _, name := range slices.Sorted(maps.Keys(g.fields)) {
			if _, ok := w.fields[name]; !ok {
				names = append(names, name)
			}
		}
		for _, name := range names {
			if a, b := fieldText(w.fields, name), fieldText(g.fields, name); a != b {
				ds = append(ds, w.key+": "+name+": want "+a+", got "+b)
			}
		}
	}
	for _, g := range got {
		if !wanted[g.key] {
			ds = append(ds, g.key+": want none, got "+compact(g.fields))
		}
	}
	return ds
}

func fieldText(fields map[string]any, name string) string {
	v, ok := fields[name]
	if !ok {
		return "nothing"
	}
	return compact(v)
}
