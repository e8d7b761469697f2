package cli

import (
	"flag"

	"github.com/spf13/cobra"

	"evalstream"
	"evalstream/stages"
)

// eval is the ready pipelines: files in, a table or NDJSON out.
func (e *env) eval() *cobra.Command {
	cmd := &cobra.Command{
		Use: "eval", Short: "evaluate files with a ready pipeline: retrieval, fewshot, agreement", GroupID: "ready",
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return &saidError{evalstream.ExitUsage}
		},
	}
	cmd.AddCommand(e.evalRetrieval(), e.evalFewshot(), e.evalAgreement())
	return cmd
}

// ready is what a ready command fills: one parse, one score, one aggregate.
type ready struct {
	parse     stages.ParseOptions
	score     stages.ScoreOptions
	aggregate stages.AggregateOptions
	common    *common
	output    string
}

func (r *ready) declareMap(fs *flag.FlagSet) {
	fs.Func("map", "`FIELD=/json/pointer`: take a field from elsewhere in the line, as in query_id=/qid; may repeat", func(s string) error {
		r.parse.Map = append(r.parse.Map, s)
		return nil
	})
}

func (r *ready) declareOutput(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&r.output, "output", "o", "", "`FORMAT` of results: table, ndjson, csv or md (default: a table on a terminal, else ndjson)")
}

func (e *env) evalRetrieval() *cobra.Command {
	r := &ready{common: newCommon()}
	r.parse.As = "run"
	fs := flag.NewFlagSet("retrieval", flag.ContinueOnError)
	fs.StringVar(&r.score.Gold, "qrels", "", "`EDGE` of the judgments: NDJSON {query_id, passage_id, grade?} or TREC qrels (required)")
	r.score.DeclareMeasures(fs)
	r.declareMap(fs)
	r.aggregate.DeclareGroups(fs)
	fs.StringVar(&r.aggregate.Missing, "missing", "skip", "judged queries that a run never answered: `POLICY` skip (leave them out, trec_eval's default) or miss (count them as misses, its -c)")
	r.common.declare(fs)
	cmd := &cobra.Command{
		Use: "retrieval --qrels EDGE [flags] RUN...", Short: "ranked lists against judgments: success@k, recall@k, MRR, nDCG and more",
		Example: "  evalstream eval retrieval --qrels testdata/tatqa/tatqa_dev.qrels testdata/tatqa/tatqa_dev.bm25.run",
		RunE: func(cmd *cobra.Command, args []string) error {
			if r.score.Gold == "" {
				return evalstream.Usagef("qrels: want the judgments, as in --qrels gold.ndjson, got none")
			}
			return e.ready(cmd, r, args)
		},
	}
	addFlags(cmd, fs)
	r.declareOutput(cmd)
	return cmd
}

func (e *env) evalFewshot() *cobra.Command {
	r := &ready{common: newCommon()}
	r.parse.As = "prediction"
	fs := flag.NewFlagSet("fewshot", flag.ContinueOnError)
	fs.StringVar(&r.score.Gold, "gold", inlineGold, "`EDGE` of gold labels {episode, query, gold}; inline: each prediction carries its own")
	r.declareMap(fs)
	r.aggregate.DeclareGroups(fs)
	r.aggregate.DeclareLabels(fs)
	r.common.declare(fs)
	cmd := &cobra.Command{
		Use: "fewshot [flags] PREDICTIONS...", Short: "few-shot labels: micro and macro precision, recall and F1 without NOTA",
		Example: "  evalstream eval fewshot --by run testdata/fewshot/predictions_k1_seed160290.ndjson.gz",
		RunE:    func(cmd *cobra.Command, args []string) error { return e.ready(cmd, r, args) },
	}
	addFlags(cmd, fs)
	r.declareOutput(cmd)
	return cmd
}

func (e *env) evalAgreement() *cobra.Command {
	r := &ready{common: newCommon()}
	r.parse.As = "rating"
	fs := flag.NewFlagSet("agreement", flag.ContinueOnError)
	r.aggregate.DeclareLevel(fs)
	r.declareMap(fs)
	r.aggregate.DeclareGroups(fs)
	r.common.declare(fs)
	cmd := &cobra.Command{
		Use: "agreement --level LEVEL [flags] RATINGS...", Short: "Krippendorff's alpha of ratings {unit, coder, value}",
		Example: "  evalstream eval agreement --level ordinal ratings.ndjson",
		RunE: func(cmd *cobra.Command, args []string) error {
			if r.aggregate.Level == "" {
				return evalstream.Usagef("level: want nominal, ordinal, interval or ratio, as in --level nominal, got none")
			}
			if len(r.aggregate.By) == 0 {
				r.aggregate.By = []string{""}
			}
			return e.ready(cmd, r, args)
		},
	}
	addFlags(cmd, fs)
	r.declareOutput(cmd)
	return cmd
}

// ready builds the same pipeline that YAML or a pipe of stages would, and runs it.
func (e *env) ready(cmd *cobra.Command, r *ready, files []string) error {
	sink, done, err := e.openReady(cmd.Name(), r)
	if err != nil {
		return err
	}
	list := []stage{
		{verb: "parse", name: "parse", options: &r.parse},
		{verb: "score", name: "score", options: &r.score},
		{verb: "aggregate", name: "aggregate", options: &r.aggregate},
	}
	return e.do(cmd, "eval "+cmd.Name(), r.common, append([]string{r.score.Gold}, files...), list, files, true, sink, done)
}
