package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/zeebo/xxh3"

	"evalstream"
	"evalstream/codecs"
	"evalstream/stages"
)

// loadGold reads a gold edge whole, by the same runner that reads everything else.
func (s *session) loadGold(ctx context.Context, edge, source string) (*stages.Gold, error) {
	digest := xxh3.New()
	in, err := s.open(ctx, []string{edge}, true, digest)
	if err != nil {
		return nil, err
	}
	gold := stages.NewGold(source)
	conflict, err := s.common.conflict()
	if err != nil {
		return nil, err
	}
	gold.OnConflict(conflict)
	unit, err := s.common.unit()
	if err != nil {
		return nil, err
	}
	plan := codecs.Plan{As: kindOf(in.head, "qrel"), NoTime: true, TimeUnit: unit}
	p, err := evalstream.New("gold",
		evalstream.Step{Name: "parse gold", New: stages.NewParse(func() (stages.Decoder, error) { return codecs.NewDecoder(plan) })},
		evalstream.Step{Name: "gold", New: func() (evalstream.Stage, error) { return gold, nil }},
	)
	if err != nil {
		return nil, err
	}
	job := evalstream.Job{Pipeline: p, Source: in.Source, Sink: nowhere{}, Rejects: s.rejects, Workers: s.common.workers, FailFast: s.common.failFast}
	err = s.readSide(ctx, "gold", &job, digest)
	if errors.Is(err, evalstream.ErrStopped) {
		s.summarize(evalstream.Summary{})
		return nil, &saidError{evalstream.ExitRejects}
	}
	if err != nil {
		return nil, err
	}
	gold.Seal()
	if gold.Units() == 0 {
		s.summarize(evalstream.Summary{})
		return nil, &evalstream.ExitError{
			Code: evalstream.ExitUsage, Err: fmt.Errorf("gold %s: want judgments, got none", edge),
			Hint: "a line is {\"query_id\": …, \"passage_id\": …}, a TREC qrels line, or {\"episode\": …, \"query\": …, \"gold\": …}; " +
				"--map is for predictions: other names go through evalstream parse --as qrel --map query_id=/POINTER GOLD | … with - as gold",
		}
	}
	return gold, nil
}

// nowhere takes records that a job makes for no one.
type nowhere struct{}

func (nowhere) Write(context.Context, []evalstream.Record) error { return nil }
func (nowhere) Flush(context.Context) error                      { return nil }
