package stages_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"evalstream"
	"evalstream/stages"
)

// Behind a cut, partitions of the step before run ahead of each other: what is late is
// said by the watermark of all of them, and not by the newest record.
func TestMarkedHorizon(t *testing.T) {
	day := func(d int) evalstream.Time {
		at, _ := evalstream.TimeOf(time.Date(2024, 1, d, 0, 0, 0, 0, time.UTC))
		return at
	}
	run := func(q string, d int) evalstream.Record {
		return evalstream.Record{Body: &evalstream.Run{QueryID: q, Run: "a"}, Time: day(d), Seq: evalstream.Seq(d)}
	}
	f := func(marked bool, want string) {
		t.Helper()
		score, err := stages.NewScore(stages.OpenScoring{Scoring: stages.Scoring{}, Horizon: 48 * time.Hour, Marked: marked})
		if err != nil {
			t.Fatal(err)
		}
		st, err := score()
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		take := func(what string, out *evalstream.Out) {
			for _, r := range out.Rejects {
				got += fmt.Sprintf("%s: %s; ", what, r.Fault.Class)
			}
			for _, r := range out.Records {
				if s := r.Body.(*evalstream.Score); s.Status == evalstream.Expired {
					got += fmt.Sprintf("%s: %s expired; ", what, s.Unit)
				}
			}
			out.Reset()
		}
		out := new(evalstream.Out)
		for _, r := range []evalstream.Record{run("q20", 20), run("q1", 1), run("q2", 2)} {
			if err := st.Process(context.Background(), []evalstream.Record{r}, out); err != nil {
				t.Fatal(err)
			}
			take(r.Body.(*evalstream.Run).QueryID, out)
		}
		for _, d := range []int{1, 10} {
			if err := st.(evalstream.Timed).Advance(context.Background(), day(d), out); err != nil {
				t.Fatal(err)
			}
			take(fmt.Sprintf("day %d", d), out)
		}
		if err := st.Process(context.Background(), []evalstream.Record{run("q3", 3)}, out); err != nil {
			t.Fatal(err)
		}
		take("q3", out)
		if got != want {
			t.Errorf("marked %v: got %s want %s", marked, got, want)
		}
	}
	f(false, "q1: late; q2: late; q3: late; ")
	f(true, "day 10: q1 expired; day 10: q2 expired; q3: late; ")
}
