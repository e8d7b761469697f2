package codecs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"evalstream"
)

// runsText prints what TRECRuns yields, one record a line.
func runsText(t *testing.T, text string, gather bool) string {
	t.Helper()
	var b strings.Builder
	for rec, err := range NewTRECRuns(strings.NewReader(text), &evalstream.Origin{Name: "f"}, gather).All() {
		if err != nil {
			t.Fatal(err)
		}
		switch body := rec.Body.(type) {
		case *evalstream.Run:
			fmt.Fprintf(&b, "%d %v %s/%s", rec.Seq, rec.Pos, body.QueryID, body.Run)
			for _, h := range body.Top {
				fmt.Fprintf(&b, " %s=%v", h.ID, h.Score)
			}
			b.WriteByte('\n')
		case *evalstream.Rejected:
			fmt.Fprintf(&b, "%d %v %s: %s\n", rec.Seq, body.At, body.Class, body.Reason)
		}
	}
	return b.String()
}

func TestTRECRuns(t *testing.T) {
	f := func(gather bool, text, want string) {
		t.Helper()
		if diff := cmp.Diff(want, runsText(t, text, gather)); diff != "" {
			t.Errorf("%q, gather %v (-want +got):\n%s", text, gather, diff)
		}
	}
	for _, gather := range []bool{false, true} {
		f(gather, "", "")
		f(gather, "1 Q0 a 1 0.5 r\n1 Q0 b 2 -1e-1 r\n2 Q0 a 1 3 r", "0 f:1 1/r a=0.5 b=-0.1\n1 f:3 2/r a=3\n")
		f(gather, "\ufeff1\tQ0  a 1 2 r \r\n\r\n  \n1 Q0 b 2 1 r\r\n", "0 f:1 1/r a=2 b=1\n")
		f(gather, "1 Q0 a 1 2 r\n1 Q0 a 2 1 r\n2 Q0 a 1 1 r\n",
			"0 f:2 schema: passage \"a\" stands twice in the list of query \"1\", run \"r\"\n1 f:3 2/r a=1\n")
		f(gather, "1 Q0 a 1 nan r\n1 Q0 b 2 1 r\n", "0 f:1:10 parse: want finite score, got \"nan\"\n")
		f(gather, "1 Q0 a 1 1e999 r\n", "0 f:1:10 parse: want finite score, got \"1e999\"\n")
		f(gather, "1 Q0 a 1 0x10 r\n", "0 f:1:10 parse: want finite score, got \"0x10\"\n")
		f(gather, "1 Q0 a 1 2 r\nbad line\n1 Q0 b 1 1 r\n",
			"0 f:2 parse: want 6 fields (query Q0 passage rank score run), got 2\n1 f:1 1/r a=2 b=1\n")
		f(gather, "1 Q0 \xff 1 2 r\n", "0 f:1:6 parse: byte 6 (0xff) is not UTF-8\n")
	}
	apart := "1 Q0 a 1 2 r\n2 Q0 a 1 2 r\n1 Q0 b 1 1 r\n"
	f(true, apart, "0 f:1 1/r a=2 b=1\n1 f:2 2/r a=2\n")
	f(false, apart, "0 f:1 1/r a=2\n1 f:3 schema: query \"1\" of run \"r\" comes back after other lines; sort the file by query and run\n2 f:2 2/r a=2\n")
}

func TestTRECQrels(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		var b strings.Builder
		for rec, err := range NewTRECQrels(strings.NewReader(text), &evalstream.Origin{Name: "f"}).All() {
			if err != nil {
				t.Fatal(err)
			}
			switch body := rec.Body.(type) {
			case *evalstream.Qrel:
				fmt.Fprintf(&b, "%d %v %s %s %d\n", rec.Seq, rec.Pos, body.QueryID, body.PassageID, body.Grade)
			case *evalstream.Rejected:
				fmt.Fprintf(&b, "%d %v %s: %s\n", rec.Seq, body.At, body.Class, body.Reason)
			}
		}
		if diff := cmp.Diff(want, b.String()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	f("1 0 a 1\n1 0 b -1\r\n\n2 0 a 0", "0 f:1 1 a 1\n1 f:2 1 b -1\n2 f:4 2 a 0\n")
	f("1 0 a 1\n1 0 a 1\n", "0 f:1 1 a 1\n1 f:2:5 schema: passage \"a\" is judged twice for query \"1\"; want one line each\n")
	f("1 0 a 1.5\n1 0 a\n1 0 b 99999999999\n",
		"0 f:1:7 parse: want integer grade, got \"1.5\"\n1 f:2 parse: want 4 fields (query iteration passage grade), got 3\n2 f:3:7 parse: want integer grade, got \"99999999999\"\n")
}

func TestLineOverTheLimit(t *testing.T) {
	long := "1 Q0 " + strings.Repeat("x", DefaultMaxLine) + " 1 2 r\n"
	want := fmt.Sprintf("0 f:2 too_large: line of %d bytes is over the limit of %d; raise --max-line\n1 f:1 1/r a=2 b=1\n", len(long), DefaultMaxLine)
	if diff := cmp.Diff(want, runsText(t, "1 Q0 a 1 2 r\n"+long+"1 Q0 b 1 1 r\n", true)); diff != "" {
		t.Error(diff)
	}
	most := "1 Q0 " + strings.Repeat("x", DefaultMaxLine-len("1 Q0  1 2 r\n")) + " 1 2 r\n"
	if got := runsText(t, most, true); !strings.HasPrefix(got, "0 f:1 1/r xxx") {
		t.Errorf("a line of the limit: got %.100s", got)
	}
}

func TestSniff(t *testing.T) {
	f := func(head string, want Format) {
		t.Helper()
		if got := Sniff([]byte(head)); got != want {
			t.Errorf("%q: got %v, want %v", head, got, want)
		}
	}
	f("", UnknownFormat)
	f(" \n\n", UnknownFormat)
	f("\ufeff\r\n {\"a\":1}\n", NDJSON)
	f("[1]", NDJSON)
	f("1 Q0 a 1 .5 r\n2", TRECRun)
	f("1\t0\ta\t1\n2", TRECQrelFile)
	f("a b c\n1 0 a 1\n", UnknownFormat)
}

func FuzzTREC(f *testing.F) {
	f.Add("1 Q0 a 1 0.5 r\n1 Q0 b 2 -1e-1 r\n2 Q0 a 1 3 r", true)
	f.Add("1 Q0 a 1 nan r\n\xff\n1 0 a 1\n1 0 a 1", false)
	f.Fuzz(func(t *testing.T, text string, gather bool) {
		lists := map[string]bool{}
		for rec, err := range NewTRECRuns(strings.NewReader(text), nil, gather).All() {
			if err != nil {
				t.Fatal(err)
			}
			b, ok := rec.Body.(*evalstream.Run)
			if !ok {
				continue
			}
			key := string(b.AppendKey(nil))
			if lists[key] {
				t.Fatalf("list %s comes twice", key)
			}
			lists[key] = true
			seen := map[string]bool{}
			for _, h := range b.Top {
				if seen[h.ID] || h.Score != h.Score {
					t.Fatalf("list %s has %q twice or without score", key, h.ID)
				}
				seen[h.ID] = true
			}
			// The same list as NDJSON is the same list.
			var back evalstream.Record
			back.Raw = AppendBody(nil, b)
			d, err := NewDecoder(Plan{As: "run"})
			if err != nil {
				t.Fatal(err)
			}
			if fault := d.Decode(&back); fault != nil {
				t.Fatalf("%s: %v", back.Raw, fault)
			}
			if diff := cmp.Diff(b, back.Body); diff != "" {
				t.Fatal(diff)
			}
		}
		for _, err := range NewTRECQrels(strings.NewReader(text), nil).All() {
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}
