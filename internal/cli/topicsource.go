package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"evalstream"
	"evalstream/topics/kafka"
)

// topicSource reads topics of equal partition counts as one: partition p of each is
// partition p. Records are numbered in the order in which they come, which is that of
// the offsets within a topic, and not known between topics.
type topicSource struct {
	sources  []*kafka.Source
	next     map[int32]evalstream.Seq // of the next record, a partition
	blocks   chan evalstream.Block
	ctx      context.Context //nolint:containedctx // the life of the feeders, which Close ends
	cancel   context.CancelCauseFunc
	wg       sync.WaitGroup
	draining atomic.Bool
	bytes    atomic.Int64
}

func newTopicSource(ctx context.Context) *topicSource {
	s := &topicSource{next: map[int32]evalstream.Seq{}, blocks: make(chan evalstream.Block)}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	return s
}

// start lets the topics be read.
func (s *topicSource) start() {
	var feeders sync.WaitGroup
	for _, one := range s.sources {
		feeders.Go(func() { s.feed(one) })
	}
	s.wg.Go(func() {
		feeders.Wait()
		close(s.blocks)
	})
}

func (s *topicSource) feed(from *kafka.Source) {
	for {
		var b evalstream.Block
		if err := from.Read(s.ctx, &b); err != nil {
			if !errors.Is(err, io.EOF) {
				s.cancel(err)
			}
			return
		}
		select {
		case s.blocks <- b:
		case <-s.ctx.Done():
			return
		}
	}
}

// Read gives the next block of any topic. After Drain the input is paused, not at its end.
func (s *topicSource) Read(ctx context.Context, b *evalstream.Block) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case block, ok := <-s.blocks:
		switch {
		case ok:
			*b = block
		case s.ctx.Err() != nil:
			return context.Cause(s.ctx)
		case s.draining.Load():
			return evalstream.ErrPaused
		default:
			return io.EOF
		}
	}
	b.First = s.next[b.Partition]
	if b.Data != nil { // a line that is too long
		s.next[b.Partition]++
		s.bytes.Add(b.Long)
		return nil
	}
	for i := range b.Records {
		b.Records[i].Seq = s.next[b.Partition]
		s.next[b.Partition]++
		s.bytes.Add(int64(len(b.Records[i].Raw)))
	}
	return nil
}

// Drain ends reading once what has begun is handed over.
func (s *topicSource) Drain() {
	s.draining.Store(true)
	for _, one := range s.sources {
		one.Drain()
	}
}

// Progress is how many bytes of values were read; how many there are is not known.
func (s *topicSource) Progress() (read, total int64, known bool) { return s.bytes.Load(), 0, false }

// Close ends the readers.
func (s *topicSource) Close() error {
	s.cancel(io.EOF)
	s.wg.Wait()
	var err error
	for _, one := range s.sources {
		err = errors.Join(err, one.Close())
	}
	return err
}

// notes says how many tombstones were left out.
func (s *topicSource) notes() []string {
	var n int64
	for _, one := range s.sources {
		n += one.Tombstones()
	}
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s of the topics left out: they retract nothing", plural(n, "tombstone"))}
}
