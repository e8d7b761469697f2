package stages

// Verb is a stage that can be spelled in text.
type Verb struct {
	Name    string
	Doc     string // one line
	In, Out string // kinds
	Example string // a command that works
	Options func() Options
}

// MergeOptions are the options of merge: those of aggregate, whose cells it reads.
type MergeOptions struct{ AggregateOptions }

// All lists the verbs in the order of the dataflow, which is that of help.
func All() []Verb {
	return []Verb{
		{
			Name: "parse", Doc: "read lines as records, strictly; foreign fields by --map", In: "lines", Out: "run, qrel, prediction, rating, verdict",
			Example: "echo '{\"qid\":7,\"hits\":[{\"id\":\"p1\"}]}' | evalstream parse --as run --map query_id=/qid --map top=/hits",
			Options: func() Options { return new(ParseOptions) },
		},
		{
			Name: "score", Doc: "join predictions with gold and score each unit", In: "run, qrel, prediction, rating, verdict", Out: "score, review",
			Example: "evalstream score --gold testdata/tatqa/tatqa_dev.qrels testdata/tatqa/tatqa_dev.bm25.run",
			Options: func() Options { return new(ScoreOptions) },
		},
		{
			Name: "aggregate", Doc: "fold scores into rolling metrics, with n and intervals", In: "score", Out: "result",
			Example: "zcat testdata/fewshot/predictions_k1_seed160290.ndjson.gz | evalstream parse --as prediction | evalstream score | evalstream aggregate --by run",
			Options: func() Options { return &AggregateOptions{Every: "10000"} },
		},
		{
			Name: "merge", Doc: "add up the partial states of several partitions", In: "partial", Out: "result",
			Example: "echo '{\"step\":\"\",\"partition\":0,\"partitions\":1,\"family\":\"retrieval\",\"by\":{\"run\":\"a\"},\"window\":\"all\",\"pane\":0,\"n\":2,\"pending\":0,\"unjudged\":0,\"expired\":0,\"measures\":[\"mrr\"],\"sums\":[0.8],\"judged\":2}' | evalstream parse --as partial | evalstream merge --by run",
			Options: func() Options { return new(MergeOptions) },
		},
	}
}
