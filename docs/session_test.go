//go:build docs

package docs_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSessionRun(t *testing.T) {
	f := func(command string, want []string, wantCode int) {
		t.Helper()
		s := session{command: command}
		got, code, err := s.run(t.Context(), t.TempDir(), t.TempDir())
		if err != nil {
			t.Errorf("%s: %v", command, err)
			return
		}
		if diff := cmp.Diff(want, got); diff != "" || code != wantCode {
			t.Errorf("%s: want exit code %d, got %d, output (-want +got):\n%s", command, wantCode, code, diff)
		}
	}
	f("true", nil, 0)
	f("echo", []string{""}, 0)
	f("echo a; echo 'b  ' >&2; exit 3", []string{"a", "b"}, 3)
	f("printf 'no newline'", []string{"no newline"}, 0)
	f("cat", nil, 0)
	f("echo a \\\nb", []string{"a b"}, 0)
	f("kill -9 $$", nil, 1)
}

func TestMatchLines(t *testing.T) {
	f := func(shown, got string, want bool) {
		t.Helper()
		if ok := matchLines(strings.Fields(shown), strings.Fields(got)); ok != want {
			t.Errorf("shown %q, got %q: want %v, got %v", shown, got, want, ok)
		}
	}
	f("", "", true)
	f("", "a", false)
	f("a", "", false)
	f("a b", "a b", true)
	f("a b", "a c", false)
	f("a", "a b", false)
	f("…", "", true)
	f("…", "a b", true)
	f("a …", "a", true)
	f("a … c", "a b b c", true)
	f("a … c", "a b", false)
	f("a … c", "a c d", false)
	f("… b … d", "a b c b d", true)
	f("… b", "", false)
	f("a…c d", "abc d", true)
	f("a…c d", "ac d", true)
	f("a…c d", "abd d", false)
	f("a…b…c", "a1b2c", true)
	f("a…b…c", "a1c", false)
	f("a…", "b", false)
	f("self…", "self…", true)
}

func TestParseBlocks(t *testing.T) {
	f := func(doc, want string) {
		t.Helper()
		blocks, err := parseBlocks(doc)
		var got []string
		for _, b := range blocks {
			for _, s := range b.sessions {
				got = append(got, s.command+" -> "+strings.Join(s.output, ","))
			}
		}
		text := strings.Join(got, ";")
		if err != nil {
			text = err.Error()
		}
		if diff := cmp.Diff(want, text); diff != "" {
			t.Errorf("%q (-want +got):\n%s", doc, diff)
		}
		if err == nil {
			if diff := cmp.Diff(doc, rewrite(doc, blocks)); diff != "" {
				t.Errorf("%q rewritten without a change (-want +got):\n%s", doc, diff)
			}
		}
	}
	f("text\n", "")
	f("```sh\n$ make\n```\n", "")
	f("```console\n$ a\nx\ny\n$ b\n```\n", "a -> x,y;b -> ")
	f("```console\n$ a \\\n>   b\nx\n```\nand\n```console exit=3\n$ c\n```\n", "a \\\n  b -> x;c -> ")
	f("```console kafka exit=3\n$ a\n```\n", "a -> ")
	f("```console exit\n$ a\n```\n", "1: want ```console, with kafka or exit=CODE behind it, got \"```console exit\"")
	f("\n```console\nx\n```\n", `3: want a line that starts with "$ ", got "x"`)
	f("```console\n```\n", "1: block has no command")
	f("```console\n$ a\n", "1: block is never closed")

	blocks, err := parseBlocks("```console\n$ a\nold\n$ b\n```\nend\n")
	if err != nil {
		t.Fatal(err)
	}
	blocks[0].sessions[0].output = []string{"new", "newer"}
	got := rewrite("```console\n$ a\nold\n$ b\n```\nend\n", blocks)
	if diff := cmp.Diff("```console\n$ a\nnew\nnewer\n$ b\n```\nend\n", got); diff != "" {
		t.Errorf("rewritten (-want +got):\n%s", diff)
	}
}

// What a command exports, later ones have; what it leaves running is ended.
func TestShell(t *testing.T) {
	dir := t.TempDir()
	sh := &shell{dir: dir, bin: dir, variables: filepath.Join(dir, "variables")}
	run := func(command, want string) {
		t.Helper()
		got, code, err := sh.run(t.Context(), command)
		if err != nil || code != 0 || strings.Join(got, ",") != want {
			t.Errorf("%s: want %q, got %q, exit code %d, %v", command, want, got, code, err)
		}
	}
	run("export A=1", "")
	run("echo $A; export B=\"$A 2\"", "1")
	run("echo $A $B", "1 1 2")
	run("sleep 100 > /dev/null 2>&1 & echo $! > pid", "")
	run("kill -0 $(cat pid)", "")
	sh.end()
	run("while kill -0 $(cat pid) 2> /dev/null; do sleep 0.01; done", "")
}
