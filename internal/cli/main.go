package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"evalstream"
	"evalstream/topics/file"
)

// env is what a command may touch of the world.
type env struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) (string, bool)
	fault          error // of a command whose help was asked for
}

// Main runs one command and returns its exit code. stdout gets data only; stderr is
// for people.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	defer func() {
		// A panic would end with 2, which stands for wrong usage.
		if v := recover(); v != nil {
			fmt.Fprintf(stderr, "evalstream: panic, which is a bug: %v\n%s", v, debug.Stack())
			code = evalstream.ExitInternal
		}
	}()
	e := &env{stdin: stdin, stdout: stdout, stderr: stderr, getenv: os.LookupEnv}
	if len(args) > 0 && args[0] == "trec-eval" {
		return TrecEval(args[1:], stdin, stdout, stderr)
	}
	root := e.root()
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		plainUsages(root)
	}
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = e.fault
	}
	return e.exit(cmd.CommandPath(), err)
}

// exit prints an error of the command name and returns the exit code that it stands
// for.
func (e *env) exit(name string, err error) int {
	if err == nil || errors.Is(err, file.ErrClosedPipe) || errors.Is(err, syscall.EPIPE) {
		return evalstream.ExitDone
	}
	if signal, ok := errors.AsType[*signalError](err); ok {
		return signal.code
	}
	if said, ok := errors.AsType[*saidError](err); ok {
		return said.code
	}
	if faults, ok := errors.AsType[evalstream.Faults](err); ok {
		fmt.Fprintln(e.stderr, faults)
		return evalstream.ExitUsage
	}
	verb := name[strings.LastIndexByte(name, ' ')+1:]
	fmt.Fprintf(e.stderr, "%s: %s\n", name, strings.TrimPrefix(err.Error(), verb+": ")) // of a filter the stage is the command
	if x, ok := errors.AsType[*evalstream.ExitError](err); ok {
		if x.Hint != "" {
			fmt.Fprintf(e.stderr, "hint: %s\n", x.Hint)
		}
		return x.Code
	}
	if _, ok := errors.AsType[*usageError](err); ok {
		return evalstream.ExitUsage
	}
	if lost, ok := errors.AsType[*fs.PathError](err); ok && lost.Op == "write" {
		return evalstream.ExitLost // a table or a plan that found no room
	}
	return evalstream.ExitInternal
}

// usageError is a fault in the command line that cobra found.
type usageError struct{ err error }

func (u *usageError) Error() string { return u.err.Error() }
func (u *usageError) Unwrap() error { return u.err }

// saidError is an exit code whose reason is on stderr already.
type saidError struct{ code int }

func (s *saidError) Error() string { return fmt.Sprintf("exit code %d", s.code) }

// signalError says that a signal ended the command.
type signalError struct {
	code    int
	drained bool // what had been read was finished: its results are whole
}

func (s *signalError) Error() string { return fmt.Sprintf("ended by a signal (exit code %d)", s.code) }

func (e *env) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "evalstream",
		Short: "evaluate models while they run",
		Long: "evalstream is a dataflow over NDJSON that evaluates models while they run:\n" +
			"predictions and gold come in, rolling metrics with their uncertainty go out.\n\n" +
			"Exit codes: 0 done; 1 internal error; 2 usage or configuration; 3 too many rejects;\n" +
			"4 input or output lost; 5 state in use or of another command; 10 a --fail-if rule held;\n" +
			"11 not enough data for it; 12 results or vectors of different settings;\n" +
			"130 or 143 after a signal. trec-eval has trec_eval's own.",
		Example:           "  evalstream eval retrieval --qrels testdata/tatqa/tatqa_dev.qrels testdata/tatqa/tatqa_dev.bm25.run",
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: e.fromEnvironment,
	}
	parent(root)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return flagFault(cmd, err)
	})
	root.AddGroup(&cobra.Group{ID: "ready", Title: "Ready pipelines:"}, &cobra.Group{ID: "stage", Title: "Stages, each a filter on NDJSON:"}, &cobra.Group{ID: "other", Title: "Pipelines and the rest:"})
	root.AddCommand(e.eval(), e.trecEval())
	for _, c := range e.filters() {
		root.AddCommand(c)
	}
	root.AddCommand(e.run(), e.lint(), e.plan(), e.test(), e.transform(), e.state(), e.topics(), e.dlq(), e.verbs(), e.man(), e.version())
	root.SetHelpCommand(e.help(root))
	root.SetCompletionCommandGroupID("other")
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		if args := cmd.Flags().Args(); len(args) > 0 && cmd.HasSubCommands() {
			e.fault = noCommand(cmd, args[0])
			return
		}
		help(e.stdout, cmd)
	})
	root.SetOut(e.stdout) // completion writes to what is set when it is made
	root.SetErr(e.stderr)
	addCompletion(root)
	completions(root)
	return root
}

// parent makes cmd a command that does nothing by itself: it has the commands below.
func parent(cmd *cobra.Command, below ...*cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return noCommand(cmd, args[0])
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		_ = cmd.Help() // nobody is left to tell that it cannot be written
		return &saidError{evalstream.ExitUsage}
	}
	cmd.AddCommand(below...)
	return cmd
}

// noCommand is a command that cmd does not have.
func noCommand(cmd *cobra.Command, name string) error {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
		for _, below := range c.Commands() {
			if below.Name() == name {
				return &usageError{fmt.Errorf("no command %q; did you mean %q? See %s --help", name, strings.TrimPrefix(below.CommandPath(), cmd.CommandPath()+" "), cmd.CommandPath())}
			}
		}
	}
	return &usageError{fmt.Errorf("no command %q%s; see %s --help", name, didYouMean(name, names), cmd.CommandPath())}
}

// flagFault says which command or flag was meant by one that cmd does not have.
func flagFault(cmd *cobra.Command, err error) error {
	if args := cmd.Flags().Args(); len(args) > 0 && cmd.HasSubCommands() {
		return noCommand(cmd, args[0])
	}
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		name := bad.GetFlag().Name
		reason := strings.TrimPrefix(bad.Unwrap().Error(), name)
		reason = strings.TrimPrefix(strings.TrimPrefix(reason, fmt.Sprintf(" %q", bad.GetValue())), ": ")
		err = fmt.Errorf("--%s %q: %s", name, bad.GetValue(), reason)
	}
	meant := ""
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && len(unknown.GetSpecifiedName()) > 1 {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if name := evalstream.Nearest(unknown.GetSpecifiedName(), names); name != "" {
			meant = fmt.Sprintf("; did you mean --%s?", name)
		}
	}
	return &usageError{fmt.Errorf("%w%s; see %s --help", err, meant, cmd.CommandPath())}
}

// onePipeline wants one argument, a pipeline file.
func onePipeline(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return fmt.Errorf("want a pipeline file, as in %s deploy/pipelines/tatqa.yaml, got none", cmd.CommandPath())
	case len(args) > 1:
		return fmt.Errorf("want one pipeline file, got %d arguments; its input is stdin or the from: of the file", len(args))
	}
	return nil
}

// usage makes cobra's argument faults exit 2.
func usage(args cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, a []string) error {
		if err := args(cmd, a); err != nil {
			return &usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
		}
		return nil
	}
}

// trecEval is listed for help; Main runs it before cobra would read its flags.
func (e *env) trecEval() *cobra.Command {
	return &cobra.Command{
		Use: "trec-eval [-q] [-c] [-J] [-n] [-m MEASURE]... [-l LEVEL] [-M DEPTH] QRELS RUN", GroupID: "ready",
		Short:              "print what trec_eval 9.0.8 prints",
		Example:            "  evalstream trec-eval -m success.1,5 testdata/tatqa/tatqa_dev.qrels testdata/tatqa/tatqa_dev.bm25.run",
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if code := TrecEval(args, e.stdin, e.stdout, e.stderr); code != 0 {
				return &saidError{code}
			}
			return nil
		},
	}
}
