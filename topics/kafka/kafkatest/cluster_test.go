package kafkatest

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"evalstream/topics/kafka"
)

// brokersEnv names a broker to test against; without it every test has a fake one of
// its own.
const brokersEnv = "EVALSTREAM_TEST_BROKERS"

// cluster gives the brokers to test against.
func cluster(t *testing.T) []string {
	t.Helper()
	if b := os.Getenv(brokersEnv); b != "" {
		return strings.Split(b, ",")
	}
	return fake(t, 1).ListenAddrs()
}

// genuine is the broker to measure: a fake one has no figures worth telling.
func genuine(b *testing.B) string {
	b.Helper()
	v := os.Getenv(brokersEnv)
	if v == "" {
		b.Fatalf("%s is not set: run deploy/kafka/broker run go test -bench .", brokersEnv)
	}
	return v
}

// fake makes a cluster whose faults and leaders the test controls.
func fake(t *testing.T, brokers int) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(brokers), kfake.DefaultNumPartitions(1), kfake.BrokerConfigs(map[string]string{
		"group.min.session.timeout.ms": "1000",
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// logs writes what the client tells to the test's log.
type logs struct{ t *testing.T }

func (l logs) Write(p []byte) (int, error) {
	if l.t.Context().Err() == nil {
		l.t.Log(strings.TrimSpace(string(p)))
	}
	return len(p), nil
}

func connect(t *testing.T, brokers []string) *kafka.Client {
	t.Helper()
	c, err := kafka.Connect(t.Context(), kafka.Config{
		Brokers: brokers, Patience: 40 * time.Second,
		Log: slog.New(slog.NewTextHandler(logs{t}, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

var topicNumber atomic.Int64

// name is a topic or group that no other test has.
func name(kind string) string {
	return fmt.Sprintf("%s-%d-%d-%d", kind, os.Getpid(), time.Now().UnixNano(), topicNumber.Add(1))
}

// topic makes a topic that keeps its messages, whatever their times.
func topic(t *testing.T, c *kafka.Client, partitions int32, config map[string]string) string {
	t.Helper()
	n := name("t")
	keep := map[string]string{"retention.ms": "-1"}
	maps.Copy(keep, config)
	if _, err := c.CreateTopics(t.Context(), kafka.TopicSpec{Name: n, Partitions: partitions, Config: keep}); err != nil {
		t.Fatal(err)
	}
	return n
}

// background ends after the test's own context: cleaning up needs one.
func background(t *testing.T) context.Context { return context.WithoutCancel(t.Context()) }
