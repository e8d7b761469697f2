package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	kgo "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/createtopics"
	"github.com/segmentio/kafka-go/protocol/deletetopics"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"evalstream/topics"
)

// TopicSpec is a topic as it should be.
type TopicSpec struct {
	Name        string
	Partitions  int32
	Replication int16 // 0 or -1 is the broker's default
	// Config are topic settings, such as cleanup.policy: compact.
	Config map[string]string
}

// TopicState is a topic as it is.
type TopicState struct {
	Name       string
	Partitions []PartitionState // by number
	Config     map[string]string
}

// Settings are what a broker says of a topic, without its records.
type Settings struct {
	// Config are all settings, those of the brokers and defaults included; nil if this
	// user may not read them.
	Config map[string]string
	// Own are those that are set for this topic alone.
	Own map[string]string
}

// Settings reads the settings of a topic.
func (c *Client) Settings(ctx context.Context, name string) (Settings, error) {
	s, err := c.settings(ctx, name)
	if denied(err) != "" {
		return Settings{}, nil
	}
	return s, c.explain(name, err)
}

// Replication is how many copies the partitions of a topic have.
func (c *Client) Replication(ctx context.Context, name string) (n int16, err error) {
	err = c.retry(ctx, name, func(ctx context.Context) error {
		res, err := c.do(ctx, -1, &metadata.Request{TopicNames: []string{name}})
		if err != nil {
			return err
		}
		for _, t := range res.(*metadata.Response).Topics {
			if t.ErrorCode != 0 {
				return kgo.Error(t.ErrorCode)
			}
			for _, p := range t.Partitions {
				n = max(n, int16(len(p.ReplicaNodes)))
			}
		}
		return nil
	})
	return n, c.explain(name, err)
}

// PartitionState is one partition of a topic.
type PartitionState struct {
	Partition  int32
	Leader     int32 // -1 if there is none
	First, End int64 // first offset, and the one behind the last committed record
}

// CreateTopics makes the topics that are missing and returns their names. Those that
// are there are left as they are: Mismatches says where they differ.
func (c *Client) CreateTopics(ctx context.Context, specs ...TopicSpec) (made []string, err error) {
	for _, s := range specs {
		req := &createtopics.Request{TimeoutMs: int32(c.conf.timeout().Milliseconds())}
		t := createtopics.RequestTopic{Name: s.Name, NumPartitions: s.Partitions, ReplicationFactor: cmp.Or(s.Replication, -1)}
		for _, k := range slices.Sorted(maps.Keys(s.Config)) {
			t.Configs = append(t.Configs, createtopics.RequestConfig{Name: k, Value: s.Config[k]})
		}
		req.Topics = []createtopics.RequestTopic{t}
		err := c.retry(ctx, "create "+s.Name, func(ctx context.Context) error {
			res, err := c.toController(ctx, req)
			if err != nil {
				return err
			}
			for _, r := range res.(*createtopics.Response).Topics {
				switch code := kgo.Error(r.ErrorCode); {
				case code == 0:
					made = append(made, s.Name)
				case code == kgo.TopicAlreadyExists:
				case r.ErrorMessage != "" && !retriable(code) && denied(code) == "":
					return fmt.Errorf("%s: %w", r.ErrorMessage, code)
				default:
					return code
				}
			}
			return nil
		})
		if err != nil {
			return made, c.explain(s.Name, err)
		}
	}
	for _, s := range specs {
		// Creation is answered before all brokers know of it.
		if err := c.retry(ctx, s.Name, func(ctx context.Context) error { return c.refresh(ctx, s.Name) }); err != nil {
			return made, c.explain(s.Name, err)
		}
	}
	return made, nil
}

// DeleteTopics deletes topics with all that is in them. One that is not there is no error.
func (c *Client) DeleteTopics(ctx context.Context, names ...string) error {
	for _, name := range names {
		err := c.retry(ctx, "delete "+name, func(ctx context.Context) error {
			res, err := c.toController(ctx, &deletetopics.Request{TopicNames: []string{name}, TimeoutMs: int32(c.conf.timeout().Milliseconds())})
			if err != nil {
				return err
			}
			for _, r := range res.(*deletetopics.Response).Responses {
				if code := kgo.Error(r.ErrorCode); code != 0 && code != kgo.UnknownTopicOrPartition {
					return code
				}
			}
			return nil
		})
		if err != nil {
			return c.explain(name, err)
		}
		c.forget(name)
	}
	return nil
}

// toController sends a request to the controller, or to any broker where that is
// hidden, as with KRaft.
func (c *Client) toController(ctx context.Context, req kgo.Request) (kgo.Response, error) {
	res, err := c.do(ctx, -1, &metadata.Request{TopicNames: []string{}})
	if err != nil {
		return nil, err
	}
	return c.do(ctx, res.(*metadata.Response).ControllerID, req)
}

// DescribeTopic reads the partitions, offsets and settings of a topic. Settings are
// left out where this user may not read them.
func (c *Client) DescribeTopic(ctx context.Context, name string) (TopicState, error) {
	n, err := c.Partitions(ctx, name)
	if err != nil {
		return TopicState{}, err
	}
	out := TopicState{Name: name}
	for p := range n {
		st := PartitionState{Partition: p, Leader: -1}
		tp := TopicPartition{name, p}
		if st.First, st.End, err = c.bounds(ctx, tp); err != nil {
			return TopicState{}, c.explain(tp.String(), err)
		}
		if st.Leader, err = c.leader(ctx, tp); err != nil {
			return TopicState{}, c.explain(tp.String(), err)
		}
		out.Partitions = append(out.Partitions, st)
	}
	out.Config, err = c.topicConfig(ctx, name)
	if err != nil && denied(err) == "" {
		return TopicState{}, c.explain(name, err)
	}
	return out, nil
}

// Mismatches says in a line each how the topic differs from the spec, with the
// settings that the spec names.
func (t TopicState) Mismatches(want TopicSpec) []string {
	var out []string
	if got := int32(len(t.Partitions)); got != want.Partitions {
		out = append(out, fmt.Sprintf("%s: want %d partitions, got %d", want.Name, want.Partitions, got))
	}
	for _, k := range slices.Sorted(maps.Keys(want.Config)) {
		if got := t.Config[k]; got != want.Config[k] {
			out = append(out, fmt.Sprintf("%s: want %s=%s, got %q", want.Name, k, want.Config[k], got))
		}
	}
	return out
}

// topicConfig reads settings of a topic, all if none is named.
func (c *Client) topicConfig(ctx context.Context, name string, keys ...string) (map[string]string, error) {
	s, err := c.settings(ctx, name, keys...)
	return s.Config, err
}

func (c *Client) settings(ctx context.Context, name string, keys ...string) (Settings, error) {
	s := Settings{Config: map[string]string{}, Own: map[string]string{}}
	err := c.retry(ctx, name, func(ctx context.Context) error {
		const topicResource = 2
		res, err := c.do(ctx, -1, &describeconfigs.Request{Resources: []describeconfigs.RequestResource{
			{ResourceType: topicResource, ResourceName: name, ConfigNames: keys},
		}})
		if err != nil {
			return err
		}
		for _, r := range res.(*describeconfigs.Response).Resources {
			if r.ErrorCode != 0 {
				return kgo.Error(r.ErrorCode)
			}
			for _, e := range r.ConfigEntries {
				const ofTopic = 1
				s.Config[e.ConfigName] = e.ConfigValue
				if e.ConfigSource == ofTopic {
					s.Own[e.ConfigName] = e.ConfigValue
				}
			}
		}
		return nil
	})
	return s, err
}

// Lag is how far a group is behind in one partition.
type Lag struct {
	TopicPartition
	Committed int64 // -1 if nothing was committed
	First     int64
	End       int64 // behind the last committed record
}

// Behind is how many offsets are still to be read; markers of transactions count.
func (l Lag) Behind() int64 {
	return max(0, l.End-max(l.Committed, l.First))
}

// GroupLag is the lag of a group in every partition of the topics.
func (c *Client) GroupLag(ctx context.Context, group string, names ...string) ([]Lag, error) {
	var out []Lag
	for _, name := range names {
		n, err := c.Partitions(ctx, name)
		if err != nil {
			return nil, err
		}
		tps := make([]TopicPartition, n)
		for p := range n {
			tps[p] = TopicPartition{name, p}
		}
		committed, err := c.Committed(ctx, group, tps...)
		if err != nil {
			return nil, err
		}
		for _, tp := range tps {
			l := Lag{TopicPartition: tp, Committed: -1}
			if at, ok := committed[tp]; ok {
				l.Committed = at
			}
			if l.First, l.End, err = c.bounds(ctx, tp); err != nil {
				return nil, c.explain(tp.String(), err)
			}
			out = append(out, l)
		}
	}
	return out, nil
}

// Ends adds to ends, for each partition of topics, the offset behind its last committed
// record. A transaction that is being committed is waited for, one that stays open for a
// second.
func (c *Client) Ends(ctx context.Context, ends map[TopicPartition]int64, names ...string) error {
	late := time.Now().Add(settling)
	for _, name := range names {
		n, err := c.Partitions(ctx, name)
		if err != nil {
			return err
		}
		for p := range n {
			tp := TopicPartition{name, p}
			end, err := c.settledEnd(ctx, tp, late)
			if err != nil {
				return c.explain(tp.String(), err)
			}
			ends[tp] = end
		}
	}
	return nil
}

// Committed are the offsets that a group has committed; partitions without one are
// left out. A transaction that commits offsets and is still ending is waited for. One
// that goes on is too, so an owner takes the partition over with Transactor first.
func (c *Client) Committed(ctx context.Context, group string, tps ...TopicPartition) (map[TopicPartition]int64, error) {
	byTopic := map[string][]int32{}
	for _, tp := range tps {
		byTopic[tp.Topic] = append(byTopic[tp.Topic], tp.Partition)
	}
	var out map[TopicPartition]int64
	err := c.groupCall(ctx, group, func(ctx context.Context) error {
		id, err := c.coordinator(ctx, coordinatorKey{group, ofGroup})
		if err != nil {
			return err
		}
		timed, cancel := context.WithTimeout(ctx, c.conf.timeout())
		defer cancel()
		res, err := c.transport.RoundTrip(timed, c.addr, &stableOffsets{client: c.conf.clientID(), broker: id, group: group, topics: byTopic})
		if err != nil {
			return err
		}
		out = res.(*offsets).at
		return nil
	})
	return out, c.explain(group, err)
}

// groupCall retries f, and looks the group's coordinator up again where that may help.
func (c *Client) groupCall(ctx context.Context, group string, f func(context.Context) error) error {
	return c.retry(ctx, group, func(ctx context.Context) error {
		err := f(ctx)
		if err != nil && staleCoordinator(err) {
			c.dropCoordinator(group, ofGroup)
		}
		return err
	})
}

// Cat calls f for each message that the topic holds now, with those of a transaction that
// is being committed (one that stays open is waited for a second), in order within a
// partition, one partition after the other, until f returns an error; io.EOF ends it
// without one.
func (c *Client) Cat(ctx context.Context, topic string, f func(topics.Message) error) error {
	late := time.Now().Add(settling)
	n, err := c.Partitions(ctx, topic)
	if err != nil {
		return err
	}
	for p := range n {
		tp := TopicPartition{topic, p}
		end, err := c.settledEnd(ctx, tp, late)
		if err != nil {
			return c.explain(tp.String(), err)
		}
		enough := false // said by f; the broker's errors may be io.EOF too
		err = c.scan(ctx, tp, First, end, ReadOptions{OnGap: SkipGap}, func(b Batch) error {
			for _, m := range b.Messages {
				if m.Offset >= end {
					break
				}
				if err := f(m); err != nil {
					enough = errors.Is(err, io.EOF)
					return err
				}
			}
			return nil
		})
		if enough {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// CatLatest calls f for the last message of each key, in the order of the partitions
// and then of the offsets, without tombstones and without messages that have no key.
// It holds one message a key in memory.
func (c *Client) CatLatest(ctx context.Context, topic string, f func(topics.Message) error) error {
	last := map[string]topics.Message{}
	err := c.Cat(ctx, topic, func(m topics.Message) error {
		switch {
		case m.Key == nil:
		case m.Value == nil:
			delete(last, string(m.Key))
		default:
			// The batch that holds the message need not live on.
			m.Key, m.Value = slices.Clone(m.Key), slices.Clone(m.Value)
			last[string(m.Key)] = m
		}
		return nil
	})
	if err != nil {
		return err
	}
	all := slices.SortedFunc(maps.Values(last), func(a, b topics.Message) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	for _, m := range all {
		if err := f(m); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
	return nil
}

func atoi(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n > 0
}
