package stages

import (
	"context"
	"fmt"
	"testing"
	"time"

	"evalstream"
)

// TestWaitingIsForgotten checks that what has no prediction is forgotten at the horizon
// like anything else, and is counted once among the judged units: queries whose gold came
// first, those that nothing asks for, and one whose gold comes again and again.
func TestWaitingIsForgotten(t *testing.T) {
	const n, horizon = 5_000, 200 * time.Minute
	for _, kept := range []bool{false, true} {
		instance, err := NewScore(OpenScoring{Horizon: horizon})
		if err != nil {
			t.Fatal(err)
		}
		score, err := instance()
		if err != nil {
			t.Fatal(err)
		}
		p := newTape(t, Aggregation{Horizon: horizon}, false, kept)
		most := 0
		var said evalstream.Out
		feed := func(body evalstream.Body, at evalstream.Time) {
			t.Helper()
			said.Reset()
			if err := score.Process(context.Background(), []evalstream.Record{{Body: body, Time: at}}, &said); err != nil {
				t.Fatal(err)
			}
			for _, r := range said.Records {
				if p.feed(r.Body, r.Time) > 0 {
					t.Fatalf("%+v was rejected: %+v", r.Body, p.out.Rejects)
				}
			}
			most = max(most, p.aggregate.units.slots.len())
		}
		gold := func(query string) {
			feed(&evalstream.Qrel{QueryID: query, PassageID: "p", Grade: 1}, evalstream.NoTime)
		}
		judged := int64(1) // the one that comes again
		for i := range n {
			at := evalstream.Time(1_767_600_000*int64(time.Second)) + evalstream.Time(i)*evalstream.Time(time.Minute)
			q := fmt.Sprint("q", i)
			gold(q)
			judged++
			if i%3 > 0 {
				feed(&evalstream.Run{QueryID: q, Run: "a", Top: []evalstream.Hit{{ID: "p"}}}, at)
			}
			if i%150 == 1 {
				gold("again")
			}
		}
		feed(&evalstream.Run{QueryID: "again", Run: "a", Top: []evalstream.Hit{{ID: "p"}}}, evalstream.Time(1_767_600_000*int64(time.Second))+n*evalstream.Time(time.Minute))
		if p.aggregate.units.judged != judged {
			t.Errorf("kept %v: want %d judged units, got %d", kept, judged, p.aggregate.units.judged)
		}
		// A horizon and three eighths of it, two slots a unit.
		if most > 2*300 {
			t.Errorf("kept %v: %d slots were held", kept, most)
		}
		if kept && len(p.shelf) > 2000 {
			t.Errorf("%d entries are in the store", len(p.shelf))
		}
		for _, s := range []evalstream.Tallied{score.(evalstream.Tallied), p.aggregate} {
			for _, tally := range s.Tallies() {
				if !tally.Balanced() {
					t.Errorf("records vanished: %+v", tally)
				}
			}
		}
	}
}
