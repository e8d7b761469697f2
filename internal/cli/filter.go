package cli

import (
	"flag"
	"fmt"

	"github.com/spf13/cobra"

	"evalstream"
	"evalstream/stages"
)

// filters makes one command a verb: a filter on NDJSON, the stage that pipelines run.
func (e *env) filters() []*cobra.Command {
	var cs []*cobra.Command
	for _, v := range stages.All() {
		o, c := v.Options(), newCommon()
		fs := flag.NewFlagSet(v.Name, flag.ContinueOnError)
		o.Declare(fs)
		c.declare(fs)
		cmd := &cobra.Command{
			Use: v.Name + " [flags] [FILE...]", Short: v.Doc, GroupID: "stage", Example: "  " + v.Example,
			Long: fmt.Sprintf("%s: %s.\n\nReads %s, writes %s, from the files or stdin to stdout.", v.Name, v.Doc, v.In, v.Out),
			RunE: func(cmd *cobra.Command, args []string) error {
				return e.filter(cmd, v.Name, o, c, args)
			},
		}
		addFlags(cmd, fs)
		cs = append(cs, cmd)
	}
	return cs
}

// addFlags takes over the stage's flags; -q and -v are short ones.
func addFlags(cmd *cobra.Command, fs *flag.FlagSet) {
	cmd.Flags().AddGoFlagSet(fs)
	cmd.Flags().SortFlags = false
}

func (e *env) filter(cmd *cobra.Command, verb string, o stages.Options, c *common, files []string) error {
	ctx := cmd.Context()
	a, err := e.assemble(ctx, verb, []stage{{verb: verb, name: verb, options: o}}, c, true)
	if err != nil {
		return err
	}
	in, err := e.open(ctx, files, c, false)
	if err != nil {
		return err
	}
	return e.execute(ctx, a, in, e.stdoutSink(), c)
}

// outputs are the values of -o.
func outputs() []string { return []string{"ndjson", "table"} }

// output is the sink of results: a table for a terminal, NDJSON for a pipe.
func (e *env) output(format string) (evalstream.Sink, func() error, error) {
	if format == "" {
		format = "ndjson"
		if isTerminal(e.stdout) {
			format = "table"
		}
	}
	switch format {
	case "ndjson":
		return e.stdoutSink(), func() error { return nil }, nil
	case "table":
		t := NewTable(e.stdout)
		return t, t.Print, nil
	}
	return nil, nil, evalstream.Usagef("output %q: want one of %v", format, outputs())
}
