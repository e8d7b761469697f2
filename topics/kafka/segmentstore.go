package kafka

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"evalstream"
	"evalstream/topics"
)

// segmentStore is the store of one partition's job: what it commits goes into one
// transaction with what the job has written since the last commit, and with the offsets
// of what it has read.
//
// A commit returns when it is handed over, so the job goes on meanwhile; it waits only
// where much is handed over already. A failed one fails the sink, and that the job.
type segmentStore struct {
	seg   *Segment
	p     int32
	sink  *Sink
	ctx   context.Context  //nolint:containedctx // the owner's: a store's methods have none
	log   *Changelog       // nil: not even the position is kept
	cache evalstream.Store // nil: there is none, or none any more
	point *evalstream.Checkpoint

	entries int64 // of the changelog that were read

	mu      sync.Mutex
	pending []Output
	spare   []Output // empty: the memory of those that were handed over
	failed  error    // of the cache
	handed  []handover

	tooLarge atomic.Int64 // records that their topic does not take
}

// handover is what one commit has handed over, until it takes effect.
type handover struct {
	at       time.Time
	messages int64
}

// underWay is how many messages were handed over and have not taken effect, and since
// when.
func (s *segmentStore) underWay() (messages int64, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.handed {
		messages += h.messages
	}
	if len(s.handed) > 0 {
		since = s.handed[0].at
	}
	return messages, since
}

func (s *segmentStore) hand(messages int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handed = append(s.handed, handover{time.Now(), int64(messages)})
}

// settled notes that the oldest handover has taken effect.
func (s *segmentStore) settled() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handed = s.handed[1:]
}

func (s *segmentStore) open(ctx context.Context) error {
	topic := s.seg.Changelog()
	if topic == "" || s.p >= s.seg.count(topic) { // of an input that has grown
		return nil
	}
	opt := ChangelogOptions{Topic: topic, Partition: s.p, Partitions: s.seg.count(s.seg.From[0]), Codec: s.seg.Codec}
	var err error
	if s.seg.Remembers {
		opt.Options, opt.Progress = s.seg.Options, func(n int64) { s.entries = n }
		if s.cache, opt.Clear, err = s.seg.Cache(s.p); err != nil {
			return err
		}
		opt.Cache = s.cache
		s.log, err = s.seg.Client.OpenChangelog(ctx, opt)
	} else {
		s.log, err = s.seg.Client.OpenPosition(ctx, opt)
	}
	if err != nil {
		return err
	}
	s.point = s.log.Checkpoint()
	return nil
}

// close lets the cache go.
func (s *segmentStore) close() error {
	c, ok := s.cache.(io.Closer)
	s.cache = nil
	if !ok {
		return nil
	}
	return c.Close()
}

// Partitions is the partition, if it has a checkpoint.
func (s *segmentStore) Partitions() ([]int32, error) {
	if s.point == nil {
		return nil, nil
	}
	return []int32{s.p}, nil
}

// Checkpoint is the one that was loaded.
func (s *segmentStore) Checkpoint(int32) (*evalstream.Checkpoint, error) { return s.point, nil }

// Scan reads entries from the cache, once they are there.
func (s *segmentStore) Scan(step string, p int32, from []byte, f func(key, val []byte) (bool, error)) error {
	if !s.seg.Remembers {
		return nil
	}
	if err := s.settle(); err != nil {
		return err
	}
	if s.cache == nil {
		return errWhole
	}
	return s.cache.Scan(step, p, from, f)
}

// Get reads an entry from the cache, once it is there.
func (s *segmentStore) Get(dst []byte, step string, p int32, key []byte) ([]byte, bool, error) {
	if !s.seg.Remembers {
		return dst, false, nil
	}
	if err := s.settle(); err != nil {
		return dst, false, err
	}
	if s.cache == nil {
		return dst, false, errWhole
	}
	return s.cache.Get(dst, step, p, key)
}

// errWhole is a bug of whoever set Segment.Whole.
var errWhole = errors.New("state was let go, and is read back")

// settle waits until everything that was committed is in the cache.
func (s *segmentStore) settle() error {
	if err := s.sink.Drain(s.ctx); err != nil {
		return err
	}
	return s.fault()
}

func (s *segmentStore) fault() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// Ready reports whether no transaction is under way, and nothing of this one waits for
// the next.
func (s *segmentStore) Ready(int32) bool {
	s.mu.Lock()
	waits := len(s.handed) > 0
	s.mu.Unlock()
	return !waits && s.sink.Ready()
}

// End commits what was made at the end of the input.
func (s *segmentStore) End(p int32, cp *evalstream.Checkpoint) error { return s.Commit(p, nil, cp) }

// Commit hands a transaction over.
func (s *segmentStore) Commit(_ int32, changes []evalstream.StepChanges, cp *evalstream.Checkpoint) error {
	if err := s.fault(); err != nil {
		return err
	}
	u := Unit{Outputs: s.take(), Offsets: map[TopicPartition]int64{}, Done: func(int64) { s.settled() }}
	if cp.Reach != nil {
		for _, c := range cp.Reach.Next {
			if slices.Contains(s.seg.From, c.Origin.Name) { // the others may be gone
				u.Offsets[TopicPartition{c.Origin.Name, c.Origin.Partition}] = c.Next
			}
		}
	}
	if s.log != nil {
		var err error
		if u.Outputs, err = s.log.Append(u.Outputs, changes, cp); err != nil {
			return err
		}
	}
	switch {
	case s.log == nil || !s.seg.Remembers:
	case s.seg.Whole:
		if err := s.close(); err != nil {
			return err
		}
	default:
		kept, point := copied(changes), *cp
		u.Log = TopicPartition{s.seg.Changelog(), s.p}
		u.Done = func(end int64) {
			s.settled()
			if err := s.log.Apply(kept, &point, end); err != nil {
				s.mu.Lock()
				s.failed = err
				s.mu.Unlock()
			}
		}
	}
	s.hand(len(u.Outputs))
	if err := s.sink.Put(s.ctx, u); err != nil {
		return err
	}
	s.mu.Lock()
	clear(u.Outputs)
	s.spare = u.Outputs[:0]
	s.mu.Unlock()
	return s.sink.Flush(s.ctx)
}

func (s *segmentStore) take() []Output {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.pending
	s.pending, s.spare = s.spare, nil
	return out
}

func (s *segmentStore) add(o ...Output) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = append(s.pending, o...)
}

// copied is changes in memory of their own: stages use theirs again.
func copied(changes []evalstream.StepChanges) []evalstream.StepChanges {
	all := make([]evalstream.StepChanges, len(changes))
	for i, c := range changes {
		all[i] = evalstream.StepChanges{Step: c.Step, Changes: make([]evalstream.Change, len(c.Changes))}
		for k, ch := range c.Changes {
			all[i].Changes[k] = evalstream.Change{Key: slices.Clone(ch.Key), Val: slices.Clone(ch.Val)}
		}
	}
	return all
}

// segmentOutput gathers what a job writes until its next commit.
type segmentOutput struct {
	seg     *Segment
	store   *segmentStore
	topic   string          // "" if what is written goes to next alone
	next    evalstream.Sink // nil: nowhere
	rejects bool            // next is told what goes to the topic too
	arena   []byte          // for the messages to come
	batch   []Output
}

// Write makes messages of records.
func (o *segmentOutput) Write(ctx context.Context, recs []evalstream.Record) error {
	if seen := o.seg.Seen; seen != nil && !o.rejects {
		seen(recs)
	}
	if o.next != nil && (o.rejects || o.topic == "") {
		if err := o.next.Write(ctx, recs); err != nil {
			return err
		}
	}
	if o.topic == "" {
		return nil
	}
	n := o.seg.count(o.topic)
	for i := range recs {
		const chunk, room = 64 << 10, 4 << 10
		if cap(o.arena)-len(o.arena) < room {
			o.arena = make([]byte, 0, chunk)
		}
		rest, m, route, all, ok := o.seg.Encode(o.arena, &recs[i])
		if !ok {
			continue
		}
		if o.arena = rest; cap(rest) > chunk { // a long one does not hold those behind it
			o.arena = nil
		}
		if err := o.store.sink.Check(ctx, o.topic, &m); err != nil {
			if !isType[*TooLargeError](err) {
				return err
			}
			if err := o.tooLarge(ctx, &recs[i], err); err != nil {
				return err
			}
			continue
		}
		if !all {
			o.batch = append(o.batch, o.to(Partition(route, n), m))
			continue
		}
		for p := range n {
			o.batch = append(o.batch, o.to(p, m))
		}
	}
	o.store.add(o.batch...)
	clear(o.batch)
	o.batch = o.batch[:0]
	return nil
}

func (o *segmentOutput) to(p int32, m topics.Message) Output {
	m.Partition = p
	return Output{To: TopicPartition{o.topic, p}, Message: m}
}

// tooLarge sets a record aside that its topic does not take.
func (o *segmentOutput) tooLarge(ctx context.Context, r *evalstream.Record, cause error) error {
	if o.rejects {
		return cause // it was cut already
	}
	line := r.Raw
	const head = 256
	line = line[:min(len(line), head)]
	reject := evalstream.Record{
		Body: &evalstream.Rejected{At: r.Pos, Stage: "sink", Class: evalstream.ClassTooLarge, Reason: cause.Error() + "; raise max.message.bytes of the topic", Line: line},
		Pos:  r.Pos, Seq: r.Seq, Time: evalstream.NoTime,
	}
	o.store.tooLarge.Add(1)
	if h := o.seg.Job.Hooks.Rejected; h != nil {
		h("sink", evalstream.ClassTooLarge)
	}
	to := &segmentOutput{seg: o.seg, store: o.store, topic: o.seg.Rejects, next: o.seg.Rejected, rejects: true}
	return to.Write(ctx, []evalstream.Record{reject})
}

// Flush lets people see what goes to no topic.
func (o *segmentOutput) Flush(ctx context.Context) error {
	if o.next == nil {
		return nil
	}
	return o.next.Flush(ctx)
}
