package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"evalstream"
	"evalstream/topics"
	"evalstream/topics/kafka"
)

// A job from topic to topic, until the end that the input had when it began.
func TestJobUntilEnd(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	const partitions, n = 3, 1000
	in, out := topic(t, c, partitions, nil), topic(t, c, 5, nil)
	p := c.NewProducer(t.Context(), kafka.Zstd)
	closing(t, p)
	var ms []topics.Message
	for i := range n {
		for q := range int32(partitions) {
			ms = append(ms, topics.Message{Partition: q, Value: fmt.Appendf(nil, "%d/%d", q, i)})
		}
	}
	ms = append(ms, topics.Message{Key: []byte("gone")})
	if err := errors.Join(p.SendTo(t.Context(), in, ms...)...); err != nil {
		t.Fatal(err)
	}
	// The end of the log is a marker, and the last record before it aborted.
	tr := transactor(t, c, name("tx"))
	q := kafka.TopicPartition{Topic: in}
	if _, err := tr.Commit(t.Context(), kafka.Transaction{
		Messages: map[kafka.TopicPartition][]topics.Message{q: text("aborted")},
		Offsets:  map[kafka.TopicPartition]int64{q: 1}, Group: name("g"), Member: kafka.Member{ID: "nobody", Generation: 1},
	}); !errors.Is(err, kafka.ErrLost) {
		t.Fatal(err)
	}
	source, err := c.NewSource(t.Context(), kafka.SourceOptions{Topic: in, UntilEnd: true})
	if err != nil {
		t.Fatal(err)
	}
	closing(t, source)
	if err := errors.Join(p.SendTo(t.Context(), in, text("late")...)...); err != nil {
		t.Fatal(err)
	}
	pipe, err := evalstream.New("test", evalstream.Step{Name: "pass", New: func() (evalstream.Stage, error) { return passing{}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	sink := kafka.NewTopicSink(p, out, func(r *evalstream.Record) (topics.Message, []byte, bool) {
		key := []byte(r.Pos.String())
		return topics.Message{Key: key, Value: append([]byte(nil), r.Raw...)}, key, true
	})
	job := evalstream.Job{Pipeline: pipe, Source: source, Sink: sink, Workers: 3, Partitions: source.Count()}
	sum, err := job.Run(t.Context())
	if err != nil || sum.Lines != partitions*n || source.Tombstones() != 1 {
		t.Fatalf("%d lines, %d tombstones, error %v; want %d and 1", sum.Lines, source.Tombstones(), err, partitions*n)
	}
	got := map[string]string{}
	if err := c.Cat(t.Context(), out, func(m topics.Message) error {
		if want := kafka.Partition(m.Key, 5); m.Partition != want {
			t.Errorf("%s is in partition %d, want %d", m.Key, m.Partition, want)
		}
		got[string(m.Key)] = string(m.Value)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(got) != partitions*n || got[in+"[2]@999"] != "2/999" {
		t.Errorf("%d messages; 2/999 is %q", len(got), got[in+"[2]@999"])
	}
}

type passing struct{}

func (passing) Process(_ context.Context, in []evalstream.Record, out *evalstream.Out) error {
	for _, r := range in {
		out.Emit(r)
	}
	return nil
}

// A value over the limit is one block of its own, and Drain ends a source that waits.
func TestSourceLongAndDrain(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	in := topic(t, c, 1, nil)
	p := c.NewProducer(t.Context(), kafka.None)
	closing(t, p)
	if err := errors.Join(p.SendTo(t.Context(), in, text("a", strings.Repeat("x", 5000), "b")...)...); err != nil {
		t.Fatal(err)
	}
	source, err := c.NewSource(t.Context(), kafka.SourceOptions{Topic: in, MaxLine: 1000})
	if err != nil {
		t.Fatal(err)
	}
	closing(t, source)
	var got []string
	for range 3 {
		var block evalstream.Block
		if err := source.Read(t.Context(), &block); err != nil {
			t.Fatal(err)
		}
		if block.Long > 0 {
			got = append(got, fmt.Sprintf("%v long %d, head %d", block.At, block.Long, len(block.Data)))
			continue
		}
		for _, r := range block.Records {
			got = append(got, fmt.Sprintf("%v %s", r.Pos, r.Raw))
		}
	}
	if want := fmt.Sprintf("%[1]s[0]@0 a, %[1]s[0]@1 long 5000, head 256, %[1]s[0]@2 b", in); strings.Join(got, ", ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
	source.Drain()
	if err := source.Read(t.Context(), &evalstream.Block{}); !errors.Is(err, io.EOF) {
		t.Errorf("after Drain: %v", err)
	}
}
