package cli

import (
	"flag"

	"github.com/spf13/cobra"

	"evalstream"
	"evalstream/stages"
)

// eval is the ready pipelines: files in, a table or NDJSON out.
func (e *env) eval() *cobra.Command {
	return parent(&cobra.Command{Use: "eval", Short: "evaluate files: retrieval, fewshot, judge or agreement", GroupID: "ready"},
		e.evalRetrieval(), e.evalFewshot(), e.evalJudge(), e.evalAgreement())
}

// ready is what a ready command fills: one parse, one score, one aggregate.
type ready struct {
	parse     stages.ParseOptions
	score     stages.ScoreOptions
	aggregate stages.AggregateOptions
	common    *common
	output    string
	review    string // edge of reviews; "" if they are counted only
}

func (r *ready) declareMap(fs *flag.FlagSet) {
	fs.Func("map", "read a field from elsewhere in the line, `FIELD=/json/pointer`, as in query_id=/qid or top.id=/doc (in each entry of the list); may repeat", func(s string) error {
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
	fs.StringVar(&r.score.Gold, "qrels", "", "`FILE` of judgments, required: NDJSON {query_id, passage_id, grade?} or TREC qrels; - is stdin")
	r.score.DeclareMeasures(fs)
	r.declareMap(fs)
	r.aggregate.DeclareGroups(fs)
	fs.StringVar(&r.aggregate.Missing, "missing", "skip", "judged queries that a run never answered: `POLICY` skip (leave them out, trec_eval's default) or miss (count them as misses, its -c)")
	cmd := &cobra.Command{
		Use: "retrieval --qrels FILE [flags] RUN...", Short: "ranked lists against judgments: success@k, recall@k, MRR, nDCG and more",
		Example: "  evalstream eval retrieval --qrels testdata/tatqa/tatqa_dev.qrels testdata/tatqa/tatqa_dev.bm25.run",
		RunE: func(cmd *cobra.Command, args []string) error {
			if r.score.Gold == "" {
				return evalstream.Usagef("qrels: want the judgments, as in --qrels gold.ndjson, got none (where they come in the stream: evalstream parse | evalstream score | evalstream aggregate)")
			}
			return e.ready(cmd, r, args)
		},
	}
	r.declareOutput(cmd)
	addFlags(cmd, fs, r.common.flags(cmd.Name()))
	return cmd
}

func (e *env) evalFewshot() *cobra.Command {
	r := &ready{common: newCommon()}
	r.parse.As = "prediction"
	fs := flag.NewFlagSet("fewshot", flag.ContinueOnError)
	fs.StringVar(&r.score.Gold, "gold", inlineGold, "`FILE` of gold labels {episode, query, gold}, or inline: each prediction carries its own")
	r.declareMap(fs)
	r.aggregate.DeclareGroups(fs)
	r.aggregate.DeclareLabels(fs)
	cmd := &cobra.Command{
		Use: "fewshot [flags] PREDICTIONS...", Short: "few-shot labels: precision, recall and F1 over positive labels, micro and macro",
		Example: "  evalstream eval fewshot --by run testdata/fewshot/predictions_k1_seed160290.ndjson.gz",
		RunE:    func(cmd *cobra.Command, args []string) error { return e.ready(cmd, r, args) },
	}
	r.declareOutput(cmd)
	addFlags(cmd, fs, r.common.flags(cmd.Name()))
	return cmd
}

func (e *env) evalAgreement() *cobra.Command {
	r := &ready{common: newCommon()}
	r.parse.As = "rating"
	fs := flag.NewFlagSet("agreement", flag.ContinueOnError)
	r.aggregate.DeclareLevel(fs)
	r.declareMap(fs)
	r.aggregate.DeclareGroups(fs)
	cmd := &cobra.Command{
		Use: "agreement --level LEVEL [flags] RATINGS...", Short: "Krippendorff's alpha of ratings {unit, coder, value}",
		Example: "  printf '%s\\n' '{\"unit\":1,\"coder\":\"a\",\"value\":2}' '{\"unit\":1,\"coder\":\"b\",\"value\":3}' |\n    evalstream eval agreement --level ordinal",
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
	r.declareOutput(cmd)
	addFlags(cmd, fs, r.common.flags(cmd.Name()))
	return cmd
}

// ready builds the same pipeline that YAML or a pipe of stages would, and runs it.
func (e *env) ready(cmd *cobra.Command, r *ready, files []string) error {
	list := []stage{
		{verb: "parse", name: "parse", options: &r.parse},
		{verb: "score", name: "score", options: &r.score},
		{verb: "aggregate", name: "aggregate", options: &r.aggregate},
	}
	if err := r.common.checkRules(list); err != nil {
		return err // before a file is opened
	}
	sink, done, err := e.openReady(r)
	if err != nil {
		return err
	}
	if r.parse.As == "verdict" {
		if sink, done, err = besideReviews(r.review, files, r.common.state != "", sink, done); err != nil {
			return err
		}
	}
	return e.do(cmd, "eval "+cmd.Name(), r.common, append([]string{r.score.Gold}, files...), list, files, true, sink, done)
}
