package cli

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"evalstream"
	"evalstream/stages"
)

// commands are all commands with their paths, the root first.
func commands(t *testing.T) []*cobra.Command {
	t.Helper()
	e := &env{stdin: strings.NewReader(""), stdout: new(bytes.Buffer), stderr: new(bytes.Buffer), getenv: func(string) (string, bool) { return "", false }}
	var all []*cobra.Command
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		all = append(all, c)
		for _, below := range c.Commands() {
			walk(below)
		}
	}
	walk(e.root())
	return all
}

// TestExamples runs the example of each command from the root of the repository.
func TestExamples(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	bin, work := t.TempDir(), t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, "evalstream"), "evalstream/cmd/evalstream")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"testdata", "deploy"} {
		if err := os.Symlink(filepath.Join(root, name), filepath.Join(work, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range commands(t) {
		if c.Example == "" {
			if c.Runnable() && !c.HasSubCommands() {
				t.Errorf("%s: want an example, got none", c.CommandPath())
			}
			continue
		}
		if path := c.CommandPath(); strings.HasPrefix(path, "evalstream topics ") || strings.HasPrefix(path, "evalstream dlq ") { // topics/kafka/kafkatest runs them
			if !strings.Contains(c.Example, c.CommandPath()) {
				t.Errorf("%s: the example shows another command: %s", c.CommandPath(), c.Example)
			}
			continue
		}
		run := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", c.Example)
		run.Dir = work
		run.Env = append(os.Environ(), "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
		var out, errs bytes.Buffer
		run.Stdout, run.Stderr = &out, &errs
		if err := run.Run(); err != nil {
			t.Errorf("%s: %v: %s", c.Example, err, errs.String())
		}
		if !strings.Contains(c.Example, c.CommandPath()) {
			t.Errorf("%s: the example shows another command: %s", c.CommandPath(), c.Example)
		}
		if quiet := c.Name() == "lint" || c.Name() == "man"; quiet != (out.Len() == 0) {
			t.Errorf("%s: %d bytes on stdout", c.Example, out.Len())
		}
	}
}

func TestHelpFitsATerminal(t *testing.T) {
	for _, c := range commands(t) {
		var b strings.Builder
		help(&b, c)
		for line := range strings.Lines(b.String()) {
			if n := cells(strings.TrimSuffix(line, "\n")); n > helpWidth {
				t.Errorf("%s: line of %d columns: %s", c.CommandPath(), n, line)
			}
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !strings.Contains(b.String(), "--"+f.Name) && !c.HasSubCommands() {
				t.Errorf("%s: help says nothing of --%s", c.CommandPath(), f.Name)
			}
		})
	}
}

func TestEnvironment(t *testing.T) {
	f := func(want int, stderr string, env map[string]string, args ...string) said {
		t.Helper()
		for name, value := range env {
			t.Setenv(name, value)
		}
		s := command(t, "", args...)
		for name := range env {
			if err := os.Unsetenv(name); err != nil { // Setenv puts back what was there
				t.Fatal(err)
			}
		}
		if s.code != want || !strings.Contains(s.stderr, stderr) {
			t.Errorf("%v %v: exit code %d, %q; want %d, %q", env, args, s.code, s.stderr, want, stderr)
		}
		return s
	}
	tatqa := []string{"eval", "retrieval", testdata + "tatqa/tatqa_dev.bm25.run"}
	qrels := testdata + "tatqa/tatqa_dev.qrels"
	s := f(0, "", map[string]string{"EVALSTREAM_QRELS": qrels, "EVALSTREAM_MEASURE": "mrr; success@1", "EVALSTREAM_QUIET": "true", "EVALSTREAM_OUTPUT": "csv"}, tatqa...)
	if s.stderr != "" || strings.Count(s.stdout, "\n") != 3 || !strings.Contains(s.stdout, "\nmrr,run,bm25,") {
		t.Errorf("by the environment: %s%s", s.stdout, s.stderr)
	}
	s = f(0, "1,668", map[string]string{"EVALSTREAM_QRELS": qrels, "EVALSTREAM_MEASURE": "mrr"}, append(tatqa, "--measure", "map")...)
	if strings.Contains(s.stdout, `"mrr"`) || !strings.Contains(s.stdout, `"map"`) {
		t.Errorf("the command line does not win: %s", s.stdout)
	}
	f(2, `EVALSTREAM_MAX_REJECTS: want what --max-rejects takes, got "many"`, map[string]string{"EVALSTREAM_QRELS": qrels, "EVALSTREAM_MAX_REJECTS": "many"}, tatqa...)
	f(2, `EVALSTREAM_FAIL_IF: want what --fail-if takes, got "x"`, map[string]string{"EVALSTREAM_QRELS": qrels, "EVALSTREAM_FAIL_IF": "x"}, tatqa...)
	f(2, "qrels: want the judgments", map[string]string{"EVALSTREAM_QRELS": ""}, tatqa...)
	f(10, "success@1 run=bm25", map[string]string{"EVALSTREAM_QRELS": qrels, "EVALSTREAM_FAIL_IF": "mrr.n<1;success@1.value<1"}, tatqa...)

	// Command line, environment, file, default: each wins over those behind it.
	dir := t.TempDir()
	path := filepath.Join(dir, "p.yaml")
	text := "from: " + testdata + "tatqa/tatqa_dev.bm25.run\nconfidence: 0.5\nstages:\n  - score: {gold: " + qrels + ", measure: success@1}\n  - aggregate: {}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	confidence := func(want string, env map[string]string, args ...string) {
		t.Helper()
		if s := f(0, "", env, append([]string{"run", "-q", path}, args...)...); !strings.Contains(s.stdout, `"confidence":`+want+`,`) {
			t.Errorf("%v %v: want confidence %s, got %s", env, args, want, s.stdout)
		}
	}
	confidence("0.5", nil)
	confidence("0.6", map[string]string{"EVALSTREAM_CONFIDENCE": "0.6"})
	confidence("0.7", map[string]string{"EVALSTREAM_CONFIDENCE": "0.6"}, "--confidence", "0.7")
}

// TestRepeatsIsSaid holds the environment's rule to what flags do: only those that say
// "may repeat" keep what they were given before.
func TestRepeatsIsSaid(t *testing.T) {
	for _, v := range stages.All() {
		o, c := v.Options(), newCommon()
		set := flag.NewFlagSet(v.Name, flag.ContinueOnError)
		o.Declare(set)
		c.declare(set)
		set.VisitAll(func(f *flag.Flag) {
			kind := reflect.TypeOf(f.Value).String()
			if repeats(f.Usage) && kind != "flag.funcValue" {
				t.Errorf("%s --%s: usage %q, but it is a %s", v.Name, f.Name, f.Usage, kind)
			}
		})
	}
}

func TestChoices(t *testing.T) {
	// Each value that completion offers is taken.
	accepts := func(flag string, args func(value string) []string) {
		t.Helper()
		values := choices(args("")[0], flag)
		if len(values) < 1 {
			t.Errorf("--%s: want choices, got none", flag)
		}
		for _, v := range values {
			if s := command(t, "", args(v)...); s.code != 0 {
				t.Errorf("--%s %s: exit code %d: %s", flag, v, s.code, s.stderr)
			}
		}
		bad := args("no-such-" + flag)
		if flag == "by" {
			return
		}
		if s := command(t, "", bad...); s.code != evalstream.ExitUsage {
			t.Errorf("%v: exit code %d, want 2", bad, s.code)
		}
	}
	passages := filepath.Join(t.TempDir(), "passages")
	if err := os.WriteFile(passages, []byte(`{"passage_id":"p","text":"x","vector":{"fingerprint":"f","values":[1,2]}}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	of := func(verb, flag string) {
		t.Helper()
		accepts(flag, func(v string) []string { return []string{verb, "-q", "--" + flag, v} })
	}
	of("parse", "as")
	for _, name := range []string{"measure", "ties", "on-conflict", "time-from", "time-unit"} {
		of("score", name)
	}
	for _, name := range []string{"by", "window", "missing", "level", "zero-division", "interval"} {
		of("aggregate", name)
	}
	accepts("method", func(v string) []string { return []string{"rank", "-q", "--passages", passages, "--method", v} })
	accepts("idf", func(v string) []string {
		return []string{"rank", "-q", "--passages", passages, "--method", "bm25", "--idf", v}
	})
	accepts("tf-factor", func(v string) []string {
		return []string{"rank", "-q", "--passages", passages, "--method", "bm25", "--tf-factor", v}
	})
	accepts("output", func(v string) []string {
		return []string{"eval", "fewshot", "-q", "-o", v}
	})
}

func TestCompletion(t *testing.T) {
	f := func(want []string, args ...string) {
		t.Helper()
		s := succeed(t, "", append([]string{"__complete"}, args...)...)
		if strings.Contains(s.stdout, "`") {
			t.Errorf("%v: want no marks, got %s", args, s.stdout)
		}
		var got []string
		for line := range strings.Lines(s.stdout) {
			if word, _, _ := strings.Cut(strings.TrimSpace(line), "\t"); !strings.HasPrefix(word, ":") {
				got = append(got, word)
			}
		}
		for _, w := range want {
			if !slices.Contains(got, w) {
				t.Errorf("%v: want %v, got %v", args, want, got)
			}
		}
	}
	var verbs []string
	for _, v := range stages.All() {
		verbs = append(verbs, v.Name)
	}
	f(append(verbs, "eval", "run", "lint", "plan", "test", "verbs", "man", "completion", "version", "trec-eval"), "")
	f([]string{"success@1", "success@10"}, "score", "--measure", "suc")
	f([]string{"trec", "expected"}, "eval", "retrieval", "--ties", "")
	f([]string{"--max-groups"}, "eval", "retrieval", "--ma")
	f([]string{"ordinal"}, "eval", "agreement", "--level", "o")
	f([]string{"table", "csv", "md", "ndjson"}, "eval", "fewshot", "-o", "")
	f([]string{"yaml", "yml"}, "run", "")
	f([]string{"--fail-if", "--fail-fast"}, "run", "--fail")
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if s := succeed(t, "", "completion", shell); !strings.Contains(s.stdout, "evalstream") {
			t.Errorf("completion %s: %q", shell, s.stdout)
		}
	}
}

func TestVerbs(t *testing.T) {
	table := succeed(t, "", "verbs").stdout
	lines := strings.Split(strings.TrimSpace(succeed(t, "", "verbs", "--json").stdout), "\n")
	if len(lines) != len(stages.All()) {
		t.Fatalf("%d lines, want one a verb", len(lines))
	}
	for i, v := range stages.All() {
		var got verbText
		if err := json.Unmarshal([]byte(lines[i]), &got); err != nil {
			t.Fatal(err)
		}
		if got.Name != v.Name || got.Doc == "" || got.In == "" || got.Out == "" || len(got.Flags) == 0 || !strings.Contains(table, v.Name) {
			t.Errorf("%+v, want verb %s", got, v.Name)
		}
		for _, f := range got.Flags {
			if f.Usage == "" || f.Env != variable(f.Name) {
				t.Errorf("%s: %+v", v.Name, f)
			}
		}
	}
	for line := range strings.Lines(table) {
		if cells(strings.TrimSpace(line)) > 80 {
			t.Errorf("line over 80 columns: %s", line)
		}
	}
}

func TestMan(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	succeed(t, "", "man", dir)
	for _, c := range commands(t) {
		name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
		page, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if !bytes.Contains(page, []byte(`.TH "`)) {
			t.Errorf("%s: %.80s", name, page)
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if s := command(t, "", "man", dir); s.code != 2 || !strings.Contains(s.stderr, "SOURCE_DATE_EPOCH: want seconds since 1970") {
		t.Errorf("%+v", s)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	succeed(t, "", "man", dir)
	if page, err := os.ReadFile(filepath.Join(dir, "evalstream.1")); err != nil || !bytes.Contains(page, []byte("Nov 2023")) {
		t.Errorf("%v: %.80s", err, page)
	}
}
