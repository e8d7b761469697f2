package cli

import (
	"context"
	"io"
	"iter"
	"slices"

	"github.com/spf13/cobra"

	"evalstream"
	"evalstream/codecs"
)

// transform turns published data sets into records.
func (e *env) transform() *cobra.Command {
	return parent(&cobra.Command{Use: "transform", Short: "turn a published data set into records: tatqa", GroupID: "other"}, e.transformTATQA())
}

func (e *env) transformTATQA() *cobra.Command {
	var kinds []string
	cmd := &cobra.Command{
		Use: "tatqa [--only KIND] FILE", Short: "TAT-QA: tables and paragraphs as passages, questions as queries, and which answers which",
		Long: "TAT-QA: tables and paragraphs as passages, questions as queries, and which answers which.\n\n" +
			"Reads one file of the data set (gzip or zstd too), writes passage, query and qrel records.\n" +
			"A passage's id is TABLE#t or TABLE#ORDER; a table is written row by row, its cells joined by \" | \".\n" +
			"Each passage carries table_head, the cells of the table's first row that are not empty.",
		Args:    usage(cobra.ExactArgs(1)),
		Example: "  evalstream transform tatqa --only query testdata/tatqa/tatqa_dataset_dev.json.gz",
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, k := range kinds {
				if !slices.Contains(tatqaKinds(), k) {
					return evalstream.Usagef("only: no kind %q%s", k, didYouMean(k, tatqaKinds()))
				}
			}
			return e.runTATQA(cmd.Context(), args[0], kinds)
		},
	}
	cmd.Flags().StringArrayVar(&kinds, "only", nil, "`KIND` to write: passage, query or qrel; may repeat (default: all)")
	return cmd
}

func tatqaKinds() []string { return []string{"passage", "query", "qrel"} }

func (e *env) runTATQA(ctx context.Context, edge string, kinds []string) error {
	in, err := ParseEdge("FILE", edge)
	if err != nil {
		return err
	}
	read := func(r io.Reader, o *evalstream.Origin) iter.Seq2[evalstream.Record, error] { return codecs.TATQA(r, o) }
	src := NewSource(e.stdin, in)
	src.MaxLine = 1 << 30 // the file is one line
	sink := e.stdoutSink()
	n := 0
	for rec, err := range treced(ctx, &peeked{src: src}, placer{}, read) {
		if err != nil {
			return err
		}
		if len(kinds) > 0 && !slices.Contains(kinds, rec.Body.Kind()) {
			continue
		}
		n++
		if err := sink.Write(ctx, []evalstream.Record{rec}); err != nil {
			return err
		}
	}
	if err := sink.Flush(ctx); err != nil {
		return err
	}
	if n == 0 {
		return evalstream.Usagef("%s: want a TAT-QA file with documents, got none", edge)
	}
	return nil
}
