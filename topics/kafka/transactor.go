package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	kgo "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/addoffsetstotxn"
	"github.com/segmentio/kafka-go/protocol/addpartitionstotxn"
	"github.com/segmentio/kafka-go/protocol/endtxn"
	"github.com/segmentio/kafka-go/protocol/initproducerid"
	"github.com/segmentio/kafka-go/protocol/txnoffsetcommit"

	"evalstream/topics"
)

// Member is a place in a generation of a group. The zero value commits offsets
// without being checked against the group.
type Member struct {
	ID         string
	Generation int32
}

// Transaction is what takes effect whole or not at all.
type Transaction struct {
	Messages map[TopicPartition][]topics.Message
	// Offsets are where the group goes on reading.
	Offsets map[TopicPartition]int64
	Group   string // of Offsets
	Member  Member // of Group
}

// Transactor writes transactions under one transactional id. Its making takes the id
// over from whoever had it: what that one had open is aborted, and every later write
// of it is refused. Only then may the committed offsets be read.
//
// It belongs to one goroutine. After an error of Commit it is of no more use: make a
// new one, read the committed offsets, and build what is in memory again.
type Transactor struct {
	client   *Client
	id       string
	codec    Codec
	producer int64
	epoch    int16
	next     map[TopicPartition]int32 // sequence numbers
	enc      encoder
	// doubtful says that a request may arrive yet, though it was asked again. In a later
	// transaction of the same epoch a coordinator would take it for one of that. A partition
	// knows a batch again, but if that comes between two transactions, Kafka 4 takes the next
	// ones for out of order.
	doubtful bool
	err      error
}

// Transactor takes over the transactional id. Batches are compressed with codec.
func (c *Client) Transactor(ctx context.Context, id string, codec Codec) (*Transactor, error) {
	t := &Transactor{client: c, id: id, codec: codec, next: map[TopicPartition]int32{}}
	if err := t.take(ctx, -1, -1); err != nil {
		return nil, c.explain(id, err)
	}
	t.doubtful = false // of an id that was just made nothing else is on its way
	return t, nil
}

// take takes the id over, from whoever has it for -1 and -1, and else from itself: what
// is on its way under the epoch before is refused from then on.
func (t *Transactor) take(ctx context.Context, producer int64, epoch int16) error {
	return t.call(ctx, func(ctx context.Context) error {
		res, err := t.client.coordinated(ctx, t.id, ofTransaction, &initproducerid.Request{
			TransactionalID: t.id, TransactionTimeoutMs: int32(min(t.client.conf.transaction().Milliseconds(), math.MaxInt32)), ProducerID: producer, ProducerEpoch: epoch,
		})
		if err != nil {
			return err
		}
		m := res.(*initproducerid.Response)
		if code := kgo.Error(m.ErrorCode); ousted(code) && producer < 0 {
			// A transaction of the former owner is being aborted. Who asks without an
			// epoch cannot be fenced.
			return kgo.ConcurrentTransactions
		} else if code != 0 {
			return code
		}
		t.producer, t.epoch = m.ProducerID, m.ProducerEpoch
		clear(t.next)
		return nil
	})
}

// Epoch is how often the id has been taken over, by the broker's count.
func (t *Transactor) Epoch() int16 { return t.epoch }

// Check returns a *TooLargeError if the topic cannot take m.
func (t *Transactor) Check(ctx context.Context, topic string, m *topics.Message) error {
	return t.client.check(ctx, topic, m, t.codec)
}

// Commit makes everything in tx take effect. ErrLost says that another owner has the
// id or the group has given the partition away, and ErrUnknown that tx may have taken
// effect; after every other error nothing has.
//
// ends has, for the partitions of tx, an offset behind its last message there. Where a
// request went out twice it may be too small, or missing, and never too large.
func (t *Transactor) Commit(ctx context.Context, tx Transaction) (ends map[TopicPartition]int64, err error) {
	if t.err != nil {
		return nil, t.err
	}
	ends, err = t.commit(ctx, tx)
	if err == nil && t.doubtful {
		if t.err = t.take(ctx, t.producer, t.epoch); t.err != nil { // of the next Commit: this one has taken effect
			t.err = fmt.Errorf("%s: %w: %w", t.id, ErrLost, t.err)
		}
		t.doubtful = false
	}
	if err == nil {
		return ends, nil
	}
	// A generation that is over does not end the transaction; another owner of the id does.
	open := !ousted(err) && !errors.Is(err, ErrUnknown)
	if fenced(err) {
		err = fmt.Errorf("%s: %w: %w", t.id, ErrLost, err)
	}
	t.err = err
	if open {
		// Readers are held back no longer than this takes; whoever takes over does it otherwise.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = t.end(ctx, false)
	}
	return nil, t.client.explain(t.id, err)
}

func (t *Transactor) commit(ctx context.Context, tx Transaction) (ends map[TopicPartition]int64, err error) {
	rounds, counts, err := t.encode(ctx, tx.Messages)
	if err != nil {
		return nil, err
	}
	if len(rounds) == 0 && len(tx.Offsets) == 0 {
		return nil, nil
	}
	// The coordinator does one thing at a time for an id, and refuses what comes meanwhile.
	if len(rounds) > 0 { // the first round has every partition
		if err := t.addPartitions(ctx, rounds[0]); err != nil {
			return nil, err
		}
	}
	ends = map[TopicPartition]int64{}
	var cut bool
	sent := make(chan error, 1)
	go func() {
		var err error
		cut, err = t.write(ctx, rounds, ends)
		sent <- err
	}()
	offsets := t.offsets(ctx, tx)
	err = errors.Join(<-sent, offsets)
	t.doubtful = t.doubtful || cut
	if err != nil {
		return nil, err
	}
	if err := t.end(ctx, true); err != nil {
		if fenced(err) && !t.doubtful {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", ErrUnknown, err) // an answer that was lost may have said that it is committed
	}
	for tp, n := range counts {
		t.next[tp] = int32((int64(t.next[tp]) + int64(n)) & 0x7fffffff)
	}
	return ends, nil
}

// encode makes the batches, in rounds: a request holds one batch a partition.
func (t *Transactor) encode(ctx context.Context, messages map[TopicPartition][]topics.Message) ([][]part, map[TopicPartition]int, error) {
	var rounds [][]part
	counts := map[TopicPartition]int{}
	now := time.Now().UnixMilli()
	tps := slices.SortedFunc(maps.Keys(messages), comparePartitions)
	for _, tp := range tps {
		msgs := messages[tp]
		limit, err := t.client.limit(ctx, tp.Topic)
		if err != nil {
			return nil, nil, err
		}
		for i := range msgs {
			if msgs[i].Millis == 0 {
				msgs[i].Millis = now
			}
		}
		for round := 0; len(msgs) > 0; round++ {
			n := fit(msgs, limit)
			st := stamp{
				producer: t.producer, epoch: t.epoch, transactional: true, codec: t.codec,
				sequence: int32((int64(t.next[tp]) + int64(counts[tp])) & 0x7fffffff),
			}
			b, err := t.enc.batch(st, msgs[:n])
			if err != nil {
				return nil, nil, err
			}
			b = slices.Clone(b)
			if round == len(rounds) {
				rounds = append(rounds, nil)
			}
			rounds[round] = append(rounds[round], part{tp: tp, batch: b, count: n})
			counts[tp] += n
			msgs = msgs[n:]
		}
	}
	return rounds, counts, nil
}

// write writes the batches. cut says that one may arrive yet.
func (t *Transactor) write(ctx context.Context, rounds [][]part, ends map[TopicPartition]int64) (cut bool, err error) {
	for _, r := range rounds {
		bases, broken, err := t.client.send(ctx, t.id, r)
		cut = cut || broken
		if err != nil {
			return cut, err
		}
		for _, p := range r {
			if base, ok := bases[p.tp]; ok {
				ends[p.tp] = base + int64(p.count)
			}
		}
	}
	return cut, nil
}

func (t *Transactor) addPartitions(ctx context.Context, parts []part) error {
	req := &addpartitionstotxn.Request{TransactionalID: t.id, ProducerID: t.producer, ProducerEpoch: t.epoch}
	for _, p := range parts {
		n := len(req.Topics)
		if n == 0 || req.Topics[n-1].Name != p.tp.Topic {
			req.Topics = append(req.Topics, addpartitionstotxn.RequestTopic{Name: p.tp.Topic})
			n++
		}
		req.Topics[n-1].Partitions = append(req.Topics[n-1].Partitions, p.tp.Partition)
	}
	return t.call(ctx, func(ctx context.Context) error {
		res, err := t.client.coordinated(ctx, t.id, ofTransaction, req)
		if err != nil {
			return err
		}
		var worst error
		left := len(parts)
		for _, topic := range res.(*addpartitionstotxn.Response).Results {
			for _, p := range topic.Results {
				left--
				const notAttempted = 55 // another partition of the request failed
				if code := kgo.Error(p.ErrorCode); code != 0 && (worst == nil || code != notAttempted) {
					worst = &partitionError{TopicPartition{topic.Name, p.PartitionIndex}, code}
				}
			}
		}
		if worst == nil && left != 0 {
			return errAnswer
		}
		return worst
	})
}

func (t *Transactor) offsets(ctx context.Context, tx Transaction) error {
	if len(tx.Offsets) == 0 {
		return nil
	}
	err := t.call(ctx, func(ctx context.Context) error {
		res, err := t.client.coordinated(ctx, t.id, ofTransaction, &addoffsetstotxn.Request{
			TransactionalID: t.id, ProducerID: t.producer, ProducerEpoch: t.epoch, GroupID: tx.Group,
		})
		if err != nil {
			return err
		}
		if code := res.(*addoffsetstotxn.Response).ErrorCode; code != 0 {
			return kgo.Error(code)
		}
		return nil
	})
	if err != nil {
		return err
	}
	m := tx.Member
	if m.ID == "" {
		m.Generation = -1
	}
	req := &txnoffsetcommit.Request{
		TransactionalID: t.id, GroupID: tx.Group, ProducerID: t.producer, ProducerEpoch: t.epoch,
		MemberID: m.ID, GenerationID: m.Generation,
	}
	for _, tp := range slices.SortedFunc(maps.Keys(tx.Offsets), comparePartitions) {
		n := len(req.Topics)
		if n == 0 || req.Topics[n-1].Name != tp.Topic {
			req.Topics = append(req.Topics, txnoffsetcommit.RequestTopic{Name: tp.Topic})
			n++
		}
		req.Topics[n-1].Partitions = append(req.Topics[n-1].Partitions, txnoffsetcommit.RequestPartition{
			Partition: tp.Partition, CommittedOffset: tx.Offsets[tp], CommittedLeaderEpoch: -1,
		})
	}
	return t.client.groupCall(ctx, tx.Group, func(ctx context.Context) error {
		res, err := t.client.coordinated(ctx, tx.Group, ofGroup, req)
		if err != nil {
			t.doubtful = t.doubtful || brokenLink(err)
			return err
		}
		left := len(tx.Offsets)
		for _, topic := range res.(*txnoffsetcommit.Response).Topics {
			for _, p := range topic.Partitions {
				if p.ErrorCode != 0 {
					return &partitionError{TopicPartition{topic.Name, p.Partition}, kgo.Error(p.ErrorCode)}
				}
				left--
			}
		}
		if left != 0 {
			return errAnswer
		}
		return nil
	})
}

func (t *Transactor) end(ctx context.Context, commit bool) error {
	return t.call(ctx, func(ctx context.Context) error {
		res, err := t.client.coordinated(ctx, t.id, ofTransaction, &endtxn.Request{
			TransactionalID: t.id, ProducerID: t.producer, ProducerEpoch: t.epoch, Committed: commit,
		})
		if err != nil {
			return err
		}
		if code := res.(*endtxn.Response).ErrorCode; code != 0 {
			return kgo.Error(code)
		}
		return nil
	})
}

// call retries f, and looks the transaction's coordinator up again where that may help.
func (t *Transactor) call(ctx context.Context, f func(context.Context) error) error {
	return t.client.retry(ctx, t.id, func(ctx context.Context) error {
		err := f(ctx)
		if err != nil && staleCoordinator(err) {
			t.client.dropCoordinator(t.id, ofTransaction)
		}
		t.doubtful = t.doubtful || brokenLink(err)
		return err
	})
}

func comparePartitions(a, b TopicPartition) int {
	switch {
	case a.Topic < b.Topic:
		return -1
	case a.Topic > b.Topic:
		return 1
	}
	return int(a.Partition) - int(b.Partition)
}
