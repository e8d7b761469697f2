package kafka

import (
	"context"
	"sync"
	"time"

	kgo "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"evalstream/topics"
)

const produceVersion = 8

// produceRequest sends one batch to each of some partitions of one leader, and waits
// until all replicas in sync have them.
type produceRequest struct {
	client      string
	broker      int32
	transaction string // "" is none
	timeout     time.Duration
	parts       []part
	err         error
}

// part is a batch on its way to a partition.
type part struct {
	tp    TopicPartition
	batch []byte
	count int // of its messages
}

// ApiKey is Produce.
func (*produceRequest) ApiKey() protocol.ApiKey { return protocol.Produce } //nolint:staticcheck // the name is kafka-go's

// Broker is the leader that was asked for.
func (r *produceRequest) Broker(protocol.Cluster) (protocol.Broker, error) {
	return protocol.Broker{ID: r.broker}, nil
}

// Required takes the exchange over.
func (r *produceRequest) Required(versions map[protocol.ApiKey]int16) bool {
	r.err = speaks(versions, protocol.Produce, produceVersion)
	return true
}

// RawExchange writes the request and reads the answer.
func (r *produceRequest) RawExchange(rw readWriter) (protocol.Message, error) {
	if r.err != nil {
		return nil, r.err
	}
	f := newFrame(protocol.Produce, produceVersion, r.client)
	if r.transaction == "" {
		f.int16(-1)
	} else {
		f.text(r.transaction)
	}
	f.int16(-1) // acks of all
	f.int32(int32(r.timeout / time.Millisecond))
	f.int32(int32(len(r.parts)))
	for _, p := range r.parts {
		f.text(p.tp.Topic)
		f.int32(1)
		f.int32(p.tp.Partition)
		f.int32(int32(len(p.batch)))
		f = append(f, p.batch...)
	}
	a, err := f.exchange(rw)
	if err != nil {
		return nil, err
	}
	return readProduced(a)
}

// produced is the answer: the partitions that took their batch, and why others did not.
type produced struct{ results []result }

type result struct {
	tp   TopicPartition
	code int16
	base int64
}

// ApiKey is Produce.
func (*produced) ApiKey() protocol.ApiKey { return protocol.Produce } //nolint:staticcheck // the name is kafka-go's

func readProduced(a answer) (*produced, error) {
	out := &produced{}
	for range a.count(6) {
		topic := a.text()
		for range a.count(34) {
			r := result{tp: TopicPartition{topic, a.int32()}, code: a.int16(), base: a.int64()}
			a.int64()
			a.int64()
			for range a.count(6) {
				a.int32()
				a.text()
			}
			a.text()
			out.results = append(out.results, r)
		}
	}
	if a.bad {
		return nil, errAnswer
	}
	return out, nil
}

// send writes one batch to each partition, to all leaders at once, and again where
// that may help; the sequence numbers in the batches keep them from being there twice.
// The error names no partition if it is about the connection. bases are the offsets of
// the batches' first messages; one that had been written by an earlier try may be
// missing. cut says that a connection broke: what it carried may arrive yet.
func (c *Client) send(ctx context.Context, transaction string, parts []part) (bases map[TopicPartition]int64, cut bool, err error) {
	left := parts
	bases = map[TopicPartition]int64{}
	err = c.retry(ctx, "produce", func(ctx context.Context) error {
		again, broken, err := c.sendOnce(ctx, transaction, left, bases)
		left, cut = again, cut || broken
		return err
	})
	return bases, cut, err
}

// sendOnce returns the parts that were not taken, and the gravest reason.
func (c *Client) sendOnce(ctx context.Context, transaction string, parts []part, bases map[TopicPartition]int64) (left []part, cut bool, worst error) {
	byLeader := map[int32][]part{}
	for _, p := range parts {
		id, err := c.leader(ctx, p.tp)
		if err != nil {
			return parts, false, err
		}
		byLeader[id] = append(byLeader[id], p)
	}
	var (
		wg sync.WaitGroup
		mu sync.Mutex
	)
	for id, ps := range byLeader {
		wg.Go(func() {
			results, again, err := c.sendTo(ctx, id, transaction, ps)
			mu.Lock()
			defer mu.Unlock()
			for _, r := range results {
				if r.code == 0 && r.base >= 0 {
					bases[r.tp] = r.base
				}
			}
			left = append(left, again...)
			cut = cut || brokenLink(err)
			if err != nil && (worst == nil || retriable(worst)) {
				worst = err
			}
		})
	}
	wg.Wait()
	return left, cut, worst
}

func (c *Client) sendTo(ctx context.Context, broker int32, transaction string, parts []part) (results []result, left []part, err error) {
	timed, cancel := context.WithTimeout(ctx, 2*c.conf.timeout())
	defer cancel()
	res, err := c.transport.RoundTrip(timed, c.addr, &produceRequest{
		client: c.conf.clientID(), broker: broker, transaction: transaction, timeout: c.conf.timeout(), parts: parts,
	})
	if err != nil {
		if ctx.Err() == nil && staleLeader(err) {
			for _, p := range parts {
				c.forget(p.tp.Topic)
			}
		}
		return nil, parts, err
	}
	results = res.(*produced).results
	codes := map[TopicPartition]int16{}
	for _, r := range results {
		codes[r.tp] = r.code
	}
	var worst error
	for _, p := range parts {
		code, ok := codes[p.tp]
		var err error = kgo.Error(code)
		switch {
		case ok && (code == 0 || kgo.Error(code) == kgo.DuplicateSequenceNumber):
			continue
		case !ok:
			err = errAnswer
		case staleLeader(err):
			c.forget(p.tp.Topic)
		}
		left = append(left, p)
		if worst == nil || retriable(worst) {
			worst = &partitionError{p.tp, err}
		}
	}
	return results, left, worst
}

// partitionError says where a produce was refused.
type partitionError struct {
	tp  TopicPartition
	err error
}

func (e *partitionError) Error() string { return e.tp.String() + ": " + e.err.Error() }

// Unwrap is the reason.
func (e *partitionError) Unwrap() error { return e.err }

// fit gives the leading messages that one batch may hold, by size, and by the most
// that a batch should have.
func fit(msgs []topics.Message, limit int) int {
	const most = 10_000
	size := batchHeader
	for i := range msgs {
		size += recordSize(&msgs[i])
		if i > 0 && (size > limit || i == most) {
			return i
		}
	}
	return len(msgs)
}

// defaultLimit is Kafka's default of max.message.bytes.
const defaultLimit = 1048588

// limit is max.message.bytes of the topic. Where it may not be read it is taken to be
// Kafka's default.
func (c *Client) limit(ctx context.Context, topic string) (int, error) {
	c.mu.Lock()
	n := c.limits[topic]
	c.mu.Unlock()
	if n > 0 {
		return n, nil
	}
	values, err := c.topicConfig(ctx, topic, "max.message.bytes")
	n = defaultLimit
	switch {
	case err == nil:
		if v, ok := atoi(values["max.message.bytes"]); ok {
			n = v
		}
	case denied(err) != "": // whether it may be written is another right
	default:
		return 0, err
	}
	c.mu.Lock()
	c.limits[topic] = n
	c.mu.Unlock()
	return n, nil
}

// check returns a *TooLargeError if no batch of the topic can hold m. A record that
// is too large as it stands may still fit compressed.
func (c *Client) check(ctx context.Context, topic string, m *topics.Message, codec Codec) error {
	if batchHeader+recordSize(m) <= 64<<10 { // no sane limit is lower, and the broker has the last word
		return nil
	}
	limit, err := c.limit(ctx, topic)
	if err != nil {
		return err
	}
	return within(topic, limit, m, codec)
}

// within is check for a limit that is known.
func within(topic string, limit int, m *topics.Message, codec Codec) error {
	if batchHeader+recordSize(m) <= limit {
		return nil
	}
	st := unstamped()
	st.codec = codec
	b, err := appendBatch(nil, st, []topics.Message{*m})
	if err != nil {
		return err
	}
	if len(b) > limit {
		return &TooLargeError{Topic: topic, Size: len(b), Limit: limit}
	}
	return nil
}
