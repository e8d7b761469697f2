package kafka

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// MetadataCause is where a handler may say why it nacks a message; it goes with the
// message to the reject topic.
const MetadataCause = "evalstream_cause"

// SubscriberOptions are how messages are handed out. The zero value reads every
// partition from its first record, without a group and without commits.
type SubscriberOptions struct {
	Group GroupOptions // ID "" is no group; Topics is set by Subscribe
	Read  ReadOptions
	// InFlight is how many messages of a partition may be unacknowledged; 0 is 1, which
	// keeps their order whatever is nacked. With more, a message that was nacked comes
	// again behind others.
	InFlight int
	// Backoff is the wait before a nacked message comes again, doubled each time up to
	// MaxBackoff; 0 is 100 ms, and 30 s.
	Backoff, MaxBackoff time.Duration
	// Attempts is how often a message is delivered before it goes to the reject topic;
	// 0 is for ever.
	Attempts int
	// Reject is the topic of messages that were nacked Attempts times, written by
	// RejectTo. They have the key, value and headers that they had, and say where they
	// came from and why in headers of the names that begin with evalstream_.
	Reject   string
	RejectTo *Producer
	// Commit is how often offsets are committed; 0 is 500 ms.
	Commit time.Duration
	// Drain is how long acknowledgements are waited for at the end; 0 is 1 s.
	Drain time.Duration
	// Create is the topic that SubscribeInitialize makes; Name is set by it. The zero
	// value makes one with one partition.
	Create TopicSpec
	// Failed is told why a subscription has ended by itself; nil: it is only logged.
	Failed func(topic string, err error)
}

// Subscriber is a [message.Subscriber] and a [message.SubscribeInitializer].
//
// A message is committed when it and all before it in its partition were acknowledged.
// What was not, comes again: at least once.
type Subscriber struct {
	client *Client
	opt    SubscriberOptions
	ctx    context.Context //nolint:containedctx // the life of all subscriptions, which Close ends
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

var (
	_ message.Subscriber           = (*Subscriber)(nil)
	_ message.SubscribeInitializer = (*Subscriber)(nil)
)

// NewSubscriber makes a subscriber whose subscriptions end with ctx or Close.
func (c *Client) NewSubscriber(ctx context.Context, opt SubscriberOptions) *Subscriber {
	if opt.InFlight <= 0 {
		opt.InFlight = 1
	}
	if opt.Backoff <= 0 {
		opt.Backoff = 100 * time.Millisecond
	}
	if opt.MaxBackoff <= 0 {
		opt.MaxBackoff = 30 * time.Second
	}
	if opt.Commit <= 0 {
		opt.Commit = 500 * time.Millisecond
	}
	if opt.Drain <= 0 {
		opt.Drain = time.Second
	}
	ctx, cancel := context.WithCancel(ctx)
	return &Subscriber{client: c, opt: opt, ctx: ctx, cancel: cancel}
}

// SubscribeInitialize makes the topic if it is not there.
func (s *Subscriber) SubscribeInitialize(topic string) error {
	spec := s.opt.Create
	spec.Name = topic
	if spec.Partitions == 0 {
		spec.Partitions = 1
	}
	_, err := s.client.CreateTopics(s.ctx, spec)
	return err
}

// Subscribe hands out the messages of the topic until ctx ends or the subscriber is
// closed. A topic that is not there is waited for.
func (s *Subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	sub := &subscription{s: s, topic: topic, out: make(chan *message.Message)}
	s.wg.Go(func() {
		defer cancel()
		defer stop()
		defer close(sub.out)
		err := sub.run(ctx)
		if ctx.Err() != nil || err == nil {
			return
		}
		s.client.conf.log().ErrorContext(ctx, "subscription has ended", "topic", topic, "because", err)
		if s.opt.Failed != nil {
			s.opt.Failed(topic, err)
		}
	})
	return sub.out, nil
}

// Close ends all subscriptions: what is acknowledged within Drain is committed.
func (s *Subscriber) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
	return nil
}

// subscription is one call of Subscribe.
type subscription struct {
	s     *Subscriber
	topic string
	out   chan *message.Message

	mu    sync.Mutex
	acked map[TopicPartition]int64 // offsets to commit
}

func (u *subscription) run(ctx context.Context) error {
	g := u.s.opt.Group
	g.Topics, g.Wait = []string{u.topic}, true
	if g.ID == "" {
		return u.everything(ctx, g)
	}
	return u.s.client.Join(ctx, g, u.own)
}

// everything reads all partitions, and those that are added.
func (u *subscription) everything(ctx context.Context, g GroupOptions) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	counts, err := u.s.client.await(ctx, g)
	if err != nil {
		return err
	}
	if g.Watch <= 0 {
		g.Watch = 5 * time.Second
	}
	for from := int32(0); ; {
		for ; from < counts[u.topic]; from++ {
			tp := TopicPartition{u.topic, from}
			wg.Go(func() {
				if err := u.partition(ctx, tp, First); err != nil {
					cancel(err)
				}
			})
		}
		if err := pause(ctx, g.Watch); err != nil {
			return err
		}
		if now, err := countAll(ctx, g.Topics, u.s.client.count); err == nil {
			counts = now
		}
	}
}

// own hands out the partitions of one generation.
func (u *subscription) own(ctx context.Context, a *Assignment) error {
	u.mu.Lock()
	u.acked = map[TopicPartition]int64{}
	u.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg, committer sync.WaitGroup
	for _, tp := range a.Partitions {
		wg.Go(func() {
			if err := u.partition(ctx, tp, a.start(tp)); err != nil {
				cancel(err)
			}
		})
	}
	committer.Go(func() {
		for pause(ctx, u.s.opt.Commit) == nil {
			if err := u.commit(ctx, a); err != nil {
				cancel(err)
				return
			}
		}
	})
	if len(a.Partitions) == 0 {
		<-ctx.Done()
	}
	wg.Wait()
	err := context.Cause(ctx)
	cancel(nil)
	committer.Wait()
	if cerr := u.commit(context.WithoutCancel(ctx), a); cerr != nil && !errors.Is(cerr, ErrLost) {
		u.s.client.conf.log().WarnContext(ctx, "last offsets were not committed: their messages come again", "group", a.Group, "because", cerr)
	}
	return err
}

func (u *subscription) commit(ctx context.Context, a *Assignment) error {
	u.mu.Lock()
	offsets := u.acked
	u.acked = map[TopicPartition]int64{}
	u.mu.Unlock()
	return a.Commit(ctx, offsets)
}

func (u *subscription) done(tp TopicPartition, next int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.acked != nil {
		u.acked[tp] = next
	}
}
