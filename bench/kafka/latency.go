//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"evalstream/topics"
	"evalstream/topics/kafka"
)

const (
	perSecond = 2000
	warmUp    = 20 // seconds that are not measured
)

// latency measures how long it takes from the moment when a prediction is due to a
// result that has it. Predictions are due on a fixed schedule, however slow the pipeline
// is, so what waits is counted with all of its waiting.
func latency(ctx context.Context, b *bench) error {
	t := b.report.table(fmt.Sprintf("Prediction in to result out, %d predictions/s on a fixed schedule, %d s after %d s that are not counted", perSecond, b.seconds, warmUp),
		"pipeline", "partitions", "every", "p50 ms", "p99 ms", "most ms", "client CPU s", "broker CPU s")
	f := func(title string, partitions int, cuts, apart bool, every string, limit float64) error {
		b.say("latency: %s, every %s", title, every)
		ms, u, err := b.delays(ctx, partitions, cuts, apart, every)
		if err != nil {
			return fmt.Errorf("%s: %w", title, err)
		}
		slices.Sort(ms)
		at := func(share float64) float64 { return ms[min(len(ms)-1, int(share*float64(len(ms))))] }
		t.add(title, strconv.Itoa(partitions), every, fmt.Sprintf("%.0f", at(.5)), fmt.Sprintf("%.0f", at(.99)), fmt.Sprintf("%.0f", ms[len(ms)-1]),
			fmt.Sprintf("%.1f", u.cpu), fmt.Sprintf("%.1f", u.broker))
		if limit > 0 {
			b.report.bar("latency p99, "+title, fmt.Sprintf("%.0f ms", at(.99)), fmt.Sprintf("≤ %.0f ms", limit), at(.99) <= limit)
		}
		return nil
	}
	// A broker that has just been started compiles for a minute what it runs, with half of
	// the processors that it shares with the pipeline.
	b.say("latency: once that is not counted")
	if _, _, err := b.delays(ctx, b.partitions, true, false, "20ms"); err != nil {
		return fmt.Errorf("not counted: %w", err)
	}
	return errors.Join(
		f("three cuts, one process", b.partitions, true, false, "20ms", 250),
		f("three cuts, four processes", b.partitions, true, true, "20ms", 250),
		f("three cuts, one process", b.partitions, true, false, "1s", 0),
		f("no cuts", 1, false, false, "20ms", 100),
		f("no cuts", 1, false, false, "1s", 0),
	)
}

// delays runs a pipeline and returns the milliseconds that each prediction took. u has
// what the pipeline's processes and the broker used.
func (b *bench) delays(ctx context.Context, partitions int, cuts, apart bool, every string) (ms []float64, u usage, err error) {
	total := (warmUp + b.seconds) * perSecond
	gold, err := b.gold(total)
	if err != nil {
		return nil, u, err
	}
	from, err := b.topic(ctx, "latency-in", partitions)
	if err != nil {
		return nil, u, err
	}
	name := b.unique("latency")
	to := name + ".results"
	path, err := b.pipeline(ctx, name, latencyPipeline(name, from, to, gold, cuts, every))
	if err != nil {
		return nil, u, err
	}
	only := [][]string{nil}
	if apart {
		only = [][]string{{"--only", "parse"}, {"--only", "score"}, {"--only", "aggregate"}, {"--only", "merge"}}
	}
	var running []*process
	defer func() {
		for _, p := range running {
			mine, _, endErr := p.terminate()
			u.cpu += mine.cpu
			err = errors.Join(err, endErr)
		}
	}()
	before, err := b.brokerCPU(ctx)
	if err != nil {
		return nil, u, err
	}
	for _, o := range only {
		p, err := b.start(ctx, b.program, append(append([]string{"run", "-q"}, o...), path)...)
		if err != nil {
			return nil, u, err
		}
		running = append(running, p)
	}
	w := newWatch(total, int32(partitions))
	ctx, cancel := context.WithCancelCause(ctx) // the processes end by signal
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	n, err := b.client.Partitions(ctx, to)
	if err != nil {
		return nil, u, err
	}
	for p := range n {
		wg.Go(func() {
			if err := w.follow(ctx, b.client, kafka.TopicPartition{Topic: to, Partition: p}); err != nil {
				cancel(err)
			}
		})
	}
	if err := b.schedule(ctx, from, w, partitions); err != nil {
		return nil, u, err
	}
	select {
	case <-w.all:
	case <-ctx.Done():
		return nil, u, context.Cause(ctx)
	case <-time.After(time.Minute):
		return nil, u, fmt.Errorf("%d of %d predictions are in no result after a minute", w.missing(), total)
	}
	after, err := b.brokerCPU(ctx)
	u.broker = after - before
	return w.took(), u, err
}

func latencyPipeline(name, from, to, gold string, cuts bool, every string) string {
	via := func(of string) string {
		if !cuts {
			return ""
		}
		return fmt.Sprintf("    via: %s.%s\n", name, of)
	}
	text := fmt.Sprintf("from: topic:%s\nstages:\n  - parse: {}\n%s  - score: {gold: %s, measure: [success@1]}\n%s  - aggregate: {by: part, every: %s}\n%s",
		from, via("runs"), gold, via("scored"), every, via("partials"))
	if cuts {
		text += fmt.Sprintf("  - merge: {every: %s}\n", every)
	}
	return text + "to: topic:" + to + "\n"
}

// watch notes when the k-th prediction of a partition was due, and when a result first
// had k of that partition: a partition is counted in order.
type watch struct {
	mu   sync.Mutex
	due  [][]time.Time // a partition
	seen [][]time.Time
	left int
	all  chan struct{} // closed when all are seen
	skip time.Time     // what was due earlier is not measured
}

func newWatch(total int, partitions int32) *watch {
	return &watch{due: make([][]time.Time, partitions), seen: make([][]time.Time, partitions), left: total, all: make(chan struct{})}
}

func (w *watch) missing() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.left
}

// follow reads results.
func (w *watch) follow(ctx context.Context, c *kafka.Client, tp kafka.TopicPartition) error {
	r := c.Read(tp, kafka.First, kafka.ReadOptions{})
	for {
		b, err := r.Next(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the end is asked for
		}
		if err != nil {
			return err
		}
		now := time.Now()
		for _, m := range b.Messages {
			var r result
			if m.Value == nil {
				continue
			}
			if err := json.Unmarshal(m.Value, &r); err != nil {
				return err
			}
			if p, err := strconv.Atoi(r.By["part"]); err == nil && r.Metric == "success@1" {
				w.result(p, r.N, now)
			}
		}
	}
}

func (w *watch) result(p int, n int64, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for int64(len(w.seen[p])) < n {
		w.seen[p] = append(w.seen[p], now)
		if w.left--; w.left == 0 {
			close(w.all)
		}
	}
}

func (w *watch) took() []float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ms []float64
	for p := range w.due {
		for k, due := range w.due[p] {
			if !due.Before(w.skip) {
				ms = append(ms, float64(w.seen[p][k].Sub(due).Microseconds())/1000)
			}
		}
	}
	return ms
}

// linger is how often what is due is written: Kafka's own producer waits as long for more.
const linger = 5 * time.Millisecond

// schedule writes each prediction when it is due, or up to linger later. One that is late,
// for that or because the ones before are still on their way, keeps the time when it was due.
func (b *bench) schedule(ctx context.Context, topic string, w *watch, partitions int) error {
	p := b.client.NewProducer(ctx, kafka.None)
	defer p.Close() //nolint:errcheck // SendTo has told
	total := (warmUp + b.seconds) * perSecond
	if err := b.probe(ctx, p, topic, w, partitions); err != nil {
		return err
	}
	begin := time.Now().Add(-probes * time.Second / perSecond)
	w.skip = begin.Add(warmUp * time.Second)
	queues := make([]chan topics.Message, partitions)
	var wg sync.WaitGroup
	failed := make(chan error, partitions)
	for i := range queues {
		queues[i] = make(chan topics.Message, total)
		wg.Go(func() { failed <- send(ctx, p, topic, queues[i]) })
	}
	tick := time.NewTicker(linger)
	defer tick.Stop()
	for i := probes; i < total && ctx.Err() == nil; {
		<-tick.C
		for now := time.Now(); i < total; i++ {
			due := begin.Add(time.Duration(i) * time.Second / perSecond)
			if due.After(now) {
				break
			}
			m := prediction(i, int32(partitions))
			w.mu.Lock()
			w.due[m.Partition] = append(w.due[m.Partition], due)
			w.mu.Unlock()
			queues[m.Partition] <- m
		}
	}
	for _, q := range queues {
		close(q)
	}
	wg.Wait()
	var all []error
	for range queues {
		all = append(all, <-failed)
	}
	return errors.Join(all...)
}

// probes is how many predictions go ahead, to see that the pipeline has begun.
const probes = 100

// probe writes them and waits for their results.
func (*bench) probe(ctx context.Context, p *kafka.Producer, topic string, w *watch, partitions int) error {
	want := w.missing() - probes
	msgs := make([]topics.Message, probes)
	now := time.Now()
	for i := range msgs {
		msgs[i] = prediction(i, int32(partitions))
		w.due[msgs[i].Partition] = append(w.due[msgs[i].Partition], now)
	}
	if err := errors.Join(p.SendTo(ctx, topic, msgs...)...); err != nil {
		return err
	}
	for deadline := now.Add(time.Minute); w.missing() > want; <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("the pipeline has not begun after %v", time.Since(now))
		}
	}
	return nil
}

// send writes what waits, all of it at once.
func send(ctx context.Context, p *kafka.Producer, topic string, queue <-chan topics.Message) error {
	for m := range queue {
		batch := []topics.Message{m}
		for len(queue) > 0 {
			batch = append(batch, <-queue)
		}
		if err := errors.Join(p.SendTo(ctx, topic, batch...)...); err != nil {
			return err
		}
	}
	return nil
}
