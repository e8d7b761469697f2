//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"evalstream/bench/figure"
	"evalstream/topics"
)

// chain measures parse → score → topic → aggregate on the processors that the broker has
// too, next to Kafka's producer.
func chain(ctx context.Context, b *bench) error {
	from, err := b.topic(ctx, "chain-in", b.partitions)
	if err != nil {
		return err
	}
	if err := b.fill(ctx, from, b.partitions, 0, b.messages); err != nil {
		return err
	}
	gold, err := b.gold(b.messages)
	if err != nil {
		return err
	}
	contestants := []contestant{
		{"ProducerPerformance (Java, produce only)", b.messages, b.producerPerformance},
		{"evalstream run, one process", b.messages, b.scoring(b.program, from, gold)},
	}
	if b.against != "" {
		contestants = append(contestants, contestant{"the same, by " + b.against, b.messages, b.scoring(b.against, from, gold)})
	}
	all := make([][]usage, len(contestants))
	for round := range b.rounds {
		for i, c := range contestants {
			b.say("chain, round %d of %d: %s", round+1, b.rounds, c.name)
			u, err := c.run(ctx, c.n)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			all[i] = append(all[i], u)
		}
	}
	t := b.report.table(fmt.Sprintf("parse → score (frozen gold) → topic → aggregate, %d B records, %d partitions, rounds: %d, medians (least–most)", recordSize, b.partitions, b.rounds),
		"client", "messages", "wall s", "messages/s", "CPU s", "broker CPU s", "peak MiB")
	for i, c := range contestants {
		t.add(c.name, strconv.Itoa(c.n), figure.Spread(figure.Of(all[i], wallOf), "%.2f"), figure.Spread(figure.Of(all[i], rateOf), "%.0f"), figure.Spread(figure.Of(all[i], cpuOf), "%.2f"),
			fmt.Sprintf("%.1f", figure.Median(figure.Of(all[i], brokerOf))), fmt.Sprintf("%.0f", figure.Median(figure.Of(all[i], rssOf))))
	}
	ratios := make([]float64, b.rounds)
	for i := range ratios {
		ratios[i] = all[1][i].rate / all[0][i].rate
	}
	rate := figure.Median(figure.Of(all[1], rateOf))
	b.report.bar("chain, of ProducerPerformance in the same round", figure.Spread(ratios, "%.2f"), "≥ 0.6", figure.Median(ratios) >= 0.6)
	b.report.bar("chain, messages per second", thousands(rate), "≥ 60 k", rate >= 60_000)
	return b.drop(ctx, from)
}

// scoring runs the chain, with every default.
func (b *bench) scoring(program, from, gold string) func(context.Context, int) (usage, error) {
	return func(ctx context.Context, n int) (usage, error) {
		return b.scoreAndAggregate(ctx, program, from, gold, n)
	}
}

func (b *bench) scoreAndAggregate(ctx context.Context, program, from, gold string, n int) (usage, error) {
	name := b.unique("chain")
	path, err := b.pipeline(ctx, name, fmt.Sprintf(`from: topic:%[2]s
stages:
  - parse: {}
  - score: {gold: %[3]s, measure: [success@1, mrr@10]}
    via: %[1]s.scored
  - aggregate: {by: run}
to: topic:%[1]s.results
`, name, from, gold))
	if err != nil {
		return usage{}, err
	}
	u, err := b.measure(ctx, n, program, "run", "-q", "--until-end", path)
	if err != nil {
		return u, err
	}
	last := result{}
	if err := b.client.CatLatest(ctx, name+".results", func(m topics.Message) error {
		var r result
		if err := json.Unmarshal(m.Value, &r); err != nil {
			return err
		}
		if r.Metric == "success@1" {
			last = r
		}
		return nil
	}); err != nil {
		return u, err
	}
	if last.N != int64(n) || !last.Final {
		return u, fmt.Errorf("%s.results: want the final result over %d units, got %+v", name, n, last)
	}
	used := []string{name + ".scored", name + ".results", name + ".parse.changelog", name + ".aggregate.changelog"}
	if b.partitions > 1 {
		used = append(used, name+".partials")
	}
	return u, errors.Join(b.drop(ctx, used...))
}

// result is what the bench reads of one.
type result struct {
	Metric string            `json:"metric"`
	By     map[string]string `json:"by"`
	N      int64             `json:"n"`
	Final  bool              `json:"final"`
}
