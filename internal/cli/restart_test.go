package cli

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"evalstream"
)

// standing is what a reader of all of these has who keeps the last result of each key and
// drops what was withdrawn, without what depends on how it came about.
func standing(t *testing.T, all ...said) map[string]published {
	t.Helper()
	last := map[string]published{}
	for _, s := range all {
		s.stdout = strings.Join(slices.DeleteFunc(strings.SplitAfter(s.stdout, "\n"), func(line string) bool { return strings.HasPrefix(line, `{"kind":"review"`) }), "")
		for _, r := range s.read(t) {
			key := fmt.Sprint(r.Metric, r.By, r.Window)
			r.Through, r.Revision, r.Closed = nil, 0, false
			if last[key] = r; r.Undefined == "withdrawn" {
				delete(last, key)
			}
		}
	}
	return last
}

// moving is predictions and gold whose units are corrected later: their groups and windows
// change, and some are left empty.
func moving() (retrieval, fewshot, verdicts [2][]string) {
	for i := range 24 {
		add := func(to *[2][]string, part int, format string, args ...any) {
			to[part] = append(to[part], fmt.Sprintf(format, args...))
		}
		const run = `{"kind":"run","query_id":"q%d","run":"a","ticker":"%s%d","revision":%d,"time":"2024-05-01T%02d:00:00Z","top":[{"id":"p%d"}]}`
		add(&retrieval, 0, `{"kind":"qrel","query_id":"q%d","passage_id":"p0"}`, i)
		add(&retrieval, 0, run, i, "old", i%6, 1, i%4, i%2)
		const episode = `{"kind":"prediction","dataset":"d","seed":1,"k":5,"episode":%d,"query":"q%d","run":"a","label":"%s%d","gold":"r%d","revision":%d}`
		add(&fewshot, 0, episode, i%4, i, "old", i%5, i%3, 1)
		const verdict = `{"kind":"verdict","span_id":"s%d","triple_id":"t","mode":"%s%d","dimension":"faithfulness","prompt_version":"1","judge":"%s","verdict":%d,"revision":%d}`
		add(&verdicts, 0, verdict, i, "old", i%4, "x", i%2, 1)
		add(&verdicts, 0, verdict, i, "old", i%4, "y", i%3%2, 1)
		if i%6 > 0 { // some stay
			add(&retrieval, 1, run, i, "new", i%2, 2, 10+i%2, i%2)
			add(&fewshot, 1, episode, i%4, i, "r", i%3, i%3, 2)
			add(&verdicts, 1, `{"kind":"verdict","span_id":"s%d","triple_id":"t","mode":"old%d","dimension":"faithfulness","prompt_version":"1","judge":"x","verdict":null,"revision":2}`, i, i%4)
		}
	}
	return retrieval, fewshot, verdicts
}

// TestWithdrawnAfterRestart: what a command has published that a later one of the same state
// finds empty is withdrawn by that, be it written to stdout or behind a file. So the last
// result of each key is that of a command that read everything at once.
func TestWithdrawnAfterRestart(t *testing.T) {
	retrieval, fewshot, verdicts := moving()
	f := func(title string, input [2][]string, stages ...string) {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := save(t, "p.yaml", lines(append([]string{"stages:"}, stages...)...))
			all := lines(slices.Concat(input[0], input[1])...)
			want := standing(t, succeed(t, all, "run", "-q", path))
			first := succeed(t, lines(input[0]...), "run", "-q", "--state", filepath.Join(dir, "state"), path)
			gone := 0
			for key := range maps.Keys(standing(t, first)) {
				if _, ok := want[key]; !ok {
					gone++
				}
			}
			if gone == 0 || len(want) == 0 {
				t.Fatalf("%d results, of which %d go; %d at the end", len(first.read(t)), gone, len(want))
			}
			again := succeed(t, all, "run", "-q", "--state", filepath.Join(dir, "state"), path)
			if diff := cmp.Diff(want, standing(t, first, again)); diff != "" {
				t.Errorf("(-at once +with a restart):\n%s", diff)
			}
		})
	}
	f("retrieval", retrieval, "  - score: {measure: success@1}", `  - aggregate: {by: [ticker, "run,ticker"], window: [all, 1h]}`)
	f("retrieval, ticks", retrieval, "  - score: {measure: success@1}", "  - aggregate: {by: ticker, window: [all, 1h/20m], every: 100}")
	f("retrieval, folded", retrieval, "  - score: {measure: success@1}", "  - aggregate: {by: ticker, window: [all, 1h], max_groups: 3}")
	f("retrieval, over", retrieval, "  - score: {measure: success@1}", "  - aggregate: {by: run, window: [all, 1h], over: ticker}")
	f("fewshot", fewshot, "  - score: {gold: inline}", `  - aggregate: {by: [run, "episode,relation"]}`)
	f("verdicts", verdicts, "  - score: {panel: [x, y]}", "  - aggregate: {by: mode}")
}

// TestNothingToWithdraw: a command that goes on from the state of one that had not published
// yet withdraws nothing, and a ready command that is given again publishes what it did.
func TestNothingToWithdraw(t *testing.T) {
	retrieval, fewshot, _ := moving()
	path := save(t, "p.yaml", lines("stages:", "  - score: {gold: inline}", `  - aggregate: {by: [run, "episode,relation"]}`))
	state := filepath.Join(t.TempDir(), "state")
	if s := command(t, lines(append(slices.Clone(fewshot[0]), "{broken")...), "run", "-q", "--state", state, "--fail-fast", path); s.code != 3 || s.stdout != "" {
		t.Fatalf("exit code %d, %s%s", s.code, s.stderr, s.stdout)
	}
	if s := succeed(t, lines(fewshot[0]...), "run", "--state", state, path); strings.Contains(s.stdout, "withdrawn") || !strings.Contains(s.stdout, `"final":true`) {
		t.Errorf("nothing was published before: %s", s.stdout)
	}
	state = filepath.Join(t.TempDir(), "state")
	path = save(t, "p.yaml", lines("stages:", "  - score: {measure: success@1}", "  - aggregate: {by: ticker, window: [all, 1h]}"))
	first := succeed(t, lines(retrieval[0]...), "run", "-q", "--state", state, path)
	again := succeed(t, lines(retrieval[0]...), "run", "-q", "--state", state, path)
	if diff := cmp.Diff(first.stdout, again.stdout); diff != "" {
		t.Errorf("given again (-first +again):\n%s", diff)
	}
}

// TestWithdrawnIsNoResult: a rule does not judge what was withdrawn, and the progress line
// does not choose it.
func TestWithdrawnIsNoResult(t *testing.T) {
	u, err := parseRule("mrr.value < 0.5")
	if err != nil {
		t.Fatal(err)
	}
	group := func(ticker string) []evalstream.Slice { return []evalstream.Slice{{Name: "ticker", Value: ticker}} }
	told := func(rs ...*evalstream.Result) string {
		var b bytes.Buffer
		one := *u
		g := gates{rules: []*rule{&one}}
		for _, r := range rs {
			g.Result(r)
		}
		g.soFar(&b, "run")
		return b.String()
	}
	stands, gone := &evalstream.Result{Metric: "mrr", By: group("a"), N: 2, Value: .25}, &evalstream.Result{Metric: "mrr", By: group("a"), Undefined: "withdrawn"}
	if none := told(); told(stands) == none || told(stands, gone) != none {
		t.Errorf("told %q of one that stands, %q of one that was withdrawn, %q of none", told(stands), told(stands, gone), none)
	}
	h := new(headline)
	h.Result(gone)
	h.Result(&evalstream.Result{Metric: "mrr", By: group("b"), N: 2, Value: .25})
	if got := h.Text(); !strings.Contains(got, "0.25") {
		t.Errorf("headline %q", got)
	}
}
