//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"evalstream/bench/figure"
)

// contestant moves or writes messages.
type contestant struct {
	name string
	n    int
	run  func(ctx context.Context, n int) (usage, error)
}

// hop measures one hop from a topic to another, and Kafka's own producer.
func hop(ctx context.Context, b *bench) error {
	from, err := b.topic(ctx, "hop-in", b.partitions)
	if err != nil {
		return err
	}
	if err := b.fill(ctx, from, b.partitions, 0, b.messages); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	moving := func(name string) func(context.Context, int) (usage, error) {
		return func(ctx context.Context, n int) (usage, error) {
			to, err := b.topic(ctx, "hop-out", b.partitions)
			if err != nil {
				return usage{}, err
			}
			u, err := b.measure(ctx, n, self, "loop", "--name", name, "--brokers", strings.Join(b.brokers, ","),
				"--from", from, "--to", to, "--partitions", strconv.Itoa(b.partitions), "--n", strconv.Itoa(n))
			return u, errors.Join(err, b.holds(ctx, to, n, true), b.drop(ctx, to))
		}
	}
	const naive = 10_000 // the naive adapter moves some thousand a second
	contestants := []contestant{
		{"ProducerPerformance (Java, produce only)", b.messages, b.producerPerformance},
		{"kafka-go Reader → Writer, 8,000 at a time, at least once", b.messages, moving("reader")},
		{"kafka-go Client.Fetch → Produce, at least once", b.messages, moving("client")},
		{"Watermill Router, naive adapter, message by message", min(b.messages, naive), moving("watermill")},
		{"evalstream run: parse, exactly once", b.messages, b.passing(b.program, from)},
	}
	if b.against != "" {
		contestants = append(contestants, contestant{"the same, by " + b.against, b.messages, b.passing(b.against, from)})
	}
	all := make([][]usage, len(contestants))
	for round := range b.rounds {
		for i, c := range contestants {
			b.say("hop, round %d of %d: %s", round+1, b.rounds, c.name)
			u, err := c.run(ctx, c.n)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			all[i] = append(all[i], u)
		}
	}
	t := b.report.table(fmt.Sprintf("One hop, %d B records, %d partitions, rounds: %d, medians (least–most)", recordSize, b.partitions, b.rounds),
		"client", "messages", "wall s", "messages/s", "CPU s", "messages per CPU s", "broker CPU s", "peak MiB")
	for i, c := range contestants {
		t.add(c.name, strconv.Itoa(c.n), figure.Spread(figure.Of(all[i], wallOf), "%.2f"), figure.Spread(figure.Of(all[i], rateOf), "%.0f"), figure.Spread(figure.Of(all[i], cpuOf), "%.2f"),
			thousands(float64(c.n)/figure.Median(figure.Of(all[i], cpuOf))), fmt.Sprintf("%.1f", figure.Median(figure.Of(all[i], brokerOf))), fmt.Sprintf("%.0f", figure.Median(figure.Of(all[i], rssOf))))
	}
	ours := float64(b.messages) / figure.Median(figure.Of(all[4], cpuOf))
	b.report.bar("one hop, messages per client CPU second", thousands(ours), "≥ 250 k", ours >= 250_000)
	return b.drop(ctx, from)
}

var sent = regexp.MustCompile(`([0-9]+) records sent, ([0-9.]+) records/sec`)

// producerPerformance runs Kafka's own tool; its rate is what it says, without the start of the JVM.
func (b *bench) producerPerformance(ctx context.Context, n int) (usage, error) {
	to, err := b.topic(ctx, "perf", b.partitions)
	if err != nil {
		return usage{}, err
	}
	u, err := b.measure(ctx, n, b.control, "tool", "org.apache.kafka.tools.ProducerPerformance", "--topic", to,
		"--num-records", strconv.Itoa(n), "--record-size", strconv.Itoa(recordSize), "--throughput", "-1", "--producer-props",
		"bootstrap.servers="+strings.Join(b.brokers, ","), "acks=all", "linger.ms=5", "batch.size=131072")
	if err != nil {
		return u, err
	}
	told := sent.FindAllStringSubmatch(u.stdout, -1)
	if len(told) == 0 || told[len(told)-1][1] != strconv.Itoa(n) {
		return u, fmt.Errorf("ProducerPerformance: want %d records sent, got %q", n, u.stdout)
	}
	if u.rate, err = strconv.ParseFloat(told[len(told)-1][2], 64); err != nil {
		return u, err
	}
	return u, b.drop(ctx, to)
}

// passing runs a pipeline of parse alone, with every default.
func (b *bench) passing(program, from string) func(context.Context, int) (usage, error) {
	return func(ctx context.Context, n int) (usage, error) {
		to, err := b.topic(ctx, "hop-out", b.partitions)
		if err != nil {
			return usage{}, err
		}
		path, err := b.pipeline(ctx, to, fmt.Sprintf("from: topic:%s\nstages:\n  - parse: {}\nto: topic:%s\n", from, to))
		if err != nil {
			return usage{}, err
		}
		u, err := b.measure(ctx, n, program, "run", "-q", "--until-end", path)
		return u, errors.Join(err, b.holds(ctx, to, n, false), b.drop(ctx, to))
	}
}
