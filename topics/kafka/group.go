package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	kgo "github.com/segmentio/kafka-go"

	"evalstream"
	"evalstream/topics"
)

// DefaultSession is how long a member of a group may be silent.
const DefaultSession = 10 * time.Second

// GroupOptions are how a member takes part in a group.
type GroupOptions struct {
	ID     string
	Topics []string
	// Session is how long a member may be silent before it is taken for dead; 0 is
	// DefaultSession. Heartbeats go out five times in it.
	Session time.Duration
	// Rebalance is how long members have to let go of what they had; 0 is 30 s.
	Rebalance time.Duration
	// Watch is how often the number of partitions is looked at; 0 is 5 s.
	Watch time.Duration
	// Wait makes Join wait for topics that are not there yet. Without it that is exit 4.
	Wait bool
	// Codec compresses the transactions of Own.
	Codec Codec
	// Layout names what all members must agree on, such as how their work is cut up. A
	// member of another one is kept out by the broker: it waits for twice Session,
	// for a killed member lingers that long, and ends with exit 2. "" is a layout too.
	Layout string
	// Generation is told when a generation begins, with what this member owns in it, and,
	// with over, when that has ended. It may be nil.
	Generation func(m Member, owned []TopicPartition, over bool)
}

// laidOut is range, by a name that only members of one layout have in common: Kafka
// lets in none that has no protocol in common with all others.
type laidOut struct {
	kgo.RangeGroupBalancer
	layout string
}

// ProtocolName is the name that members are matched by.
func (l laidOut) ProtocolName() string {
	name := l.RangeGroupBalancer.ProtocolName()
	if l.layout != "" {
		name += "-" + l.layout
	}
	return name
}

// Assignment is what a member owns for one generation of its group.
type Assignment struct {
	Group      string
	Member     Member
	Partitions []TopicPartition // by topic, then number; partition p of all topics has one owner
	// Committed are the offsets that were committed when the generation began. A
	// transactional owner asks again after it has taken over.
	Committed map[TopicPartition]int64

	client *Client
	gen    *kgo.Generation
	mu     sync.Mutex
	at     map[TopicPartition]int64
}

const defaultRebalance = 30 * time.Second

// Join takes part in the group until ctx ends or own returns an error that is not
// ErrLost or ErrUnknown. own is called once a generation, also if it gets nothing,
// and must return soon after its context has ended; commits still work until then. If
// it returns nil before, the member keeps what it has until the generation ends.
// Where partitions were added, the generation ends and the next one has them.
func (c *Client) Join(ctx context.Context, opt GroupOptions, own func(context.Context, *Assignment) error) error {
	if opt.Session <= 0 {
		opt.Session = DefaultSession
	}
	if opt.Rebalance <= 0 {
		opt.Rebalance = defaultRebalance
	}
	if opt.Watch <= 0 {
		opt.Watch = 5 * time.Second
	}
	counts, err := c.await(ctx, opt)
	if err != nil {
		return err
	}
	cg, err := kgo.NewConsumerGroup(kgo.ConsumerGroupConfig{
		ID: opt.ID, Brokers: c.conf.Brokers, Dialer: c.dialer(), Topics: opt.Topics,
		// Range gives partition p of topics with equal counts to one member.
		GroupBalancers:    []kgo.GroupBalancer{laidOut{layout: opt.Layout}},
		HeartbeatInterval: opt.Session / 5, SessionTimeout: opt.Session, RebalanceTimeout: opt.Rebalance,
		JoinGroupBackoff: 200 * time.Millisecond, Timeout: c.conf.timeout(), StartOffset: kgo.FirstOffset,
	})
	if err != nil {
		return err
	}
	m := &membership{client: c, opt: opt, own: own, counts: counts}
	// Closing the group ends the generation, waits for its owner and leaves.
	left := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { defer close(left); _ = cg.Close() })
	err = m.loop(ctx, cg)
	if stop() {
		_ = cg.Close()
	} else {
		<-left
	}
	return err
}

type membership struct {
	client *Client
	opt    GroupOptions
	own    func(context.Context, *Assignment) error
	counts map[string]int32 // partitions as they were before the group was joined last
}

// anotherLayout says that a group has members who have cut their work otherwise.
func anotherLayout(group string) error {
	return &evalstream.ExitError{
		Code: evalstream.ExitUsage, Err: fmt.Errorf("another layout of this pipeline is running in group %s", group),
		Hint: "stop all its members first",
	}
}

func (m *membership) loop(ctx context.Context, cg *kgo.ConsumerGroup) error {
	waiting := m.client.outages.wait("group " + m.opt.ID)
	told := false
	for {
		gen, err := cg.Next(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			// A rebalance that overtakes another is the way of groups.
			if errors.Is(err, kgo.RebalanceInProgress) {
				continue
			}
			waited := time.Since(waiting.began)
			switch {
			case errors.Is(err, kgo.InconsistentGroupProtocol) && waited < 2*m.opt.Session:
				if !told {
					told = true
					m.client.conf.log().WarnContext(ctx, "waiting for members of another layout to go", "group", m.opt.ID)
				}
				continue
			case errors.Is(err, kgo.InconsistentGroupProtocol):
				return anotherLayout(m.opt.ID)
			case refused(err) != "" || denied(err) != "" || waited > m.client.conf.patience():
				return m.client.explain(m.opt.ID, err)
			}
			waiting.failed(ctx, err)
			continue
		}
		waiting.over(ctx)
		switch err := m.generation(ctx, gen); {
		case err == nil, errors.Is(err, ErrLost), errors.Is(err, ErrUnknown):
		default:
			return err
		}
		waiting, told = m.client.outages.wait(waiting.about), false
	}
}

// generation runs one generation to its end.
func (m *membership) generation(ctx context.Context, gen *kgo.Generation) error {
	a := &Assignment{
		Group: m.opt.ID, Member: Member{ID: gen.MemberID, Generation: gen.ID},
		Committed: map[TopicPartition]int64{}, client: m.client, gen: gen, at: map[TopicPartition]int64{},
	}
	for topic, ps := range gen.Assignments {
		for _, p := range ps {
			tp := TopicPartition{topic, int32(p.ID)}
			a.Partitions = append(a.Partitions, tp)
			if p.Offset >= 0 {
				a.Committed[tp] = p.Offset
				a.at[tp] = p.Offset
			}
		}
	}
	slices.SortFunc(a.Partitions, comparePartitions)
	result := make(chan error, 1)
	gen.Start(func(ended context.Context) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		stop := context.AfterFunc(ended, func() { cancel(kgo.ErrGenerationEnded) })
		defer stop()
		var wg sync.WaitGroup
		wg.Go(func() {
			if m.grown(ctx) {
				cancel(kgo.ErrGenerationEnded)
			}
		})
		if told := m.opt.Generation; told != nil {
			told(a.Member, a.Partitions, false)
			defer told(a.Member, a.Partitions, true)
		}
		err := m.own(ctx, a)
		if errors.Is(err, kgo.ErrGenerationEnded) || errors.Is(err, context.Canceled) && ctx.Err() != nil {
			err = nil
		}
		if err == nil && ctx.Err() == nil {
			<-ctx.Done() // nothing to own, nothing to do
		}
		cancel(nil)
		wg.Wait()
		result <- err
	})
	err := <-result
	if err == nil && ctx.Err() == nil {
		// Whoever assigns next sees at least these.
		if counts, cerr := countAll(ctx, m.opt.Topics, m.client.count); cerr == nil {
			m.counts = counts
		}
	}
	return err
}

// grown returns true when a topic has another number of partitions than when the
// group was joined, false when ctx ends.
func (m *membership) grown(ctx context.Context) bool {
	t := time.NewTicker(m.opt.Watch)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-t.C:
		}
		counts, err := countAll(ctx, m.opt.Topics, m.client.count)
		if err == nil && !maps.Equal(counts, m.counts) {
			m.counts = counts
			m.client.conf.log().WarnContext(ctx, "partitions were added: keys move", "topics", counts)
			return true
		}
	}
}

func countAll(ctx context.Context, names []string, ask func(context.Context, string) (int32, error)) (map[string]int32, error) {
	counts := map[string]int32{}
	for _, name := range names {
		n, err := ask(ctx, name)
		if err != nil {
			return nil, err
		}
		counts[name] = n
	}
	return counts, nil
}

// await returns when all topics are there. The group must not be joined before: it
// would be given nothing, and would not notice that they came.
func (c *Client) await(ctx context.Context, opt GroupOptions) (map[string]int32, error) {
	wait := 100 * time.Millisecond
	waiting := c.outages.wait("topics of group " + opt.ID)
	for {
		counts, err := countAll(ctx, opt.Topics, c.Partitions)
		if err == nil || !opt.Wait || !errors.Is(err, kgo.UnknownTopicOrPartition) {
			if err == nil {
				waiting.over(ctx)
			}
			return counts, err
		}
		waiting.failed(ctx, err)
		if err := pause(ctx, wait); err != nil {
			return nil, err
		}
		wait = min(2*wait, 5*time.Second)
	}
}

// Commit moves the group's offsets forward; those that are not greater than what was
// committed are left out. ErrLost says that the generation is over.
func (a *Assignment) Commit(ctx context.Context, offsets map[TopicPartition]int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	req := map[string]map[int]int64{}
	for tp, at := range offsets {
		if old, ok := a.at[tp]; ok && at <= old {
			continue
		}
		if !slices.Contains(a.Partitions, tp) {
			return fmt.Errorf("%s: %w: it is not in this generation", tp, ErrLost)
		}
		if req[tp.Topic] == nil {
			req[tp.Topic] = map[int]int64{}
		}
		req[tp.Topic][int(tp.Partition)] = at
	}
	if len(req) == 0 {
		return nil
	}
	err := a.gen.CommitOffsets(req)
	if fenced(err) || retriable(err) {
		// The connection to the coordinator is the generation's: where that has gone or
		// moved, the generation is over too.
		return fmt.Errorf("%s: %w: %w", a.Group, ErrLost, err)
	}
	if err != nil {
		return a.client.explain(a.Group, err)
	}
	for topic, ps := range req {
		for p, at := range ps {
			a.at[TopicPartition{topic, int32(p)}] = at
		}
	}
	return ctx.Err()
}

// start is where the partition is to be read from.
func (a *Assignment) start(tp TopicPartition) int64 {
	if at, ok := a.Committed[tp]; ok {
		return at
	}
	return First
}

// Pump reads tp from an offset and gives each batch to f, while the next one is being
// fetched, until f or the reader fails or ctx ends. Batches without messages come too
// where they move on.
func (c *Client) Pump(ctx context.Context, tp TopicPartition, from int64, opt ReadOptions, f func(Batch) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	batches := make(chan Batch)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	wg.Go(func() { cancel(c.pump(ctx, tp, from, opt, batches, new(fetching))) })
	for {
		select {
		case b := <-batches:
			if err := f(b); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// fetching is how a partition is being read.
type fetching struct {
	answered atomic.Int64 // when its leader last did, in nanoseconds
	waiting  atomic.Int64 // since when a batch has been waiting to be taken; 0: none is
	end      atomic.Int64 // of the partition at the last answer
	high     atomic.Int64 // its end with transactions that are open, set before answered is
}

// pump sends batches until the reader fails or ctx ends.
func (c *Client) pump(ctx context.Context, tp TopicPartition, from int64, opt ReadOptions, batches chan<- Batch, watch *fetching) error {
	r := c.Read(tp, from, opt)
	at := from
	for {
		asked := time.Now()
		b, err := r.Next(ctx)
		if err != nil {
			return err
		}
		now := time.Now().UnixNano()
		watch.end.Store(b.End)
		watch.high.Store(b.HighWater)
		watch.answered.Store(now)
		if len(b.Messages) == 0 && b.Next == at {
			continue
		}
		at = b.Next
		watch.waiting.Store(now)
		select {
		case batches <- b:
			watch.waiting.Store(0)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if left := opt.Pause - time.Since(asked); left > 0 && len(b.Messages) < fewMessages {
			if err := pause(ctx, left); err != nil {
				return err
			}
		}
	}
}

// fewMessages in an answer say that its reader waits for what is written, and not the
// other way round.
const fewMessages = 200

// clone is m with memory of its own.
func clone(m topics.Message) topics.Message {
	m.Key, m.Value = slices.Clone(m.Key), slices.Clone(m.Value)
	m.Headers = slices.Clone(m.Headers)
	for i := range m.Headers {
		m.Headers[i].Value = slices.Clone(m.Headers[i].Value)
	}
	return m
}
