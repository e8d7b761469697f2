package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"evalstream"
	"evalstream/topics"
)

// HeaderKind is the header that tells a mark from the records around it; its value is
// "mark".
const HeaderKind = "evalstream_kind"

// segmentSource reads partition p of all topics of a segment as one. Records are numbered
// in the order in which they come: that of the offsets within a topic, and any between
// topics.
type segmentSource struct {
	seg      *Segment
	p        int32
	batches  chan Batch
	ctx      context.Context //nolint:containedctx // the life of the readers, which Close ends
	cancel   context.CancelCauseFunc
	wg       sync.WaitGroup
	draining chan struct{}
	once     sync.Once

	next  map[string]int64    // a topic
	away  []evalstream.Cursor // of topics that were read once and are not now
	stop  map[string]int64    // where to end; nil: nowhere
	seq   evalstream.Seq
	marks []evalstream.Mark
	reach *evalstream.Reach // nil until something has come
	told  bool              // reach has been handed over
	rest  Batch             // of the last batch, what was not handed over yet
	part  bool              // there is a rest
	after *segmentSource    // that was read before this one; its marks and numbers go on here
	whole bool              // stop holds for topics between steps too
	begun func()            // called at the first Read; nil: nobody wants to know
	began sync.Once

	heard   atomic.Pointer[[]evalstream.Mark] // marks, for others to see
	fetched map[string]*fetching              // a topic
	read    map[string]*atomic.Int64          // next, for others to see
}

// newSource starts to read at from; Close ends it. stop, if it is not nil, says where the
// topics at the front end, and with whole, where all do.
func (s *Segment) newSource(ctx context.Context, p int32, from, stop map[string]int64, whole bool, cp *evalstream.Checkpoint) (*segmentSource, error) {
	src := &segmentSource{
		seg: s, p: p, whole: whole, batches: make(chan Batch), draining: make(chan struct{}), next: map[string]int64{}, stop: stop,
		fetched: map[string]*fetching{}, read: map[string]*atomic.Int64{},
	}
	if cp != nil {
		src.seq = cp.Next
		if cp.Reach != nil {
			src.marks = slices.Clone(cp.Reach.Marks)
			src.away = slices.DeleteFunc(slices.Clone(cp.Reach.Next), func(c evalstream.Cursor) bool { return slices.Contains(s.From, c.Origin.Name) })
		}
	}
	for _, topic := range s.From {
		tp := TopicPartition{topic, p}
		first, end, err := s.Client.bounds(ctx, tp)
		if err != nil {
			return nil, s.Client.explain(tp.String(), err)
		}
		at := from[topic]
		if at < 0 {
			at = first
		}
		if at > end {
			return nil, missing(&GapError{TopicPartition: tp, Want: at, First: first, End: end})
		}
		src.next[topic] = at
		f, read := new(fetching), new(atomic.Int64)
		f.answered.Store(time.Now().UnixNano())
		f.end.Store(end)
		f.high.Store(end)
		read.Store(at)
		src.fetched[topic], src.read[topic] = f, read
	}
	src.reach = src.reached()
	src.hear()
	src.ctx, src.cancel = context.WithCancelCause(ctx)
	for _, topic := range s.From {
		if src.bounded(topic) && src.next[topic] >= stop[topic] {
			delete(src.fetched, topic)
			continue
		}
		from, f := src.next[topic], src.fetched[topic]
		src.wg.Go(func() {
			src.cancel(missing(s.Client.pump(src.ctx, TopicPartition{topic, p}, from, ReadOptions{Pause: fetchPause}, src.batches, f)))
		})
	}
	return src, nil
}

// missing says what to do where a pipeline cannot read on for a gap.
func missing(err error) error {
	gap, ok := errors.AsType[*GapError](err)
	if !ok {
		return err
	}
	hint := "raise the topic's retention; evalstream topics reset PIPELINE.yaml lets it be read from what is there"
	if gap.Want > gap.End {
		hint = "the topic is not the one that was read before; evalstream topics reset PIPELINE.yaml lets it be read from its start"
	}
	return &evalstream.ExitError{Code: evalstream.ExitLost, Err: gap, Hint: hint}
}

// Drain makes Read say that the input is paused.
func (s *segmentSource) Drain() { s.once.Do(func() { close(s.draining) }) }

// Close ends the readers.
func (s *segmentSource) Close() {
	s.cancel(io.EOF)
	s.wg.Wait()
}

// Read fills b with the next records of one topic.
func (s *segmentSource) Read(ctx context.Context, b *evalstream.Block) error {
	if s.after != nil {
		s.seq, s.marks = s.after.seq, s.after.marks
		s.after = nil
		s.reach = s.reached()
		s.hear()
	}
	if s.begun != nil {
		s.began.Do(s.begun)
	}
	b.Partition = s.p
	for {
		if !s.told { // so that marks say from the start where this one stands
			s.told = true
			b.Reach = s.reach
			return nil
		}
		if s.part {
			if err := s.fill(b); err != nil {
				return err
			}
			return nil
		}
		if s.ended() {
			return io.EOF
		}
		select {
		case <-s.draining:
			return evalstream.ErrPaused
		default:
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		case <-s.draining:
			return evalstream.ErrPaused
		case batch := <-s.batches:
			s.take(batch)
		}
	}
}

// take notes a batch, up to the end that is asked for.
func (s *segmentSource) take(batch Batch) {
	topic := batch.Topic
	if end := s.stop[topic]; s.bounded(topic) {
		if s.next[topic] >= end {
			return
		}
		for n := len(batch.Messages); n > 0 && batch.Messages[n-1].Offset >= end; n-- {
			batch.Messages = batch.Messages[:n-1]
		}
		batch.Next = min(batch.Next, end)
	}
	s.rest, s.part = batch, true
}

// bounded reports whether the topic is read up to an offset, and no further.
func (s *segmentSource) bounded(topic string) bool {
	return s.stop != nil && (s.whole || !s.seg.marked(topic))
}

// CaughtUp is when the leaders of the topics at the front last said that nothing is behind
// what was handed over.
func (s *segmentSource) CaughtUp(int32) time.Time {
	at := time.Now().UnixNano()
	for topic, f := range s.fetched {
		if s.seg.marked(topic) {
			continue
		}
		answered, end := f.answered.Load(), f.high.Load()
		if s.bounded(topic) {
			end = min(end, s.stop[topic])
		}
		if s.read[topic].Load() < end {
			return time.Time{}
		}
		at = min(at, answered)
	}
	return time.Unix(0, at)
}

// ended reports whether everything that is asked for has been handed over.
func (s *segmentSource) ended() bool {
	if s.stop == nil {
		return false
	}
	for _, topic := range s.seg.From {
		if s.bounded(topic) && s.next[topic] < s.stop[topic] {
			return false
		}
		if !s.bounded(topic) {
			if _, ended := s.seg.unfinished(s.marks); !ended {
				return false
			}
		}
	}
	return true
}

// frontRead reports whether the topics at the front are read to their ends, where the step
// before has to say when the rest is. Others may ask.
func (s *segmentSource) frontRead() bool {
	if s.stop == nil || !s.seg.Marked() {
		return false
	}
	for _, topic := range s.seg.Front {
		if s.read[topic].Load() < s.stop[topic] {
			return false
		}
	}
	return true
}

// unfinished are the partitions of the step before that have not ended at or behind the
// ends that the topics at the front have, by their marks; ended says that all have.
func (s *Segment) unfinished(marks []evalstream.Mark) (partitions []int32, ended bool) {
	if len(marks) == 0 {
		return nil, false
	}
	at := map[TopicPartition]int64{}
	for _, c := range throughOf(marks) {
		at[TopicPartition{c.Origin.Name, c.Origin.Partition}] = c.Next
	}
	ended = true
	for tp, end := range s.FrontEnds {
		if !s.marked(tp.Topic) {
			continue // read here, and not by the step before
		}
		if next, ok := at[tp]; !ok || next < end {
			ended = false
		}
	}
	for i := range marks {
		m := &marks[i]
		short := slices.ContainsFunc(m.Through, func(c evalstream.Cursor) bool {
			return c.Next < s.FrontEnds[TopicPartition{c.Origin.Name, c.Origin.Partition}]
		})
		if !m.Ended || short {
			partitions = append(partitions, int32(i))
		}
	}
	return partitions, ended && len(partitions) == 0
}

// fill hands over records up to one that is too long, or that one.
func (s *segmentSource) fill(b *evalstream.Block) error {
	topic := s.rest.Topic
	msgs := s.rest.Messages
	origin := s.seg.origin(topic, s.p)
	for i := range msgs {
		m := &msgs[i]
		pos := evalstream.Pos{Origin: origin, Line: m.Offset}
		if kind, ok := m.Header(HeaderKind); ok && string(kind) == "mark" {
			if err := s.mark(m, pos); err != nil {
				return err
			}
			continue
		}
		if m.Value == nil {
			s.seg.tombstones.Add(1)
			continue
		}
		if len(m.Value) > s.seg.maxLine() {
			if b.Records == nil {
				const head = 256
				b.Data, b.Long = append(b.Buf[:0], m.Value[:min(head, len(m.Value))]...), int64(len(m.Value))
				b.Buf = b.Data
				b.First, b.At = s.seq, pos
				s.seq++
				i++
			}
			if i < len(msgs) {
				s.rest.Messages = msgs[i:]
				s.pass(b, topic, msgs[i-1].Offset+1)
				return nil
			}
			break
		}
		r := evalstream.Record{Raw: m.Value, Seq: s.seq, Pos: pos, Time: evalstream.NoTime}
		if s.seg.RecordTime && !s.seg.marked(topic) && m.Millis >= 0 && m.Millis < 9_000_000_000_000 {
			r.Time = evalstream.Time(m.Millis * 1_000_000)
		}
		if b.Records == nil {
			b.First, b.At = r.Seq, r.Pos
			b.Records = make([]evalstream.Record, 0, len(msgs)-i)
		}
		b.Records = append(b.Records, r)
		s.seq++
	}
	s.part = false
	s.pass(b, topic, s.rest.Next)
	return nil
}

// pass notes how far the source has come with b.
func (s *segmentSource) pass(b *evalstream.Block, topic string, next int64) {
	s.next[topic] = max(next, s.next[topic])
	s.reach = s.reached()
	b.Reach = s.reach
	s.read[topic].Store(s.next[topic])
}

// mark takes in a mark of a partition of the step before.
func (s *segmentSource) mark(m *topics.Message, at evalstream.Pos) error {
	mark, err := s.seg.DecodeMark(m.Value)
	if err != nil {
		return &evalstream.ExitError{Code: evalstream.ExitLost, Err: fmt.Errorf("%v: %w", at, err), Hint: "only evalstream writes to topics between steps"}
	}
	if len(s.marks) != int(mark.Partitions) {
		marks := make([]evalstream.Mark, mark.Partitions)
		copy(marks, s.marks)
		s.marks = marks
	} else {
		s.marks = slices.Clone(s.marks) // a Reach is never changed
	}
	old := &s.marks[mark.Partition]
	if old.Step != "" { // a step that has just been taken over may know less than the former owner said
		mark.Watermark = max(mark.Watermark, old.Watermark)
	}
	*old = *mark
	s.hear()
	return nil
}

// hear lets others see the marks, which are never changed once they are here.
func (s *segmentSource) hear() {
	if marks := s.marks; marks != nil {
		s.heard.Store(&marks)
	}
}

// reached is how far the source has come.
func (s *segmentSource) reached() *evalstream.Reach {
	r := &evalstream.Reach{Watermark: evalstream.NoTime}
	var front []evalstream.Cursor
	for _, topic := range s.seg.From {
		c := evalstream.Cursor{Origin: *s.seg.origin(topic, s.p), Next: s.next[topic]}
		r.Next = append(r.Next, c)
		if !s.seg.marked(topic) {
			front = append(front, c)
		}
	}
	own := r.Next
	r.Next = append(slices.Clip(own), s.away...) // they may be read again
	if !s.seg.Marked() {
		r.Through = own
		return r
	}
	r.Marks = s.marks
	if r.Through = throughOf(s.marks); r.Through != nil {
		r.Through = append(r.Through, front...)
	}
	r.Watermark = watermarkOf(s.marks)
	return r
}

// throughOf is how far the topics at the front have come by all marks; nil before all
// have said it.
func throughOf(marks []evalstream.Mark) []evalstream.Cursor {
	least := map[evalstream.Origin]int64{}
	for i := range marks {
		if len(marks[i].Through) == 0 {
			return nil
		}
		for _, c := range marks[i].Through {
			if next, ok := least[c.Origin]; !ok || c.Next < next {
				least[c.Origin] = c.Next
			}
		}
	}
	var all []evalstream.Cursor
	for _, o := range slices.SortedFunc(maps.Keys(least), func(a, b evalstream.Origin) int {
		return comparePartitions(TopicPartition{a.Name, a.Partition}, TopicPartition{b.Name, b.Partition})
	}) {
		all = append(all, evalstream.Cursor{Origin: o, Next: least[o]})
	}
	return all
}

// watermarkOf is the least of the marks', without those of idle partitions if there are
// others; NoTime before all have spoken.
func watermarkOf(marks []evalstream.Mark) evalstream.Time {
	least, all := evalstream.EndOfTime, evalstream.EndOfTime
	for i := range marks {
		if marks[i].Step == "" {
			return evalstream.NoTime
		}
		all = min(all, marks[i].Watermark)
		if !marks[i].Idle {
			least = min(least, marks[i].Watermark)
		}
	}
	switch {
	case len(marks) == 0:
		return evalstream.NoTime
	case least == evalstream.EndOfTime:
		return all
	}
	return least
}
