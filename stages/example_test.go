package stages_test

import (
	"context"
	"fmt"
	"io"

	"evalstream"
	"evalstream/stages"
)

// stream is a source of records that are made in Go.
type stream struct{ records []evalstream.Record }

func (s *stream) Read(_ context.Context, b *evalstream.Block) error {
	if len(s.records) == 0 {
		return io.EOF
	}
	b.Records, s.records = s.records, nil
	b.First = b.Records[0].Seq
	return nil
}

// printer shows the results that a job publishes.
type printer struct{}

func (printer) Write(_ context.Context, recs []evalstream.Record) error {
	for _, rec := range recs {
		if r, ok := rec.Body.(*evalstream.Result); ok {
			fmt.Printf("%s of %s: %s/%d, final %t\n", r.Metric, r.By[0].Value, r.Num, r.Den, r.Final)
		}
	}
	return nil
}

func (printer) Flush(context.Context) error { return nil }

// Gold comes after the prediction, then a second judgment, and a result is published
// after each record.
func Example() {
	list := &evalstream.Run{QueryID: "q1", Run: "a", Top: []evalstream.Hit{{ID: "p2", Score: 2}, {ID: "p1", Score: 1}}}
	gold := &evalstream.Qrel{QueryID: "q1", PassageID: "p1", Grade: 1}
	more := &evalstream.Qrel{QueryID: "q1", PassageID: "p2", Grade: 1}

	score, err := (&stages.ScoreOptions{Measures: []string{"mrr"}}).Scoring()
	if err != nil {
		panic(err)
	}
	open, err := stages.NewScore(stages.OpenScoring{Scoring: score})
	if err != nil {
		panic(err)
	}
	aggregate, err := stages.NewAggregate(stages.Aggregation{Every: evalstream.Every{Records: 1}})
	if err != nil {
		panic(err)
	}
	pipeline, err := evalstream.New("example",
		evalstream.Step{Name: "score", New: open},
		evalstream.Step{Name: "aggregate", New: aggregate},
	)
	if err != nil {
		panic(err)
	}
	job := evalstream.Job{
		Pipeline: pipeline,
		Source: &stream{[]evalstream.Record{
			{Body: list, Seq: 1, Time: evalstream.NoTime},
			{Body: gold, Seq: 2, Time: evalstream.NoTime},
			{Body: more, Seq: 3, Time: evalstream.NoTime},
		}},
		Sink: printer{},
	}
	if _, err := job.Run(context.Background()); err != nil {
		panic(err)
	}
	// Output:
	// mrr of "a": 0.5/1, final false
	// mrr of "a": 1/1, final false
	// mrr of "a": 1/1, final true
}
