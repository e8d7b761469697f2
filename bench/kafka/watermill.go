//go:build linux

package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	kgo "github.com/segmentio/kafka-go"
)

// watermill moves messages through Watermill's Router with the adapter that one writes
// first: a message is handed out, its ack is waited for, its offset is committed. The
// Writer sends each message at once: with its default it would wait for a second each.
func (l *loop) watermill(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sub := &naiveSubscriber{loop: l}
	w := &kgo.Writer{Addr: kgo.TCP(l.brokers...), Balancer: kgo.Murmur2Balancer{}, RequiredAcks: kgo.RequireAll, BatchSize: 1}
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: time.Second}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	var moved atomic.Int64
	router.AddHandler("hop", l.from, sub, l.to, &naivePublisher{w: w, wrote: func() {
		if moved.Add(1) >= l.messages {
			cancel()
		}
	}}, func(m *message.Message) ([]*message.Message, error) {
		return message.Messages{m}, nil
	})
	return router.Run(ctx)
}

type naiveSubscriber struct {
	loop   *loop
	reader *kgo.Reader
}

// Subscribe hands out messages, one at a time.
func (s *naiveSubscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	s.reader = kgo.NewReader(kgo.ReaderConfig{
		Brokers: s.loop.brokers, GroupID: s.loop.group, Topic: topic, StartOffset: kgo.FirstOffset, MinBytes: 1, MaxBytes: 1 << 20,
		JoinGroupBackoff: joinBackoff,
	})
	out := make(chan *message.Message)
	go func() {
		defer close(out)
		for {
			in, err := s.reader.FetchMessage(ctx)
			if err != nil {
				return
			}
			m := message.NewMessage(watermill.NewUUID(), in.Value)
			m.Metadata.Set("key", string(in.Key))
			select {
			case out <- m:
			case <-ctx.Done():
				return
			}
			select {
			case <-m.Acked():
			case <-m.Nacked():
			case <-ctx.Done():
				return
			}
			if err := s.reader.CommitMessages(ctx, in); err != nil {
				return
			}
		}
	}()
	return out, nil
}

// Close ends the reader.
func (s *naiveSubscriber) Close() error { return s.reader.Close() }

type naivePublisher struct {
	w     *kgo.Writer
	wrote func()
}

// Publish writes messages and waits until they are there.
func (p *naivePublisher) Publish(topic string, ms ...*message.Message) error {
	for _, m := range ms {
		err := p.w.WriteMessages(context.Background(), kgo.Message{Topic: topic, Key: []byte(m.Metadata.Get("key")), Value: m.Payload})
		if err != nil {
			return err
		}
		p.wrote()
	}
	return nil
}

// Close ends the writer.
func (p *naivePublisher) Close() error { return p.w.Close() }
