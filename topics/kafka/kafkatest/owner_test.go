package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	kgo "github.com/segmentio/kafka-go"

	"evalstream/topics"
	"evalstream/topics/kafka"
)

// member copies a topic in transactions until it is stopped: in order, or as by a
// crash.
type member struct {
	kill, stop context.CancelFunc
	done       chan error
}

func (m *member) wait() error { return <-m.done }

func startMember(t *testing.T, brokers []string, group, in, out string) *member {
	alive, kill := context.WithCancel(background(t))
	running, stop := context.WithCancel(alive)
	m := &member{kill: kill, stop: stop, done: make(chan error, 1)}
	c, err := kafka.Connect(alive, kafka.Config{Brokers: brokers, Log: slog.New(slog.NewTextHandler(logs{t}, nil))})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer c.Close()
		defer kill()
		m.done <- own(running, t, c, kafka.GroupOptions{ID: group, Topics: []string{in}, Session: 6 * time.Second, Rebalance: 6 * time.Second, Watch: time.Second},
			func(ctx context.Context, o kafka.Ownership) error {
				// A crash takes the sink away in the middle of things.
				s := kafka.NewSink(alive, o.Transactor, kafka.SinkOptions{Group: o.Group, Member: o.Member, MaxRecords: 200})
				closing(t, s)
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				var all sync.WaitGroup
				errs := make([]error, len(o.Partitions))
				for i, p := range o.Partitions {
					all.Go(func() {
						defer cancel()
						tp := kafka.TopicPartition{Topic: in, Partition: p}
						errs[i] = c.Pump(ctx, tp, o.From[tp], kafka.ReadOptions{MaxBytes: 4 << 10}, func(b kafka.Batch) error {
							u := kafka.Unit{Offsets: map[kafka.TopicPartition]int64{tp: b.Next}}
							for _, m := range b.Messages {
								to := kafka.TopicPartition{Topic: out, Partition: p}
								u.Outputs = append(u.Outputs, kafka.Output{To: to, Message: topics.Message{Key: m.Key, Value: m.Value}})
							}
							return s.Put(ctx, u)
						})
					})
				}
				all.Wait()
				for _, err := range errs {
					if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, kgo.ErrGenerationEnded) {
						return err
					}
				}
				if alive.Err() == nil {
					return s.Drain(alive)
				}
				return alive.Err()
			})
	}()
	return m
}

// own is Own that tells at once what a member dies of.
func own(ctx context.Context, t *testing.T, c *kafka.Client, opt kafka.GroupOptions, f func(context.Context, kafka.Ownership) error) error {
	err := c.Own(ctx, opt, f)
	if ctx.Err() == nil && t.Context().Err() == nil {
		t.Errorf("member has ended: %v", err)
	}
	return err
}

// checkCopy compares the topics, partition by partition.
func checkCopy(t *testing.T, c *kafka.Client, out string, want [][]string) {
	t.Helper()
	for p, ws := range want {
		got := values(t, c, kafka.TopicPartition{Topic: out, Partition: int32(p)}, len(ws))
		for i := range min(len(ws), len(got)) {
			if got[i] != ws[i] {
				t.Errorf("partition %d: message %d is %s, want %s", p, i, got[i], ws[i])
				break
			}
		}
		if len(got) != len(ws) {
			t.Errorf("partition %d: %d messages, want %d", p, len(got), len(ws))
		}
	}
}

// Members come, go and crash; each message is copied once and in order.
func TestOwnExactlyOnce(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	const partitions, n = 4, 3000
	in, out, group := topic(t, c, partitions, nil), topic(t, c, partitions, nil), name("g")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	want := make([][]string, partitions)
	var feed sync.WaitGroup
	p := c.NewProducer(t.Context(), kafka.None)
	for i := range partitions {
		for k := range n {
			want[i] = append(want[i], fmt.Sprintf("%d/%d", i, k))
		}
	}
	feed.Go(func() {
		for k := 0; k < n; k += 50 {
			var ms []topics.Message
			for i := range partitions {
				for j := k; j < k+50; j++ {
					ms = append(ms, topics.Message{Partition: int32(i), Value: []byte(want[i][j])})
				}
			}
			if err := errors.Join(p.SendTo(t.Context(), in, ms...)...); err != nil {
				t.Error(err)
				return
			}
			wait(t, 50*time.Millisecond)
		}
	})
	members := []*member{startMember(t, b, group, in, out), startMember(t, b, group, in, out)}
	for range 6 {
		wait(t, time.Duration(200+rng.IntN(600))*time.Millisecond)
		i := rng.IntN(len(members))
		if rng.IntN(2) == 0 {
			members[i].kill()
		} else {
			members[i].stop()
		}
		if err := members[i].wait(); !errors.Is(err, context.Canceled) {
			t.Errorf("member ended with %v", err)
		}
		members[i] = startMember(t, b, group, in, out)
	}
	feed.Wait()
	checkCopy(t, c, out, want)
	for _, m := range members {
		m.stop()
		if err := m.wait(); !errors.Is(err, context.Canceled) {
			t.Errorf("member ended with %v", err)
		}
	}
	_ = p.Close()
	lags, err := c.GroupLag(t.Context(), group, in)
	if err != nil || len(lags) != partitions {
		t.Fatalf("lag %v, error %v", lags, err)
	}
	for _, l := range lags {
		if l.Behind() != 0 {
			t.Errorf("%v is %d behind", l.TopicPartition, l.Behind())
		}
	}
}

// wait lets the world go on for a while: the load of this test is in its rhythm.
func wait(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

// Partitions that are added are read without a restart.
func TestPartitionsAreAdded(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	in, group := topic(t, c, 1, nil), name("g")
	sub := c.NewSubscriber(t.Context(), kafka.SubscriberOptions{Group: kafka.GroupOptions{ID: group, Watch: 200 * time.Millisecond}})
	closing(t, sub)
	plain := c.NewSubscriber(t.Context(), kafka.SubscriberOptions{Group: kafka.GroupOptions{Watch: 200 * time.Millisecond}})
	closing(t, plain)
	p := c.NewProducer(t.Context(), kafka.LZ4)
	closing(t, p)
	send := func(partition int32, v string) {
		t.Helper()
		if err := errors.Join(p.SendTo(t.Context(), in, topics.Message{Partition: partition, Value: []byte(v)})...); err != nil {
			t.Fatal(err)
		}
	}
	send(0, "a")
	grow(t, b, in, 3)
	send(2, "b")
	var open []<-chan *message.Message
	for _, s := range []*kafka.Subscriber{sub, plain} {
		msgs, err := s.Subscribe(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, msgs)
		got := map[string]bool{}
		for range 2 {
			m := next(t, msgs)
			got[string(m.Payload)] = true
			m.Ack()
		}
		if !got["a"] || !got["b"] {
			t.Errorf("got %v", got)
		}
	}
	grow(t, b, in, 4)
	send(3, "c")
	for _, msgs := range open {
		if m := next(t, msgs); string(m.Payload) != "c" {
			t.Errorf("got %s", m.Payload)
		}
	}
}
