package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"evalstream/stages"
)

// flagGroup is a part of help: flags that belong together.
type flagGroup struct {
	title string
	names []string // none: all that are in no other
}

// flagGroups lists the groups in the order of help: a command's own flags first, then
// what commands have in common.
func flagGroups() []flagGroup {
	return []flagGroup{
		{title: "Flags"},
		{"Input and rejects", []string{"rejects", "max-rejects", "fail-fast", "max-line", "on-conflict", "workers"}},
		{"Event time", []string{"time-from", "time-unit", "horizon", "max-out-of-order", "idle-timeout"}},
		{"Intervals", []string{"confidence", "interval", "bootstrap", "seed"}},
		{"State", []string{"state", "state-memory"}},
		{"Verdict and progress", []string{"fail-if", "metrics-addr", "quiet", "verbose", "q", "v"}},
	}
}

// helpWidth is how wide help is.
const helpWidth = defaultWidth

// help is the command that says more of another.
func (e *env) help(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "say more of a command", GroupID: "other",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err == nil && len(rest) > 0 {
				err = noCommand(cmd, rest[0])
			}
			if err != nil {
				return err
			}
			help(e.stdout, cmd)
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, begun string) (names []string, _ cobra.ShellCompDirective) {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			for _, c := range cmd.Commands() {
				if c.IsAvailableCommand() && strings.HasPrefix(c.Name(), begun) {
					names = append(names, cobra.CompletionWithDesc(c.Name(), c.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// help prints what a person must know to use cmd, at most 80 columns wide.
func help(w io.Writer, cmd *cobra.Command) {
	var b strings.Builder
	about := cmd.Long
	if about == "" {
		about = cmd.Short
	}
	for _, line := range paragraphs(strings.TrimSpace(about)) {
		wrapIndented(&b, line)
	}
	b.WriteByte('\n')
	usageOf(&b, cmd)
	_, _ = io.WriteString(w, b.String()) // nobody is left to tell that help cannot be written
}

// usageOf prints how cmd is called: its line, an example, commands below it, and flags.
func usageOf(b *strings.Builder, cmd *cobra.Command) {
	b.WriteString("Usage:\n")
	if cmd.Runnable() && !cmd.HasAvailableSubCommands() {
		hang(b, "  "+cmd.CommandPath()+" ", strings.TrimPrefix(cmd.UseLine(), cmd.CommandPath()))
	} else {
		b.WriteString("  " + cmd.CommandPath() + " COMMAND\n")
	}
	if cmd.Example != "" {
		b.WriteString("\nExamples:\n")
		for line := range strings.SplitSeq(strings.TrimRight(cmd.Example, "\n"), "\n") {
			wrapCommand(b, line)
		}
	}
	commandsOf(b, cmd)
	flags := cmd.Flags()
	width := headWidth(flags)
	for _, g := range flagGroups() {
		var in []*pflag.Flag
		flags.VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && groupOf(f.Name) == g.title {
				in = append(in, f)
			}
		})
		slices.SortStableFunc(in, func(a, b *pflag.Flag) int { return slices.Index(g.names, a.Name) - slices.Index(g.names, b.Name) })
		if len(in) == 0 || cmd.HasAvailableSubCommands() && g.title != "Flags" {
			continue
		}
		b.WriteString("\n" + g.title + ":\n")
		printFlags(b, in, width)
	}
	b.WriteByte('\n')
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(b, "%s COMMAND --help says more of a command.\n", cmd.CommandPath())
		return
	}
	if f := exampleFlag(flags); f != "" {
		wrapIndented(b, fmt.Sprintf("Each flag can also be given in the environment: --%s as %s; values of a flag that may repeat stand between semicolons. The command line wins over the environment, that over a pipeline file.", f, variable(f)))
	}
}

// exampleFlag is a flag to show the name of a variable by.
func exampleFlag(flags *pflag.FlagSet) string {
	if flags.Lookup("max-rejects") != nil {
		return "max-rejects"
	}
	name := ""
	flags.VisitAll(func(f *pflag.Flag) {
		if name == "" && f.Name != "help" {
			name = f.Name
		}
	})
	return name
}

func groupOf(flag string) string {
	groups := flagGroups()
	for _, g := range groups {
		if slices.Contains(g.names, flag) {
			return g.title
		}
	}
	return groups[0].title
}

func commandsOf(b *strings.Builder, cmd *cobra.Command) {
	list := func(title string, in func(c *cobra.Command) bool) {
		width, some := 0, false
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() && in(c) {
				width, some = max(width, len(c.Name())), true
			}
		}
		if !some {
			return
		}
		b.WriteString("\n" + title + "\n")
		for _, c := range inOrder(cmd.Commands()) {
			if c.IsAvailableCommand() && in(c) {
				hang(b, fmt.Sprintf("  %-*s  ", width, c.Name()), c.Short)
			}
		}
	}
	for _, g := range cmd.Groups() {
		list(g.Title, func(c *cobra.Command) bool { return c.GroupID == g.ID })
	}
	list("Commands:", func(c *cobra.Command) bool { return c.GroupID == "" })
}

// inOrder puts verbs in the order of the dataflow, behind other commands.
func inOrder(cs []*cobra.Command) []*cobra.Command {
	place := map[string]int{}
	for i, v := range stages.All() {
		place[v.Name] = i + 1
	}
	return slices.SortedStableFunc(slices.Values(cs), func(a, b *cobra.Command) int { return place[a.Name()] - place[b.Name()] })
}

// flagColumn is the most that the names of flags take of a line.
const flagColumn = 26

// flagHead is a flag with what stands for its value.
func flagHead(f *pflag.Flag) string {
	value, _ := pflag.UnquoteUsage(f)
	head := "      --" + f.Name
	if f.Shorthand != "" {
		head = "  -" + f.Shorthand + ", --" + f.Name
	}
	if value != "" {
		head += " " + value
	}
	return head
}

// headWidth is the width of the longest head that has text beside it.
func headWidth(flags *pflag.FlagSet) int {
	width := 0
	flags.VisitAll(func(f *pflag.Flag) {
		if n := cells(flagHead(f)); n <= flagColumn {
			width = max(width, n)
		}
	})
	return width
}

func printFlags(b *strings.Builder, flags []*pflag.Flag, width int) {
	for _, f := range flags {
		_, text := pflag.UnquoteUsage(f)
		if d := defaultOf(f); d != "" {
			text += " (default " + d + ")"
		}
		head := flagHead(f)
		if cells(head) > width {
			b.WriteString(head + "\n")
			head = ""
		}
		hang(b, fmt.Sprintf("%-*s  ", width, head), text)
	}
}

// defaultOf is a default that the usage does not say, "" if it is nothing.
func defaultOf(f *pflag.Flag) string {
	if slices.Contains([]string{"", "0", "false", "[]", "0s"}, f.DefValue) || strings.Contains(f.Usage, "(default") {
		return ""
	}
	return f.DefValue
}

// hang writes text behind head, further lines indented by as much.
func hang(b *strings.Builder, head, text string) {
	indent := cells(head)
	line, begun := head, false
	for word := range strings.FieldsSeq(text) {
		if begun && cells(line)+1+cells(word) > helpWidth {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line, begun = strings.Repeat(" ", indent), false
		}
		if begun {
			line += " "
		}
		line += word
		begun = true
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
}

// paragraphs are the lines of a text; those that begin at the margin and follow each
// other are one.
func paragraphs(text string) []string {
	var out []string
	flows := false // the last line goes on with what comes
	for line := range strings.SplitSeq(text, "\n") {
		plain := line != "" && line[0] != ' ' && line[0] != '\t'
		if plain && flows {
			out[len(out)-1] += " " + line
		} else {
			out = append(out, line)
		}
		flows = plain
	}
	return out
}

// wrapCommand writes a shell command in lines that end with a backslash where it goes on:
// in front of a pipe if there is one in reach, else at a space. Quoted text stays whole.
func wrapCommand(b *strings.Builder, line string) {
	const indent = "  "
	for cells(line) > helpWidth {
		pipe, space := -1, -1
		quoted := false
		for i := len(indent) + 1; i < len(line) && i <= helpWidth-2; i++ {
			switch {
			case line[i] == '\'' || line[i] == '"':
				quoted = !quoted
			case quoted || line[i] != ' ' || strings.TrimSpace(line[:i]) == "":
			case strings.HasPrefix(line[i:], " | "):
				pipe = i
			default:
				space = i
			}
		}
		at := pipe
		if at < 0 {
			at = space
		}
		if at < 0 {
			break
		}
		b.WriteString(line[:at] + " \\\n")
		line = indent + indent + line[at+1:]
	}
	b.WriteString(line + "\n")
}

// wrapIndented writes a line of text in lines that keep its indent; one with columns of
// its own stays as it is if it fits.
func wrapIndented(b *strings.Builder, line string) {
	if cells(line) <= helpWidth || strings.HasPrefix(line, "\t") {
		b.WriteString(line + "\n")
		return
	}
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	hang(b, indent, strings.TrimSpace(line))
}
