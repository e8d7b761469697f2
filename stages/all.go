package stages

// Verb is a stage that can be spelled in text.
type Verb struct {
	Name    string
	Doc     string // one line
	In, Out string // kinds; reviews that come pass aggregate and merge
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
			Name: "context-prefix", Doc: "write a line of company, event and date before each passage", In: "passage", Out: "passage",
			Example: "evalstream transform tatqa --only passage testdata/tatqa/tatqa_dataset_dev.json.gz | evalstream context-prefix --template '{table_head}'",
			Options: func() Options { return new(ContextOptions) },
		},
		{
			Name: "embed", Doc: "give each text its vector, by hashing its words or by asking an endpoint", In: "passage, query, instance", Out: "the same",
			Example: "evalstream transform tatqa --only query testdata/tatqa/tatqa_dataset_dev.json.gz | evalstream embed --provider hash",
			Options: func() Options { return new(EmbedOptions) },
		},
		{
			Name: "classify", Doc: "label the queries of few-shot episodes by a baseline: entity types, or nearest prototype", In: "episode", Out: "prediction",
			Example: "evalstream classify --instances testdata/fewshot/example_instances.ndjson testdata/fewshot/example_episodes.ndjson",
			Options: func() Options { return new(ClassifyOptions) },
		},
		{
			Name: "rank", Doc: "find the best passages of a file for each query, by vectors or by words (BM25)", In: "query", Out: "run",
			Example: "evalstream transform tatqa --only query testdata/tatqa/tatqa_dataset_dev.json.gz | evalstream rank --method bm25 --passages <(evalstream transform tatqa --only passage testdata/tatqa/tatqa_dataset_dev.json.gz)",
			Options: func() Options { return new(RankOptions) },
		},
		{
			Name: "score", Doc: "join predictions with gold and score each unit", In: "run, qrel, prediction, rating, verdict", Out: "score, review",
			Example: "evalstream score --gold testdata/tatqa/tatqa_dev.qrels testdata/tatqa/tatqa_dev.bm25.run",
			Options: func() Options { return new(ScoreOptions) },
		},
		{
			Name: "aggregate", Doc: "fold scores into rolling metrics, with n and intervals", In: "score", Out: "result, partial, review",
			Example: "zcat testdata/fewshot/predictions_k1_seed160290.ndjson.gz | evalstream parse --as prediction | evalstream score | evalstream aggregate --by run",
			Options: func() Options { return &AggregateOptions{Every: "10000"} },
		},
		{
			Name: "merge", Doc: "add up the partial states of several partitions", In: "partial", Out: "result, review",
			Example: "cat testdata/partials/*.ndjson | evalstream merge --by run",
			Options: func() Options { return new(MergeOptions) },
		},
	}
}
