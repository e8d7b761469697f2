package stages_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"evalstream"
	"evalstream/stages"
)

// benchRuns are lists of ten with one relevant passage, 1,024 a batch, over units that
// do not repeat within n.
func benchRuns(rng *rand.Rand, n int) (*stages.Gold, []evalstream.Record) {
	gold := stages.NewGold("")
	var golds, runs []evalstream.Record
	for q := range n {
		id := fmt.Sprintf("q%07d", q)
		golds = append(golds, evalstream.Record{Body: &evalstream.Qrel{QueryID: id, PassageID: fmt.Sprintf("p%07d", rng.IntN(12)), Grade: 1}})
		r := &evalstream.Run{QueryID: id, Run: fmt.Sprintf("m%d", q%4), Slices: []evalstream.Slice{{Name: "ticker", Value: fmt.Sprintf(`"T%d"`, rng.IntN(500))}}}
		for p := range 10 {
			r.Top = append(r.Top, evalstream.Hit{ID: fmt.Sprintf("p%07d", p), Score: 1 - float64(p)/16})
		}
		runs = append(runs, evalstream.Record{Body: r, Time: at(rng), Seq: evalstream.Seq(q)})
	}
	var out evalstream.Out
	for from := 0; from < len(golds); from += 1024 {
		if err := gold.Process(context.Background(), golds[from:min(from+1024, len(golds))], &out); err != nil {
			panic(err)
		}
	}
	gold.Seal()
	return gold, runs
}

// BenchmarkScoreFrozen is one list of ten against a gold of 100,000, four measures.
func BenchmarkScoreFrozen(b *testing.B) {
	gold, runs := benchRuns(rand.New(rand.NewPCG(1, 1)), 100_000)
	f, err := stages.NewScoreFrozen(stages.Scoring{}, gold)
	if err != nil {
		b.Fatal(err)
	}
	st, err := f()
	if err != nil {
		b.Fatal(err)
	}
	benchStage(b, st, runs)
}

// BenchmarkScoreOpen is the same with gold that comes in the stream after the lists:
// one list, then its judgment.
func BenchmarkScoreOpen(b *testing.B) {
	_, runs := benchRuns(rand.New(rand.NewPCG(1, 1)), 100_000)
	f, err := stages.NewScore(stages.OpenScoring{})
	if err != nil {
		b.Fatal(err)
	}
	st, err := f()
	if err != nil {
		b.Fatal(err)
	}
	var recs []evalstream.Record
	for i := range runs {
		q := runs[i].Body.(*evalstream.Run).QueryID
		recs = append(recs, runs[i], evalstream.Record{Time: evalstream.NoTime, Seq: runs[i].Seq, Body: &evalstream.Qrel{QueryID: q, PassageID: "p0000003", Grade: 1}})
	}
	benchStage(b, st, recs)
}

// BenchmarkAggregate is one score into two groupings and two windows, unit state kept:
// the units of 100,000 come again and again.
func BenchmarkAggregate(b *testing.B) {
	gold, runs := benchRuns(rand.New(rand.NewPCG(1, 1)), 100_000)
	f, err := stages.NewScoreFrozen(stages.Scoring{}, gold)
	if err != nil {
		b.Fatal(err)
	}
	st, err := f()
	if err != nil {
		b.Fatal(err)
	}
	var scores []evalstream.Record
	for from := 0; from < len(runs); from += 1024 {
		var out evalstream.Out
		if err := st.Process(b.Context(), runs[from:min(from+1024, len(runs))], &out); err != nil {
			b.Fatal(err)
		}
		for _, r := range out.Records {
			s := *r.Body.(*evalstream.Score)
			s.Values = append([]evalstream.Nano{}, s.Values...)
			r.Body = &s
			scores = append(scores, r)
		}
	}
	w, err := stages.ParseWindow("1h")
	if err != nil {
		b.Fatal(err)
	}
	a, err := stages.NewAggregate(stages.Aggregation{By: [][]string{{"run"}, {"ticker"}}, Windows: []stages.Window{{All: true}, w}})
	if err != nil {
		b.Fatal(err)
	}
	agg, err := a()
	if err != nil {
		b.Fatal(err)
	}
	benchStage(b, agg, scores)
}

// benchStage reports the time of one record in batches of 1,024.
func benchStage(b *testing.B, st evalstream.Stage, recs []evalstream.Record) {
	b.Helper()
	b.ReportAllocs()
	b.ResetTimer()
	var out evalstream.Out
	at := 0
	for n := 0; n < b.N; {
		to := min(at+1024, len(recs), at+b.N-n)
		out.Reset()
		if err := st.Process(b.Context(), recs[at:to], &out); err != nil {
			b.Fatal(err)
		}
		n += to - at
		if at = to; at == len(recs) {
			at = 0
		}
	}
}

// BenchmarkVerdicts is score and aggregate over 90,000 verdicts of three judges on 30,000
// units, those of a unit three apart.
func BenchmarkVerdicts(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	var recs []evalstream.Record
	for i := range 90_000 {
		recs = append(recs, evalstream.Record{Time: evalstream.NoTime, Seq: evalstream.Seq(i), Body: &evalstream.Verdict{
			SpanID: fmt.Sprintf("10-K-2024-%06d", i/216), TripleID: fmt.Sprintf("t%d", i/9%8+1), Mode: fmt.Sprintf("mode-%d", i/72%3),
			Dimension: []string{"faithfulness", "precision", "relevance"}[i%3], Judge: fmt.Sprintf("judge-%c", 'a'+i/3%3),
			PromptVersion: "v3", Value: fmt.Sprint(min(1, rng.IntN(4))),
		}})
	}
	panel := []string{"judge-a", "judge-b", "judge-c"}
	score, err := stages.NewScore(stages.OpenScoring{Panel: panel})
	if err != nil {
		b.Fatal(err)
	}
	aggregate, err := stages.NewAggregate(stages.Aggregation{By: [][]string{{"mode"}}, Panel: panel})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	var scored, out evalstream.Out
	for b.Loop() {
		s, _ := score()
		a, _ := aggregate()
		for from := 0; from < len(recs); from += 450 {
			scored.Reset()
			if err := s.Process(b.Context(), recs[from:min(from+450, len(recs))], &scored); err != nil {
				b.Fatal(err)
			}
			out.Reset()
			if err := a.Process(b.Context(), scored.Records, &out); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(recs)), "ns/verdict")
}
