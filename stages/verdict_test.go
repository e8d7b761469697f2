package stages_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"evalstream"
	"evalstream/stages"
)

// said writes what came out of score, a line each: the ratings of a score, or a review.
func said(out *evalstream.Out) []string {
	var lines []string
	list := func(vs []evalstream.CoderValue) string {
		var parts []string
		for _, v := range vs {
			if v.Value == "" {
				v.Value = "-"
			}
			parts = append(parts, v.Coder+"="+v.Value)
		}
		return strings.Join(parts, " ")
	}
	for _, r := range out.Records {
		switch b := r.Body.(type) {
		case *evalstream.Score:
			parts := []string{fmt.Sprintf("%s %s: %s", b.Status, b.Unit, list(b.Ratings))}
			if len(b.Swapped) > 0 {
				parts = append(parts, "swapped "+list(b.Swapped))
			}
			for _, s := range b.Slices {
				parts = append(parts, s.Name+":"+s.Value)
			}
			lines = append(lines, strings.Join(parts, " "))
		case *evalstream.Review:
			line := fmt.Sprintf("review %s: %s %s", b.Unit, b.Why, list(b.Verdicts))
			if b.Withdrawn {
				line = fmt.Sprintf("review %s: withdrawn %s", b.Unit, list(b.Verdicts))
			}
			if len(b.Reasons) > 0 {
				line += " because " + list(b.Reasons)
			}
			if b.Decision != "" {
				line += " decided " + b.Decision
			}
			lines = append(lines, line)
		}
	}
	for _, r := range out.Rejects {
		lines = append(lines, fmt.Sprintf("reject %s: %s", r.Fault.Class, r.Fault.Reason))
	}
	return lines
}

// judgeOne is one verdict on span s: judge, value ("" is missing).
func judgeOne(judge, value string, change ...func(*evalstream.Verdict)) *evalstream.Verdict {
	v := &evalstream.Verdict{SpanID: "s", Mode: "m", Dimension: "d", Judge: judge, Value: value}
	for _, c := range change {
		c(v)
	}
	return v
}

func version(v string) func(*evalstream.Verdict) {
	return func(b *evalstream.Verdict) { b.PromptVersion = v }
}

func revision(n int64) func(*evalstream.Verdict) {
	return func(b *evalstream.Verdict) { b.Revision = n }
}

func because(reason string) func(*evalstream.Verdict) {
	return func(b *evalstream.Verdict) { b.Reason = reason }
}

func swapped(b *evalstream.Verdict) { b.Swap = true }

// judgeStage feeds score one verdict at a time.
func judgeStage(t *testing.T, o stages.OpenScoring) (feed func(b *evalstream.Verdict, want ...string), end func(want ...string), stage evalstream.Stage) {
	t.Helper()
	f, err := stages.NewScore(o)
	if err != nil {
		t.Fatal(err)
	}
	if stage, err = f(); err != nil {
		t.Fatal(err)
	}
	var out evalstream.Out
	compare := func(want []string) {
		t.Helper()
		if diff := cmp.Diff(want, said(&out)); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
		out.Reset()
	}
	feed = func(b *evalstream.Verdict, want ...string) {
		t.Helper()
		if err := stage.Process(t.Context(), []evalstream.Record{{Body: b, Time: evalstream.NoTime}}, &out); err != nil {
			t.Fatal(err)
		}
		compare(want)
	}
	end = func(want ...string) {
		t.Helper()
		if err := stage.(evalstream.Timed).Advance(t.Context(), evalstream.EndOfTime, &out); err != nil {
			t.Fatal(err)
		}
		compare(want)
		for _, tally := range stage.(evalstream.Tallied).Tallies() {
			if !tally.Balanced() {
				t.Errorf("verdicts vanished: %+v", tally)
			}
		}
	}
	return feed, end, stage
}

func TestVerdictsOneByOne(t *testing.T) {
	const u = `["s","m","","d",""]`
	feed, end, _ := judgeStage(t, stages.OpenScoring{Panel: []string{"a", "b", "c"}})
	feed(judgeOne("b", "1"), "scored "+u+": b=1")
	feed(judgeOne("a", "0"), "scored "+u+": a=0 b=1", "review "+u+": split a=0 b=1 c=-")
	feed(judgeOne("a", "0")) // a repeat changes nothing
	feed(judgeOne("a", "1", swapped), "scored "+u+": a=0 b=1 swapped a=1")
	feed(judgeOne("c", "", because("timeout")),
		"scored "+u+": a=0 b=1 c=- swapped a=1", `review `+u+`: split a=0 b=1 c=- because c="timeout"`)
	feed(judgeOne("a", "1", revision(2)),
		"scored "+u+": a=1 b=1 c=- swapped a=1", `review `+u+`: missing a=1 b=1 c=- because c="timeout" decided 1`)
	feed(judgeOne("a", "0", revision(1))) // older than what is held
	feed(judgeOne("c", "1"), "scored "+u+": a=1 b=1 c=1 swapped a=1", "review "+u+": withdrawn a=1 b=1 c=1 decided 1")
	feed(judgeOne("human", "0"), "scored "+u+": a=1 b=1 c=1 human=0 swapped a=1") // not of the panel
	feed(judgeOne("b", ""),
		"scored "+u+": a=1 b=- c=1 human=0 swapped a=1", "review "+u+": missing a=1 b=- c=1 human=0 decided 1")
	end()
}

// TestReviewsCarryTheSpan checks that a review has the text and the triple of its unit from
// whichever verdict brings them, and comes again when one brings another.
func TestReviewsCarryTheSpan(t *testing.T) {
	_, _, stage := judgeStage(t, stages.OpenScoring{Panel: []string{"a", "b"}})
	var got []string
	feed := func(b *evalstream.Verdict, text, triple string) {
		t.Helper()
		b.Shown = &evalstream.Shown{Text: text, Triple: triple}
		var out evalstream.Out
		if err := stage.Process(t.Context(), []evalstream.Record{{Body: b, Time: evalstream.NoTime}}, &out); err != nil {
			t.Fatal(err)
		}
		for _, r := range out.Records {
			if b, ok := r.Body.(*evalstream.Review); ok {
				got = append(got, fmt.Sprintf("%s %s %s", b.Unit, b.Text, b.Triple))
			}
		}
	}
	feed(judgeOne("a", "1", version("v1")), "text", "")
	feed(judgeOne("b", "0", version("v1")), "", `["x"]`)
	feed(judgeOne("a", "1", version("v2")), "", "")
	feed(judgeOne("b", "0", version("v2")), "", "")
	feed(judgeOne("b", "0", version("v2")), "other", "") // the least stands, in each version
	feed(judgeOne("b", "0", version("v2")), "zzz", `["x"]`)
	const v1, v2 = `["s","m","","d","v1"]`, `["s","m","","d","v2"]`
	want := []string{v1 + ` text ["x"]`, v2 + ` text ["x"]`, v1 + ` other ["x"]`, v2 + ` other ["x"]`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestVerdictsThatNeverCome(t *testing.T) {
	const u = `["s","m","","d",""]`
	feed, end, _ := judgeStage(t, stages.OpenScoring{Panel: []string{"a", "b"}})
	feed(judgeOne("a", "1"), "scored "+u+": a=1")
	end("review " + u + ": missing a=1 b=-")

	feed, end, _ = judgeStage(t, stages.OpenScoring{}) // whoever was heard is the panel
	feed(judgeOne("a", "1"), "scored "+u+": a=1")
	feed(judgeOne("b", "0"), "scored "+u+": a=1 b=0", "review "+u+": split a=1 b=0")
	feed(judgeOne("b", "1"), "scored "+u+": a=1 b=1", "review "+u+": withdrawn a=1 b=1")
	end()
}

func TestVerdictsOfPromptVersions(t *testing.T) {
	const none, v1, v2 = `["s","m","","d",""]`, `["s","m","","d","v1"]`, `["s","m","","d","v2"]`
	feed, end, _ := judgeStage(t, stages.OpenScoring{Panel: []string{"a", "human"}})
	feed(judgeOne("human", "1"), "scored "+none+": human=1")
	feed(judgeOne("a", ""), "scored "+none+": a=- human=1", "review "+none+": missing a=- human=1")
	// The unit without a version gives its verdicts to the first version.
	feed(judgeOne("a", "1", version("v1")),
		"retracted "+none+": ", "review "+none+": withdrawn ", "scored "+v1+`: a=1 human=1 prompt_version:"v1"`)
	feed(judgeOne("a", "0", version("v2")),
		"scored "+v2+`: a=0 human=1 prompt_version:"v2"`, "review "+v2+": split a=0 human=1")
	feed(judgeOne("human", "0"),
		"scored "+v1+`: a=1 human=0 prompt_version:"v1"`, "review "+v1+": split a=1 human=0",
		"scored "+v2+`: a=0 human=0 prompt_version:"v2"`, "review "+v2+": withdrawn a=0 human=0 decided 0")
	end()
}

func TestVerdictsInConflict(t *testing.T) {
	const u = `["s","m","","d",""]`
	feed, end, _ := judgeStage(t, stages.OpenScoring{Conflict: stages.Refuse})
	feed(judgeOne("a", "1"), "scored "+u+": a=1")
	feed(judgeOne("a", "1", revision(3)))
	feed(judgeOne("a", "0", revision(4)),
		`reject stage: slot ["s","m","","d","","a","false"] holds a different verdict; --on-conflict replace takes the newer one`)
	feed(judgeOne("a", "yes"), "reject schema: want 0, 1, good, partial, poor or null, got yes")
	end()

	// What it is grouped by and its time are a part of what a verdict says.
	feed, end, stage := judgeStage(t, stages.OpenScoring{Conflict: stages.Refuse})
	refused := `reject stage: slot ["s","m","","d","","a","false"] holds a different verdict; --on-conflict replace takes the newer one`
	ticker := func(name string) func(*evalstream.Verdict) {
		return func(b *evalstream.Verdict) { b.Slices = []evalstream.Slice{{Name: "ticker", Value: name}} }
	}
	feed(judgeOne("a", "1", ticker("1")), "scored "+u+": a=1 ticker:1")
	feed(judgeOne("a", "1", ticker("1"), revision(1)))
	feed(judgeOne("a", "1"), refused)
	feed(judgeOne("a", "1", ticker("2"), revision(2)), refused)
	var out evalstream.Out
	at, _ := evalstream.TimeOf(begin)
	if err := stage.Process(t.Context(), []evalstream.Record{{Body: judgeOne("a", "1", ticker("1")), Time: at}}, &out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{refused}, said(&out)); diff != "" {
		t.Errorf("another time: -want +got\n%s", diff)
	}
	end()
}

// TestMissingVerdictsAreCounted checks the counters of why verdicts are missing: of those
// that stand, also of units that are forgotten.
func TestMissingVerdictsAreCounted(t *testing.T) {
	_, _, stage := judgeStage(t, stages.OpenScoring{Horizon: time.Hour})
	at, _ := evalstream.TimeOf(begin)
	for i, reason := range []string{"timeout", "refused", "", "timeout", "other", "refused", "timeout"} {
		v := judgeOne("a", "", because(reason))
		v.SpanID = fmt.Sprint("s", max(0, i-1)) // the second takes the place of the first
		now := at + evalstream.Time(i)*evalstream.Time(25*time.Minute)
		other := judgeOne("b", "1")
		other.SpanID = fmt.Sprint("o", i)
		if err := stage.Process(t.Context(), []evalstream.Record{{Body: other, Time: now}, {Body: v, Time: now}}, new(evalstream.Out)); err != nil {
			t.Fatal(err)
		}
	}
	want := []evalstream.Counter{
		{Name: "verdicts missing, refused", N: 2},
		{Name: "verdicts missing, timeout", N: 2},
		{Name: "verdicts missing, no reason given", N: 1},
		{Name: "verdicts missing, other", N: 1},
	}
	if diff := cmp.Diff(want, stage.(evalstream.Counted).Counters()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestVerdictsAreForgotten passes the horizon: an incomplete unit is for review, and
// what comes for it later is late.
func TestVerdictsAreForgotten(t *testing.T) {
	const u = `["s","m","","d",""]`
	_, _, stage := judgeStage(t, stages.OpenScoring{Panel: []string{"a", "b"}, Horizon: time.Hour})
	from, _ := evalstream.TimeOf(begin)
	var out evalstream.Out
	var got []string
	process := func(b *evalstream.Verdict, at evalstream.Time) {
		t.Helper()
		if err := stage.Process(t.Context(), []evalstream.Record{{Body: b, Time: at}}, &out); err != nil {
			t.Fatal(err)
		}
		got = append(got, said(&out)...)
		out.Reset()
	}
	process(judgeOne("a", "1"), from)
	young := func(b *evalstream.Verdict) { b.SpanID = "young" }
	process(judgeOne("a", "1", young, swapped, func(b *evalstream.Verdict) {
		b.Slices = []evalstream.Slice{{Name: "x", Value: "1"}}
	}), from+evalstream.Time(90*time.Minute))
	if err := stage.(evalstream.Timed).Advance(t.Context(), from+evalstream.Time(2*time.Hour), &out); err != nil {
		t.Fatal(err)
	}
	got = append(got, said(&out)...)
	out.Reset()
	process(judgeOne("a", "0", young), from+evalstream.Time(2*time.Hour)) // what is young is still known
	process(judgeOne("b", "1"), from)
	const y = `["young","m","","d",""]`
	want := []string{
		"scored " + u + ": a=1", "review " + u + ": missing a=1 b=-", "scored " + y + ":  swapped a=1 x:1",
		"scored " + y + ": a=0 swapped a=1 x:1",
	}
	if len(got) != 5 || !strings.HasPrefix(got[4], "reject late: ") {
		t.Fatalf("got %q, want a late reject at the end", got)
	}
	if diff := cmp.Diff(want, got[:4]); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for _, tally := range stage.(evalstream.Tallied).Tallies() {
		if !tally.Balanced() || tally.Held != 3 || tally.Late != 1 {
			t.Errorf("got %+v, want 3 held and 1 late", tally)
		}
	}
}

// TestJudgedResultsAreWithdrawn lets a unit leave its group: what was published of the
// group is taken back, also for judges who were heard nowhere else in it.
func TestJudgedResultsAreWithdrawn(t *testing.T) {
	f, err := stages.NewAggregate(stages.Aggregation{By: [][]string{{"ticker"}}, Panel: []string{"a"}, Intervals: []string{"wilson"}})
	if err != nil {
		t.Fatal(err)
	}
	stage, err := f()
	if err != nil {
		t.Fatal(err)
	}
	var out evalstream.Out
	tick := func(unit, ticker, coder string) map[string]string {
		t.Helper()
		s := &evalstream.Score{
			Unit: unit, Dimension: "d", Ratings: []evalstream.CoderValue{{Coder: coder, Value: "1"}},
			Slices: []evalstream.Slice{{Name: "ticker", Value: literal(ticker)}},
		}
		out.Reset()
		if err := stage.Process(t.Context(), []evalstream.Record{{Body: s, Time: evalstream.NoTime}}, &out); err != nil {
			t.Fatal(err)
		}
		if err := stage.(evalstream.Ticker).Tick(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		values := map[string]string{}
		for _, r := range out.Records {
			b := r.Body.(*evalstream.Result)
			parts := []string{b.Metric}
			for _, by := range b.By {
				parts = append(parts, by.Value)
			}
			key := strings.Join(parts, " ")
			if values[key] = fmt.Sprint(b.Value); b.Undefined != "" {
				values[key] = b.Undefined
			}
		}
		return values
	}
	tick("u1", "A", "a")
	tick("u2", "A", "b")
	got := tick("u2", "B", "b")
	if got[`d_mean "A" "b"`] != "withdrawn" || got[`d_mean "B" "b"`] != "1" || got[`d_coverage "A"`] != "1" {
		t.Errorf("after u2 moved: %v", got)
	}
	got = tick("u1", "B", "a")
	for _, key := range []string{`d "A"`, `d_coverage "A"`, `d_mean "A" "a"`, `d_panel_agreement "A" "a"`} {
		if got[key] != "withdrawn" {
			t.Errorf("%s after u1 moved: got %q, want withdrawn", key, got[key])
		}
	}
	if got[`d "B"`] != "0.5" {
		t.Errorf("d of B: got %s, want .5", got[`d "B"`])
	}
}
