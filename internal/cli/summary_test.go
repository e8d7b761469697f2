package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"evalstream"
	"evalstream/topics/memory"
)

func TestWriteSummary(t *testing.T) {
	origin := &evalstream.Origin{Name: "runs.ndjson"}
	rej := NewRejects(nil)
	for i := range 12 {
		err := rej.Write(t.Context(), []evalstream.Record{{Body: &evalstream.Rejected{
			At: evalstream.Pos{Origin: origin, Line: int64(10 + i), Column: 38}, Stage: "parse", Class: evalstream.ClassSchema,
			Reason: "/top/1: want string, got number", Line: []byte("{}"),
		}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := rej.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	of := func(scored, unjudged, waiting int64) (n [6]int64) {
		n[evalstream.Scored], n[evalstream.Unjudged], n[evalstream.Waiting] = scored, unjudged, waiting
		return n
	}
	sum := evalstream.Summary{
		Lines: 1014, Blank: 2, Rejects: 12,
		ByClass: map[evalstream.Class]int64{evalstream.ClassSchema: 7, evalstream.ClassLate: 0, evalstream.ClassParse: 4, evalstream.ClassStage: 1},
		Tallies: []evalstream.Tally{
			{Step: "parse", Kind: "line", Received: 1012, Passed: 1000, Rejected: 12},
			{Step: "score", Kind: "run", Received: 1000, Held: 990, Replaced: 8, Rejected: 2, Of: of(980, 10, 0)},
			{Step: "score", Kind: "qrel", Received: 70, Held: 70, Of: of(60, 0, 10)},
			{Step: "aggregate", Kind: "score"},
			{Step: "broken", Kind: "score", Received: 3, Held: 1},
		},
	}
	var b strings.Builder
	if err := WriteSummary(&b, "score", sum, rej); err != nil {
		t.Fatal(err)
	}
	golden(t, "summary.txt", b.String())

	b.Reset()
	if err := WriteSummary(&b, "score", evalstream.Summary{Lines: 1}, nil); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff("1 line = 0 blank + 1 read\n", b.String()); d != "" {
		t.Error(d)
	}
	full := errors.New("full")
	if err := WriteSummary(failing{full}, "score", sum, rej); !errors.Is(err, full) {
		t.Errorf("got %v, want the writer's error", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestRejectsHandsOn(t *testing.T) {
	next := memory.NewSink(func(dst []byte, r *evalstream.Record) []byte { return fmt.Appendf(dst, "%d", r.Seq) })
	rej := NewRejects(next)
	if err := rej.Write(t.Context(), []evalstream.Record{{Seq: 4, Body: &evalstream.Rejected{}}, {Seq: 7, Body: &evalstream.Rejected{}}}); err != nil {
		t.Fatal(err)
	}
	if err := rej.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"4", "7"}, next.Lines()); d != "" {
		t.Error(d)
	}
}

func TestExcerpt(t *testing.T) {
	f := func(line string, at, width int, want string) {
		t.Helper()
		if d := cmp.Diff(want, excerpt([]byte(line), at, width)); d != "" {
			t.Error(d)
		}
	}
	f(`{"a":x}`, 5, 80, "  {\"a\":x}\n       ^")
	f(`{"a":1`, 6, 80, "  {\"a\":1\n        ^")
	f(`{"é東":x}`, 9, 80, "  {\"é東\":x}\n         ^")
	f(strings.Repeat("a", 50)+"X"+strings.Repeat("b", 50), 50, 24, "  …aaaaaaaaaaXbbbbbbb…\n             ^")
	f("\x1b[2J\xff x", 6, 80, "  \\u001b[2J\ufffd x\n             ^")
	f("", 0, 80, "  \n  ^")
}

// Whatever the line, the mark stands within the width.
func FuzzExcerpt(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00東"), uint8(10), uint8(9))
	f.Fuzz(func(t *testing.T, line []byte, at, width uint8) {
		if int(at) > len(line) {
			return
		}
		for l := range strings.Lines(excerpt(line, int(at), int(width))) {
			if n, most := cells(strings.TrimSuffix(l, "\n")), max(12, int(width)); width > 0 && n > most {
				t.Errorf("line of %d columns, want at most %d: %q", n, most, l)
			}
		}
	})
}

// What is not shown is somewhere, or could be.
func TestSummarySaysWhereRejectsAre(t *testing.T) {
	f := func(all, want string) {
		t.Helper()
		r := NewRejects(nil)
		r.All, r.total, r.kept = all, 12, 12
		var b strings.Builder
		if err := WriteSummary(&b, "live", evalstream.Summary{}, r); err != nil {
			t.Fatal(err)
		}
		if got, _, _ := strings.Cut(b.String(), "\n"); got != want {
			t.Errorf("want %q, got %q", want, got)
		}
	}
	f("", "evalstream live: and 2 more rejects (--rejects FILE keeps them all)")
	f("evalstream dlq list live.yaml prints them all", "evalstream live: and 2 more rejects (evalstream dlq list live.yaml prints them all)")
}
