package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"evalstream"
)

func TestParseEdge(t *testing.T) {
	f := func(in string, want Edge, text string) {
		t.Helper()
		got, err := ParseEdge("--gold", in)
		if err != nil {
			t.Errorf("%q: %v", in, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		if got.String() != text {
			t.Errorf("%q: prints as %q, want %q", in, got.String(), text)
		}
		if again, err := ParseEdge("--gold", got.String()); err != nil || again != got {
			t.Errorf("%q: %q reads as %v, error %v", in, got.String(), again, err)
		}
	}
	f("-", Edge{Std: true}, "-")
	f("a.ndjson", Edge{Path: "a.ndjson"}, "a.ndjson")
	f("file:a b", Edge{Path: "a b"}, "a b")
	f("file:-", Edge{Path: "-"}, "file:-")
	f("file:topic:x", Edge{Path: "topic:x"}, "file:topic:x")
	f("a:b", Edge{Path: "a:b"}, "file:a:b")

	bad := func(in, want string) {
		t.Helper()
		_, err := ParseEdge("--gold", in)
		if err == nil || err.Error() != want || evalstream.ExitCode(err) != evalstream.ExitUsage {
			t.Errorf("%q: got error %v (exit %d), want %s (exit 2)", in, err, evalstream.ExitCode(err), want)
		}
	}
	bad("", `--gold: want PATH, file:PATH, - or topic:NAME, got ""`)
	bad("file:", `--gold: want PATH, file:PATH, - or topic:NAME, got "file:"`)
	bad("s3://b/k", `--gold: want PATH, file:PATH, - or topic:NAME, got "s3://b/k"; a file of that name is file:s3://b/k`)
	bad("topic:qrels", `--gold: topic "qrels": topics can be from:, to: and rejects: of a pipeline file; name a file here, or - for a pipe`)
}

func TestEdgesAsInputs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(path, []byte("file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := NewSource(strings.NewReader("stdin\n"), Edge{Path: path}, Edge{Std: true})
	var got []string
	for {
		var b evalstream.Block
		err := s.Read(t.Context(), &b)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, b.At.String()+" "+string(b.Data))
	}
	if d := cmp.Diff([]string{path + ":1 file\n", "<stdin>:1 stdin\n"}, got); d != "" {
		t.Error(d)
	}
	if err := CheckStdin(Edge{Std: true}, Edge{Path: "x"}); err != nil {
		t.Error(err)
	}
	if err := CheckStdin(Edge{Std: true}, Edge{Path: "x"}, Edge{Std: true}); evalstream.ExitCode(err) != evalstream.ExitUsage {
		t.Errorf("two inputs from stdin: got %v, want exit 2", err)
	}
}

func TestRejectsSink(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	if err := os.WriteFile(in, []byte("a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	line := func(dst []byte, r *evalstream.Record) []byte { return append(dst, r.Raw...) }
	f := func(text string, wantCode int, want string) {
		t.Helper()
		_, _, err := RejectsSink(text, []Edge{{Std: true}, {Path: in}}, Anew, line)
		if err == nil || err.Error() != want || evalstream.ExitCode(err) != wantCode {
			t.Errorf("%s: got error %v (exit %d), want %s (exit %d)", text, err, evalstream.ExitCode(err), want, wantCode)
		}
	}
	f("-", 2, "--rejects -: standard output carries results; name a file, or /dev/stderr")
	f("file:"+in, 2, "--rejects file:"+in+": is an input of this command; name another file")
	f(dir+"/none/x", 4, "open "+dir+"/none/x: no such file or directory")

	out := filepath.Join(dir, "out")
	s, c, err := RejectsSink(out, []Edge{{Path: in}}, Anew, line)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(s.Write(t.Context(), []evalstream.Record{{Raw: []byte("x")}}), s.Flush(t.Context()), c.Close())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(out); err != nil || string(got) != "x\n" {
		t.Errorf("got %q, error %v", got, err)
	}
}
