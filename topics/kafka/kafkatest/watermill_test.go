package kafkatest

import (
	"log/slog"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"

	"evalstream/topics/kafka"
)

// suite makes Watermill's Pub/Subs for one set of features.
type suite struct {
	brokers    []string
	partitions int32
	inFlight   int
	key        func(topic string, m *message.Message) []byte
	group      string // of the Pub/Subs that the suite does not give one; "" is none
}

func (s suite) make(t *testing.T, group string) (message.Publisher, message.Subscriber) {
	ctx := background(t)
	c, err := kafka.Connect(ctx, kafka.Config{Brokers: s.brokers, Log: slog.New(slog.NewTextHandler(logs{t}, nil))})
	if err != nil {
		t.Fatal(err)
	}
	pub := kafka.NewPublisher(c.NewProducer(ctx, kafka.None))
	pub.Key = s.key
	sub := c.NewSubscriber(ctx, kafka.SubscriberOptions{
		Group:    kafka.GroupOptions{ID: group, Session: 6 * time.Second, Rebalance: 3 * time.Second},
		Read:     kafka.ReadOptions{MaxWait: 250 * time.Millisecond},
		InFlight: s.inFlight, Backoff: time.Millisecond, MaxBackoff: 4 * time.Millisecond, Commit: 100 * time.Millisecond, Drain: 100 * time.Millisecond,
		Create: kafka.TopicSpec{Partitions: s.partitions},
	})
	t.Cleanup(c.Close)
	return pub, sub
}

func (s suite) run(t *testing.T, f tests.Features) {
	f.Persistent = true
	f.GenerateTopicFunc = func(tests.TestContext) string { return name("w") }
	tests.TestPubSub(t, f,
		func(t *testing.T) (message.Publisher, message.Subscriber) { return s.make(t, s.group) },
		s.make,
	)
}

// The three runs: a message at a time in order, many at a time, and without a group.
// The suite's TestReconnect stays out: it notes what it has sent without waiting for
// the note, and fails by one where everything arrived. TestReconnect is ours.
func TestWatermillOrdered(t *testing.T) {
	ordered(cluster(t)).run(t, tests.Features{ConsumerGroups: true, GuaranteedOrder: true})
}

func TestWatermillPipelined(t *testing.T) {
	pipelined(cluster(t)).run(t, tests.Features{ConsumerGroups: true})
}

func TestWatermillWithoutGroup(t *testing.T) {
	withoutGroup(cluster(t)).run(t, tests.Features{NewSubscriberReceivesOldMessages: true})
}

func ordered(brokers []string) suite {
	return suite{brokers: brokers, partitions: 8, inFlight: 1, group: "test", key: func(_ string, m *message.Message) []byte {
		// What the suite wants in order has its type as payload.
		return m.Payload
	}}
}

func pipelined(brokers []string) suite {
	return suite{brokers: brokers, partitions: 8, inFlight: 256, group: "test"}
}

func withoutGroup(brokers []string) suite {
	return suite{brokers: brokers, partitions: 8, inFlight: 256}
}
