package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// told is what a result says of its cell.
func told(r *published) string {
	value := r.Undefined
	if r.Value != nil {
		value = fmt.Sprint(*r.Value)
	}
	return fmt.Sprintf("%v %s n=%d pending=%d unjudged=%d", r.By, value, r.N, r.Pending, r.Unjudged)
}

// piped is the final results of input through score and aggregate as filters.
func piped(t *testing.T, input string, options ...string) []published {
	t.Helper()
	scores := succeed(t, input, "score", "-q", "--measure", "mrr").stdout
	return succeed(t, scores, append([]string{"aggregate", "-q"}, options...)...).finals(t)
}

// TestNamelessRun: a run without a name shares its slot with the unit that waited for
// it, and is scored all the same.
func TestNamelessRun(t *testing.T) {
	f := func(revision string) {
		t.Helper()
		rs := piped(t, lines(
			`{"kind":"qrel","query_id":"q","passage_id":"p"}`,
			`{"kind":"run","query_id":"q","top":[{"id":"p"}]`+revision+`}`))
		if len(rs) != 1 || told(&rs[0]) != "map[run:<nil>] 1 n=1 pending=0 unjudged=0" || rs[0].Missing == nil || *rs[0].Missing != 0 {
			t.Errorf("%s: got %+v", revision, rs)
		}
	}
	f(``)
	f(`,"revision":-1`)
	f(`,"revision":3`)

	gold := save(t, "gold.ndjson", lines(`{"episode":1,"query":1,"gold":"a"}`))
	rs := succeed(t, lines(`{"episode":1,"query":1,"label":"a","gold":"b"}`), "eval", "fewshot", "--gold", gold, "-").finals(t)
	if got := find(t, rs, "recall", allTime); told(got) != "map[run:<nil>] 0 n=1 pending=0 unjudged=0" {
		t.Errorf("own gold beside a gold file: got %s", told(got))
	}
}

// TestLeastGrade: the least grade there is is a judgment, not its withdrawal.
func TestLeastGrade(t *testing.T) {
	gold := save(t, "gold.ndjson", lines(`{"query_id":"q","passage_id":"p","grade":-2147483648}`, `{"query_id":"r","passage_id":"p"}`))
	rs := succeed(t, lines(`{"query_id":"q","top":[{"id":"p"}]}`), "eval", "retrieval", "--qrels", gold, "--measure", "mrr", "-").finals(t)
	if len(rs) != 1 || told(&rs[0]) != "map[run:<nil>] 0 n=1 pending=0 unjudged=0" {
		t.Errorf("got %+v", rs)
	}
}

// TestLabelsOfAnyByte: two pairs of labels that are equal when joined are two pairs.
func TestLabelsOfAnyByte(t *testing.T) {
	rs := succeed(t, lines(`{"label":"a\u0000b","gold":"c"}`, `{"label":"a","gold":"b\u0000c"}`), "eval", "fewshot", "--by", "relation", "-").finals(t)
	var got []string
	for i := range rs {
		if rs[i].Metric == "recall" {
			got = append(got, fmt.Sprintf("%q n=%d", rs[i].By["relation"], rs[i].N))
		}
	}
	want := []string{`"a" n=1`, `"a\x00b" n=1`, `"b\x00c" n=1`, `"c" n=1`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("relations (-want +got):\n%s", diff)
	}
}

// TestExpiredIsNotLate: a prediction whose gold did not come within the horizon has
// expired; that it has is no late record.
func TestExpiredIsNotLate(t *testing.T) {
	var b strings.Builder
	for i := range 600 {
		fmt.Fprintf(&b, `{"kind":"run","query_id":"q%d","run":"a","top":[{"id":"p"}],"time":"2026-03-02T10:%02d:%02dZ"}`+"\n", i, i/60, i%60)
	}
	b.WriteString(`{"kind":"qrel","query_id":"q599","passage_id":"p"}` + "\n")
	path := save(t, "p.yaml", "horizon: 80s\nstages:\n  - parse: {}\n  - score: {measure: [mrr]}\n  - aggregate: {}\n")
	s := succeed(t, b.String(), "run", path)
	rs := s.finals(t)
	// What has expired is unjudged as well as what waits in vain at the end.
	if len(rs) != 1 || rs[0].Pending != 0 || rs[0].Unjudged != 599 || rs[0].N != 1 {
		t.Errorf("got %+v\n%s", rs, s.stderr)
	}
}

// TestMeansOverGroupsAtTicks: a mean that is published on the way is over all groups so
// far, not over those that changed, and a group that moved away does not withdraw it.
func TestMeansOverGroupsAtTicks(t *testing.T) {
	f := func(over string, want, input []string) {
		t.Helper()
		var got []string
		for _, r := range succeed(t, lines(input...), "eval", "retrieval", "--qrels", judgedRight(t, "q1", "q2"), "--measure", "mrr", "--over", over, "--every", "1", "-").read(t) {
			got = append(got, fmt.Sprintf("%v/%d", r.value(), r.N))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("over %s (-want +got):\n%s", over, diff)
		}
	}
	f("seed", []string{"1/1", "0.5/2", "0.5/2"}, []string{
		`{"query_id":"q1","seed":1,"top":[{"id":"p1"}]}`, `{"query_id":"q2","seed":2,"top":[{"id":"p2"}]}`,
	})
	f("ticker", []string{"1/1", "0.5/2", "0.5/1", "0.5/1"}, []string{
		`{"query_id":"q1","ticker":"x","top":[{"id":"p1"}]}`, `{"query_id":"q2","ticker":"y","top":[{"id":"p2"}]}`, `{"query_id":"q2","ticker":"x","top":[{"id":"p2"}]}`,
	})
}

// TestFoldedGroupIsWithdrawn: a group that was published on its own and is now among the
// others is withdrawn, so that nobody adds it twice.
func TestFoldedGroupIsWithdrawn(t *testing.T) {
	f := func(want ...string) {
		t.Helper()
		var got []string
		input := lines(`{"label":"x","gold":"x","run":"a"}`, `{"label":"x","gold":"x","run":"b"}`, `{"label":"x","gold":"x","run":"b"}`)
		for _, r := range succeed(t, input, "eval", "fewshot", "--max-groups", "1", "--every", "1", "-").read(t) {
			if r.Metric == "recall" {
				got = append(got, fmt.Sprint(r.By["run"], " ", r.N, r.Undefined))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	f("a 1", "__other__ 1", "a 1", "__other__ 1", "a 0withdrawn", "b 2", "__other__ 1", "b 2")
}

// TestWindowsOnce: a window that two --window have is published once; one with more
// steps than anyone can want, or beyond what a time can be, is not tried.
func TestWindowsOnce(t *testing.T) {
	gold := judgedRight(t, "q1")
	input := lines(dated("q1", "09:10:00", "p1", ""))
	rs := succeed(t, input, "eval", "retrieval", "--qrels", gold, "--measure", "mrr", "--window", "1h", "--window", "1h/15m", "-").finals(t)
	seen := map[string]int{}
	for i := range rs {
		seen[rs[i].start()]++
	}
	want := map[string]int{"2026-03-02T08:15:00Z": 1, "2026-03-02T08:30:00Z": 1, "2026-03-02T08:45:00Z": 1, hour(9): 1}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("windows (-want +got):\n%s", diff)
	}
	if s := command(t, input, "eval", "retrieval", "--qrels", gold, "--window", "10000d/1ms", "-"); s.code != 2 {
		t.Errorf("10000d/1ms: exit code %d\n%s", s.code, s.stderr)
	}
	rs = succeed(t, lines(`{"query_id":"q1","top":[],"time":"2261-12-31T00:00:00Z"}`, `{"query_id":"q2","top":[],"time":"1678-01-01T00:00:00Z"}`),
		"eval", "retrieval", "--qrels", gold, "--measure", "mrr", "--window", "10000d", "-").finals(t)
	for _, r := range rs {
		if w := r.Window.(map[string]any); w["start"].(string) >= w["end"].(string) {
			t.Errorf("window %v ends before it begins", w)
		}
	}
	s := succeed(t, lines(`{"query_id":"q1","top":[{"id":"p1"}],"time":"1690-01-01T00:00:00Z"}`), "eval", "retrieval", "--qrels", gold, "--measure", "mrr", "--horizon", "10000d", "-")
	if rs := s.finals(t); len(rs) != 1 || rs[0].N != 1 {
		t.Errorf("horizon before the first time there is: got %+v", rs)
	}
}

// TestScoresOfOthers: scores and partials that no score or aggregate would write are
// rejects, whatever is in them.
func TestScoresOfOthers(t *testing.T) {
	f := func(verb, line, reason string) {
		t.Helper()
		s := command(t, line+"\n", verb, "--by", "run", "--by", "")
		if s.code != 3 || !strings.Contains(s.stderr, reason) {
			t.Errorf("%s: exit code %d, want 3 with %q\n%s", line, s.code, reason, s.stderr)
		}
	}
	score := func(rest string) string { return `{"kind":"score","unit":"a","status":"scored"` + rest + `}` }
	f("aggregate", score(`,"values":{"mrr":9000000000}`), "/values/mrr: want a number from 0 to 1, got 9000000000")
	f("aggregate", score(`,"values":{"mrr":-0.1}`), "/values/mrr: want a number from 0 to 1, got -0.1")
	f("aggregate", score(`,"values":{"gm_map":0.1}`), "/values/gm_map: want a number from -12 to 0")
	f("aggregate", score(``), "want values, label and gold, or ratings")
	partial := func(rest string) string {
		return `{"kind":"partial","step":"","partition":0,"partitions":1,"window":"all","pane":0,"pending":0,"unjudged":0,"expired":0,"judged":1,` + rest + `}`
	}
	f("merge", partial(`"family":"retrieval","by":{"run":"a"},"n":-2,"measures":["mrr"],"sums":[0.8]`), "want counts of units from 0")
	f("merge", partial(`"family":"retrieval","by":{"run":"a"},"n":1,"measures":["mrr"],"sums":[5]`), "want a sum of 1 values of mrr")
	f("merge", partial(`"family":"retrieval","by":{"run":"a"},"n":1,"measures":["mrr","map"],"sums":[0.5]`), "want a sum for each of [mrr map], got 1")
	f("merge", partial(`"family":"fewshot","by":{"run":"a"},"n":1,"counts":{"x":[1,1,5]}`), "at most as many correct")
	f("merge", partial(`"family":"agreement","by":{},"n":1,"counts":{"zzz":[1]}`), `pattern "zzz"`)
	f("merge", partial(`"family":"agreement","by":{},"n":1,"counts":{"1:a*2;":[-5]}`), "want counts from 0")
	f("merge", strings.Replace(partial(`"family":"agreement","by":{},"n":1,"counts":{"1:a*2;":[1]}`), `"partition":0`, `"partition":5`, 1), "/partition: want a number below 1")
}

// TestPartialsOfProcesses: partials of several processes, in any order and repeated,
// make what one process makes, and none may be left out.
func TestPartialsOfProcesses(t *testing.T) {
	// The first partition has no scored unit, and so no family, at its first ticks.
	var parts [2]string
	for i := range 40 {
		unit := fmt.Sprintf(`"dataset":"d","seed":%d,"k":1,"episode":%d,"query":1`, i%3, i)
		p := &parts[i%2]
		*p += fmt.Sprintf(`{"kind":"prediction",%s,"run":"r","label":"%c","ticker":%d}`+"\n", unit, 'a'+i%3, i%4)
		if i > 10 {
			*p += fmt.Sprintf(`{"kind":"prediction",%s,"gold":"%c"}`+"\n", unit, 'a'+i%2)
		}
	}
	options := []string{"--by", "run", "--by", "run,relation", "--by", "ticker"}
	scored := func(input string) string { return succeed(t, input, "score", "-q").stdout }
	var partials [2]string
	for i := range parts {
		partials[i] = succeed(t, scored(parts[i]), append([]string{"aggregate", "-q", "--every", "3", "--partition", fmt.Sprintf("%d/2", i)}, options...)...).stdout
	}
	without := []string{"through", "settings"}
	want := succeed(t, scored(parts[0]+parts[1]), append([]string{"aggregate", "-q"}, options...)...).comparable(t, without...)
	merged := succeed(t, partials[1]+partials[0]+partials[1], append([]string{"merge", "-q"}, options...)...).comparable(t, without...)
	same(t, "merged", want, merged)
	if s := command(t, partials[0], append([]string{"merge", "-q"}, options...)...); s.code != 11 || s.stdout != "" {
		t.Errorf("one of two partitions: exit code %d, want 11 and no results\n%s", s.code, s.stderr)
	}
}

// TestFlagsOutOfRange: a number that would be cut, or take all memory, is refused.
func TestFlagsOutOfRange(t *testing.T) {
	gold := judgedRight(t, "q1")
	f := func(flag, value string) {
		t.Helper()
		if s := command(t, "", "eval", "retrieval", "--qrels", gold, "--"+flag, value, "-"); s.code != 2 || !strings.Contains(s.stderr, flag) {
			t.Errorf("--%s %s: exit code %d, want 2\n%s", flag, value, s.code, s.stderr)
		}
	}
	f("confidence", "nan")
	f("level-relevant", "99999999999")
	f("level-relevant", "-1")
	f("workers", "100000")
	if s := command(t, "", "aggregate", "--partition", "0/2x"); s.code != 2 {
		t.Errorf("--partition 0/2x: exit code %d, want 2", s.code)
	}
	if s := command(t, "", "plan", filepath.Join(testdata, "none.yaml")); s.code == 0 {
		t.Errorf("plan of no file: exit code 0")
	}
}
