package kafkatest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"evalstream/topics"
	"evalstream/topics/kafka"
	"evalstream/topics/topictest"
)

// log is a Kafka topic; its groups are named after it.
type log struct {
	t        *testing.T
	client   *kafka.Client
	producer *kafka.Producer
	topic    string
}

func (l *log) Write(ctx context.Context, msgs ...topics.Message) error {
	return errors.Join(l.producer.SendTo(ctx, l.topic, msgs...)...)
}

func (l *log) Consume(ctx context.Context, group string) (topictest.Consumer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	c := &consumer{ctx: ctx, cancel: cancel, batches: make(chan kafka.Batch), assigned: make(chan *kafka.Assignment, 1), left: make(chan struct{})}
	go func() {
		defer close(c.left)
		cancel(l.client.Join(ctx, kafka.GroupOptions{ID: l.topic + "." + group, Topics: []string{l.topic}, Session: 6 * time.Second}, c.own(l.client)))
	}()
	select {
	case c.a = <-c.assigned:
		return c, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

type consumer struct {
	ctx      context.Context //nolint:containedctx // its membership's
	cancel   context.CancelCauseFunc
	batches  chan kafka.Batch
	assigned chan *kafka.Assignment
	left     chan struct{}
	a        *kafka.Assignment
}

func (c *consumer) own(client *kafka.Client) func(context.Context, *kafka.Assignment) error {
	return func(ctx context.Context, a *kafka.Assignment) error {
		c.assigned <- a
		var wg sync.WaitGroup
		for _, tp := range a.Partitions {
			from := kafka.First
			if at, ok := a.Committed[tp]; ok {
				from = at
			}
			wg.Go(func() {
				_ = client.Pump(ctx, tp, from, kafka.ReadOptions{}, func(b kafka.Batch) error {
					select {
					case c.batches <- b:
						return nil
					case <-ctx.Done():
						return context.Cause(ctx)
					}
				})
			})
		}
		wg.Wait()
		return nil
	}
}

func (c *consumer) Next(ctx context.Context) ([]topics.Message, error) {
	select {
	case b := <-c.batches:
		return b.Messages, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-c.ctx.Done():
		return nil, context.Cause(c.ctx)
	}
}

func (c *consumer) Commit(ctx context.Context, partition int32, next int64) error {
	return c.a.Commit(ctx, map[kafka.TopicPartition]int64{{Topic: c.a.Partitions[0].Topic, Partition: partition}: next})
}

func (c *consumer) Close() error {
	c.cancel(context.Canceled)
	<-c.left
	return nil
}

func TestTopic(t *testing.T) {
	b := cluster(t)
	for _, codec := range []kafka.Codec{kafka.None, kafka.Zstd} {
		topictest.Run(t, topictest.Subject{
			Partitions: 3,
			Open: func(t *testing.T, n int32) topictest.Log {
				c := connect(t, b)
				p := c.NewProducer(background(t), codec)
				t.Cleanup(func() { _ = p.Close() })
				return &log{t: t, client: c, producer: p, topic: topic(t, c, n, nil)}
			},
		})
	}
}
