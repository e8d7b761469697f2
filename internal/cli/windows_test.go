package cli

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func allTime(p *published) bool      { return p.start() == "all" }
func hour(h int) string              { return fmt.Sprintf("2026-03-02T%02d:00:00Z", h) }
func at(h int) func(*published) bool { return func(p *published) bool { return p.start() == hour(h) } }

// TestWindowsClose: a window is published as closed once the watermark has passed its end, before the input ends; a change after
// that raises its revision.
func TestWindowsClose(t *testing.T) {
	gold := judgedRight(t, "q1", "q2", "q3", "q4", "q5")
	input := lines(
		dated("q1", "09:10:00", "p1", ""), dated("q2", "09:50:00", "p2", ""), dated("q3", "10:05:00", "p1", ""),
		dated("q4", "09:59:00", "p1", ""), dated("q5", "11:00:00", "p1", ""))
	args := []string{"eval", "retrieval", "--qrels", gold, "--measure", "success@1", "--every", "1", "--window", "1h", "-"}
	story := func(more ...string) string {
		t.Helper()
		var b strings.Builder
		for _, r := range succeed(t, input, append(args, more...)...).read(t) {
			fmt.Fprintf(&b, "%d:%s %s", r.Through["<stdin>"], r.start()[11:13], r.ratio())
			if r.Closed {
				fmt.Fprintf(&b, " closed/%d", r.Revision)
			}
			if r.Final {
				b.WriteString(" final")
			}
			b.WriteString("\n")
		}
		return b.String()
	}
	// After line 3 the watermark is past 10:00, so the window of 9 is closed, and line 4 corrects it.
	want := lines("1:09 1/1", "2:09 1/2", "3:09 1/2 closed/0", "3:10 1/1", "4:09 2/3 closed/1", "5:10 1/1 closed/0", "5:11 1/1",
		"5:09 2/3 closed/1 final", "5:10 1/1 closed/0 final", "5:11 1/1 closed/0 final")
	if got := story(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	// Ten minutes of slack keep the window open for line 4.
	want = lines("1:09 1/1", "2:09 1/2", "3:10 1/1", "4:09 2/3", "5:09 2/3 closed/0", "5:11 1/1",
		"5:09 2/3 closed/0 final", "5:10 1/1 closed/0 final", "5:11 1/1 closed/0 final")
	if got := story("--max-out-of-order", "10m"); got != want {
		t.Errorf("--max-out-of-order 10m: got\n%swant\n%s", got, want)
	}
}

func TestHoppingWindows(t *testing.T) {
	gold := judgedRight(t, "q1", "q2", "q3", "q4")
	input := lines(dated("q1", "09:10:00", "p1", ""), dated("q2", "09:50:00", "p2", ""), dated("q3", "10:00:00", "p1", ""), dated("q4", "12:30:00", "p1", ""))
	rs := succeed(t, input, "eval", "retrieval", "--qrels", gold, "--measure", "success@1", "--window", "2h/1h", "-").finals(t)
	hours := []string{hour(8), hour(9), hour(10), hour(11), hour(12)}
	got := map[string]string{}
	for _, r := range rs {
		got[r.start()] = r.ratio()
		if end := r.Window.(map[string]any)["end"]; end != hour(2+slices.Index(hours, r.start())+8) {
			t.Errorf("window from %s ends at %v", r.start(), end)
		}
	}
	want := map[string]string{hour(8): "1/2", hour(9): "2/3", hour(10): "1/1", hour(11): "1/1", hour(12): "1/1"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestWithoutTime: a record without time cannot be put in a window of time, and is a reject; over all time it needs none.
func TestWithoutTime(t *testing.T) {
	rejects := filepath.Join(t.TempDir(), "rejects")
	input := lines(dated("q1", "09:10:00", "p1", ""), `{"query_id":"q2","run":"a","top":[]}`)
	args := []string{"eval", "retrieval", "--qrels", judgedRight(t, "q1", "q2"), "--measure", "success@1", "--rejects", rejects, "-"}
	s := command(t, input, append(args, "--window", "1h", "--window", "all")...)
	rs := readRejects(t, rejects)
	if s.code != 3 || len(rs) != 1 || rs[0].Pos != "<stdin>:2" || rs[0].Stage != "aggregate" || rs[0].Class != "schema" || !strings.HasPrefix(rs[0].Reason, "/time: want a time") {
		t.Errorf("exit code %d, rejects %+v", s.code, rs)
	}
	if got := find(t, s.finals(t), "success@1", at(9)).ratio(); got != "1/1" {
		t.Errorf("9 o'clock: %s, want 1/1", got)
	}
	if got := find(t, succeed(t, input, args...).finals(t), "success@1", nil).ratio(); got != "1/2" {
		t.Errorf("over all time: %s, want 1/2", got)
	}
}

// TestOtherGroups: with --max-groups 2 the two greatest groups stay, by count and then by name; the rest is one group.
func TestOtherGroups(t *testing.T) {
	var ls, queries []string
	for i, ticker := range strings.Fields("A A A B C C D D E") {
		q, passage := fmt.Sprint("q", i), "p1"
		if ticker == "D" || ticker == "B" {
			passage = "p2"
		}
		queries = append(queries, q)
		ls = append(ls, dated(q, "09:10:00", passage, fmt.Sprintf(`,"ticker":%q`, ticker)))
	}
	args := []string{"eval", "retrieval", "--qrels", judgedRight(t, queries...), "--measure", "success@1", "--by", "ticker", "-"}
	of := func(more ...string) map[string]string {
		t.Helper()
		got := map[string]string{}
		for _, r := range succeed(t, shuffled(1, ls), append(args, more...)...).finals(t) {
			got[r.By["ticker"].(string)] = r.ratio()
		}
		return got
	}
	if got, want := of("--max-groups", "2"), (map[string]string{"A": "3/3", "C": "2/2", "__other__": "1/4"}); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("--max-groups 2: %v, want %v", got, want)
	}
	if got := of("--max-groups", "0"); len(got) != 5 {
		t.Errorf("--max-groups 0: %v, want five groups", got)
	}
	if got := of("--max-groups", "5"); len(got) != 5 || got["__other__"] != "" {
		t.Errorf("--max-groups 5: %v, want five groups", got)
	}
}

// TestIntervals: the figures of Wilson and of the exact one-sided bound at n of n are closed forms; the others are held to
// references in stages/metric.
func TestIntervals(t *testing.T) {
	gold := judgedRight(t, "q1", "q2", "q3", "q4")
	input := lines(dated("q1", "09:10:00", "p1", ""), dated("q2", "09:10:00", "p1", ""), dated("q3", "09:10:00", "p2", ""), dated("q4", "09:10:00", "p2", ""))
	of := func(metric string, more ...string) *published {
		t.Helper()
		args := []string{"eval", "retrieval", "--qrels", gold, "--measure", "success@1", "--measure", "ndcg@10", "-"}
		return find(t, succeed(t, input, append(args, more...)...).finals(t), metric, nil)
	}
	methods := func(p *published) []string {
		var ms []string
		for _, i := range p.Interval {
			ms = append(ms, i.Method+" "+i.Looks)
			if i.Low > p.value() || p.value() > i.High || i.Low < 0 || i.High > 1 {
				t.Errorf("%s: %s from %v to %v around %v", p.Metric, i.Method, i.Low, i.High, p.value())
			}
		}
		return ms
	}
	if got := methods(of("success@1")); !slices.Equal(got, []string{"wilson one", "beta_cs any"}) {
		t.Errorf("success@1: %v", got)
	}
	if got := methods(of("ndcg@10")); !slices.Equal(got, []string{"normal_mixture_cs any"}) {
		t.Errorf("ndcg@10: %v", got)
	}
	if got := of("success@1", "--interval", "beta_cs"); !slices.Equal(methods(got), []string{"beta_cs any"}) {
		t.Errorf("--interval beta_cs: %v", methods(got))
	}
	if got := of("ndcg@10", "--interval", "wilson"); len(got.Interval) != 0 || got.NoInterval == "" {
		t.Errorf("--interval wilson, for ndcg@10: %v (%q), want none and a reason", got.Interval, got.NoInterval)
	}
	// Wilson at 2 of 4: 1/2 ± z/(2√(n+z²)); z is 1.959964 at .95 and 1.644854 at .9.
	for confidence, half := range map[string]float64{"0.95": 0.349962, "0.9": 0.317610} {
		i := of("success@1", "--confidence", confidence, "--interval", "wilson").Interval[0]
		if fmt.Sprint(i.Confidence) != confidence || fmt.Sprintf("%.4f %.4f", i.Low, i.High) != fmt.Sprintf("%.4f %.4f", .5-half, .5+half) {
			t.Errorf("--confidence %s: %+v, want 0.5 ± %v", confidence, i, half)
		}
	}
	// The same seed draws the same interval, another seed another.
	ratings := lines(newRatings(5, 40)...)
	boot := func(more ...string) string {
		r := find(t, succeed(t, ratings, append([]string{"eval", "agreement", "--level", "nominal", "-"}, more...)...).finals(t), "alpha", nil)
		if len(r.Interval) != 1 || r.Interval[0].Method != "poisson_bootstrap" {
			t.Fatalf("alpha: intervals %v (%q)", r.Interval, r.NoInterval)
		}
		return fmt.Sprintf("%v %v %v", r.Interval[0].Low, r.Interval[0].High, r.Interval[0].Replicas)
	}
	if a, b, c := boot("--seed", "7"), boot("--seed", "7", "--workers", "3"), boot("--seed", "8"); a != b || a == c {
		t.Errorf("bootstrap: %s and %s with one seed, %s with another", a, b, c)
	}
}

// TestWithdrawn: with open gold, a corrected prediction moves its unit to another ticker. The group that it leaves empty had been
// published, so a result without value takes that back; at the end it has none.
func TestWithdrawn(t *testing.T) {
	input := lines(
		`{"kind":"qrel","query_id":"q1","passage_id":"p1"}`,
		dated("q1", "09:10:00", "p1", `,"ticker":"A"`),
		dated("q2", "09:20:00", "p1", `,"ticker":"B"`),
		dated("q1", "09:30:00", "p1", `,"ticker":"B"`),
		`{"kind":"qrel","query_id":"q2","passage_id":"p9"}`)
	s := succeed(t, input, "run", save(t, "p.yaml", lines("stages:", "  - score: {measure: success@1}", "  - aggregate: {by: ticker, every: 1, window: [all, 1h]}")))
	for _, window := range []func(*published) bool{allTime, at(9)} {
		var story []string
		for _, r := range s.read(t) {
			if !window(&r) {
				continue
			}
			text := fmt.Sprintf("%d %v %s n=%d pending=%d", r.Through["<stdin>"], r.By["ticker"], r.ratio(), r.N, r.Pending)
			if r.Value == nil {
				text += " " + r.Undefined
			}
			if r.Final {
				text += " final"
			}
			story = append(story, text)
		}
		want := []string{
			"2 A 1/1 n=1 pending=0",
			"3 B 0/0 n=0 pending=1 no_units",
			"4 A 0/0 n=0 pending=0 withdrawn",
			"4 B 1/1 n=1 pending=1",
			"5 B 1/2 n=2 pending=0",
			"5 B 1/2 n=2 pending=0 final",
		}
		if !slices.Equal(story, want) {
			t.Errorf("got\n%swant\n%s", lines(story...), lines(want...))
		}
	}
}

// TestGroupNamedOther: a group that has the name of the rest is part of the rest, not a
// second result of the same name; where nothing is folded it stands for itself.
func TestGroupNamedOther(t *testing.T) {
	input := lines(
		dated("q1", "09:10:00", "p1", `,"ticker":"__other__"`), dated("q2", "09:10:00", "p1", `,"ticker":"__other__"`),
		dated("q3", "09:10:00", "p1", `,"ticker":"A"`), dated("q4", "09:10:00", "p2", `,"ticker":"B"`))
	f := func(want, groups string) {
		t.Helper()
		var got []string
		for _, r := range succeed(t, input, "eval", "retrieval", "--qrels", judgedRight(t, "q1", "q2", "q3", "q4"),
			"--measure", "success@1", "--by", "ticker", "--max-groups", groups, "-").finals(t) {
			got = append(got, fmt.Sprint(r.By["ticker"], " ", r.ratio()))
		}
		if slices.Sort(got); strings.Join(got, ", ") != want {
			t.Errorf("--max-groups %s: got %v, want %s", groups, got, want)
		}
	}
	f("A 1/1, __other__ 2/3", "1")
	f("A 1/1, B 0/1, __other__ 2/2", "2")
	f("A 1/1, B 0/1, __other__ 2/2", "3")
}

// TestFinalStands: with a horizon, gold in the stream and predictions that are given
// again days later, nothing changes in a window after a result of it was final.
func TestFinalStands(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	const units = 3000
	var b strings.Builder
	for i := range units {
		unit := fmt.Sprintf("q%d", rng.IntN(units/4))
		if rng.IntN(2) == 0 {
			fmt.Fprintf(&b, `{"kind":"qrel","query_id":"%s","passage_id":"p1","grade":%d}`+"\n", unit, rng.IntN(2))
			continue
		}
		hours := 480*i/units + rng.IntN(30)
		fmt.Fprintf(&b, `{"kind":"run","query_id":"%s","run":"%c","time":"2026-01-%02dT%02d:00:00Z","top":[{"id":"p%d"}]}`+"\n", unit, 'a'+rng.IntN(2), 1+hours/24, hours%24, rng.IntN(2))
	}
	pipeline := save(t, "p.yaml", lines("horizon: 4d", "max_out_of_order: 36h", "max_rejects: 100%", "workers: 1",
		"stages:", "  - score: {measure: success@1}", "  - aggregate: {by: run, every: 50, window: 1d/12h}"))
	final := map[string]string{}
	before := 0
	for _, r := range succeed(t, b.String(), "run", pipeline).read(t) {
		key := fmt.Sprint(r.By, r.start())
		now := fmt.Sprintf("%s n=%d pending=%d unjudged=%d", r.ratio(), r.N, r.Pending, r.Unjudged)
		if was, ok := final[key]; ok && was != now {
			t.Errorf("%s: was final as %s, and then is %s at line %d", key, was, now, r.Through["<stdin>"])
		}
		if r.Final {
			final[key] = now
			if r.Through["<stdin>"] < units {
				before++
			}
		}
	}
	if before == 0 {
		t.Error("want results that are final before the end, got none")
	}
}

// TestOneRejectWithoutTime: a prediction without a time is rejected where windows are cut by it, once
// and at its own line, whether it is judged later, or never.
func TestOneRejectWithoutTime(t *testing.T) {
	timeless := func(q string) string {
		return fmt.Sprintf(`{"kind":"run","query_id":%q,"run":"a","top":[{"id":"p1"}]}`, q)
	}
	input := lines(dated("q1", "09:10:00", "p1", ""), timeless("judged"), timeless("never"),
		`{"kind":"qrel","query_id":"q1","passage_id":"p1"}`, `{"kind":"qrel","query_id":"judged","passage_id":"p1"}`, timeless("judged"))
	for _, state := range []string{"", "state: " + filepath.Join(t.TempDir(), "state")} {
		rejects := filepath.Join(t.TempDir(), "rejects.ndjson")
		pipeline := save(t, "p.yaml", lines(state, "max_rejects: 3", "stages:", "  - score: {measure: success@1}", "  - aggregate: {by: run, window: [all, 1h]}"))
		succeed(t, input, "run", "--rejects", rejects, pipeline)
		data, err := os.ReadFile(rejects)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(string(data)) {
			var r struct{ Pos, Stage string }
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			got = append(got, r.Pos+" "+r.Stage)
		}
		if want := []string{"<stdin>:2 aggregate", "<stdin>:3 aggregate", "<stdin>:6 aggregate"}; !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", state, got, want)
		}
	}
}
