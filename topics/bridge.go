package topics

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"evalstream"
)

// Source reads any Watermill subscription into a job, as partition 0: a message's
// payload is the line. Messages without payload are acknowledged and left out.
//
// Delivery is at least once: a message is acknowledged when what came of it has been
// flushed. For that the job's Sink is what Acknowledge makes of it, and its Hooks.Block
// is Applied.
type Source struct {
	origin   *evalstream.Origin
	messages <-chan *message.Message
	drained  chan struct{}
	once     sync.Once
	seq      evalstream.Seq

	mu      sync.Mutex
	blocks  [][]*message.Message // handed over, not applied yet
	applied []*message.Message   // applied, not flushed yet
}

// maxBlock is how many messages a block holds.
const maxBlock = 1024

// NewSource reads what a Subscriber gives for the topic.
func NewSource(topic string, messages <-chan *message.Message) *Source {
	return &Source{
		origin: &evalstream.Origin{Name: topic, Topic: true}, messages: messages, drained: make(chan struct{}),
	}
}

// Drain makes Read return io.EOF. Messages that come later are not taken.
func (s *Source) Drain() { s.once.Do(func() { close(s.drained) }) }

// Read waits for a message and takes those with it that are there already. The end of
// the subscription is io.EOF.
func (s *Source) Read(ctx context.Context, b *evalstream.Block) error {
	b.Data, b.Records, b.Long, b.Unterminated, b.Partition = nil, nil, 0, false, 0
	var taken []*message.Message
	for len(taken) < maxBlock {
		m, err := s.next(ctx, len(taken) == 0)
		if err != nil {
			return err
		}
		if m == nil {
			break
		}
		if len(m.Payload) == 0 {
			m.Ack()
			continue
		}
		taken = append(taken, m)
		b.Records = append(b.Records, evalstream.Record{
			Raw: m.Payload, Seq: s.seq, Time: evalstream.NoTime, Pos: evalstream.Pos{Origin: s.origin, Line: int64(s.seq)},
		})
		s.seq++
	}
	b.First, b.At = b.Records[0].Seq, b.Records[0].Pos
	s.mu.Lock()
	s.blocks = append(s.blocks, taken)
	s.mu.Unlock()
	return nil
}

// next is the next message; nil if there is none and it is not waited for.
func (s *Source) next(ctx context.Context, wait bool) (*message.Message, error) {
	if !wait {
		select {
		case m := <-s.messages:
			return m, nil // nil if the subscription has ended: the next Read says so
		default:
			return nil, nil
		}
	}
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-s.drained:
		return nil, io.EOF
	case m, open := <-s.messages:
		if !open {
			return nil, io.EOF
		}
		return m, nil
	}
}

// Applied notes that the oldest block has gone through the job's stages.
func (s *Source) Applied(evalstream.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.blocks) == 0 {
		return
	}
	s.applied = append(s.applied, s.blocks[0]...)
	s.blocks = s.blocks[1:]
}

// Acknowledge is inner, and acknowledges after each flush what had been applied before it.
func (s *Source) Acknowledge(inner evalstream.Sink) evalstream.Sink {
	return &acknowledging{Sink: inner, source: s}
}

type acknowledging struct {
	evalstream.Sink
	source *Source
}

// Flush flushes and acknowledges. After an error the messages are negatively
// acknowledged: they come again.
func (a *acknowledging) Flush(ctx context.Context) error {
	a.source.mu.Lock()
	done := a.source.applied
	a.source.applied = nil
	a.source.mu.Unlock()
	err := a.Sink.Flush(ctx)
	for _, m := range done {
		if err != nil {
			m.Nack()
			continue
		}
		m.Ack()
	}
	return err
}

// Sink writes records to any Watermill publisher, a message each.
type Sink struct {
	publisher  message.Publisher
	topic      string
	appendLine func(dst []byte, r *evalstream.Record) []byte
	waiting    []*message.Message
}

// NewSink publishes what appendLine makes of each record, with a UUID of its own;
// records of which it makes nothing are left out.
func NewSink(publisher message.Publisher, topic string, appendLine func(dst []byte, r *evalstream.Record) []byte) *Sink {
	return &Sink{publisher: publisher, topic: topic, appendLine: appendLine}
}

// Write gathers a message for each record.
func (s *Sink) Write(_ context.Context, recs []evalstream.Record) error {
	for i := range recs {
		if line := s.appendLine(nil, &recs[i]); len(line) > 0 {
			s.waiting = append(s.waiting, message.NewMessage(watermill.NewUUID(), line))
		}
	}
	if len(s.waiting) < maxBlock {
		return nil
	}
	return s.publish()
}

// Flush publishes what was gathered.
func (s *Sink) Flush(context.Context) error { return s.publish() }

func (s *Sink) publish() error {
	if len(s.waiting) == 0 {
		return nil
	}
	err := s.publisher.Publish(s.topic, s.waiting...)
	s.waiting = nil
	if err != nil {
		return evalstream.Lost(errors.Join(errors.New(s.topic+": not published"), err))
	}
	return nil
}
