package cli

import (
	"bytes"
	"strings"
	"testing"
)

// Text is not broken twice, and an example that is broken is still the same command for
// a shell.
func TestHelpIsBrokenOnce(t *testing.T) {
	for _, c := range commands(t) {
		var b bytes.Buffer
		help(&b, c)
		unbroken := strings.ReplaceAll(b.String(), " \\\n    ", " ")
		for line := range strings.SplitSeq(strings.TrimRight(c.Example, "\n"), "\n") {
			if !strings.Contains(unbroken, strings.TrimRight(line, " ")) {
				t.Errorf("%s: want the example %q, got %s", c.CommandPath(), line, b.String())
			}
		}
	}
	for line := range strings.SplitSeq(trecHelp(), "\n") {
		if n := cells(line); n > helpWidth {
			t.Errorf("trec-eval: %d columns: %s", n, line)
		}
	}
	if diff := strings.Join(paragraphs("a b\nc\n\nd:\n  e\n  f\ng"), "|"); diff != "a b c||d:|  e|  f|g" {
		t.Errorf("paragraphs: %s", diff)
	}
}

// Help of a command that is not there is no help.
func TestHelpOfNoCommand(t *testing.T) {
	f := func(want string, args ...string) {
		t.Helper()
		var out, told bytes.Buffer
		if code := Main(t.Context(), args, strings.NewReader(""), &out, &told); code != 2 || out.Len() > 0 || told.String() != want+"\n" {
			t.Errorf("%v: want exit 2 and %q, got %d, %q and %q", args, want, code, told.String(), out.String())
		}
	}
	f(`evalstream: no command "judge"; did you mean "eval judge"? See evalstream --help`, "judge", "-h")
	f(`evalstream topics: no command "lagg"; did you mean "lag"?; see evalstream topics --help`, "topics", "lagg", "--help")
}
