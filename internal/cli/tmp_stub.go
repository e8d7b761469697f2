package cli

import (
	"context"
	"fmt"
	"io"

	"evalstream"
)

type rejectLimit struct{}

func parseLimit(string) (rejectLimit, error)                { return rejectLimit{}, nil }
func (rejectLimit) exceeded(total, of int64) bool           { return total > 0 }
func (rejectLimit) String() string                          { return "0" }

type sigs struct{}

func watchSignals(ctx context.Context, drain func(), w io.Writer) (context.Context, sigs) { return ctx, sigs{} }
func (sigs) stop()                                                                        {}
func (sigs) code() int                                                                    { return 0 }
func (e *env) summarize(a *assembly, s evalstream.Summary, r *rejectSink, c *common) {
	if s.Rejects > 0 || c.verbose {
		for _, t := range r.first {
			fmt.Fprintln(e.stderr, t)
		}
		fmt.Fprintf(e.stderr, "%+v\n", s)
	}
}
