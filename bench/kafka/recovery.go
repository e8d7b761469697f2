//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"time"

	"evalstream/bench/figure"
	"evalstream/topics"
	"evalstream/topics/kafka"
)

// stop measures how long an idle pipeline takes to end.
func stop(ctx context.Context, b *bench) error {
	from, err := b.topic(ctx, "stop-in", b.partitions)
	if err != nil {
		return err
	}
	gold, err := b.gold(1)
	if err != nil {
		return err
	}
	name := b.unique("stop")
	path, err := b.pipeline(ctx, name, latencyPipeline(name, from, name+".results", gold, true, "20ms"))
	if err != nil {
		return err
	}
	if err := b.fill(ctx, from, b.partitions, 0, 1); err != nil {
		return err
	}
	var took []float64
	for range 5 {
		p, err := b.start(ctx, b.program, "run", "-q", path)
		if err != nil {
			return err
		}
		_, err = b.reached(ctx, name+".results", 1)
		<-time.After(2 * time.Second) // idle, and in the middle of its waiting for input
		_, d, endErr := p.terminate()
		if err := errors.Join(err, endErr); err != nil {
			return err
		}
		took = append(took, d.Seconds())
	}
	b.report.bar("close of an idle pipeline of four segments, SIGTERM to exit, 5 times", figure.Spread(took, "%.2f")+" s", "< 1 s", figure.Median(took) < 1)
	return nil
}

// reached waits for a result over n units or more.
func (b *bench) reached(ctx context.Context, topic string, n int64) (time.Time, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Minute, fmt.Errorf("%s: no result over %d units after 5 minutes", topic, n))
	defer cancel()
	count, err := b.client.Partitions(ctx, topic)
	if err != nil {
		return time.Time{}, err
	}
	found := make(chan error, count)
	for p := range count {
		go func() {
			r := b.client.Read(kafka.TopicPartition{Topic: topic, Partition: p}, kafka.First, kafka.ReadOptions{})
			found <- readUntil(ctx, r, n)
		}()
	}
	for range count {
		if err = <-found; errors.Is(err, io.EOF) {
			return time.Now(), nil
		}
	}
	return time.Time{}, err
}

func readUntil(ctx context.Context, r *kafka.Reader, n int64) error {
	for {
		batch, err := r.Next(ctx)
		if err != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		for _, m := range batch.Messages {
			var one result
			if m.Value == nil {
				continue
			}
			if err := json.Unmarshal(m.Value, &one); err != nil {
				return err
			}
			if one.Metric == "success@1" && one.N >= n {
				return io.EOF
			}
		}
	}
}

// recovery measures how long a pipeline that remembers many units takes from its start
// to a result over a prediction that is new, with the state in the changelog alone and
// with a copy of it on disk.
func recovery(ctx context.Context, b *bench) error {
	from, err := b.topic(ctx, "recovery-in", 1)
	if err != nil {
		return err
	}
	gold, err := b.gold(b.units + 100)
	if err != nil {
		return err
	}
	if err := b.fill(ctx, from, 1, 0, b.units); err != nil {
		return err
	}
	name := b.unique("recovery")
	path, err := b.pipeline(ctx, name, fmt.Sprintf(`from: topic:%s
stages:
  - parse: {}
  - score: {gold: %s, measure: [success@1]}
  - aggregate: {by: run, every: 20ms}
to: topic:%s.results
`, from, gold, name))
	if err != nil {
		return err
	}
	t := b.report.table(fmt.Sprintf("Start to the first result over a new prediction, %d units remembered, 1 partition", b.units),
		"", "s to the result", "CPU s until stopped", "peak MiB")
	units := b.units
	once := func(title string, args ...string) error {
		b.say("recovery: %s", title)
		p, err := b.start(ctx, b.program, append(append([]string{"run", "-q"}, args...), path)...)
		if err != nil {
			return err
		}
		at, err := b.reached(ctx, name+".results", int64(units))
		u, _, endErr := p.terminate()
		if err := errors.Join(err, endErr); err != nil {
			return err
		}
		t.add(title, fmt.Sprintf("%.2f", at.Sub(p.began).Seconds()), fmt.Sprintf("%.2f", u.cpu), fmt.Sprintf("%.0f", u.rss))
		units++
		return b.fill(ctx, from, 1, units-1, 1)
	}
	state := filepath.Join(b.dir, "state")
	steps := []struct {
		title string
		args  []string
	}{
		{"from nothing: reads " + strconv.Itoa(b.units) + " predictions and remembers their units", nil},
		{"from the changelog", nil},
		{"from the changelog, again", nil},
		{"from the changelog, into an empty `state: DIR`", []string{"--state", state}},
		{"from `state: DIR`", []string{"--state", state}},
		{"from `state: DIR`, again", []string{"--state", state}},
	}
	for _, s := range steps {
		if err := once(s.title, s.args...); err != nil {
			return fmt.Errorf("%s: %w", s.title, err)
		}
	}
	var n int
	if err := b.client.Cat(ctx, name+".parse.changelog", func(topics.Message) error { n++; return nil }); err != nil {
		return err
	}
	t.add("messages in the changelog at the end", strconv.Itoa(n), "", "")
	return b.drop(ctx, from)
}
