package cli

import (
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
		cmd := &cobra.Command{
			Use: v.Name + " [flags] [FILE...]", Short: v.Doc, GroupID: "stage", Example: "  " + v.Example,
			Long: fmt.Sprintf("%s: %s.\n\nReads records of kind %s and writes records of kind %s, one JSON object a line, from the\nfiles (or stdin) to stdout; docs/formats.md has their fields. What people read is on stderr.", v.Name, v.Doc, v.In, v.Out),
			RunE: func(cmd *cobra.Command, args []string) error {
				return e.filter(cmd, v.Name, o, c, args)
			},
		}
		addFlags(cmd, fs, c.flags(v.Name))
		cs = append(cs, cmd)
	}
	return cs
}

// addFlags takes over flags, set by set: a command's own come before the common ones.
// quiet and verbose get their short forms.
func addFlags(cmd *cobra.Command, sets ...*flag.FlagSet) {
	cmd.Flags().SortFlags = false
	for _, fs := range sets {
		fs.VisitAll(func(f *flag.Flag) {
			p := pflag.PFlagFromGoFlag(f)
			if p.Name == "quiet" || p.Name == "verbose" {
				p.Shorthand = p.Name[:1]
			}
			if strings.Contains(p.Usage, "(default: ") {
				p.DefValue = "" // it is said in words
			}
			cmd.Flags().AddFlag(p)
		})
	}
}

func (e *env) filter(cmd *cobra.Command, verb string, o stages.Options, c *common, files []string) error {
	inputs := append([]string{sideOf(o)}, files...)
	return e.do(cmd, verb, c, inputs, []stage{{verb: verb, name: verb, options: o}}, files, false, e.stdoutSink(), func() error { return nil })
}

// do assembles and runs one pipeline from files, or stdin, to sink; done is called
// when everything has been written.
func (e *env) do(cmd *cobra.Command, verb string, c *common, inputs []string, list []stage, files []string, gather bool, sink evalstream.Sink, done func() error) error {
	return e.doWith(cmd, verb, c, inputs, list, files, gather, sink, done, nil)
}

// doWith is do with topics in place of files and of the rejects file; nil: there are none.
func (e *env) doWith(cmd *cobra.Command, verb string, c *common, inputs []string, list []stage, files []string, gather bool, sink evalstream.Sink, done func() error, ends *ends) error {
	ctx := cmd.Context()
	if err := c.checkRules(list); err != nil {
		return err
	}
	s, err := e.begin(verb, c, inputs...)
	if err != nil {
		return err
	}
	s.headline = headlineMetric(list)
	return s.end(ctx, func() error {
		if err := ends.attach(ctx, s); err != nil {
			return err
		}
		p, err := s.assemble(ctx, fused(list), true)
		if err != nil {
			return err
		}
		if err := s.bindState(list); err != nil {
			return err
		}
		if c.verbose {
			if err := p.Plan(e.stderr); err != nil {
				return err
			}
		}
		in, err := s.open(ctx, files, gather, nil)
		if err != nil {
			return err
		}
		err = s.execute(ctx, p, in, sink)
		_, said := errors.AsType[*saidError](err)
		signal, ended := errors.AsType[*signalError](err)
		if err == nil || said || ended && signal.drained {
			if doneErr := done(); doneErr != nil {
				return doneErr
			}
		}
		return err
	}())
}
