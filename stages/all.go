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
			Name: "parse", Doc: "read lines of any shape as records, strictly", In: "lines", Out: "run, qrel, prediction, rating, verdict",
			Example: "evalstream parse --as run --map query_id=/qid --map top=/hits < log.ndjson",
			Options: func() Options { return new(ParseOptions) },
		},
		{
			Name: "score", Doc: "join predictions with gold and score each unit", In: "run, qrel, prediction, rating, verdict", Out: "score, review",
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
