package kafka

import (
	"context"
	"errors"
	"time"

	kgo "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/listoffsets"

	"evalstream"
	"evalstream/topics"
)

// Offsets that stand for a place in the log.
const (
	First int64 = -2 // the first record that is there
	Last  int64 = -1 // behind the last one
)

// OnGap says what to do when the records to be read next are not there any more.
type OnGap int

// What to do about a gap.
const (
	FailOnGap OnGap = iota // return a *GapError
	SkipGap                // go on with the first record that is there, and log it
)

// ReadOptions are how a partition is read. The zero value is for most.
type ReadOptions struct {
	MaxWait  time.Duration // how long a broker holds back an empty answer; 0 is 500 ms
	MaxBytes int           // of a batch, but a larger first record comes whole; 0 is 1 MiB
	OnGap    OnGap
	// Pause is the least time between two requests, where the answer to the first was far
	// from full: then one of them brings what several would have. 0 is none.
	Pause time.Duration
}

// Reader reads one partition in order, from an offset that it knows and moves on by
// itself: no batch, hole, marker or aborted transaction makes it stand still. It
// belongs to one goroutine.
type Reader struct {
	client *Client
	tp     TopicPartition
	next   int64
	opt    ReadOptions
	dec    decoder
}

// Batch is what one answer held: messages in order, none if only holes, markers or
// aborted records were there, or nothing new came. Its memory is not used again.
type Batch struct {
	TopicPartition
	Messages []topics.Message
	// Next is the offset to go on with: the last message's plus one or, behind holes, more.
	Next int64
	// End is behind the last committed record at the time of the answer; HighWater is
	// behind the last record of all.
	End, HighWater int64
}

// Read reads tp from an offset, or from First or Last.
func (c *Client) Read(tp TopicPartition, from int64, opt ReadOptions) *Reader {
	if opt.MaxWait <= 0 {
		opt.MaxWait = 500 * time.Millisecond
	}
	if opt.MaxBytes <= 0 {
		opt.MaxBytes = 1 << 20
	}
	return &Reader{client: c, tp: tp, next: from, opt: opt}
}

// Next waits for the next batch, no longer than MaxWait once the leader answers. A
// leader that moves, a connection that breaks and a broker that is away are waited
// for, up to Config.Patience. A topic or partition that is not there, a missing right
// and damaged data are exit 4; a gap is a *GapError.
func (r *Reader) Next(ctx context.Context) (Batch, error) {
	if r.next < 0 {
		if err := r.resolve(ctx); err != nil {
			return Batch{}, r.client.explain(r.tp.String(), err)
		}
	}
	var res *fetched
	err := r.client.retry(ctx, r.tp.String(), func(ctx context.Context) error {
		var err error
		res, err = r.client.fetch(ctx, r.tp, r.next, r.opt.MaxWait, int32(r.opt.MaxBytes))
		return err
	})
	if errors.Is(err, kgo.OffsetOutOfRange) {
		return r.gap(ctx)
	}
	if err != nil {
		return Batch{}, r.client.explain(r.tp.String(), err)
	}
	b := Batch{TopicPartition: r.tp, End: res.stable, HighWater: res.highWater}
	b.Messages, b.Next, err = r.dec.decode(nil, res.batches, r.tp.Partition, r.next, res.gone)
	if err != nil {
		return Batch{}, r.client.explain(r.tp.String(), err)
	}
	r.next = b.Next
	return b, nil
}

// At is the offset that is read next, First or Last before the first Next.
func (r *Reader) At() int64 { return r.next }

func (r *Reader) resolve(ctx context.Context) error {
	first, end, err := r.client.bounds(ctx, r.tp)
	if err != nil {
		return err
	}
	if r.next == Last {
		r.next = end
	} else {
		r.next = first
	}
	return nil
}

func (r *Reader) gap(ctx context.Context) (Batch, error) {
	first, end, err := r.client.bounds(ctx, r.tp)
	if err != nil {
		return Batch{}, r.client.explain(r.tp.String(), err)
	}
	gap := &GapError{TopicPartition: r.tp, Want: r.next, First: first, End: end}
	if r.opt.OnGap == FailOnGap {
		return Batch{}, &evalstream.ExitError{
			Code: evalstream.ExitLost, Err: gap,
			Hint: "raise the topic's retention; to go on without these records, reset the group's offsets",
		}
	}
	r.client.conf.log().WarnContext(ctx, "gap", "because", gap)
	r.next = first
	return Batch{TopicPartition: r.tp, Next: first, End: end, HighWater: end}, nil
}

// Message reads the message at an offset; ok = false if none is there any more, or it
// was not committed.
func (c *Client) Message(ctx context.Context, tp TopicPartition, offset int64) (m topics.Message, ok bool, err error) {
	first, end, err := c.bounds(ctx, tp)
	if err != nil {
		return m, false, c.explain(tp.String(), err)
	}
	if offset < first || offset >= end {
		return m, false, nil
	}
	err = c.scan(ctx, tp, offset, offset+1, ReadOptions{MaxBytes: 1, OnGap: SkipGap}, func(b Batch) error {
		if len(b.Messages) > 0 && !ok {
			ok, m = b.Messages[0].Offset == offset, clone(b.Messages[0])
		}
		return nil
	})
	return m, ok, err
}

// scan reads tp from an offset to end, which must be stable, and gives each batch to f
// while the next one is being fetched. The last batch may go beyond end.
func (c *Client) scan(ctx context.Context, tp TopicPartition, from, end int64, opt ReadOptions, f func(Batch) error) error {
	ctx, cancel := context.WithCancel(ctx)
	batches := make(chan Batch)
	var failed error // set before batches is closed
	go func() {
		defer close(batches)
		failed = c.readTo(ctx, tp, from, end, opt, batches)
	}()
	var err error
	for b := range batches {
		if err == nil {
			if err = f(b); err != nil {
				cancel()
			}
		}
	}
	cancel()
	if err != nil {
		return err
	}
	return failed
}

func (c *Client) readTo(ctx context.Context, tp TopicPartition, from, end int64, opt ReadOptions, batches chan<- Batch) error {
	r := c.Read(tp, from, opt)
	// Compaction may leave nothing at all before the end: then no answer moves on. A
	// broker that is busy may answer with nothing too, so one such answer says little.
	for still := 0; end > 0 && r.At() < end && still < 3; {
		at := r.At()
		b, err := r.Next(ctx)
		if err != nil {
			return err
		}
		if b.Next == at && b.End >= end {
			still++
			continue
		}
		still = 0
		select {
		case batches <- b:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// bounds are the first offset of tp and the one behind its last committed record.
func (c *Client) bounds(ctx context.Context, tp TopicPartition) (first, end int64, err error) {
	if first, err = c.offset(ctx, tp, First); err != nil {
		return 0, 0, err
	}
	end, err = c.offset(ctx, tp, Last)
	return first, end, err
}

// closed waits until no transaction is open in tp: as long as one is, what it holds is
// neither there nor not there.
func (c *Client) closed(ctx context.Context, tp TopicPartition) error {
	return c.retry(ctx, tp.String(), func(ctx context.Context) error {
		end, err := c.askOffset(ctx, tp, Last, readUncommitted)
		if err != nil {
			return err
		}
		stable, err := c.askOffset(ctx, tp, Last, readCommitted)
		if err == nil && stable < end {
			return kgo.UnstableOffsetCommit
		}
		return err
	})
}

// settling is how long transactions that are under way are waited for.
const settling = time.Second

// settledEnd is the offset behind the last committed record, when the transactions that
// are under way have ended, or at a time: that one is committed is answered before it can
// be seen.
func (c *Client) settledEnd(ctx context.Context, tp TopicPartition, at time.Time) (int64, error) {
	var all int64
	err := c.retry(ctx, tp.String(), func(ctx context.Context) (err error) {
		all, err = c.askOffset(ctx, tp, Last, readUncommitted)
		return err
	})
	if err != nil {
		return 0, err
	}
	for {
		end, err := c.offset(ctx, tp, Last)
		if err != nil || end >= all || time.Now().After(at) {
			return end, err
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

func (c *Client) offset(ctx context.Context, tp TopicPartition, at int64) (offset int64, err error) {
	err = c.retry(ctx, tp.String(), func(ctx context.Context) error {
		var err error
		offset, err = c.askOffset(ctx, tp, at, readCommitted)
		return err
	})
	return offset, err
}

// Isolation levels of Kafka.
const (
	readUncommitted int8 = 0
	readCommitted   int8 = 1
)

func (c *Client) askOffset(ctx context.Context, tp TopicPartition, at int64, isolation int8) (offset int64, err error) {
	broker, err := c.leader(ctx, tp)
	if err != nil {
		return 0, err
	}
	res, err := c.do(ctx, broker, &listoffsets.Request{
		ReplicaID: -1, IsolationLevel: isolation,
		Topics: []listoffsets.RequestTopic{{Topic: tp.Topic, Partitions: []listoffsets.RequestPartition{
			{Partition: tp.Partition, CurrentLeaderEpoch: -1, Timestamp: at},
		}}},
	})
	if err == nil {
		err = kgo.UnknownTopicOrPartition
		if m := res.(*listoffsets.Response); len(m.Topics) == 1 && len(m.Topics[0].Partitions) == 1 {
			p := m.Topics[0].Partitions[0]
			if err = nil; p.ErrorCode != 0 {
				err = kgo.Error(p.ErrorCode)
			}
			offset = p.Offset
		}
	}
	if err != nil && ctx.Err() == nil && staleLeader(err) {
		c.forget(tp.Topic)
	}
	return offset, err
}
