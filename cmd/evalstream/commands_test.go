package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// commandScript is the table of commands: says CODE REGEXP evalstream ARGS….
const commandScript = "testdata/script/commands.txtar"

// says runs a command without input and wants its exit code, and a match of a regular
// expression on standard error, or on standard output where that is empty.
func says(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: says CODE REGEXP COMMAND ARGS...")
	}
	want, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	line := fmt.Sprintf(`"$@"; code=$?; test $code = %s || { echo "exit code $code" >&2; exit 1; }`, args[0])
	err = ts.Exec("bash", append([]string{"-c", line, "says"}, args[2:]...)...)
	said := ts.ReadFile("stderr")
	if err != nil {
		ts.Fatalf("want exit code %s: %v\n%s", args[0], err, said)
	}
	if said == "" {
		said = ts.ReadFile("stdout")
	}
	if !want.MatchString(said) {
		ts.Fatalf("want %s, got\n%s", args[1], said)
	}
}

// row is one line of the table.
type row struct {
	code, want string
	args       string // with a space behind each
}

// rows reads the table as testscript does: words, or text between single quotes.
func rows(t *testing.T) []row {
	t.Helper()
	data, err := os.ReadFile(commandScript)
	if err != nil {
		t.Fatal(err)
	}
	word := regexp.MustCompile(`'(?:[^']|'')*'|\S+`)
	var rs []row
	for line := range strings.Lines(string(data)) {
		if words := word.FindAllString(line, -1); len(words) > 4 && words[0] == "says" {
			rs = append(rs, row{words[1], words[2], strings.Join(words[3:], " ") + " "})
		}
	}
	return rs
}

// Each command that there is has a row of what it does when all is well, and one of a
// slip of the pen that says what was meant; each that reads records has rows of what
// it does about bad ones and about a file that is not there.
func TestEachCommandSaysWhatIsWrong(t *testing.T) {
	table := rows(t)
	if len(table) < 50 {
		t.Fatalf("want a table, got %d rows", len(table))
	}
	reading := []string{
		"eval retrieval", "eval fewshot", "eval judge", "eval agreement",
		"parse", "context-prefix", "embed", "classify", "rank", "score", "aggregate", "merge", "run",
	}
	commands := commandPaths(t)
	for _, name := range reading {
		if !slices.Contains(commands, "evalstream "+name) {
			t.Errorf("want a command %s among %q", name, commands)
		}
	}
	for _, name := range commands {
		has := func(code, what string) {
			t.Helper()
			if !slices.ContainsFunc(table, func(r row) bool {
				return r.code == code && strings.HasPrefix(r.args, name+" ") && strings.Contains(r.want, what)
			}) {
				t.Errorf("%s has no row of %s with exit code %s and %q", commandScript, name, code, what)
			}
		}
		switch name {
		case "evalstream trec-eval":
			has("0", "")
			has("1", "illegal measure") // trec_eval's own code
			continue
		case "evalstream completion powershell", "evalstream version", "evalstream man":
			has("0", "")
			has("2", "unknown flag") // nothing is near
			continue
		}
		has("0", "")
		has("2", "did you mean")
		if slices.Contains(reading, strings.TrimPrefix(name, "evalstream ")) {
			has("3", "")
			has("4", "")
		}
	}
}

// commandPaths is every command, as one types it: each has a page.
func commandPaths(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("evalstream", "man", dir).CombinedOutput(); err != nil {
		t.Fatalf("man: %v\n%s", err, out)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, page := range pages {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		// A page's synopsis begins with the command in bold type.
		_, rest, ok := bytes.Cut(data, []byte(".SH SYNOPSIS\n\\fB"))
		usage, _, closed := bytes.Cut(rest, []byte(`\fP`))
		if !ok || !closed {
			t.Fatalf("%s has no synopsis", page)
		}
		words := strings.Fields(strings.ReplaceAll(string(usage), `\-`, "-"))
		depth := 1
		for depth < len(words) && strings.HasPrefix(filepath.Base(page), strings.Join(words[:depth+1], "-")) {
			depth++
		}
		names = append(names, strings.Join(words[:depth], " "))
	}
	if len(names) < 30 || slices.Contains(names, "") {
		t.Fatalf("want all commands, got %q", names)
	}
	return names
}
