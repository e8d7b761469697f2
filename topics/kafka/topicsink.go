package kafka

import (
	"context"

	"evalstream"
	"evalstream/topics"
)

// TopicSink writes a job's records to a topic, at least once and in order. Flush waits
// until all replicas in sync have what was written.
type TopicSink struct {
	producer *Producer
	topic    string
	encode   func(*evalstream.Record) (m topics.Message, route []byte, ok bool)
	waiting  []topics.Message
	bytes    int
	count    int32
}

// flushBytes is how much is gathered before it is written without a Flush.
const flushBytes = 1 << 20

// NewTopicSink writes what encode makes of each record to the partition of its route
// by murmur2; ok = false leaves a record out. The message's bytes are the sink's.
func NewTopicSink(p *Producer, topic string, encode func(*evalstream.Record) (m topics.Message, route []byte, ok bool)) *TopicSink {
	return &TopicSink{producer: p, topic: topic, encode: encode}
}

// Write gathers a message for each record.
func (s *TopicSink) Write(ctx context.Context, recs []evalstream.Record) error {
	if s.count == 0 {
		n, err := s.producer.client.Partitions(ctx, s.topic)
		if err != nil {
			return err
		}
		s.count = n
	}
	for i := range recs {
		m, route, ok := s.encode(&recs[i])
		if !ok {
			continue
		}
		m.Partition = Partition(route, s.count)
		s.waiting = append(s.waiting, m)
		s.bytes += len(m.Value)
	}
	if s.bytes < flushBytes {
		return nil
	}
	return s.Flush(ctx)
}

// Flush writes what was gathered. The first error is returned.
func (s *TopicSink) Flush(ctx context.Context) error {
	if len(s.waiting) == 0 {
		return nil
	}
	errs := s.producer.SendTo(ctx, s.topic, s.waiting...)
	s.waiting, s.bytes = nil, 0
	for _, err := range errs {
		if isType[*TooLargeError](err) {
			return &evalstream.ExitError{Code: evalstream.ExitLost, Err: err, Hint: "raise max.message.bytes of the topic"}
		}
		if err != nil {
			return s.producer.client.explain(s.topic, err)
		}
	}
	return nil
}
