package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	kgo "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/initproducerid"

	"evalstream/topics"
)

// Producer writes messages at least once and in order, each batch once however often
// it is sent. While a batch of a partition is on its way, what comes for that
// partition gathers and goes as the next one: a lone message waits for one round trip,
// and batches grow with the load. It may be used by many goroutines.
type Producer struct {
	client *Client
	codec  Codec
	ctx    context.Context //nolint:containedctx // the life of the lanes: Publish of Watermill has no context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	lanes  map[TopicPartition]*outLane
	sticky map[string]int32 // the partition of messages without key
	closed bool
}

// outLane is the way to one partition.
type outLane struct {
	p  *Producer
	tp TopicPartition

	mu      sync.Mutex
	room    *sync.Cond
	waiting []pending
	size    int
	over    bool // nothing is taken any more
	wake    chan struct{}

	producer int64 // -1: not asked for yet
	epoch    int16
	next     int32
	reopened int
	enc      encoder
}

// pending is a message that waits, for the call that brought it.
type pending struct {
	msg   topics.Message
	call  *call
	index int
}

func (m *pending) done(err error) {
	if err != nil {
		m.call.fail(m.index, err)
	}
	m.call.left.Done()
}

// laneBytes bounds what waits for one partition.
const laneBytes = 16 << 20

// NewProducer makes a producer; its lanes end with ctx or Close.
func (c *Client) NewProducer(ctx context.Context, codec Codec) *Producer {
	ctx, cancel := context.WithCancel(ctx)
	return &Producer{client: c, codec: codec, ctx: ctx, cancel: cancel, lanes: map[TopicPartition]*outLane{}, sticky: map[string]int32{}}
}

// Send writes messages and returns when all replicas in sync have them. A message goes
// to the partition of its key by murmur2; those without key go to one partition a call,
// to the next by the next call. The result has an error for each message that was not
// written, nil if there is none: a *TooLargeError costs that message alone, and any
// other error says that it may be there or not.
func (p *Producer) Send(ctx context.Context, topic string, msgs ...topics.Message) []error {
	n, err := p.client.partitions(ctx, topic)
	if err != nil {
		return all(p.client.explain(topic, err), len(msgs))
	}
	p.mu.Lock()
	keyless := p.sticky[topic] % n
	p.sticky[topic] = keyless + 1
	p.mu.Unlock()
	for i := range msgs {
		if msgs[i].Partition = keyless; msgs[i].Key != nil {
			msgs[i].Partition = Partition(msgs[i].Key, n)
		}
	}
	return p.SendTo(ctx, topic, msgs...)
}

// SendTo is Send to the partitions that the messages name.
func (p *Producer) SendTo(ctx context.Context, topic string, msgs ...topics.Message) []error {
	c := &call{errs: make([]error, len(msgs))}
	now := time.Now().UnixMilli()
	for i := range msgs {
		m := msgs[i]
		if m.Millis == 0 {
			m.Millis = now
		}
		err := p.client.check(ctx, topic, &m, p.codec)
		var l *outLane
		if err == nil {
			l, err = p.lane(TopicPartition{topic, m.Partition})
		}
		if err == nil {
			c.left.Add(1)
			if err = l.put(ctx, pending{m, c, i}); err == nil {
				continue
			}
			c.left.Done()
		}
		c.fail(i, err)
	}
	c.left.Wait()
	if !c.failed {
		return nil
	}
	return c.errs
}

// call is one Send: what is left to be written, and what was not.
type call struct {
	left   sync.WaitGroup
	mu     sync.Mutex
	errs   []error
	failed bool
}

func (c *call) fail(i int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errs[i], c.failed = err, true
}

func all(err error, n int) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// Close waits for what was sent, and refuses more. It ends within Config.Patience.
func (p *Producer) Close() error {
	p.mu.Lock()
	closed := p.closed
	p.closed = true
	lanes := p.lanes
	p.mu.Unlock()
	if closed {
		return nil
	}
	for _, l := range lanes {
		l.kick()
	}
	p.wg.Wait()
	p.cancel()
	return nil
}

func (p *Producer) lane(tp TopicPartition) (*outLane, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	l := p.lanes[tp]
	if l == nil {
		l = &outLane{p: p, tp: tp, wake: make(chan struct{}, 1), producer: -1}
		l.room = sync.NewCond(&l.mu)
		p.lanes[tp] = l
		p.wg.Go(l.run)
	}
	return l, nil
}

func (p *Producer) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

func (l *outLane) kick() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// put waits for room. It is called while its caller counts as being in Send, so Close
// may have begun: the lane ends only when nothing waits.
func (l *outLane) put(ctx context.Context, m pending) error {
	size := recordSize(&m.msg)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > 0 && l.size+size > laneBytes {
		if err := l.await(ctx, size); err != nil {
			return err
		}
	}
	if l.over {
		return errClosed
	}
	l.waiting = append(l.waiting, m)
	l.size += size
	l.kick()
	return nil
}

// await waits until size bytes have room; the caller holds the lock.
func (l *outLane) await(ctx context.Context, size int) error {
	unblock := context.AfterFunc(ctx, func() { l.mu.Lock(); defer l.mu.Unlock(); l.room.Broadcast() })
	defer unblock()
	for l.size > 0 && l.size+size > laneBytes {
		if err := cmp.Or(context.Cause(ctx), context.Cause(l.p.ctx)); err != nil {
			return err
		}
		l.room.Wait()
	}
	return nil
}

func (l *outLane) run() {
	for {
		batch, open := l.take()
		if len(batch) == 0 {
			if !open {
				return
			}
			select {
			case <-l.wake:
			case <-l.p.ctx.Done():
				l.shut(context.Cause(l.p.ctx))
				return
			}
			continue
		}
		err := l.write(batch)
		for i := range batch {
			batch[i].done(err)
		}
	}
}

// take is the next batch; open is false if there will be none.
func (l *outLane) take() (batch []pending, open bool) {
	closed := l.p.isClosed()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		if closed {
			l.over = true
		}
		return nil, !closed
	}
	batch, l.waiting, l.size = l.waiting, nil, 0
	l.room.Broadcast()
	return batch, true
}

// shut refuses what waits and what comes.
func (l *outLane) shut(err error) {
	l.mu.Lock()
	waiting := l.waiting
	l.waiting, l.size, l.over = nil, 0, true
	l.room.Broadcast()
	l.mu.Unlock()
	for i := range waiting {
		waiting[i].done(err)
	}
}

// write sends what was taken, in as many batches as the topic's limit asks for.
func (l *outLane) write(batch []pending) error {
	ctx, c := l.p.ctx, l.p.client
	limit, err := c.limit(ctx, l.tp.Topic)
	if err != nil {
		return c.explain(l.tp.String(), err)
	}
	msgs := make([]topics.Message, len(batch))
	for i := range batch {
		msgs[i] = batch[i].msg
	}
	for len(msgs) > 0 {
		n := fit(msgs, limit)
		if err := l.writeBatch(ctx, msgs[:n]); err != nil {
			return c.explain(l.tp.String(), err)
		}
		msgs = msgs[n:]
	}
	return nil
}

func (l *outLane) writeBatch(ctx context.Context, msgs []topics.Message) error {
	for {
		if err := l.open(ctx); err != nil {
			return err
		}
		st := stamp{producer: l.producer, epoch: l.epoch, sequence: l.next, codec: l.p.codec}
		b, err := l.enc.batch(st, msgs)
		if err != nil {
			return err
		}
		_, _, err = l.p.client.send(ctx, "", []part{{tp: l.tp, batch: b}})
		if err == nil {
			l.next = int32((int64(l.next) + int64(len(msgs))) & 0x7fffffff)
			l.reopened = 0
			return nil
		}
		l.producer = -1 // whether it was written is not known: numbers start again
		if !forgotten(err) || l.reopened > 2 {
			return err
		}
		// The broker has lost what it knew of the producer, by a restart or a deleted
		// log. The batch was refused, so it goes out under a new id.
		l.reopened++
		l.p.client.conf.log().WarnContext(ctx, "producer id is taken anew", "partition", l.tp.String(), "because", err)
	}
}

// forgotten reports whether the broker does not know the producer's numbers.
func forgotten(err error) bool {
	return errors.Is(err, kgo.UnknownProducerId) || errors.Is(err, kgo.OutOfOrderSequenceNumber) ||
		errors.Is(err, kgo.InvalidProducerEpoch) || errors.Is(err, kgo.InvalidProducerIDMapping)
}

func (l *outLane) open(ctx context.Context) error {
	if l.producer >= 0 {
		return nil
	}
	return l.p.client.retry(ctx, l.tp.String(), func(ctx context.Context) error {
		res, err := l.p.client.do(ctx, -1, &initproducerid.Request{TransactionTimeoutMs: -1, ProducerID: -1, ProducerEpoch: -1})
		if err != nil {
			return err
		}
		m := res.(*initproducerid.Response)
		if m.ErrorCode != 0 {
			return fmt.Errorf("producer id: %w", kgo.Error(m.ErrorCode))
		}
		l.producer, l.epoch, l.next = m.ProducerID, m.ProducerEpoch, 0
		return nil
	})
}
