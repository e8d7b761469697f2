package docs_test

import (
	"bytes"
	"context"
	"os"

	"evalstream"
	"evalstream/codecs"
	"evalstream/stages"
	"evalstream/topics/file"
	"evalstream/topics/memory"
)

// The code of README.md, "As a Go library".
func Example() {
	decoder := func() (stages.Decoder, error) { return codecs.NewDecoder(codecs.Plan{As: "prediction"}) }
	score, err := stages.NewScoreFrozen(stages.Scoring{}, nil) // each prediction carries its gold
	if err != nil {
		panic(err)
	}
	aggregate, err := stages.NewAggregate(stages.Aggregation{By: [][]string{{"run"}}, Negative: "no_relation"})
	if err != nil {
		panic(err)
	}
	pipeline, err := evalstream.New("few-shot",
		evalstream.Step{Name: "parse", New: stages.NewParse(decoder)},
		evalstream.Step{Name: "score", New: score},
		evalstream.Step{Name: "aggregate", New: aggregate},
	)
	if err != nil {
		panic(err)
	}
	job := evalstream.Job{
		Pipeline: pipeline,
		Source:   file.NewSource(file.Path("../testdata/fewshot/predictions_k1_seed160290.ndjson.gz")),
		Sink: file.NewSink("<stdout>", os.Stdout, func(line []byte, rec *evalstream.Record) []byte {
			r, ok := rec.Body.(*evalstream.Result)
			if !ok || r.Metric != "f1" {
				return line
			}
			return append(append(append(line, r.By[0].Value...), ' '), r.Num.String()...)
		}),
	}
	if _, err := job.Run(context.Background()); err != nil {
		panic(err)
	}
	// Output:
	// "bag_of_embeddings_test" 462
	// "cnn_test" 874
	// "self_att_bert_cased_test" 956
}

// The records that docs/formats.md shows of kind partial.
func Example_partial() {
	aggregate, err := stages.NewAggregate(stages.Aggregation{Partials: true})
	if err != nil {
		panic(err)
	}
	decoder := func() (stages.Decoder, error) { return codecs.NewDecoder(codecs.Plan{As: "score"}) }
	pipeline, err := evalstream.New("partials",
		evalstream.Step{Name: "parse", New: stages.NewParse(decoder)},
		evalstream.Step{Name: "aggregate", New: aggregate},
	)
	if err != nil {
		panic(err)
	}
	job := evalstream.Job{
		Pipeline: pipeline,
		Source: memory.New(memory.Options{}, memory.Lines(
			`{"unit":"q1","run":"a","status":"scored","values":{"mrr":0.5}}`+"\n"+
				`{"unit":"q2","run":"a","status":"scored","values":{"mrr":0.333333333}}`)),
		Sink: file.NewSink("<stdout>", os.Stdout, func(line []byte, rec *evalstream.Record) []byte {
			return bytes.TrimSuffix(codecs.AppendRecord(line, rec), []byte{'\n'})
		}),
	}
	if _, err := job.Run(context.Background()); err != nil {
		panic(err)
	}
	// Output:
	// {"kind":"partial","step":"aggregate","partition":0,"partitions":1,"family":"retrieval","by":{"run":"a"},"window":"all","pane":0,"n":2,"pending":0,"unjudged":0,"expired":0,"measures":["mrr"],"sums":[0.833333333],"judged":2}
	// {"kind":"partial","step":"aggregate","partition":0,"partitions":1,"family":"judged","by":{},"window":"","pane":0,"n":0,"pending":0,"unjudged":0,"expired":0,"judged":2}
}
