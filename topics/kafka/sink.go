package kafka

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"evalstream/topics"
)

// Output is a message on its way to a partition.
type Output struct {
	To      TopicPartition
	Message topics.Message
}

// Unit is what must take effect together: what came of a piece of input, and how far
// that piece went.
type Unit struct {
	Outputs []Output
	Offsets map[TopicPartition]int64
	// Log is a partition whose end Done is told.
	Log TopicPartition
	// Done is called once the unit has taken effect, in the order of Put and before the
	// next transaction begins: it must be quick, and must not wait for the sink. end is 0
	// but for the last unit of a transaction that has this Log: it is then an offset
	// behind the last message there, which may be too small or 0 and is never too large.
	// Done may be nil.
	Done func(end int64)
}

// done is what is left of a unit once its messages are gathered.
type done struct {
	log  TopicPartition
	call func(end int64)
}

// SinkOptions are how a Sink makes transactions. The zero value commits no offsets.
type SinkOptions struct {
	Group  string
	Member Member
	// CommitInterval is the longest that a unit waits for its transaction while more
	// comes; 0 is 50 ms.
	CommitInterval time.Duration
	// Pause is the least time between the beginnings of two transactions that are not full;
	// 0 is none. A broker takes milliseconds of its processor for one, however small.
	Pause time.Duration
	// Gather is how long a transaction waits after its first unit for those of others who
	// put here too, though Flush was called; 0: not at all.
	Gather time.Duration
	// MaxRecords is how many messages a transaction gathers before it is committed; 0
	// is 10,000. A unit is never cut.
	MaxRecords int
	// Took is told how long each transaction took, from its first request to the answer
	// that it is committed, and how many messages it had. It may be nil.
	Took func(d time.Duration, records int)
}

// Sink writes units exactly once: it gathers them into transactions, each committed
// as soon as the one before has ended and Flush was called, CommitInterval has passed,
// or MaxRecords are there. So transactions are small where little comes, and large
// where much does. It may be used by many goroutines.
//
// After an error every call returns it, and nothing of what was put since the last
// transaction that went well has taken effect, but for ErrUnknown.
type Sink struct {
	transactor *Transactor
	opt        SinkOptions
	wake       chan struct{} // something to do for the committer
	done       chan struct{} // it has ended
	failed     chan struct{} // closed with err
	stop       context.CancelFunc

	mu        sync.Mutex
	change    *sync.Cond // of what follows
	gathered  map[TopicPartition][]topics.Message
	spare     map[TopicPartition][]topics.Message // empty: the memory of the last transaction
	offsets   map[TopicPartition]int64
	dones     []done
	records   int
	units     int
	put       int64     // units since the sink was made
	settled   int64     // of them, those that have taken effect and whose Done has returned
	first     time.Time // when the oldest unit came
	began     time.Time // when the last transaction began
	flush     bool
	busy      bool // a transaction is under way
	err       error
	committed int64
}

// NewSink starts a sink; Close ends it. The transactor is the sink's from now on.
func NewSink(ctx context.Context, t *Transactor, opt SinkOptions) *Sink {
	if opt.CommitInterval <= 0 {
		opt.CommitInterval = 50 * time.Millisecond
	}
	if opt.MaxRecords <= 0 {
		opt.MaxRecords = 10_000
	}
	ctx, stop := context.WithCancel(ctx)
	s := &Sink{transactor: t, opt: opt, wake: make(chan struct{}, 1), done: make(chan struct{}), failed: make(chan struct{}), stop: stop}
	s.change = sync.NewCond(&s.mu)
	s.empty()
	go s.run(ctx)
	return s
}

func (s *Sink) empty() {
	s.gathered, s.offsets, s.dones = map[TopicPartition][]topics.Message{}, map[TopicPartition]int64{}, nil
	s.records, s.units, s.flush = 0, 0, false
}

// Check returns a *TooLargeError if the topic cannot take m: put something else in its
// place, a reject say. Where it is not asked, such a message fails its transaction.
func (s *Sink) Check(ctx context.Context, topic string, m *topics.Message) error {
	return s.transactor.Check(ctx, topic, m)
}

// Put adds a unit. The bytes of its messages are the sink's from now on, the list of them
// is not. It waits while two transactions' worth are gathered.
func (s *Sink) Put(ctx context.Context, u Unit) error {
	unblock := context.AfterFunc(ctx, s.broadcast)
	defer unblock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.err == nil && s.records >= 2*s.opt.MaxRecords {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		s.change.Wait()
	}
	if s.err != nil {
		return s.err
	}
	if s.units == 0 {
		s.first = time.Now()
	}
	s.gather(u.Outputs)
	maps.Copy(s.offsets, u.Offsets)
	s.dones = append(s.dones, done{u.Log, u.Done})
	s.put++
	s.records += len(u.Outputs)
	if s.units++; s.units == 1 || s.records >= s.opt.MaxRecords {
		s.kick()
	}
	return nil
}

// gather takes messages in by partition; those of one often come in a row.
func (s *Sink) gather(outputs []Output) {
	for len(outputs) > 0 {
		to, n := outputs[0].To, 1
		for n < len(outputs) && outputs[n].To == to {
			n++
		}
		list, there := s.gathered[to]
		if !there {
			list = s.spare[to]
			delete(s.spare, to)
		}
		list = slices.Grow(list, n)
		for i := range outputs[:n] {
			list = append(list, outputs[i].Message)
		}
		s.gathered[to], outputs = list, outputs[n:]
	}
}

// Flush lets what was put be committed as soon as the transaction before has ended. It
// does not wait for that.
func (s *Sink) Flush(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flush = true
	s.kick()
	return s.err
}

// Ready says that no transaction is under way and Pause is over: what is put now need not
// wait, but for Gather.
func (s *Sink) Ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err == nil && !s.busy && time.Since(s.began) >= s.opt.Pause
}

// Failed is closed once Err is not nil.
func (s *Sink) Failed() <-chan struct{} { return s.failed }

// Err is why the sink can do nothing any more, be it that it was closed; nil while it can.
func (s *Sink) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Drain waits until everything that was put before has taken effect, and each Done has
// returned.
func (s *Sink) Drain(ctx context.Context) error {
	unblock := context.AfterFunc(ctx, s.broadcast)
	defer unblock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for until := s.put; s.err == nil && s.settled < until; {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		s.flush = true
		s.kick()
		s.change.Wait()
	}
	return s.err
}

// Transactions is how many transactions have been committed.
func (s *Sink) Transactions() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.committed
}

// Close ends the sink and drops what was not committed; Drain comes first.
func (s *Sink) Close() error {
	s.stop()
	<-s.done
	return nil
}

func (s *Sink) kick() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Sink) broadcast() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change.Broadcast()
}

// run is the committer.
func (s *Sink) run(ctx context.Context) {
	defer close(s.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		tx, dones, wait := s.due()
		if wait != 0 {
			if wait > 0 {
				timer.Reset(wait)
			}
			select {
			case <-ctx.Done():
				s.fail(context.Cause(ctx))
				return
			case <-s.wake:
			case <-timer.C:
			}
			continue
		}
		err := s.commit(ctx, tx, dones)
		s.mu.Lock()
		s.busy = false
		if err == nil {
			s.committed++
			s.settled += int64(len(dones))
			for to, list := range tx.Messages {
				clear(list)
				tx.Messages[to] = list[:0]
			}
			s.spare = tx.Messages
		}
		s.change.Broadcast()
		s.mu.Unlock()
		if err != nil {
			s.fail(err)
			return
		}
	}
}

func (s *Sink) commit(ctx context.Context, tx Transaction, dones []done) error {
	began := time.Now()
	ends, err := s.transactor.Commit(ctx, tx)
	if err != nil {
		return err
	}
	if s.opt.Took != nil {
		n := 0
		for _, ms := range tx.Messages {
			n += len(ms)
		}
		s.opt.Took(time.Since(began), n)
	}
	last := map[TopicPartition]int{}
	for i, d := range dones {
		last[d.log] = i
	}
	for i, d := range dones {
		switch {
		case d.call == nil:
		case last[d.log] == i:
			d.call(ends[d.log])
		default:
			d.call(0)
		}
	}
	return nil
}

// due takes what is gathered if its time has come; otherwise it says how long to wait
// for that, -1 for until something comes.
func (s *Sink) due() (tx Transaction, dones []done, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.units == 0 {
		s.flush = false
		return tx, nil, -1
	}
	if s.records < s.opt.MaxRecords {
		now := time.Now()
		due := s.first.Add(s.opt.CommitInterval)
		if s.flush {
			due = s.first.Add(s.opt.Gather)
			if next := s.began.Add(s.opt.Pause); next.After(due) {
				due = next
			}
		}
		if left := due.Sub(now); left > 0 {
			return tx, nil, left
		}
		s.began = now
	}
	tx = Transaction{Messages: s.gathered, Offsets: s.offsets, Group: s.opt.Group, Member: s.opt.Member}
	dones = s.dones
	s.empty()
	s.busy = true
	s.change.Broadcast()
	return tx, dones, 0
}

var errClosed = errors.New("closed")

func (s *Sink) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(err, context.Canceled) {
		err = errClosed
	}
	if s.err == nil {
		s.err = err
		close(s.failed)
	}
	s.change.Broadcast()
}
