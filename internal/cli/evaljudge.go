package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"evalstream"
)

func (e *env) evalJudge() *cobra.Command {
	r := &ready{common: newCommon()}
	r.parse.As = "verdict"
	fs := flag.NewFlagSet("judge", flag.ContinueOnError)
	r.aggregate.DeclarePanel(fs)
	fs.StringVar(&r.review, "review", "", "`FILE` for the units that a person should see, as NDJSON: a record each time that one changes; the last one stands, and withdraws the unit if late verdicts settled it (default: none is written)")
	r.declareMap(fs)
	r.aggregate.DeclareGroups(fs)
	by := fs.Lookup("by")
	by.Usage, _, _ = strings.Cut(by.Usage, " (default: ")
	by.Usage += " (default: mode)"
	cmd := &cobra.Command{
		Use: "judge [--panel a,b,c] [flags] VERDICTS...", Short: "judges' verdicts: panel means, coverage, alpha, leniency, swap consistency",
		Long: "judge: verdicts {span_id, triple_id?, mode?, dimension, judge, verdict, swap?, …} of one or more judges.\n\n" +
			"For each dimension D and group (default: mode), decided by a strict majority of --panel:\n" +
			"  D                   mean over all units, undecided ones counting as their lowest vote, a missing one as 0\n" +
			"  D_judged            mean over the units that were decided; D_coverage is their share\n" +
			"  D_unanimous         share of units in which the whole panel gave one verdict\n" +
			"  D_alpha             Krippendorff's alpha (nominal) of the panel, or of all judges without one\n" +
			"  D_good, …           for verdicts good, partial and poor: the shares decided so\n" +
			"By judge:\n" +
			"  D_mean              of its own verdicts; D_leniency is that less the panel's, on the same units\n" +
			"  D_panel_agreement   share of decided units in which it gave the panel's verdict\n" +
			"  D_consistent        of units judged in both orders: share with equal verdicts; D_flipped: unequal ones\n" +
			"  D_first_position    share of those answers that chose what was shown first\n" +
			"By judge and judge2:\n" +
			"  D_agreement         share of units in which the two gave the same verdict",
		Example: "  evalstream eval judge --panel judge-a,judge-b,judge-c --review review.ndjson testdata/judge/verdicts.ndjson",
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, by := range r.aggregate.By {
				if slices.Contains(strings.Split(by, ","), "judge") {
					return evalstream.Usagef("by %q: want fields of units, got judge; results by judge come anyway", by)
				}
			}
			if len(r.aggregate.By) == 0 {
				r.aggregate.By = []string{"mode"}
			}
			r.score.Panel = r.aggregate.Panel
			return e.ready(cmd, r, args)
		},
	}
	r.declareOutput(cmd)
	addFlags(cmd, fs, r.common.flags(cmd.Name()))
	return cmd
}

// reviewSink sends reviews one way and everything else the other.
type reviewSink struct {
	results evalstream.Sink
	reviews evalstream.Sink
	ours    []evalstream.Record
	others  []evalstream.Record
}

// besideReviews opens the edge of reviews, which results go past; done closes it too.
// Without one they are dropped: the table of eval judge is of results.
// It is created, or cut to nothing if it exists; an input of the command is refused,
// and so is -, since standard output carries results. With keep it can be cut back.
func besideReviews(edge string, inputs []string, keep bool, results evalstream.Sink, done func() error) (evalstream.Sink, func() error, error) {
	if edge == "" {
		return &reviewSink{results: results, reviews: nowhere{}}, done, nil
	}
	edges := make([]Edge, 0, len(inputs))
	for _, in := range inputs {
		e, err := ParseEdge("input", in)
		if err != nil {
			return nil, nil, err
		}
		edges = append(edges, e)
	}
	sink, f, err := EdgeSink("--review", edge, edges, keptIf(keep), appendLine)
	if err != nil {
		return nil, nil, err
	}
	both := func() error {
		err := done()
		if closeErr := f.Close(); err == nil && closeErr != nil {
			err = evalstream.Lost(fmt.Errorf("review: %w", closeErr))
		}
		return err
	}
	return &reviewSink{results: results, reviews: sink}, both, nil
}

// Write keeps the order of each kind.
func (s *reviewSink) Write(ctx context.Context, recs []evalstream.Record) error {
	s.ours, s.others = s.ours[:0], s.others[:0]
	for _, r := range recs {
		if _, ok := r.Body.(*evalstream.Review); ok {
			s.ours = append(s.ours, r)
		} else {
			s.others = append(s.others, r)
		}
	}
	if len(s.ours) > 0 {
		if err := s.reviews.Write(ctx, s.ours); err != nil {
			return err
		}
	}
	if len(s.others) == 0 {
		return nil
	}
	return s.results.Write(ctx, s.others)
}

// Flush flushes both.
func (s *reviewSink) Flush(ctx context.Context) error {
	return errors.Join(s.reviews.Flush(ctx), s.results.Flush(ctx))
}

// Length is that of the reviews, which go to a file; 0 if it has none.
func (s *reviewSink) Length() (int64, error) {
	if r, ok := s.reviews.(evalstream.ResumableSink); ok {
		return r.Length()
	}
	return 0, nil
}

// CutBack cuts the file of reviews back, if it can be.
func (s *reviewSink) CutBack(n int64) error {
	if r, ok := s.reviews.(evalstream.ResumableSink); ok {
		return r.CutBack(n)
	}
	return nil
}
