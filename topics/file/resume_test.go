package file

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"evalstream"
)

// after is a checkpoint behind a block, as a job makes it.
func after(cp *evalstream.Checkpoint, b *evalstream.Block, lines []line) *evalstream.Checkpoint {
	next := &evalstream.Checkpoint{Next: lines[len(lines)-1].Seq + 1}
	at := evalstream.Place{Origin: *b.At.Origin, Line: lines[len(lines)-1].Line, Offset: b.Offset}
	known := false
	if cp != nil {
		for _, p := range cp.Places {
			if p.Origin == at.Origin {
				p, known = at, true
			}
			next.Places = append(next.Places, p)
		}
	}
	if !known {
		next.Places = append(next.Places, at)
	}
	return next
}

// TestResume stops after each block and goes on with another source: the lines are
// those of one that was never stopped, whatever the inputs are.
func TestResume(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	text := func(n int, end string) string {
		var b strings.Builder
		fmt.Fprintf(&b, "first of %d\n", rng.Int())
		for range n {
			b.WriteString(strings.Repeat("x", rng.IntN(400)) + "\n")
			if rng.IntN(300) == 0 {
				b.WriteString(strings.Repeat("y", 5000) + "\n")
			}
		}
		return b.String() + end
	}
	dir := t.TempDir()
	var paths []string
	for i, data := range [][]byte{
		[]byte(text(2000, "")), []byte(bom + text(900, "no newline")), gz(t, text(3000, "")), zst(t, text(1500, "end")), []byte(text(0, "")), []byte(text(4000, "last")),
	} {
		path := filepath.Join(dir, fmt.Sprint("in", i))
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	open := func(piped int) *Source {
		var in []Input
		for i, path := range paths {
			if i != piped {
				in = append(in, Path(path))
				continue
			}
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = f.Close() })
			in = append(in, Reader("<stdin>", io.Reader(struct{ io.Reader }{f})))
		}
		s := NewSource(in...)
		s.MaxLine = 4000
		return s
	}
	for piped := -1; piped < len(paths); piped++ {
		want, err := readAll(t, open(piped))
		if err != nil {
			t.Fatal(err)
		}
		var got []line
		var cp *evalstream.Checkpoint
		starts := 0
		for ended := false; !ended; starts++ {
			s := open(piped)
			var b evalstream.Block
			var first *evalstream.Block
			if rng.IntN(2) == 0 { // the command has looked at the first block
				if err := s.Read(t.Context(), &b); err != nil {
					t.Fatal(err)
				}
				first = &b
			}
			keep, err := s.Resume(t.Context(), cp, first)
			if err != nil {
				t.Fatal(err)
			}
			for range 1 + rng.IntN(3) {
				if !keep {
					err = s.Read(t.Context(), &b)
				}
				keep = false
				if ended = errors.Is(err, io.EOF); ended {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				lines := cut(t, &b)
				got = append(got, lines...)
				cp = after(cp, &b, lines)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff(want, got); d != "" || starts < 5 {
			t.Fatalf("input %d piped, %d starts: -want +got\n%s", piped, starts, d)
		}
	}
}

// TestResumeChanged is a file that is not the one that was read.
func TestResumeChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in")
	write := func(data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := func(before, now []byte, want string) {
		t.Helper()
		write(before)
		s := NewSource(Path(path))
		if _, err := s.Resume(t.Context(), nil, nil); err != nil {
			t.Fatal(err)
		}
		var cp *evalstream.Checkpoint
		var b evalstream.Block
		for s.Read(t.Context(), &b) == nil {
			cp = after(cp, &b, cut(t, &b))
		}
		write(now)
		s = NewSource(Path(path))
		if _, err := s.Resume(t.Context(), cp, nil); err != nil {
			t.Fatal(err)
		}
		got, err := readAll(t, s)
		switch {
		case strings.HasPrefix(want, "lines "):
			if text := fmt.Sprint("lines ", len(got)); err != nil || text != want {
				t.Errorf("got %s and error %v, want %s", text, err, want)
			}
		case err == nil || err.Error() != path+": "+want || evalstream.ExitCode(err) != evalstream.ExitState:
			t.Errorf("got error %v, want %s", err, want)
		}
	}
	long := strings.Repeat("0123456789\n", 50_000)
	f([]byte("a\nb\n"), []byte("a\nb\nc\n"), "lines 1")
	f([]byte("a\nb\n"), []byte("a\nb\n"), "lines 0")
	f([]byte("a\nb"), []byte("a\nb"), "lines 0")
	f([]byte("a\nb"), []byte("a\nb\nc\n"), "line 2 has grown since the state read it")
	f([]byte("a\nb\n"), []byte("x\nb\nc\n"), "begins with another line than when the state read 2 lines of it")
	f([]byte("a\nb\nc\n"), []byte("a\nb\n"), "is 2 bytes shorter than when the state read it")
	f([]byte(long), []byte(long+"c\n"), "lines 1")
	f([]byte(long), []byte(long[:300_000]), "is 250000 bytes shorter than when the state read it")
	f([]byte(long+"x"), []byte(long+"xy\n"), "line 50001 has grown since the state read it")
	f(gz(t, long), gz(t, long+"c\n"), "lines 1")
	f(gz(t, long), gz(t, long[:300_003]), "is 249997 bytes shorter than when the state read it")
}
