package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/ThreeDotsLabs/watermill/message"

	"evalstream/topics"
)

// HeaderUUID carries the UUID of a Watermill message. Messages read without it get
// topic/partition/offset.
const HeaderUUID = "_watermill_message_uuid"

// Publisher is a [message.Publisher]. A message's metadata become headers, sorted by
// name, and a nil payload a tombstone. Publish returns when all replicas in sync have
// the messages.
type Publisher struct {
	// Key gives a message its key, and so its partition; nil: messages have none.
	Key func(topic string, m *message.Message) []byte

	producer *Producer
}

var _ message.Publisher = (*Publisher)(nil)

// NewPublisher publishes through p, which Close closes.
func NewPublisher(p *Producer) *Publisher { return &Publisher{producer: p} }

// Publish writes the messages in order. The error names those that were not written,
// by their UUIDs; each wraps its own reason.
func (p *Publisher) Publish(topic string, messages ...*message.Message) error {
	msgs := make([]topics.Message, len(messages))
	for i, m := range messages {
		if _, ok := m.Metadata[HeaderUUID]; ok {
			return fmt.Errorf("message %s: metadata must not have %s: it is the UUID's", m.UUID, HeaderUUID)
		}
		msgs[i] = topics.Message{Value: m.Payload, Headers: headers(m)}
		if p.Key != nil {
			msgs[i].Key = p.Key(topic, m)
		}
	}
	// Watermill has a context a message and none a call; the producer's own holds.
	var failed []error
	for i, err := range p.producer.Send(p.producer.ctx, topic, msgs...) {
		if err != nil {
			failed = append(failed, fmt.Errorf("message %s: %w", messages[i].UUID, err))
		}
	}
	return errors.Join(failed...)
}

// Close waits for what was published.
func (p *Publisher) Close() error { return p.producer.Close() }

func headers(m *message.Message) []topics.Header {
	hs := make([]topics.Header, 0, len(m.Metadata)+1)
	hs = append(hs, topics.Header{Name: HeaderUUID, Value: []byte(m.UUID)})
	for _, name := range slices.Sorted(maps.Keys(m.Metadata)) {
		hs = append(hs, topics.Header{Name: name, Value: []byte(m.Metadata[name])})
	}
	return hs
}

// received makes a Watermill message of m.
func received(topic string, m *topics.Message) *message.Message {
	uuid := ""
	out := message.NewMessage("", m.Value)
	for _, h := range m.Headers {
		if h.Name == HeaderUUID {
			uuid = string(h.Value)
			continue
		}
		out.Metadata[h.Name] = string(h.Value)
	}
	out.UUID = cmp.Or(uuid, fmt.Sprintf("%s/%d/%d", topic, m.Partition, m.Offset))
	return out
}

type messageKey struct{}

// FromContext is the record behind a Watermill message, by its context: key, time,
// partition, offset, and headers in order, of which the metadata keep one a name.
func FromContext(ctx context.Context) (topics.Message, bool) {
	m, ok := ctx.Value(messageKey{}).(topics.Message)
	return m, ok
}
