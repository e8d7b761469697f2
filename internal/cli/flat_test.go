package cli

import (
	"encoding/csv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"evalstream"
)

func flatResults() []evalstream.Record {
	at := &evalstream.Origin{Name: "runs, all.ndjson"}
	return []evalstream.Record{
		{Body: &evalstream.Result{
			Metric: "success@1", By: []evalstream.Slice{{Name: "run", Value: `"a,\"b\""`}, {Name: "n", Value: "7"}}, Window: evalstream.Window{All: true},
			Value: .5, Ratio: true, Num: evalstream.One, Den: 2, N: 2, Missing: 1, Unjudged: 3,
			Intervals: []evalstream.Interval{{Method: "wilson", Confidence: .95, Low: .1, High: .9}},
			Closed:    true, Final: true, Through: []evalstream.Through{{Origin: at, Line: 9}}, Settings: &evalstream.Settings{Digest: "abc", Text: "x|y"},
		}},
		{Body: &evalstream.Result{
			Metric: "alpha", By: []evalstream.Slice{{Name: "n", Value: "null"}}, Window: evalstream.Window{Start: 0, End: 3600e9},
			Undefined: "no_units", MissingUnknown: "ratings", Agreed: true, Final: true,
		}},
	}
}

func TestCSV(t *testing.T) {
	var b strings.Builder
	s := NewCSV(&b, []string{"run", "n"})
	if err := s.Write(t.Context(), flatResults()); err != nil {
		t.Fatal(err)
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var got []map[string]string
	for _, row := range rows[1:] {
		cells := map[string]string{}
		for i, name := range rows[0] {
			if _, ok := cells[name]; ok {
				t.Errorf("column %s is there twice", name)
			}
			if row[i] != "" {
				cells[name] = row[i]
			}
		}
		got = append(got, cells)
	}
	want := []map[string]string{
		{
			"metric": "success@1", "by": "run,n", "run": `a,"b"`, "by_n": "7", "value": "0.5", "num": "1", "den": "2", "n": "2", "missing": "1", "pending": "0", "unjudged": "3",
			"wilson_low": "0.1", "wilson_high": "0.9", "confidence": "0.95", "closed": "true", "final": "true", "revision": "0", "through": "runs, all.ndjson:9", "settings": "abc",
		},
		{
			"metric": "alpha", "by": "n", "window_start": "1970-01-01T00:00:00Z", "window_end": "1970-01-01T01:00:00Z", "undefined": "no_units", "n": "0", "pending": "0", "unjudged": "0",
			"units": "0", "values": "0", "closed": "false", "final": "true", "revision": "0",
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}

	var empty strings.Builder
	if err := NewCSV(&empty, nil).End(); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(empty.String(), "metric,by,window_start,") || strings.Count(empty.String(), "\n") != 1 {
		t.Errorf("without results: %q, want the header", empty.String())
	}
}

// null, an empty string, a string of two quotes and a field that the grouping does not
// have are told apart by whoever reads the file, whatever it makes of quoted cells.
func TestCSVGroups(t *testing.T) {
	f := func(by []evalstream.Slice, want ...string) {
		t.Helper()
		var b strings.Builder
		s := NewCSV(&b, []string{"run", "n"})
		r := &evalstream.Result{Metric: "mrr", By: by, Window: evalstream.Window{All: true}}
		if err := s.Write(t.Context(), []evalstream.Record{{Body: r}}); err != nil {
			t.Fatal(err)
		}
		if err := s.End(); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, rows[1][1:4]); d != "" {
			t.Errorf("%v (-want +got):\n%s", by, d)
		}
	}
	f([]evalstream.Slice{{Name: "run", Value: "null"}}, "run", "", "")
	f([]evalstream.Slice{{Name: "run"}}, "run", "", "")
	f([]evalstream.Slice{{Name: "run", Value: `""`}}, "run", `""`, "")
	f([]evalstream.Slice{{Name: "run", Value: `"\"\""`}}, "run", `"\"\""`, "")
	f([]evalstream.Slice{{Name: "run", Value: `"null"`}}, "run", "null", "")
	f([]evalstream.Slice{{Name: "run", Value: `"a"`}, {Name: "n", Value: "null"}}, "run,n", "a", "")
	f(nil, "", "", "")
}

func TestMarkdown(t *testing.T) {
	var b strings.Builder
	m := NewMarkdown(&b)
	if err := m.Write(t.Context(), flatResults()); err != nil {
		t.Fatal(err)
	}
	if err := m.Print(); err != nil {
		t.Fatal(err)
	}
	want := `| run | n | metric | value | 95% interval | n | missing | unjudged |
|---|---|---|--:|---|--:|--:|--:|
| a,"b" | 7 | success@1 | 0.50 | [0.10, 0.90] | 2 | 1 | 3 |

| n | 1h from (UTC) | metric | value | n |
|---|---|---|--:|--:|
| (none) | 1970-01-01 00:00 | alpha | undefined (no\_units) | 0 |

- interval: wilson, valid for one look (success@1)
- settings: x\|y
`
	want = strings.Replace(want, ", valid for one look", "", 1) // the interval above says nothing of looks
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
