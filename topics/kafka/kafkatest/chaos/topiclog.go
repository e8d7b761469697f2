package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A topicLog is what a topic holds for those who read what is committed, by franz-go,
// which shares no code with what is tested.
type topicLog struct {
	name       string
	partitions [][]message
	commits    int // markers of ended transactions
	aborts     int
}

type message struct {
	offset int64
	key    []byte
	value  []byte // nil: a tombstone
}

// pos is how the program names a position.
func (l *topicLog) pos(partition int, offset int64) string {
	return fmt.Sprintf("%s[%d]@%d", l.name, partition, offset)
}

// data are the messages of a partition that are no marks and no tombstones.
func (l *topicLog) data(partition int) (ms []message) {
	for _, m := range l.partitions[partition] {
		if m.value != nil && !isMark(m.value) {
			ms = append(ms, m)
		}
	}
	return ms
}

// latest is the last message of each key, without tombstones, marks and messages that
// have no key.
func (l *topicLog) latest(partition int) map[string]message {
	last := map[string]message{}
	for _, m := range l.partitions[partition] {
		switch {
		case m.key == nil:
		case m.value == nil:
			delete(last, string(m.key))
		case !isMark(m.value):
			last[string(m.key)] = m
		}
	}
	return last
}

func isMark(value []byte) bool {
	var of struct {
		Kind string `json:"kind"`
	}
	return json.Unmarshal(value, &of) == nil && of.Kind == "mark"
}

func values(ms []message) []string {
	var out []string
	for _, m := range ms {
		out = append(out, string(m.value))
	}
	return out
}

// A reader reads topics whole.
type reader struct{ brokers []string }

// ends are the offsets behind the last message of each partition: of all messages, and
// of those that no open transaction holds back.
func (r reader) ends(ctx context.Context, topic string, count int) (all, stable []int64, err error) {
	c, err := kgo.NewClient(kgo.SeedBrokers(r.brokers...), kgo.AlwaysRetryEOF())
	if err != nil {
		return nil, nil, err
	}
	defer c.Close()
	ask := func(isolation int8) ([]int64, error) {
		req := kmsg.NewListOffsetsRequest()
		req.IsolationLevel = isolation
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = topic
		for p := range count {
			one := kmsg.NewListOffsetsRequestTopicPartition()
			one.Partition, one.Timestamp = int32(p), -1
			t.Partitions = append(t.Partitions, one)
		}
		req.Topics = append(req.Topics, t)
		at := make([]int64, count)
		for _, shard := range c.RequestSharded(ctx, &req) {
			if shard.Err != nil {
				return nil, fmt.Errorf("%s: %w", topic, shard.Err)
			}
			for _, t := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
				for _, p := range t.Partitions {
					if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
						return nil, fmt.Errorf("%s[%d]: %w", topic, p.Partition, err)
					}
					at[p.Partition] = p.Offset
				}
			}
		}
		return at, nil
	}
	if all, err = ask(0); err != nil {
		return nil, nil, err
	}
	stable, err = ask(1)
	return all, stable, err
}

// errHeld says that a transaction is open for so long that nobody will end it.
var errHeld = errors.New("held by an open transaction")

// settle waits until no transaction is open on the topic.
func (r reader) settle(ctx context.Context, topic string, count int) ([]int64, error) {
	late := time.Now().Add(30 * time.Second)
	for {
		all, stable, err := r.ends(ctx, topic, count)
		if err != nil {
			return nil, err
		}
		if slices.Equal(all, stable) {
			return all, nil
		}
		if time.Now().After(late) {
			return nil, fmt.Errorf("%s: %w: it ends at %v and is stable to %v", topic, errHeld, all, stable)
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// read reads a topic of that many partitions from these offsets (nil: the start) to the
// ends.
func (r reader) read(ctx context.Context, topic string, from, to []int64) (*topicLog, error) {
	l := &topicLog{name: topic, partitions: make([][]message, len(to))}
	at := map[int32]kgo.Offset{}
	left := map[int32]bool{}
	for p, end := range to {
		start := int64(0)
		if from != nil {
			start = from[p]
		}
		if start < end {
			at[int32(p)] = kgo.NewOffset().At(start)
			left[int32(p)] = true
		}
	}
	if len(left) == 0 {
		return l, nil
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(r.brokers...), kgo.AlwaysRetryEOF(), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: at}))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	timed, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for len(left) > 0 {
		fs := c.PollFetches(timed)
		if timed.Err() != nil {
			return nil, fmt.Errorf("%s: its end %v was not reached: %w", topic, to, timed.Err())
		}
		for _, e := range fs.Errors() {
			if !kerr.IsRetriable(e.Err) {
				return nil, fmt.Errorf("%s[%d]: %w", topic, e.Partition, e.Err)
			}
		}
		fs.EachRecord(func(rec *kgo.Record) {
			if rec.Offset >= to[rec.Partition] {
				return
			}
			if rec.Offset == to[rec.Partition]-1 {
				delete(left, rec.Partition)
			}
			if rec.Attrs.IsControl() {
				if len(rec.Key) >= 4 && binary.BigEndian.Uint16(rec.Key[2:]) == 1 {
					l.commits++
				} else {
					l.aborts++
				}
				return
			}
			l.partitions[rec.Partition] = append(l.partitions[rec.Partition], message{rec.Offset, rec.Key, rec.Value})
		})
	}
	return l, nil
}

// whole reads all of a topic once it has settled.
func (r reader) whole(ctx context.Context, topic string) (*topicLog, error) {
	to, err := r.settle(ctx, topic, partitions)
	if err != nil {
		return nil, err
	}
	return r.read(ctx, topic, nil, to)
}

// offsetsTopic is where the broker keeps committed offsets, and offsetsPartitions how
// many partitions deploy/kafka/broker gives it.
const (
	offsetsTopic      = "__consumer_offsets"
	offsetsPartitions = 4
)

// offsetsEnds are the ends of the broker's own topic of offsets; nil if nobody has
// committed any yet.
func (r reader) offsetsEnds(ctx context.Context) ([]int64, error) {
	all, _, err := r.ends(ctx, offsetsTopic, offsetsPartitions)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil, nil
	}
	return all, err
}

// transactions counts those that have committed offsets since the topic of offsets
// ended there: each has one marker in the partition of its group.
func (r reader) transactions(ctx context.Context, from []int64) (int, error) {
	_, stable, err := r.ends(ctx, offsetsTopic, offsetsPartitions)
	if err != nil {
		return 0, err
	}
	l, err := r.read(ctx, offsetsTopic, from, stable)
	if err != nil {
		return 0, err
	}
	return l.commits, nil
}
