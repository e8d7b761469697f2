package docs_test

import (
	"context"
	"log"
	"os"

	"evalstream"
	"evalstream/codecs"
	"evalstream/stages"
	"evalstream/topics/file"
)

// The code of README.md, "As a Go library".
func Example() {
	decoder := func() (stages.Decoder, error) { return codecs.NewDecoder(codecs.Plan{As: "prediction"}) }
	score, err := stages.NewScoreFrozen(stages.Scoring{}, nil) // each prediction carries its gold
	if err != nil {
		log.Fatal(err)
	}
	aggregate, err := stages.NewAggregate(stages.Aggregation{By: [][]string{{"run"}}, Negative: "no_relation"})
	if err != nil {
		log.Fatal(err)
	}
	pipeline, err := evalstream.New("few-shot",
		evalstream.Step{Name: "parse", New: stages.NewParse(decoder)},
		evalstream.Step{Name: "score", New: score},
		evalstream.Step{Name: "aggregate", New: aggregate},
	)
	if err != nil {
		log.Fatal(err)
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
		log.Fatal(err)
	}
	// Output:
	// "bag_of_embeddings_test" 462
	// "cnn_test" 874
	// "self_att_bert_cased_test" 956
}
