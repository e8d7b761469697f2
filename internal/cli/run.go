package cli

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"evalstream"
	"evalstream/stages"
)

func (e *env) run() *cobra.Command {
	c := newCommon()
	only, untilEnd := "", false
	fs := c.flags("run")
	cmd := &cobra.Command{
		Use: "run PIPELINE.yaml", Short: "run a pipeline file",
		Long: "Run the stages of a pipeline file from its from: (default stdin) to its to: (default stdout).\nThe flags below may also stand at the top level of the file, with _ for -; the command line wins.", GroupID: "other", Args: usage(onePipeline),
		Example: "  evalstream run deploy/pipelines/tatqa.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, list, err := e.load(args[0], fs, cmd)
			if err != nil {
				return e.placed(cmd.Context(), args[0], err)
			}
			return e.placed(cmd.Context(), args[0], e.runSpec(cmd, spec, list, c, only, untilEnd))
		},
	}
	own := flag.NewFlagSet("run", flag.ContinueOnError)
	own.StringVar(&only, "only", "", "run the steps between two cuts alone: those that `STEP` is among (default: all)")
	own.BoolVar(&untilEnd, "until-end", false, "stop at the ends that the topics of from: have when this begins (default: go on until a signal)")
	addFlags(cmd, own, fs)
	return cmd
}

func orDefault(edge, standby string) string {
	if edge == "" || edge == "-" {
		return standby
	}
	return edge
}

// load reads a pipeline file. common is the flags that its top level may set; those
// that the command line gives win.
func (e *env) load(path string, common *flag.FlagSet, cmd *cobra.Command) (*evalstream.Spec, []stage, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, evalstream.Usagef("pipeline: %w", err)
	}
	spec, err := evalstream.LoadSpec(path, data, e.getenv)
	faults, ok := errors.AsType[evalstream.Faults](err)
	if err != nil && !ok {
		return nil, nil, err
	}
	if spec == nil {
		return nil, nil, err
	}
	spec.Name = pipelineName(spec, path)
	faults = append(faults, setOptions(spec.File, "pipeline", common, spec.Options, func(name string) bool {
		return cmd != nil && cmd.Flags().Changed(name)
	})...)
	var list []stage
	for _, s := range spec.Stages {
		st, fs := stageOf(spec.File, s)
		faults = append(faults, fs...)
		list = append(list, st)
	}
	if len(faults) > 0 {
		slices.SortStableFunc(faults, func(a, b evalstream.ConfigFault) int {
			if a.Line != b.Line {
				return a.Line - b.Line
			}
			return a.Column - b.Column
		})
		return nil, nil, &evalstream.ExitError{Code: evalstream.ExitUsage, Err: faults}
	}
	return spec, list, nil
}

// pipelineName is what the file calls the pipeline, or the file's own name.
func pipelineName(spec *evalstream.Spec, path string) string {
	return cmp.Or(spec.Name, strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)))
}

// stageOf reads one item of stages.
func stageOf(path string, s evalstream.StageSpec) (stage, evalstream.Faults) {
	fault := func(format string, args ...any) (stage, evalstream.Faults) {
		return stage{}, evalstream.Faults{{File: path, Line: s.Line, Column: s.Column, Reason: fmt.Sprintf(format, args...)}}
	}
	var names []string
	for _, v := range stages.All() {
		names = append(names, v.Name)
		if v.Name != s.Verb {
			continue
		}
		o := v.Options()
		fs := flag.NewFlagSet(v.Name, flag.ContinueOnError)
		o.Declare(fs)
		faults := setOptions(path, v.Name, fs, s.Options, nil)
		name := s.As
		if name == "" {
			name = v.Name
		}
		via, _ := topicOf("topic:" + strings.TrimPrefix(s.Via, "topic:"))
		return stage{verb: v.Name, name: name, options: o, via: via, line: s.Line, column: s.Column}, faults
	}
	if s.Verb == "" {
		return stage{}, nil // the loader has said so
	}
	return fault("stages: no verb %q%s", s.Verb, didYouMean(s.Verb, names))
}

// setOptions gives fields to the flags of the same name, _ for -.
func setOptions(path, what string, fs *flag.FlagSet, options []evalstream.Option, skip func(name string) bool) evalstream.Faults {
	var faults evalstream.Faults
	for _, o := range options {
		name := strings.ReplaceAll(o.Name, "_", "-")
		f := fs.Lookup(name)
		at := evalstream.ConfigFault{File: path, Line: o.Line, Column: o.Column}
		if f == nil {
			var names []string
			if what == "pipeline" {
				names = append(names, "name", "brokers", "from", "to", "rejects", "tests", "stages")
			}
			fs.VisitAll(func(f *flag.Flag) { names = append(names, strings.ReplaceAll(f.Name, "-", "_")) })
			at.Reason = fmt.Sprintf("%s: no field %q%s", what, o.Name, didYouMean(o.Name, names))
			faults = append(faults, at)
			continue
		}
		if skip != nil && skip(name) {
			continue
		}
		if names, _ := flag.UnquoteUsage(f); o.Number && (names == "FIELD" || names == "FIELDS") {
			at.Reason = fmt.Sprintf("%s: %s: want the name of a field, got the number %s; a field of that name is written \"%s\"", what, o.Name, o.Value, o.Value)
			faults = append(faults, at)
			continue
		}
		if err := f.Value.Set(o.Value); err != nil {
			at.Reason = fmt.Sprintf("%s: %s: %v", what, o.Name, err)
			faults = append(faults, at)
		}
	}
	return faults
}

func (e *env) runSpec(cmd *cobra.Command, spec *evalstream.Spec, list []stage, c *common, only string, untilEnd bool) (err error) {
	if c.rejects == "" {
		c.rejects = spec.Rejects
	}
	to := spec.To
	if to == "" || to == "stdout" {
		to = "-"
	}
	ends, err := endsOf(spec, to, c.rejects)
	if err != nil {
		return err
	}
	if ends.from == nil {
		if err := onlyTopics(list, only, untilEnd); err != nil {
			return err
		}
	}
	c.rejectsTopic, c.fromTopics = ends.rejects != "", ends.reads()
	ends.limited = cmd.Flags().Changed("max-rejects") || slices.ContainsFunc(spec.Options, func(o evalstream.Option) bool { return o.Name == "max_rejects" })
	if ends.from != nil {
		return inFile(spec.File, e.runTopics(cmd, spec, list, c, ends, to, only, untilEnd))
	}
	from := "-"
	if len(spec.From) == 1 && spec.From[0] != "" && spec.From[0] != "stdin" {
		from = spec.From[0]
	}
	files := []string{from}
	inputs := []string{from}
	for _, st := range list {
		inputs = append(inputs, sideOf(st.options))
	}
	var sink evalstream.Sink = e.stdoutSink()
	if ends.used() {
		if err := ends.connect(cmd.Context(), e, spec.Brokers, c.quiet); err != nil {
			return err
		}
		defer func() {
			if closeErr := ends.close(); err == nil {
				err = closeErr
			}
		}()
	}
	if ends.to != "" {
		if sink, err = ends.sink(cmd.Context(), ends.to); err != nil {
			return err
		}
	} else if to != "-" {
		out, f, err := e.outputFile(to, keptIf(c.state != ""))
		if err != nil {
			return err
		}
		defer func() {
			if closeErr := f.Close(); err == nil && closeErr != nil {
				err = evalstream.Lost(closeErr)
			}
		}()
		sink = out
	}
	return e.doWith(cmd, spec.Name, c, inputs, list, files, false, sink, func() error { return nil }, ends)
}

// outputFile opens the file of to:.
func (*env) outputFile(to string, how Opening) (evalstream.Sink, io.Closer, error) {
	edge, err := ParseEdge("to", to)
	if err != nil {
		return nil, nil, err
	}
	return OutputFile(edge.Path, how, appendLine)
}

// onlyTopics refuses what a pipeline that reads no topic cannot do.
func onlyTopics(list []stage, only string, untilEnd bool) error {
	switch {
	case untilEnd:
		return evalstream.Usagef("until-end: want from: topic:NAME; files and pipes end by themselves")
	case only != "":
		return evalstream.Usagef("only: want from: topic:NAME; what reads a file or a pipe runs in one process")
	}
	for _, st := range list {
		if st.via != "" {
			return evalstream.Usagef("%s: via: want from: topic:NAME; write the input to a topic first, by a pipeline of its own with to: topic:NAME", st.name)
		}
		if o, ok := st.options.(*stages.ScoreOptions); ok {
			if name, ok := topicOf(o.Gold); ok {
				return evalstream.Usagef("%s: gold: topic:%s: want from: topic:NAME too; or leave gold out, and give judgments in the stream", st.name, name)
			}
		}
	}
	return nil
}
