package memory_test

import (
	"context"
	"testing"

	"evalstream/topics"
	"evalstream/topics/memory"
	"evalstream/topics/topictest"
)

type log struct{ *memory.Topic }

func (l log) Write(_ context.Context, msgs ...topics.Message) error { return l.Append(msgs...) }

func (l log) Consume(_ context.Context, group string) (topictest.Consumer, error) {
	return &consumer{topic: l.Topic, group: group, from: l.Committed(group)}, nil
}

type consumer struct {
	topic *memory.Topic
	group string
	from  []int64
}

func (c *consumer) Next(ctx context.Context) ([]topics.Message, error) {
	ms, err := c.topic.Next(ctx, c.from)
	if len(ms) > 0 {
		last := ms[len(ms)-1]
		c.from[last.Partition] = last.Offset + 1
	}
	return ms, err
}

func (c *consumer) Commit(_ context.Context, partition int32, next int64) error {
	return c.topic.Commit(c.group, partition, next)
}

func (*consumer) Close() error { return nil }

func TestTopic(t *testing.T) {
	topictest.Run(t, topictest.Subject{
		Partitions: 3,
		Open:       func(_ *testing.T, n int32) topictest.Log { return log{memory.NewTopic("t", n)} },
	})
}

func TestTopicPartitions(t *testing.T) {
	topic := memory.NewTopic("t", 2)
	if err := topic.Append(topics.Message{Partition: 1}, topics.Message{Partition: 2}); err == nil {
		t.Error("partition 2 of 2: want an error, got none")
	}
	if err := topic.Commit("g", -1, 0); err == nil {
		t.Error("partition -1: want an error, got none")
	}
	if _, err := topic.Next(t.Context(), []int64{0, 0, 0}); err == nil {
		t.Error("three partitions of two: want an error, got none")
	}
}
