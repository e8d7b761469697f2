package cli

import (
	"context"
	"fmt"

	"evalstream"
	"evalstream/codecs"
	"evalstream/stages"
)

// loadGold reads a gold edge whole, by the same runner that reads everything else.
func (e *env) loadGold(ctx context.Context, edge, source string, c *common) (*stages.Gold, evalstream.Summary, error) {
	in, err := e.open(ctx, []string{edge}, c, true)
	if err != nil {
		return nil, evalstream.Summary{}, err
	}
	gold := stages.NewGold(source)
	unit, err := c.unit()
	if err != nil {
		return nil, evalstream.Summary{}, err
	}
	plan := codecs.Plan{As: kindOf(in.head, "qrel"), NoTime: true, TimeUnit: unit}
	p, err := evalstream.New("gold",
		evalstream.Step{Name: "parse gold", New: stages.NewParse(func() (stages.Decoder, error) { return codecs.NewDecoder(plan) })},
		evalstream.Step{Name: "gold", New: func() (evalstream.Stage, error) { return gold, nil }},
	)
	if err != nil {
		return nil, evalstream.Summary{}, err
	}
	rejects, err := e.rejects(c, in.Source)
	if err != nil {
		return nil, evalstream.Summary{}, err
	}
	job := evalstream.Job{Pipeline: p, Source: in.Source, Sink: nowhere{}, Rejects: rejects, Workers: c.workers, FailFast: c.failFast}
	sum, err := job.Run(ctx)
	rejects.close()
	if err != nil {
		return nil, sum, err
	}
	gold.Seal()
	if gold.Units() == 0 {
		return nil, sum, &evalstream.ExitError{Code: evalstream.ExitUsage, Err: fmt.Errorf("gold %s: want judgments, got none", edge), Hint: "a line is {\"query_id\": …, \"passage_id\": …}, a TREC qrels line, or {\"episode\": …, \"query\": …, \"gold\": …}"}
	}
	return gold, sum, nil
}

// nowhere takes records that a job makes for no one.
type nowhere struct{}

func (nowhere) Write(context.Context, []evalstream.Record) error { return nil }
func (nowhere) Flush(context.Context) error                      { return nil }
