package kafka

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"evalstream"
)

// DefaultMaxLine is the longest value that is delivered whole, in bytes.
const DefaultMaxLine = 16 << 20

// SourceOptions say what a Source reads.
type SourceOptions struct {
	Topic      string
	Partitions []int32         // nil: all
	From       map[int32]int64 // where each goes on; First where it is not named
	// UntilEnd ends the source at the ends that the partitions had when it was made.
	UntilEnd bool
	// RecordTime gives records the topic's timestamp as their time.
	RecordTime bool
	MaxLine    int // in bytes; 0 is DefaultMaxLine
	Read       ReadOptions
}

// Source gives the records of a topic's partitions to a job: a message's value is the
// line, its offset the Seq and the position. Tombstones are left out and counted.
type Source struct {
	opt     SourceOptions
	count   int32
	batches chan Batch
	cancel  context.CancelCauseFunc
	ctx     context.Context //nolint:containedctx // the life of the readers, which Close ends
	wg      sync.WaitGroup
	origins map[int32]*evalstream.Origin
	ends    map[int32]int64 // of the partitions that have not come to their end

	rest       Batch // of the last batch, what was not handed over yet
	tombstones atomic.Int64
}

// NewSource starts to read; Close ends it. The topic must be there.
func (c *Client) NewSource(ctx context.Context, opt SourceOptions) (*Source, error) {
	n, err := c.Partitions(ctx, opt.Topic)
	if err != nil {
		return nil, err
	}
	if opt.Partitions == nil {
		for p := range n {
			opt.Partitions = append(opt.Partitions, p)
		}
	}
	if opt.MaxLine <= 0 {
		opt.MaxLine = DefaultMaxLine
	}
	s := &Source{opt: opt, count: n, batches: make(chan Batch), origins: map[int32]*evalstream.Origin{}, ends: map[int32]int64{}}
	from := map[int32]int64{}
	for _, p := range opt.Partitions {
		if p < 0 || p >= n {
			return nil, fmt.Errorf("%s: want a partition below %d, got %d", opt.Topic, n, p)
		}
		first, end, err := c.bounds(ctx, TopicPartition{opt.Topic, p})
		if err != nil {
			return nil, c.explain(opt.Topic, err)
		}
		at, ok := opt.From[p]
		if !ok || at == First {
			at = first
		}
		if at > end {
			return nil, &evalstream.ExitError{
				Code: evalstream.ExitLost, Err: &GapError{TopicPartition: TopicPartition{opt.Topic, p}, Want: at, First: first, End: end},
				Hint: "the topic is not the one that was read before: read it from its start",
			}
		}
		from[p] = at
		s.origins[p] = &evalstream.Origin{Name: opt.Topic, Topic: true, Partition: p}
		if !opt.UntilEnd || at < end {
			s.ends[p] = end
		}
	}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	for p := range s.ends {
		s.wg.Go(func() {
			s.cancel(c.pump(s.ctx, TopicPartition{opt.Topic, p}, from[p], opt.Read, s.batches, new(fetching)))
		})
	}
	return s, nil
}

// Count is how many partitions the topic has.
func (s *Source) Count() int32 { return s.count }

// Tombstones is how many messages without a value were left out.
func (s *Source) Tombstones() int64 { return s.tombstones.Load() }

// Drain makes Read return io.EOF once what it has begun is handed over.
func (s *Source) Drain() { s.cancel(io.EOF) }

// Close ends the readers.
func (s *Source) Close() error {
	s.cancel(io.EOF)
	s.wg.Wait()
	return nil
}

// Read fills b with the next records of one partition.
func (s *Source) Read(ctx context.Context, b *evalstream.Block) error {
	for {
		if len(s.rest.Messages) > 0 {
			if s.fill(b) {
				return nil
			}
			continue
		}
		if s.opt.UntilEnd && len(s.ends) == 0 {
			return io.EOF
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		case batch := <-s.batches:
			s.take(batch)
		}
	}
}

// take notes a batch, up to the end that is asked for.
func (s *Source) take(batch Batch) {
	end, open := s.ends[batch.Partition]
	if s.opt.UntilEnd {
		if !open {
			return
		}
		for n := len(batch.Messages); n > 0 && batch.Messages[n-1].Offset >= end; n-- {
			batch.Messages = batch.Messages[:n-1]
		}
		if batch.Next >= end {
			delete(s.ends, batch.Partition)
		}
	}
	s.rest = batch
}

// fill hands over records up to one that is too long, or that one; false if there were
// only tombstones.
func (s *Source) fill(b *evalstream.Block) bool {
	msgs := s.rest.Messages
	origin := s.origins[s.rest.Partition]
	b.Data, b.Records, b.Long, b.Unterminated, b.Partition = nil, nil, 0, false, s.rest.Partition
	for i := range msgs {
		m := &msgs[i]
		pos := evalstream.Pos{Origin: origin, Line: m.Offset}
		if len(m.Value) > s.opt.MaxLine {
			if b.Records == nil {
				const head = 256
				b.Data, b.Long = append(b.Buf[:0], m.Value[:min(head, len(m.Value))]...), int64(len(m.Value))
				b.Buf = b.Data
				b.First, b.At = evalstream.Seq(m.Offset), pos
				i++
			}
			s.rest.Messages = msgs[i:]
			return true
		}
		if m.Value == nil {
			s.tombstones.Add(1)
			continue
		}
		r := evalstream.Record{Raw: m.Value, Seq: evalstream.Seq(m.Offset), Pos: pos, Time: evalstream.NoTime}
		if s.opt.RecordTime && m.Millis >= 0 && m.Millis < 9_000_000_000_000 {
			r.Time = evalstream.Time(m.Millis * 1_000_000)
		}
		if b.Records == nil {
			b.First, b.At = r.Seq, r.Pos
			b.Records = make([]evalstream.Record, 0, len(msgs)-i)
		}
		b.Records = append(b.Records, r)
	}
	s.rest.Messages = nil
	return b.Records != nil
}
