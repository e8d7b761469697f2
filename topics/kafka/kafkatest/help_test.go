package kafkatest

import (
	"io"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	kgo "github.com/segmentio/kafka-go"
)

// grow adds partitions, by kafka-go's own client.
func grow(t *testing.T, brokers []string, topic string, partitions int32) {
	t.Helper()
	res, err := (&kgo.Client{Addr: kgo.TCP(brokers...)}).CreatePartitions(t.Context(), &kgo.CreatePartitionsRequest{
		Topics: []kgo.TopicPartitionsConfig{{Name: topic, Count: partitions}},
	})
	if err == nil {
		err = res.Errors[topic]
	}
	if err != nil {
		t.Fatal(err)
	}
}

// next is the next message, which must come soon.
func next(t *testing.T, msgs <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case m, ok := <-msgs:
		if !ok {
			t.Fatal("subscription has ended")
		}
		return m
	case <-time.After(30 * time.Second):
		t.Fatal("no message")
	}
	return nil
}

// closing closes c at the end of the test.
func closing(t *testing.T, c io.Closer) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}
