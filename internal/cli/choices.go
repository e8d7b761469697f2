package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"evalstream/stages"
	"evalstream/stages/metric"
)

// choices are the values that a flag takes, for completion and verbs --json; nil if they
// cannot be listed. Of measures with a cutoff the usual cutoffs are listed.
func choices(command, flag string) []string {
	switch flag {
	case "method":
		switch command {
		case "rank":
			return []string{stages.RankVector, stages.RankBM25}
		case "classify":
			return []string{stages.ClassifyEntityType, stages.ClassifyPrototype}
		}
	case "provider":
		return []string{"hash", "http"}
	case "idf":
		return []string{"plus1", "plain"}
	case "tf-factor":
		return []string{"k1+1", "1"}
	case "only":
		return []string{"passage", "query", "qrel"}
	case "measure":
		return usualMeasures()
	case "as":
		return []string{"run", "qrel", "prediction", "rating", "verdict", "passage", "query", "instance", "episode", "score", "review", "partial"}
	case "ties":
		return []string{"trec", "rank", "worst", "best", "expected"}
	case "missing":
		return []string{"skip", "miss"}
	case "level":
		return []string{"nominal", "ordinal", "interval", "ratio"}
	case "zero-division":
		return []string{"one", "zero", "null"}
	case "interval":
		return intervalColumns()
	case "on-conflict":
		return []string{"replace", "reject"}
	case "time-from":
		return []string{"body"}
	case "time-unit":
		return []string{"s", "ms", "us", "ns"}
	case "output":
		return outputs()
	case "window":
		return []string{"all", "1h", "1d", "1h/5m"}
	case "by":
		return []string{"run"}
	}
	return nil
}

func usualMeasures() []string {
	var names []string
	for _, name := range metric.MeasureNames() {
		base, arg, _ := strings.Cut(name, "@")
		switch arg {
		case "K":
			for _, k := range []string{"1", "5", "10", "100"} {
				names = append(names, base+"@"+k)
			}
		case "X":
			names = append(names, base+"@0.5")
		default:
			names = append(names, name)
		}
	}
	return names
}

// completions teaches completion the values of flags and the files that commands read.
func completions(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		completions(cmd)
	}
	root.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		values := choices(root.Name(), f.Name)
		if values == nil {
			if !isEdge(f) && !isFlagBool(f) {
				_ = root.RegisterFlagCompletionFunc(f.Name, cobra.NoFileCompletions) // an error says that it is registered
			}
			return
		}
		_ = root.RegisterFlagCompletionFunc(f.Name, func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
			return slices.DeleteFunc(slices.Clone(values), func(v string) bool { return !strings.HasPrefix(v, begun) }), cobra.ShellCompDirectiveNoFileComp
		})
	})
	if strings.Contains(root.Use, "PIPELINE.yaml") {
		root.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		}
	}
}

// plainUsages takes the marks of the values' names out of what completion says of flags.
func plainUsages(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		plainUsages(c)
	}
	plain := func(f *pflag.Flag) { _, f.Usage = pflag.UnquoteUsage(f) }
	cmd.LocalFlags().VisitAll(plain)
	cmd.PersistentFlags().VisitAll(plain)
}

// isEdge says that a flag names a file or another edge.
func isEdge(f *pflag.Flag) bool {
	name, _ := pflag.UnquoteUsage(f)
	return name == "EDGE" || name == "FILE" || name == "DIR"
}

func isFlagBool(f *pflag.Flag) bool { return f.Value.Type() == "bool" }

// repeats says that a flag may be given several times: its usage then says so.
func repeats(usage string) bool { return strings.Contains(usage, "may repeat") }

// addCompletion adds cobra's command that prints completion scripts, in our words.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.GroupID, c.Short, c.Long = "other", "print a completion script for bash, zsh, fish or powershell", ""
		parent(c)
		for _, shell := range c.Commands() {
			shell.Short = "print the completion script for " + shell.Name()
			shell.Long = shell.Short + ".\n\nLoad it, in this shell or from the file that your shell reads at its start, by\n\n\t" + loading(shell)
			shell.Example = "  " + shell.CommandPath()
			shell.Args = usage(cobra.NoArgs)
		}
	}
}

// loading is the line by which a shell takes its completion script.
func loading(shell *cobra.Command) string {
	switch script := shell.CommandPath(); shell.Name() {
	case "fish":
		return script + " | source"
	case "powershell":
		return script + " | Out-String | Invoke-Expression"
	default:
		return "source <(" + script + ")"
	}
}
