package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"evalstream"
)

func TestParseRule(t *testing.T) {
	f := func(text string, want rule) {
		t.Helper()
		got, err := parseRule(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			return
		}
		want.text = strings.TrimSpace(text)
		if d := cmp.Diff(want, *got, cmp.AllowUnexported(rule{}, condition{})); d != "" {
			t.Errorf("%s (-want +got):\n%s", text, d)
		}
	}
	f("success@1.value < 0.8", rule{metric: "success@1", of: "value", op: "<", limit: .8})
	f("iprec@0.1.low<=1e-3", rule{metric: "iprec@0.1", of: "low", op: "<=", limit: .001})
	f(" f1{run=a}.n != 5 ", rule{metric: "f1", where: []condition{{"run", "a"}}, of: "n", op: "!=", limit: 5})
	f(`f1{run="a,b}.c", k = 5 ,window=1h}.high >= -1`, rule{metric: "f1", where: []condition{{"run", `"a,b}.c"`}, {"k", "5"}, {"window", "1h"}}, of: "high", op: ">=", limit: -1})
	f("m{}.n == 0", rule{metric: "m", of: "n", op: "==", limit: 0})
	f(`m{url="x=1<2"}.n > 0`, rule{metric: "m", where: []condition{{"url", `"x=1<2"`}}, of: "n", op: ">", limit: 0})

	bad := func(text, want string) {
		t.Helper()
		if _, err := parseRule(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	bad("", "want a rule such as")
	bad("success@1.value", "want a rule such as")
	bad("success@1.value = 1", "want one of < <= > >= == !=")
	bad("success@1.value < x", `want a number behind <, got "x"`)
	bad("success@1.value < NaN", "want a number")
	bad("success@1.value <", "want a number")
	bad("success@1 < 1", "want .value, .low, .high or .n behind the metric")
	bad("success@1.lo < 1", `did you mean "low"?`)
	bad("success@1{run=a.b} < 1", "want .value, .low, .high or .n behind the metric")
	bad("success@1{run=a.value < 1", "want } behind the fields")
	bad("success@1{run}.value < 1", "want field=value")
	bad(`success@1{run="a"b}.value < 1`, `want a comma behind "a"`)
	bad(".value < 1", "want a metric in front")
}

func TestGates(t *testing.T) {
	interval := []evalstream.Interval{{Method: "beta_cs", Low: .1, High: .9}, {Method: "wilson", Low: .25, High: .75}}
	results := []*evalstream.Result{
		{Metric: "success@1", By: []evalstream.Slice{{Name: "run", Value: `"a"`}}, Window: evalstream.Window{All: true}, Value: .5, N: 8, Intervals: interval, Final: true},
		{Metric: "success@1", By: []evalstream.Slice{{Name: "run", Value: `"7"`}}, Window: evalstream.Window{All: true}, Value: .25, N: 8, Intervals: interval, Final: true},
		{Metric: "success@1", By: []evalstream.Slice{{Name: "run", Value: ``}}, Window: evalstream.Window{End: 3600e9}, Value: .75, N: 4, NoInterval: "none is known", Final: true},
		{Metric: "mrr", Window: evalstream.Window{All: true}, Undefined: "no_units", Final: true},
		{Metric: "map", Window: evalstream.Window{All: true}, Value: .1, N: 1},
		{Metric: "one", Window: evalstream.Window{All: true}, Undefined: "no_variation", N: 3, Final: true},
	}
	f := func(text string, want int, says ...string) {
		t.Helper()
		u, err := parseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		g := &gates{rules: []*rule{u}}
		for _, r := range results {
			g.Result(r)
		}
		var b strings.Builder
		code := 0
		if err := g.judge(&b, "eval"); err != nil {
			said, ok := errors.AsType[*saidError](err)
			if !ok {
				t.Fatal(err)
			}
			code = said.code
		}
		if code != want {
			t.Errorf("%s: exit code %d, want %d: %s", text, code, want, b.String())
		}
		if (code == 0) != (b.String() == "") {
			t.Errorf("%s: exit code %d with %q", text, code, b.String())
		}
		for _, s := range says {
			if !strings.Contains(b.String(), s) {
				t.Errorf("%s: %q, want %q", text, b.String(), s)
			}
		}
	}
	f("success@1{run=a}.value < 0.5", 0)
	f("success@1{run=a}.value <= 0.5", 10, "evalstream eval: --fail-if 'success@1{run=a}.value <= 0.5': success@1 run=a: value is 0.50, n 8\n")
	f("success@1{run=a}.value < 0.501", 10, "value is 0.50, n")
	f("success@1{run=a}.value < 0.50001", 10)
	f("success@1{run=a}.low < 0.25", 0)
	f("success@1{run=a}.low < 0.26", 10, "low is 0.25")
	f("success@1{run=a}.high > 0.7", 10)
	f("success@1{run=a}.n != 8", 0)
	f("success@1{run=a}.n == 8", 10, "n is 8\n")
	f("success@1.value < 0.5", 10, "success@1 run=\"7\": value is 0.25")
	f("success@1{run=\"7\"}.value < 0.5", 10)
	f("success@1{run=7}.value < 0.5", 11, "no result of that group, only of success@1 run=a; ")
	f("success@1{run=null}.value > 0.7", 10, "run=(none) 1970-01-01T00:00:00Z/1970-01-01T01:00:00Z: value")
	f("success@1{run=(none),window=1h}.value > 0.7", 10)
	f("success@1{window=all}.value > 0.7", 0)
	f("success@1{window=1h}.low < 1", 11, "not enough data: no interval (none is known)")
	f("success@1{ticker=x}.value < 1", 11)
	f("mrr.value < 1", 11, "mrr: not enough data: n is 0")
	f("mrr.n < 1", 11)
	f("one.value < 1", 11, "undefined (no_variation)")
	f("one.n < 4", 10)
	f("map.value < 1", 11, `no result of metric "map"`)
	f("sucess@1.value < 1", 11, `did you mean "success@1"?`)
}
