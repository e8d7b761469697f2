package cli

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"evalstream"
	"evalstream/stages"
)

// verbText is a verb as verbs --json prints it.
type verbText struct {
	Name    string     `json:"name"`
	Doc     string     `json:"doc"`
	In      string     `json:"in"`
	Out     string     `json:"out"`
	Example string     `json:"example"`
	Flags   []flagText `json:"flags"`
}

type flagText struct {
	Name    string   `json:"name"`
	Value   string   `json:"value"` // what stands for the value in the usage; "" for a switch
	Usage   string   `json:"usage"`
	Default string   `json:"default"`
	Env     string   `json:"env"`
	Repeats bool     `json:"repeats"`
	Common  bool     `json:"common"` // of every verb, and of the top level of a pipeline file
	Choices []string `json:"choices,omitempty"`
}

func (e *env) verbs() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "verbs", Short: "list the stages that pipelines are made of", GroupID: "other", Args: usage(cobra.NoArgs),
		Example: "  evalstream verbs --json",
		RunE: func(*cobra.Command, []string) error {
			text := verbTable()
			if asJSON {
				text = verbLines()
			}
			_, err := e.stdout.Write(text)
			return lostOutput(err)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print each as a JSON object with its flags, for programs")
	return cmd
}

func verbTable() []byte {
	var b strings.Builder
	width := 0
	for _, v := range stages.All() {
		width = max(width, len(v.Name))
	}
	for _, v := range stages.All() {
		hang(&b, fmt.Sprintf("%-*s  ", width, v.Name), v.Doc)
		hang(&b, strings.Repeat(" ", width+2), v.In+" → "+v.Out)
	}
	return []byte(b.String())
}

func verbLines() []byte {
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	lines.SetEscapeHTML(false)
	for _, v := range stages.All() {
		t := verbText{Name: v.Name, Doc: v.Doc, In: v.In, Out: v.Out, Example: v.Example}
		own := flag.NewFlagSet(v.Name, flag.ContinueOnError)
		v.Options().Declare(own)
		t.Flags = append(flagTexts(own, false), flagTexts(newCommon().flags(v.Name), true)...)
		_ = lines.Encode(t) // strings and booleans can be encoded
	}
	return b.Bytes()
}

func flagTexts(set *flag.FlagSet, common bool) []flagText {
	var fs []flagText
	set.VisitAll(func(f *flag.Flag) {
		value, usage := flag.UnquoteUsage(f)
		fs = append(fs, flagText{
			Name: f.Name, Value: value, Usage: usage, Default: f.DefValue, Env: variable(f.Name),
			Repeats: repeats(f.Usage), Common: common, Choices: choices(set.Name(), f.Name),
		})
	})
	return fs
}

func (e *env) man() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "write man pages into a folder", GroupID: "other", Args: usage(cobra.ExactArgs(1)),
		Example: "  evalstream man man1",
		RunE: func(cmd *cobra.Command, args []string) error {
			date, err := e.pageDate()
			if err != nil {
				return err
			}
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return evalstream.Lost(err)
			}
			return writePages(cmd.Root(), args[0], date)
		},
	}
}

// pageDate is the date of man pages: SOURCE_DATE_EPOCH, or else none that changes.
func (e *env) pageDate() (time.Time, error) {
	text, ok := e.getenv("SOURCE_DATE_EPOCH")
	if !ok {
		return time.Unix(0, 0).UTC(), nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, evalstream.Usagef("SOURCE_DATE_EPOCH: want seconds since 1970, got %q", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// writePages writes a page for cmd and each command below it.
func writePages(cmd *cobra.Command, dir string, date time.Time) error {
	cmd.InitDefaultHelpCmd()
	cmd.DisableAutoGenTag = true
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	f, err := os.Create(filepath.Join(dir, name+".1"))
	if err != nil {
		return evalstream.Lost(err)
	}
	err = writePage(cmd, f, date)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return evalstream.Lost(fmt.Errorf("%s: %w", f.Name(), err))
	}
	for _, c := range cmd.Commands() {
		if !c.IsAvailableCommand() {
			continue
		}
		if err := writePages(c, dir, date); err != nil {
			return err
		}
	}
	return nil
}

func writePage(cmd *cobra.Command, w io.Writer, date time.Time) error {
	return doc.GenMan(cmd, &doc.GenManHeader{
		Title: strings.ToUpper(strings.ReplaceAll(cmd.CommandPath(), " ", "-")), Section: "1", Date: &date, Source: "evalstream", Manual: "evalstream",
	}, w)
}
