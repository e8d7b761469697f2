package cli

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"evalstream"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares got with testdata/name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (go test -update writes it):\n%s", name, d)
	}
}

func by(pairs ...string) []evalstream.Slice {
	var s []evalstream.Slice
	for i := 0; i < len(pairs); i += 2 {
		s = append(s, evalstream.Slice{Name: pairs[i], Value: pairs[i+1]})
	}
	return s
}

func wilson(low, high float64) []evalstream.Interval {
	return []evalstream.Interval{
		{Method: "beta_cs", Looks: "any", Confidence: .95, Low: low / 2, High: high + .1},
		{Method: "wilson", Looks: "one", Confidence: .95, Low: low, High: high},
	}
}

func mixture(low, high float64) []evalstream.Interval {
	return []evalstream.Interval{{Method: "normal_mixture_cs", Looks: "any", Confidence: .95, Low: low, High: high, Parameter: "r", Setting: .1}}
}

var all = evalstream.Window{All: true}

func render(t *testing.T, table func(*Table), rs ...*evalstream.Result) string {
	t.Helper()
	var b strings.Builder
	tab := NewTable(&b)
	if table != nil {
		table(tab)
	}
	for i, r := range rs {
		r.Final = true
		rec := evalstream.Record{Body: r, Seq: evalstream.Seq(i)}
		if err := tab.Write(t.Context(), []evalstream.Record{rec}); err != nil {
			t.Fatal(err)
		}
	}
	if err := tab.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := tab.Print(); err != nil {
		t.Fatal(err)
	}
	width := tab.Width
	if width == 0 {
		width = 80
	}
	for l := range strings.Lines(b.String()) {
		if n := cells(strings.TrimSuffix(l, "\n")); n > width {
			t.Errorf("line of %d columns, want at most %d: %s", n, width, l)
		}
	}
	return b.String()
}

func TestTable(t *testing.T) {
	set := &evalstream.Settings{Text: "retrieval: ties trec (score descending, then id descending), missing skip, level 1"}
	f := func(name string, table func(*Table), rs ...*evalstream.Result) {
		t.Helper()
		golden(t, name, render(t, table, rs...))
	}
	f("retrieval.table", func(tab *Table) { tab.Metrics = []string{"success@1", "mrr"} },
		&evalstream.Result{Metric: "mrr", By: by("run", `"bm25"`), Window: all, Value: .3123456, N: 1668, Intervals: mixture(.29123, .3337), Settings: set},
		&evalstream.Result{Metric: "mrr", By: by("run", `"dense v2"`), Window: all, Value: .4, N: 20, Missing: 1648, Intervals: mixture(.1, .9), Settings: set},
		&evalstream.Result{Metric: "success@1", By: by("run", `"bm25"`), Window: all, Value: .23123456, N: 1668, Intervals: wilson(.21123, .2537), Settings: set},
		&evalstream.Result{Metric: "success@1", By: by("run", `"dense v2"`), Window: all, Value: .35, N: 20, Missing: 1648, Intervals: wilson(.18, .57), Settings: set},
	)
	f("windows.table", nil,
		&evalstream.Result{Metric: "success@1", By: by("run", `"a"`, "ticker", `"東京海上"`), Window: evalstream.Window{Start: 0, End: 3600e9}, Value: .5, N: 2, Intervals: wilson(.0945, .9055), MissingUnknown: "windows have no judged total"},
		&evalstream.Result{Metric: "success@1", By: by("run", `"a"`, "ticker", `"MSFT"`), Window: evalstream.Window{Start: 3600e9, End: 7200e9}, Value: 1, N: 1234567, Pending: 3, Intervals: wilson(.999996, 1), MissingUnknown: "windows have no judged total"},
		&evalstream.Result{Metric: "success@1", By: by("run", `"a"`, "ticker", "null"), Window: all, Undefined: "no scored units", Unjudged: 12, Missing: 4},
	)
	f("fewshot.table", func(tab *Table) { tab.Note("interrupted: of the lines read so far") },
		&evalstream.Result{Metric: "f1", By: by("k", `"5"`), Window: all, Value: .1234, N: 5, HasSD: true, SD: .0123, Over: "seed", Of: 5, NoInterval: "f1 is not a proportion"},
		&evalstream.Result{Metric: "f1", By: by("k", "1"), Window: all, Value: -1.5, N: 5, HasSD: true, SD: .1, Over: "seed", Of: 5, NoInterval: "f1 is not a proportion"},
		&evalstream.Result{Metric: "precision", By: by("k", "1"), Window: all, Undefined: "nothing was guessed and zero division is null", N: 0},
	)
	f("agreement.table", nil,
		&evalstream.Result{Metric: "alpha", Window: all, Value: .743421, N: 11, Agreed: true, Units: 11, Values: 40, Intervals: []evalstream.Interval{{Method: "poisson_bootstrap", Confidence: .999, Low: .5, High: .91, Parameter: "b", Setting: 1000}}},
	)
	f("long.table", func(tab *Table) { tab.Width = 60 },
		&evalstream.Result{Metric: "success@1", By: by("run", `"a system with a name that nobody wants to read to its end"`, "filing type", `"`+strings.Repeat("é", 90)+`"`, "n", "12345678901234567890"), Window: all, Value: .5, N: 2, Intervals: wilson(.0945, .9055), Settings: &evalstream.Settings{Text: strings.Repeat("x", 130) + " and words"}},
		&evalstream.Result{Metric: "success@1", By: by("run", `"\u001b[2J"`, "filing type", "\"a\u202eb\"", "n", `" "`), Window: all, Value: .5, N: 2, Intervals: wilson(.0945, .9055)},
	)
	f("none.table", nil)
}

// Only final results are shown, and a later one replaces an earlier.
func TestTableKeepsTheLast(t *testing.T) {
	var b strings.Builder
	tab := NewTable(&b)
	write := func(r evalstream.Result) {
		t.Helper()
		if err := tab.Write(t.Context(), []evalstream.Record{{Body: &r}, {Body: &evalstream.Score{}}, {}}); err != nil {
			t.Fatal(err)
		}
	}
	write(evalstream.Result{Metric: "m", Window: all, Value: 1, N: 1, Final: true})
	write(evalstream.Result{Metric: "m", Window: all, Value: 2, N: 2, Final: true})
	write(evalstream.Result{Metric: "m", Window: all, Value: 3, N: 3})
	if err := tab.Print(); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff("metric  value   n\nm       2.0000  2\n", b.String()); d != "" {
		t.Error(d)
	}
}

func TestTableOfManyGroups(t *testing.T) {
	var rs []*evalstream.Result
	for i := range 10_000 {
		for _, m := range []string{"a", "b"} {
			rs = append(rs, &evalstream.Result{Metric: m, By: by("g", fmt.Sprintf(`"g%05d"`, i)), Window: all, Value: .5, N: int64(i)})
		}
	}
	lines := strings.Split(render(t, nil, rs...), "\n")
	if len(lines) != 1+400+1+1 {
		t.Fatalf("got %d lines, want a title, 400 rows and a last line", len(lines)-1)
	}
	if d := cmp.Diff([]string{
		"g       metric  value     n", "g00000  a       0.5000    0", "        b       0.5000    0",
		"        b       0.5000  199", "… and 9,800 more groups (use -o ndjson)", "",
	}, append(lines[:3:3], lines[400:]...)); d != "" {
		t.Error(d)
	}
}

// No width is too small, and no text too strange, to stay within it.
func TestTableWidth(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	letters := []rune("ab \t\u001b東é\u0301👩\u200d👧\u202e\"{}…")
	word := func() string {
		var b strings.Builder
		for range rng.IntN(30) {
			b.WriteRune(letters[rng.IntN(len(letters))])
		}
		return b.String()
	}
	for range 200 {
		width := 1 + rng.IntN(120)
		var rs []*evalstream.Result
		for range 1 + rng.IntN(5) {
			r := &evalstream.Result{Metric: word(), Window: all, Value: rng.NormFloat64(), N: rng.Int64N(1e9), Missing: rng.Int64N(3), Intervals: wilson(rng.Float64(), rng.Float64())}
			for range rng.IntN(4) {
				r.By = append(r.By, evalstream.Slice{Name: word(), Value: string(evalstream.AppendString(nil, word()))})
			}
			if rng.IntN(3) == 0 {
				r.Undefined = word()
			}
			r.Settings = &evalstream.Settings{Text: word()}
			rs = append(rs, r)
		}
		render(t, func(tab *Table) { tab.Width = width }, rs...)
	}
}

func TestDecimals(t *testing.T) {
	f := func(low, high float64, want int) {
		t.Helper()
		r := row{hasInterval: true, interval: evalstream.Interval{Low: low, High: high}}
		if got := r.decimals(); got != want {
			t.Errorf("[%g, %g]: %d decimals, want %d", low, high, got, want)
		}
	}
	f(0, 1, 2)
	f(.219, .243, 3)
	f(.21, .41, 2)
	f(.5, .502, 4)
	f(.5, .50000001, 6)
	f(.5, .5, 4)
	f(.6, .5, 4)
}

func TestShown(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		if got := shown(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
	f(`"AAPL"`, "AAPL")
	f(`"7"`, `"7"`)
	f("7.10", "7.10")
	f(`"null"`, `"null"`)
	f("null", "(none)")
	f("", "(none)")
	f(`"(none)"`, `"(none)"`)
	f("true", "true")
	f(`""`, `""`)
	f(`" a"`, `" a"`)
	f(`"a\nb"`, `a\u000ab`)
	f("\"a\u009bb\"", `a\u009bb`)
	f(`"say \"so\""`, `say "so"`)
	f(`"__other__"`, "__other__")
}

func TestCount(t *testing.T) {
	f := func(in int64, want string) {
		t.Helper()
		if got := count(in); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	f(0, "0")
	f(999, "999")
	f(1000, "1,000")
	f(-1234567, "-1,234,567")
	f(123456, "123,456")
}
