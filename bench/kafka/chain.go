//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

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
	var yard, ours []usage
	var ratios []float64
	for round := range b.rounds {
		b.say("chain, round %d of %d", round+1, b.rounds)
		y, err := b.producerPerformance(ctx, b.messages)
		if err != nil {
			return err
		}
		u, err := b.scoreAndAggregate(ctx, from, gold)
		if err != nil {
			return err
		}
		yard, ours, ratios = append(yard, y), append(ours, u), append(ratios, u.rate/y.rate)
	}
	t := b.report.table(fmt.Sprintf("parse → score (frozen gold) → topic → aggregate, %d B records, %d partitions, rounds: %d, medians (least–most)", recordSize, b.partitions, b.rounds),
		"client", "messages", "wall s", "messages/s", "CPU s", "broker CPU s", "peak MiB")
	for i, us := range [][]usage{yard, ours} {
		t.add([]string{"ProducerPerformance (Java, produce only)", "evalstream run, one process"}[i], strconv.Itoa(b.messages), spread(of(us, wallOf), "%.2f"),
			spread(of(us, rateOf), "%.0f"), spread(of(us, cpuOf), "%.2f"), fmt.Sprintf("%.1f", median(of(us, brokerOf))), fmt.Sprintf("%.0f", median(of(us, rssOf))))
	}
	ratio, rate := median(ratios), median(of(ours, rateOf))
	b.report.bar("chain, of ProducerPerformance in the same round", spread(ratios, "%.2f"), "≥ 0.6", ratio >= 0.6)
	b.report.bar("chain, messages per second", thousands(rate), "≥ 60 k", rate >= 60_000)
	return b.drop(ctx, from)
}

func (b *bench) scoreAndAggregate(ctx context.Context, from, gold string) (usage, error) {
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
	u, err := b.measure(ctx, b.messages, b.program, "run", "-q", "--until-end", path)
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
	if last.N != int64(b.messages) || !last.Final {
		return u, fmt.Errorf("%s.results: want the final result over %d units, got %+v", name, b.messages, last)
	}
	used := []string{name + ".scored", name + ".results", name + ".aggregate.changelog"}
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
