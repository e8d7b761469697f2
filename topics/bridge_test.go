package topics_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/google/go-cmp/cmp"

	"evalstream"
	"evalstream/topics"
)

// Watermill's own Pub/Sub in memory stands for any that was not written here.
func pubSub(t *testing.T) *gochannel.GoChannel {
	t.Helper()
	g := gochannel.NewGoChannel(gochannel.Config{Persistent: true, OutputChannelBuffer: 16, BlockPublishUntilSubscriberAck: false}, watermill.NopLogger{})
	t.Cleanup(func() { _ = g.Close() })
	return g
}

func subscribe(t *testing.T, g *gochannel.GoChannel, topic string) <-chan *message.Message {
	t.Helper()
	msgs, err := g.Subscribe(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	return msgs
}

func raw(dst []byte, r *evalstream.Record) []byte { return append(dst, r.Raw...) }

// A job between two topics of a foreign Pub/Sub: every message through, each
// acknowledged only once its output was published.
func TestBridge(t *testing.T) {
	g := pubSub(t)
	const n = 300
	for i := range n {
		if err := g.Publish("in", message.NewMessage(watermill.NewUUID(), fmt.Appendf(nil, "%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Publish("in", message.NewMessage("empty", nil)); err != nil {
		t.Fatal(err)
	}
	source := topics.NewSource("in", subscribe(t, g, "in"))
	job, err := bridged(source, topics.NewSink(g, "out", raw))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := job.Run(t.Context())
		done <- err
	}()
	got := map[string]bool{}
	for out := subscribe(t, g, "out"); len(got) < n; {
		select {
		case m := <-out:
			got[string(m.Payload)] = true
			m.Ack()
		case <-time.After(20 * time.Second):
			t.Fatalf("%d of %d messages", len(got), n)
		}
	}
	source.Drain()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func bridged(source *topics.Source, sink evalstream.Sink) (*evalstream.Job, error) {
	p, err := evalstream.New("test", evalstream.Step{Name: "pass", New: func() (evalstream.Stage, error) { return passing{}, nil }})
	return &evalstream.Job{
		Pipeline: p, Source: source, Sink: source.Acknowledge(sink), Workers: 3,
		Hooks: evalstream.Hooks{Block: source.Applied},
	}, err
}

type passing struct{}

func (passing) Process(_ context.Context, in []evalstream.Record, out *evalstream.Out) error {
	for _, r := range in {
		out.Emit(r)
	}
	return nil
}

// flaky is a sink whose flush fails once.
type flaky struct {
	mu    sync.Mutex
	fail  bool
	lines []string
}

func (f *flaky) Write(_ context.Context, recs []evalstream.Record) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range recs {
		f.lines = append(f.lines, string(r.Raw))
	}
	return nil
}

func (f *flaky) Flush(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail && len(f.lines) > 0 {
		f.fail = false
		return errors.New("flush fails")
	}
	return nil
}

// What was not flushed is nacked and comes again.
func TestBridgeRedelivers(t *testing.T) {
	g := pubSub(t)
	msgs := subscribe(t, g, "in")
	if err := g.Publish("in", message.NewMessage("1", []byte("x"))); err != nil {
		t.Fatal(err)
	}
	sink := &flaky{fail: true}
	job, err := bridged(topics.NewSource("in", msgs), sink)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := job.Run(t.Context()); err == nil {
		t.Error("want the error of the flush, got none")
	}
	source := topics.NewSource("in", msgs)
	if job, err = bridged(source, sink); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	job.Hooks.Block = func(p evalstream.Progress) { source.Applied(p); source.Drain() }
	if _, err := job.Run(ctx); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff([]string{"x", "x"}, sink.lines); d != "" {
		t.Error(d)
	}
}
