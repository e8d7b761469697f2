package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"evalstream"
	"evalstream/topics"
)

// Segment runs the steps between two cuts of a pipeline over topics, exactly once: as a
// member of a group it owns partitions of what it reads, and for each of them what is
// made of the input, the changes of state and the offsets take effect together.
//
// All fields are set before Run.
type Segment struct {
	evalstream.Segment
	Client *Client
	// Cut says that To is read by the segment behind, which then gets marks.
	Cut bool
	// Front are those of From that no step of the pipeline writes: they bring no marks.
	Front []string
	// FrontEnds are where the topics at the front of the pipeline end for this segment,
	// which then ends too; nil: it goes on until Drain.
	FrontEnds map[TopicPartition]int64
	// Rejects is the topic of rejects; "" if they go nowhere but to Rejected.
	Rejects string
	// Remembers says that a step keeps state, which then is in the changelog topic, with the
	// position. Options are what decides what it is. Otherwise the position is there alone.
	Remembers bool
	Options   []evalstream.Option
	// Replays says that the steps keep nothing, not even a position, and are given their
	// input from its start again: it is compacted, so the last of each key is there.
	Replays bool
	// Cache opens the store that holds the entries of a partition here; what empty does is
	// said at ChangelogOptions. It is closed, if it can be, when the partition is let go.
	Cache func(partition int32) (store evalstream.Store, empty func() error, err error)
	// Whole says that the steps hold all of their state and do not read it back: what Cache
	// opens is only there to load it, and closed by the first commit.
	Whole bool
	// Job gives the job of a partition its limits and hooks. The rest is set here.
	Job evalstream.Job
	// Output takes what goes to no topic, at least once; nil if To is one.
	Output evalstream.Sink
	// Seen is shown what goes to To or Output, from several goroutines; it may be nil.
	Seen func([]evalstream.Record)
	// Rejected is told each reject, whether it goes to a topic too or not; nil: nobody is.
	Rejected evalstream.Sink
	// Encode makes a message of a record, in memory that it appends to dst and that is not
	// used again; its route decides the partition. ok = false leaves the record out, all
	// sends it to every partition.
	Encode     func(dst []byte, r *evalstream.Record) (rest []byte, m topics.Message, route []byte, all, ok bool)
	DecodeMark func(line []byte) (*evalstream.Mark, error)
	RecordTime bool          // records at the front have the time of their messages
	MaxLine    int           // in bytes; 0 is DefaultMaxLine
	Session    time.Duration // of the group; 0 is DefaultSession
	Layout     string        // of the whole pipeline: members with another one are refused
	Codec      Codec
	// Waits says that a step asks somebody else, such as a model: how long a batch may take
	// is then that step's matter.
	Waits bool
	// Commit is the longest that output waits for its transaction; 0 is 50 ms.
	Commit time.Duration
	// Before are segments of the pipeline that do not run here and that Check looks at too:
	// where this one has no state, theirs tells if what it reads is of other options.
	Before []*Segment
	Hooks  SegmentHooks

	counts     map[string]int32 // partitions, a topic
	tombstones atomic.Int64
	draining   atomic.Bool
	mu         sync.Mutex
	live       map[int32]*owner
	standing   standing
	origins    map[TopicPartition]*evalstream.Origin
	stop       context.CancelCauseFunc
}

// SegmentHooks are told what happens; each may be nil. They are called from several
// goroutines at once.
type SegmentHooks struct {
	// Took is called after each transaction, with how long it took and its messages.
	Took func(d time.Duration, messages int)
	// Owned is called when a partition has been taken over, or, with false, let go.
	Owned func(partition int32, owned bool)
	// Generation is called when a generation of the group has begun, with how many
	// partitions this member has in it.
	Generation func(partitions int)
	// Loaded is called when what a partition remembers is there and its input is read:
	// how long that took, and how many entries of the changelog were read for it.
	Loaded func(partition int32, took time.Duration, entries int64)
	// Ended is called with what the job of a partition did, when it has ended or was
	// stopped.
	Ended func(partition int32, sum evalstream.Summary, err error)
}

// Group is the consumer group of the segment. The transactional id of partition p is the
// group's, a dot and p.
func (s *Segment) Group() string { return s.Name }

// Changelog is the topic that keeps state and position; "" if the input is replayed.
func (s *Segment) Changelog() string {
	if s.Replays {
		return ""
	}
	return s.Name + ".changelog"
}

// Marked reports whether event time comes with marks of the step before.
func (s *Segment) Marked() bool { return len(s.Front) < len(s.From) }

func (s *Segment) marked(topic string) bool { return !slices.Contains(s.Front, topic) }

func (s *Segment) maxLine() int {
	if s.MaxLine <= 0 {
		return DefaultMaxLine
	}
	return s.MaxLine
}

func (s *Segment) session() time.Duration {
	if s.Session <= 0 {
		return DefaultSession
	}
	return s.Session
}

// Tombstones is how many messages without a value were left out.
func (s *Segment) Tombstones() int64 { return s.tombstones.Load() }

// Run takes part in the segment's group until ctx ends, Drain is called or, with
// FrontEnds, everything has been read. An error is fatal: faults of a partition's owner
// that another or the same may mend are mended here.
func (s *Segment) Run(ctx context.Context) error {
	ctx, s.stop = context.WithCancelCause(ctx)
	defer s.stop(nil)
	defer s.over()
	if err := s.look(ctx); err != nil {
		return err
	}
	if s.draining.Load() {
		return nil
	}
	err := s.Client.Own(ctx, GroupOptions{
		ID: s.Group(), Topics: s.From, Session: s.session(), Layout: s.Layout, Codec: s.Codec, Generation: s.generation,
	}, s.own)
	if errors.Is(err, errEnded) || s.draining.Load() && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// look counts partitions, of topics that must be there.
func (s *Segment) look(ctx context.Context) error {
	s.begin()
	s.origins = map[TopicPartition]*evalstream.Origin{}
	return s.recount(ctx, s.Client.Partitions)
}

// recount counts partitions again: some may have been added since the last owner. Where
// units are remembered, their keys have moved then, and their state has not.
func (s *Segment) recount(ctx context.Context, ask func(context.Context, string) (int32, error)) error {
	counts := map[string]int32{}
	for _, topic := range append(slices.Clone(s.From), s.To, s.Rejects, s.Changelog()) {
		if topic == "" {
			continue
		}
		n, err := ask(ctx, topic)
		if err != nil {
			return err
		}
		counts[topic] = n
	}
	n := counts[s.From[0]]
	for _, topic := range s.From {
		if counts[topic] != n {
			return evalstream.Usagef("from: topics that are read together need equal partitions, got %s with %d and %s with %d", s.From[0], n, topic, counts[topic])
		}
	}
	if log := s.Changelog(); s.Remembers && counts[log] != n {
		return &evalstream.ExitError{
			Code: evalstream.ExitState, Err: fmt.Errorf("%s: want %d partitions, as %s has, got %d", log, n, s.From[0], counts[log]),
			Hint: "stop all members; evalstream topics reset PIPELINE.yaml drops the state, and it is built again from the start of the topics",
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts = counts
	return nil
}

// count is how many partitions a topic has.
func (s *Segment) count(topic string) int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[topic]
}

// Drain ends Run when everything that has been read has taken effect.
func (s *Segment) Drain() {
	s.draining.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	reading := false
	for _, o := range s.live {
		if o.src != nil {
			reading = true
			o.src.Drain()
		}
	}
	if !reading && s.stop != nil {
		s.stop(context.Canceled)
	}
}

func (s *Segment) origin(topic string, p int32) *evalstream.Origin {
	s.mu.Lock()
	defer s.mu.Unlock()
	tp := TopicPartition{topic, p}
	if s.origins[tp] == nil {
		s.origins[tp] = &evalstream.Origin{Name: topic, Topic: true, Partition: p}
	}
	return s.origins[tp]
}

// replayed says what to do where a step cannot compare what its input holds: behind a
// cut that is what this pipeline wrote under other options.
func (s *Segment) replayed(err error) error {
	if e, ok := errors.AsType[*evalstream.ExitError](err); ok && s.Replays && e.Code == evalstream.ExitNotComparable {
		return &evalstream.ExitError{
			Code: evalstream.ExitState, Err: fmt.Errorf("%s: was written by other options: %w", s.From[0], e.Err),
			Hint: "stop all members and run evalstream topics reset PIPELINE.yaml, which reads the inputs from their start; or give the pipeline another name",
		}
	}
	return err
}

// agree makes from what the state says: it was committed together with the group's
// offsets, which the group forgets where it has no members for days, and which people can
// set. Offsets without a state are those of one that was deleted; where nothing but the
// position is remembered, they say it as well.
func (s *Segment) agree(ctx context.Context, p int32, point *evalstream.Checkpoint, from map[string]int64) error {
	if point == nil || point.Reach == nil {
		if !s.Remembers {
			return nil
		}
		for topic, at := range from {
			if at >= 0 {
				return &evalstream.ExitError{
					Code: evalstream.ExitState, Err: fmt.Errorf("%s[%d]: holds no state, though group %s has read %s up to offset %d", s.Changelog(), p, s.Group(), TopicPartition{topic, p}, at),
					Hint: "the changelog was deleted or made again; stop all members and run evalstream topics reset PIPELINE.yaml, which reads the inputs from their start",
				}
			}
		}
		return nil
	}
	for _, c := range point.Reach.Next {
		at, here := from[c.Origin.Name]
		if !here {
			continue
		}
		if at >= 0 && at != c.Next {
			s.Client.conf.log().WarnContext(ctx, "the group's offset is not that of the state, which is taken", "group", s.Group(), "partition", c.Origin.String(), "group's", at, "state's", c.Next)
		}
		from[c.Origin.Name] = c.Next
	}
	return nil
}

// job is the job of one partition.
func (s *Segment) job(ctx context.Context, all Ownership, store *segmentStore) (*evalstream.Job, *segmentSource, func(), error) {
	var opened []*segmentSource
	closeAll := func() {
		for _, src := range opened {
			src.Close()
		}
	}
	p := store.p
	from := map[string]int64{}
	var stop map[string]int64
	if s.FrontEnds != nil {
		stop = map[string]int64{}
	}
	for _, topic := range s.From {
		tp := TopicPartition{topic, p}
		from[topic] = all.From[tp]
		if stop != nil {
			stop[topic] = s.FrontEnds[tp]
		}
	}
	if err := s.agree(ctx, p, store.point, from); err != nil {
		return nil, nil, nil, err
	}
	job := s.Job
	job.Pipeline, job.Partitions, job.Owned, job.Marked = s.Pipeline, s.count(s.From[0]), []int32{p}, s.Marked()
	job.Store = store
	if n := job.Partitions; n > 1 {
		job.Mine = func(route []byte) bool { return Partition(route, n) == p }
	}
	job.CommitEvery = commitEvery
	if s.Cut {
		job.MarkEvery = time.Second
	}
	out := &segmentOutput{seg: s, store: store, topic: s.To, next: s.Output}
	job.Sink = out
	job.Rejects = &segmentOutput{seg: s, store: store, topic: s.Rejects, next: s.Rejected, rejects: true}
	var before *segmentSource
	if s.Replays {
		start := map[string]int64{}
		for topic := range from {
			start[topic] = First
		}
		src, err := s.newSource(ctx, p, start, from, true, nil)
		if err != nil {
			return nil, nil, nil, err
		}
		opened = append(opened, src)
		before, job.Replay = src, src
	}
	src, err := s.newSource(ctx, p, from, stop, false, store.point)
	if err != nil {
		closeAll()
		return nil, nil, nil, err
	}
	src.after = before
	opened = append(opened, src)
	job.Source = src
	return &job, src, closeAll, nil
}
