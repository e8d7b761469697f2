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
			Name: "parse", Doc: "read lines of any shape as records, strictly", In: "lines", Out: "run, qrel, prediction, rating",
			Example: "evalstream parse --as run --map query_id=/qid --map top=/hits < log.ndjson",
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
			Name: "score", Doc: "join predictions with gold and score each unit", In: "run, qrel, prediction, rating", Out: "score",
			Example: "evalstream score --gold gold.ndjson < runs.ndjson",
			Options: func() Options { return new(ScoreOptions) },
		},
		{
			Name: "aggregate", Doc: "fold scores into rolling metrics, with n and intervals", In: "score", Out: "result",
			Example: "evalstream aggregate --by run --window 1h < scores.ndjson",
			Options: func() Options { return &AggregateOptions{Every: "10000"} },
		},
		{
			Name: "merge", Doc: "put the partial states of several partitions together", In: "partial", Out: "result",
			Example: "cat partials-*.ndjson | evalstream merge --by run",
			Options: func() Options { return new(MergeOptions) },
		},
	}
}
