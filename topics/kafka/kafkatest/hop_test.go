package kafkatest

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"evalstream/topics"
	"evalstream/topics/kafka"
)

// cpu is the processor time that this process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkHop reads a topic and writes each message to another in transactions, 200
// bytes each, four partitions: messages a second of wall time, and of the client's
// processor time where the broker is another process.
func BenchmarkHop(b *testing.B) {
	ctx := b.Context()
	brokers := strings.Split(genuine(b), ",")
	c, err := kafka.Connect(ctx, kafka.Config{Brokers: brokers})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	const partitions, n = 4, 50_000
	in, out := name("in"), name("out")
	for _, t := range []string{in, out} {
		if _, err := c.CreateTopics(ctx, kafka.TopicSpec{Name: t, Partitions: partitions}); err != nil {
			b.Fatal(err)
		}
	}
	value := []byte(strings.Repeat("x", 200))
	began, used := time.Now(), cpu(b)
	p := c.NewProducer(ctx, kafka.None)
	for range n / 1000 {
		ms := make([]topics.Message, 0, 1000*partitions)
		for i := range 1000 * partitions {
			ms = append(ms, topics.Message{Partition: int32(i % partitions), Value: value})
		}
		if err := errors.Join(p.SendTo(ctx, in, ms...)...); err != nil {
			b.Fatal(err)
		}
	}
	if err := p.Close(); err != nil {
		b.Fatal(err)
	}
	rate := func(what string, wall, used time.Duration) {
		b.ReportMetric(n*partitions/wall.Seconds(), what+"/s")
		b.ReportMetric(n*partitions/used.Seconds(), what+"/cpu-s")
	}
	produced, producedCPU := time.Since(began), cpu(b)-used
	for b.Loop() {
		began, used = time.Now(), cpu(b)
		group := name("g")
		done := make(chan error, partitions)
		for q := range int32(partitions) {
			go func() { done <- hop(ctx, c, group, kafka.TopicPartition{Topic: in, Partition: q}, out, n) }()
		}
		for range partitions {
			if err := <-done; err != nil {
				b.Fatal(err)
			}
		}
		rate("hopped", time.Since(began), cpu(b)-used)
	}
	rate("produced", produced, producedCPU)
}

func hop(ctx context.Context, c *kafka.Client, group string, from kafka.TopicPartition, out string, n int) error {
	t, err := c.Transactor(ctx, group+from.String(), kafka.None)
	if err != nil {
		return err
	}
	s := kafka.NewSink(ctx, t, kafka.SinkOptions{Group: group})
	to := kafka.TopicPartition{Topic: out, Partition: from.Partition}
	left := n
	err = c.Pump(ctx, from, kafka.First, kafka.ReadOptions{}, func(b kafka.Batch) error {
		u := kafka.Unit{Offsets: map[kafka.TopicPartition]int64{from: b.Next}, Outputs: make([]kafka.Output, len(b.Messages))}
		for i, m := range b.Messages {
			u.Outputs[i] = kafka.Output{To: to, Message: m}
		}
		if err := s.Put(ctx, u); err != nil {
			return err
		}
		if left -= len(b.Messages); left <= 0 {
			return io.EOF
		}
		return nil
	})
	if !errors.Is(err, io.EOF) {
		return errors.Join(err, s.Close())
	}
	return errors.Join(s.Drain(ctx), s.Close())
}
