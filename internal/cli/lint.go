package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"evalstream"
	"evalstream/stages"
)

func (e *env) lint() *cobra.Command {
	var asJSON, files bool
	cmd := &cobra.Command{
		Use: "lint [flags] PIPELINE.yaml...", Short: "find all faults of pipeline files, without reading any record", GroupID: "other", Args: usage(cobra.MinimumNArgs(1)),
		Long:    "lint: find all faults of pipeline files at once, without reading any record.\n\nPrints one fault a line, as file:line:column: reason, to stdout; exit code 2 if there is one. Of a Markdown file the yaml blocks with stages are looked at.",
		Example: "  evalstream lint deploy/pipelines/*.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			var faults evalstream.Faults
			for _, path := range args {
				found, err := e.lintFile(cmd.Context(), path, files, true)
				if err != nil {
					return err
				}
				faults = append(faults, found...)
			}
			return e.printFaults(faults, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print each fault as a JSON object {file, line, column, reason}")
	cmd.Flags().BoolVar(&files, "files", false, "also check that the files that are read exist, and the folders of those that are written")
	return cmd
}

func (e *env) printFaults(faults evalstream.Faults, asJSON bool) error {
	if len(faults) == 0 {
		return nil
	}
	var b bytes.Buffer
	for _, f := range faults {
		if !asJSON {
			fmt.Fprintln(&b, evalstream.Faults{f}.Error())
			continue
		}
		line, err := json.Marshal(struct {
			File   string `json:"file"`
			Line   int    `json:"line"`
			Column int    `json:"column"`
			Reason string `json:"reason"`
		}{f.File, f.Line, f.Column, f.Reason})
		if err != nil {
			return err
		}
		b.Write(append(line, '\n'))
	}
	if _, err := e.stdout.Write(b.Bytes()); err != nil {
		return lostOutput(err)
	}
	return &saidError{evalstream.ExitUsage}
}

// lintFile looks at a pipeline file, or at the pipelines in a Markdown file.
func (e *env) lintFile(ctx context.Context, path string, files, notes bool) (evalstream.Faults, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, evalstream.Usagef("pipeline: %w", err)
	}
	docs := [][]byte{data}
	if ext := filepath.Ext(path); ext == ".md" || ext == ".markdown" {
		docs = yamlBlocks(data)
	}
	var faults evalstream.Faults
	for _, doc := range docs {
		l := &linter{env: e, file: path, files: files, notes: notes}
		l.lint(ctx, doc)
		faults = append(faults, l.sorted()...)
	}
	return faults, nil
}

// yamlBlocks are the fenced yaml blocks of a Markdown text that have stages, each behind
// as many empty lines as stand before it, so that positions are those of the text.
func yamlBlocks(text []byte) [][]byte {
	var blocks [][]byte
	var block []byte
	inside := false
	n := 0
	for line := range bytes.Lines(text) {
		n++
		fence := strings.TrimSpace(string(line))
		switch {
		case inside && fence == "```":
			inside = false
			if bytes.Contains(block, []byte("\nstages:")) {
				blocks = append(blocks, block)
			}
		case inside:
			block = append(block, line...)
		case fence == "```yaml" || fence == "```yml":
			inside, block = true, bytes.Repeat([]byte{'\n'}, n)
		}
	}
	return blocks
}

// linter gathers the faults of one pipeline.
type linter struct {
	*env
	file   string
	files  bool
	notes  bool // people are told what is worth knowing, too
	faults evalstream.Faults
}

func (l *linter) fault(line, column int, reason string) {
	l.faults = append(l.faults, evalstream.ConfigFault{File: l.file, Line: line, Column: column, Reason: reason})
}

// sorted is the faults by position, each once.
func (l *linter) sorted() evalstream.Faults {
	slices.SortStableFunc(l.faults, func(a, b evalstream.ConfigFault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.Compact(l.faults)
}

func (l *linter) lint(ctx context.Context, data []byte) {
	spec, err := evalstream.LoadSpec(l.file, data, l.getenv)
	if found, ok := errors.AsType[evalstream.Faults](err); ok {
		l.faults = append(l.faults, found...)
	}
	if spec == nil {
		return
	}
	c := l.common(spec)
	list, at := l.stages(ctx, spec, c)
	l.whole(ctx, c, list, at)
	if readsTopics(spec) {
		l.names(spec, list, at)
	}
	l.rules(spec, list)
	l.edges(spec)
	if n := growthNote(list, c); n != "" && readsTopics(spec) && len(l.faults) == 0 && l.notes {
		fmt.Fprintf(l.stderr, "note: %s: %s\n", l.file, n)
	}
}

// common reads the options of the whole pipeline; those at fault are left out.
func (l *linter) common(spec *evalstream.Spec) *common {
	good := l.settable("pipeline", newCommon().declare, spec.Options)
	read := func(in []bool) (*common, error) {
		c := newCommon()
		c.fromTopics = readsTopics(spec)
		set := flag.NewFlagSet("pipeline", flag.ContinueOnError)
		c.declare(set)
		_ = setOptions(l.file, "pipeline", set, picked(good, in), nil) // each is known to be taken
		if err := c.check(); err != nil {
			return c, err
		}
		return c, c.aggregation(new(stages.Aggregation))
	}
	in := l.culprits("pipeline", good, 1, 1, func(in []bool) error {
		_, err := read(in)
		return err
	})
	c, err := read(in)
	if err != nil {
		return newCommon()
	}
	return c
}

// settable reports the options that name no flag or that their flag does not take, and
// returns the others.
func (l *linter) settable(what string, declare func(*flag.FlagSet), options []evalstream.Option) []evalstream.Option {
	var good []evalstream.Option
	for _, o := range options {
		set := flag.NewFlagSet(what, flag.ContinueOnError)
		declare(set)
		found := setOptions(l.file, what, set, []evalstream.Option{o}, nil)
		if len(found) == 0 {
			good = append(good, o)
		}
		l.faults = append(l.faults, found...)
	}
	return good
}

func picked(options []evalstream.Option, in []bool) []evalstream.Option {
	var out []evalstream.Option
	for i, o := range options {
		if in[i] {
			out = append(out, o)
		}
	}
	return out
}

// culprits finds the options that make try fail: each is the last one without which it
// fails in another way, or not at all. If there is none such, the place line:column is
// at fault. It returns which options remain.
func (l *linter) culprits(what string, options []evalstream.Option, line, column int, try func(in []bool) error) []bool {
	in := make([]bool, len(options))
	for i := range in {
		in[i] = true
	}
	blame(in, try, func(i int, err error) {
		reason := strings.TrimPrefix(err.Error(), what+": ")
		if what != "parse" {
			reason = strings.TrimPrefix(reason, "parse: ") // the stage in front plans for this one
		}
		if i < 0 {
			l.fault(line, column, what+": "+reason)
		} else {
			l.fault(options[i].Line, options[i].Column, what+": "+reason)
		}
	})
	return in
}

// blame finds what makes try fail, takes it out of in, and goes on until try succeeds or
// nothing can be blamed (i is then -1).
func blame(in []bool, try func(in []bool) error, fault func(i int, err error)) {
	for {
		err := try(in)
		if err == nil {
			return
		}
		guilty := -1
		for i := len(in) - 1; i >= 0 && guilty < 0; i-- {
			if !in[i] {
				continue
			}
			in[i] = false
			if without := try(in); without == nil || without.Error() != err.Error() {
				guilty = i
			} else {
				in[i] = true
			}
		}
		fault(guilty, err)
		if guilty < 0 {
			return
		}
	}
}

// stages reads each stage by itself, and returns those without fault.
func (l *linter) stages(ctx context.Context, spec *evalstream.Spec, c *common) (list []stage, at []evalstream.StageSpec) {
	s := &session{env: l.env, verb: "lint", common: c}
	for _, item := range spec.Stages {
		bare := item
		bare.Options = nil
		st, found := stageOf(l.file, bare)
		l.faults = append(l.faults, found...)
		if st.options == nil {
			continue
		}
		good := l.settable(item.Verb, func(set *flag.FlagSet) { declareNew(item.Verb, set) }, item.Options)
		if l.files {
			l.exist(item.Verb, good)
		}
		before := len(l.faults)
		read := func(in []bool) stage {
			some := item
			some.Options = picked(good, in)
			st, _ := stageOf(l.file, some)
			return st
		}
		in := l.culprits(item.Verb, good, item.Line, item.Column, func(in []bool) error {
			st := read(in)
			st.name = item.Verb // what an error begins with
			st.via = ""         // what is behind it is seen with the others
			_, err := s.assemble(ctx, []stage{st}, false)
			return err
		})
		if guilty := l.faults[before:]; slices.ContainsFunc(guilty, func(f evalstream.ConfigFault) bool { return f.Line == item.Line && f.Column == item.Column }) {
			continue // it cannot be had at all
		}
		list, at = append(list, read(in)), append(at, item)
	}
	return list, at
}

// declareNew declares the flags of a verb.
func declareNew(verb string, set *flag.FlagSet) {
	for _, v := range stages.All() {
		if v.Name == verb {
			v.Options().Declare(set)
		}
	}
}

// whole checks the stages together.
func (l *linter) whole(ctx context.Context, c *common, list []stage, at []evalstream.StageSpec) {
	if len(list) == 0 {
		return
	}
	s := &session{env: l.env, verb: "lint", common: c}
	in := make([]bool, len(list))
	for i := range in {
		in[i] = true
	}
	blame(in, func(in []bool) error {
		var some []stage
		for i, st := range list {
			if in[i] {
				some = append(some, st)
			}
		}
		if len(some) == 0 {
			return nil
		}
		if !in[len(in)-1] {
			some[len(some)-1].via = "" // the steps behind it are left out here alone
		}
		_, err := s.assemble(ctx, some, false)
		return err
	}, func(i int, err error) {
		i = max(i, 0)
		l.fault(at[i].Line, at[i].Column, err.Error())
	})
}

// names checks that what is named after the pipeline and its steps can be.
func (l *linter) names(spec *evalstream.Spec, list []stage, at []evalstream.StageSpec) {
	name := pipelineName(spec, l.file)
	if err := checkName("name", name); err != nil {
		l.fault(1, 1, err.Error())
		return
	}
	for i, s := range list {
		if err := checkStage(name, s); err != nil {
			l.fault(at[i].Line, at[i].Column, err.Error())
		}
	}
}

// rules checks each --fail-if by what the stages can publish.
func (l *linter) rules(spec *evalstream.Spec, list []stage) {
	if len(list) < len(spec.Stages) {
		return // what is at fault there might publish it
	}
	for _, o := range spec.Options {
		if o.Name != "fail_if" {
			continue
		}
		u, err := parseRule(o.Value)
		if err != nil {
			continue // it was said
		}
		if err := checkRule(u, list); err != nil {
			l.fault(o.Line, o.Column, err.Error())
		}
	}
}

// edges checks where records come from and go to.
func (l *linter) edges(spec *evalstream.Spec) {
	for _, o := range spec.Edges {
		standard := o.Name == "from" && o.Value == "stdin" || o.Name == "to" && o.Value == "stdout"
		if o.Value == "" || o.Name == "tests" || standard {
			continue
		}
		if name, ok := topicOf(o.Value); ok && o.Name != "tests" {
			if err := checkTopic(o.Name, name); err != nil {
				l.fault(o.Line, o.Column, err.Error())
			}
			continue
		}
		if o.Name == "from" && len(spec.From) > 1 {
			l.fault(o.Line, o.Column, errFromList(o.Value).Error())
			continue
		}
		if _, err := ParseEdge(o.Name, o.Value); err != nil {
			l.fault(o.Line, o.Column, err.Error())
			continue
		}
		if l.files {
			l.exists(o.Name, o, o.Name == "from")
		}
	}
}

// exist checks the files that options of a verb name.
func (l *linter) exist(verb string, options []evalstream.Option) {
	set := flag.NewFlagSet(verb, flag.ContinueOnError)
	declareNew(verb, set)
	for _, o := range options {
		f := set.Lookup(strings.ReplaceAll(o.Name, "_", "-"))
		if f == nil {
			continue
		}
		if name, _ := flag.UnquoteUsage(f); (name == "EDGE" || name == "FILE") && o.Value != inlineGold {
			l.exists(verb+": "+o.Name, o, true)
		}
	}
}

// exists checks the file of an edge that is read, or the folder of one that is written.
func (l *linter) exists(what string, o evalstream.Option, read bool) {
	edge, err := ParseEdge(o.Name, o.Value)
	if err != nil || edge.Std {
		return
	}
	path := edge.Path
	if !read {
		path = filepath.Dir(path)
	}
	if _, err := os.Stat(path); err != nil {
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			err = p.Err
		}
		l.fault(o.Line, o.Column, fmt.Sprintf("%s: %s: %v", what, path, err))
	}
}

// placed finds all faults in a pipeline file with their positions, if err, which ended a
// command, is about one of them.
func (e *env) placed(ctx context.Context, path string, err error) error {
	if evalstream.ExitCode(err) != evalstream.ExitUsage {
		return err
	}
	if _, said := errors.AsType[*saidError](err); said {
		return err
	}
	if found, lintErr := e.lintFile(ctx, path, false, false); lintErr == nil && len(found) > 0 {
		return &evalstream.ExitError{Code: evalstream.ExitUsage, Err: found}
	}
	return err
}
