package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	kgo "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"evalstream/topics"
	"evalstream/topics/kafka"
)

// Keys, headers in order, times, tombstones and empty values come back as they were,
// whatever the codec.
func TestRoundTrip(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	want := []topics.Message{
		{Key: []byte("k"), Value: []byte("v"), Millis: 1_700_000_000_123},
		{Value: []byte("no key"), Millis: 1_700_000_000_100},
		{Key: []byte{}, Value: []byte{}, Millis: 1_700_000_000_999},
		{Key: []byte("tombstone"), Millis: 1_700_000_001_000},
		{Key: []byte("headers"), Value: []byte("x"), Millis: 1, Headers: []topics.Header{
			{Name: "b", Value: []byte("1")}, {Name: "a", Value: nil}, {Name: "b", Value: []byte{}},
		}},
	}
	for i := range want {
		want[i].Offset = int64(i)
	}
	for _, codec := range []kafka.Codec{kafka.None, kafka.LZ4, kafka.Zstd} {
		tp := kafka.TopicPartition{Topic: topic(t, c, 1, nil)}
		p := c.NewProducer(t.Context(), codec)
		if err := errors.Join(p.SendTo(t.Context(), tp.Topic, want...)...); err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, read(t, c, tp, len(want))); d != "" {
			t.Errorf("codec %d: %s", codec, d)
		}
	}
	// What kafka-go's writer writes with its codecs.
	for _, codec := range []kgo.Compression{0, kgo.Gzip, kgo.Snappy, kgo.Lz4, kgo.Zstd} {
		tp := kafka.TopicPartition{Topic: topic(t, c, 1, nil)}
		w := &kgo.Writer{Addr: kgo.TCP(b...), Topic: tp.Topic, Compression: codec, RequiredAcks: kgo.RequireAll, BatchTimeout: time.Millisecond, Transport: &kgo.Transport{}}
		if err := w.WriteMessages(t.Context(), kgo.Message{Key: []byte("k"), Value: []byte("v")}, kgo.Message{Value: []byte("w")}); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		got := read(t, c, tp, 2)
		if len(got) != 2 || string(got[0].Key) != "k" || string(got[0].Value) != "v" || string(got[1].Value) != "w" {
			t.Errorf("codec %v: got %v", codec, got)
		}
	}
}

// One record that is too large costs that record alone.
func TestTooLarge(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	tp := kafka.TopicPartition{Topic: topic(t, c, 1, map[string]string{"max.message.bytes": "100000"})}
	p := c.NewProducer(t.Context(), kafka.None)
	closing(t, p)
	ms := text("a", "b", "c")
	ms[1].Value = make([]byte, 100_001)
	errs := p.SendTo(t.Context(), tp.Topic, ms...)
	var tooLarge *kafka.TooLargeError
	if len(errs) != 3 || errs[0] != nil || !errors.As(errs[1], &tooLarge) || errs[2] != nil {
		t.Errorf("got %v", errs)
	}
	if d := cmp.Diff([]string{"a", "c"}, values(t, c, tp, 2)); d != "" {
		t.Error(d)
	}
}

// Records that retention has taken are a gap that is named.
func TestDeletedRecordsAreAGap(t *testing.T) {
	f := fake(t, 1)
	c := connect(t, f.ListenAddrs())
	tp := kafka.TopicPartition{Topic: topic(t, c, 1, nil)}
	p := c.NewProducer(t.Context(), kafka.None)
	closing(t, p)
	if err := errors.Join(p.SendTo(t.Context(), tp.Topic, text("0", "1", "2", "3")...)...); err != nil {
		t.Fatal(err)
	}
	if err := f.DeleteRecords(tp.Topic, 0, 2); err != nil {
		t.Fatal(err)
	}
	_, err := c.Read(tp, 1, kafka.ReadOptions{}).Next(t.Context())
	var gap *kafka.GapError
	if !errors.As(err, &gap) || gap.Want != 1 || gap.First != 2 || gap.End != 4 {
		t.Errorf("got %v", err)
	}
	r := c.Read(tp, 1, kafka.ReadOptions{OnGap: kafka.SkipGap})
	if batch, err := r.Next(t.Context()); err != nil || batch.Next != 2 {
		t.Errorf("got %+v, %v", batch, err)
	}
	if batch, err := r.Next(t.Context()); err != nil || len(batch.Messages) != 2 {
		t.Errorf("got %+v, %v", batch, err)
	}
}

// An aborted transaction, its marker and the end of a log that is nothing but those.
func TestTransactionalLog(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	tp := kafka.TopicPartition{Topic: topic(t, c, 1, nil)}
	tr := transactor(t, c, name("tx"))
	commit(t, tr, kafka.Transaction{Messages: map[kafka.TopicPartition][]topics.Message{tp: text("r0")}})
	// A wrong member makes a transaction that is aborted after its records were written.
	_, err := tr.Commit(t.Context(), kafka.Transaction{
		Messages: map[kafka.TopicPartition][]topics.Message{tp: text("r1", "r1")},
		Offsets:  map[kafka.TopicPartition]int64{tp: 1}, Group: name("g"), Member: kafka.Member{ID: "nobody", Generation: 5},
	})
	if !errors.Is(err, kafka.ErrLost) {
		t.Fatalf("want ErrLost, got %v", err)
	}
	if d := cmp.Diff([]string{"r0"}, values(t, c, tp, 1)); d != "" {
		t.Error(d)
	}
	st, err := c.DescribeTopic(t.Context(), tp.Topic)
	if err != nil {
		t.Fatal(err)
	}
	end := st.Partitions[0].End
	if end < 5 {
		t.Fatalf("log ends at %d, want the aborted records and two markers in it", end)
	}
	r := c.Read(tp, 2, kafka.ReadOptions{})
	for r.At() < end {
		batch, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(batch.Messages) > 0 {
			t.Errorf("got %v", batch.Messages)
		}
	}
	var cat []string
	if err := c.Cat(t.Context(), tp.Topic, func(m topics.Message) error { cat = append(cat, string(m.Value)); return nil }); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"r0"}, cat); d != "" {
		t.Error(d)
	}
}

// The last value of each key, whether compaction has run or not.
func TestCatLatest(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	n := topic(t, c, 1, map[string]string{"cleanup.policy": "compact"})
	p := c.NewProducer(t.Context(), kafka.None)
	closing(t, p)
	var ms []topics.Message
	for i := range 10 {
		ms = append(ms, topics.Message{Key: fmt.Appendf(nil, "%d", i%3), Value: fmt.Appendf(nil, "%d", i)})
	}
	ms = append(ms, topics.Message{Key: []byte("1")})
	if err := errors.Join(p.SendTo(t.Context(), n, ms...)...); err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := c.CatLatest(t.Context(), n, func(m topics.Message) error {
		got = append(got, string(m.Key)+"="+string(m.Value))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"2=8", "0=9"}, got); d != "" {
		t.Error(d)
	}
	st, err := c.DescribeTopic(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	spec := kafka.TopicSpec{Name: n, Partitions: 2, Config: map[string]string{"cleanup.policy": "delete"}}
	if d := cmp.Diff([]string{n + ": want 2 partitions, got 1", n + `: want cleanup.policy=delete, got "compact"`}, st.Mismatches(spec)); d != "" {
		t.Error(d)
	}
	if made, err := c.CreateTopics(t.Context(), spec); err != nil || len(made) != 0 {
		t.Errorf("made %v, error %v; want it left as it is", made, err)
	}
	if err := c.DeleteTopics(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if _, err := c.DescribeTopic(t.Context(), n); err == nil {
		t.Error("topic is still there")
	}
}

// A leader that moves is asked for at once.
func TestLeaderMoves(t *testing.T) {
	f := fake(t, 3)
	c := connect(t, f.ListenAddrs())
	tp := kafka.TopicPartition{Topic: topic(t, c, 1, nil)}
	p := c.NewProducer(t.Context(), kafka.None)
	closing(t, p)
	r := c.Read(tp, kafka.First, kafka.ReadOptions{})
	for i := range 12 {
		if err := f.MoveTopicPartition(tp.Topic, 0, int32(i%3)); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		want := fmt.Sprint(i)
		if err := errors.Join(p.SendTo(t.Context(), tp.Topic, text(want)...)...); err != nil {
			t.Fatal(err)
		}
		batch, err := r.Next(t.Context())
		if err != nil || len(batch.Messages) != 1 || string(batch.Messages[0].Value) != want {
			t.Fatalf("got %v, error %v; want %s", batch.Messages, err, want)
		}
		if d := time.Since(began); d > 500*time.Millisecond {
			t.Errorf("move %d took %v", i, d)
		}
	}
}

// A produce whose answer says that it timed out, although it was written, is there once.
func TestProduceIsIdempotent(t *testing.T) {
	f := fake(t, 1)
	c := connect(t, f.ListenAddrs())
	tp := kafka.TopicPartition{Topic: topic(t, c, 1, nil)}
	p := c.NewProducer(t.Context(), kafka.None)
	closing(t, p)
	for i := range 5 {
		fail := true
		f.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
			if fail {
				fail = false
				pr := req.(*kmsg.ProduceRequest)
				res := pr.ResponseKind().(*kmsg.ProduceResponse)
				rt := kmsg.NewProduceResponseTopic()
				rt.Topic = pr.Topics[0].Topic
				rp := kmsg.NewProduceResponseTopicPartition()
				rp.ErrorCode = kerr.NotEnoughReplicas.Code
				rt.Partitions = append(rt.Partitions, rp)
				res.Topics = append(res.Topics, rt)
				return res, nil, true
			}
			return nil, nil, false
		})
		if err := errors.Join(p.SendTo(t.Context(), tp.Topic, text(fmt.Sprint(i))...)...); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff([]string{"0", "1", "2", "3", "4"}, values(t, c, tp, 5)); d != "" {
		t.Error(d)
	}
}

// Close of an idle reader does not wait for the broker.
func TestCloseIsQuick(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	n := topic(t, c, 4, nil)
	sub := c.NewSubscriber(t.Context(), kafka.SubscriberOptions{Group: kafka.GroupOptions{ID: name("g")}, Read: kafka.ReadOptions{MaxWait: 10 * time.Second}})
	msgs, err := sub.Subscribe(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	p := c.NewProducer(t.Context(), kafka.None)
	if err := errors.Join(p.Send(t.Context(), n, text("x")...)...); err != nil {
		t.Fatal(err)
	}
	next(t, msgs).Ack()
	began := time.Now()
	if err := errors.Join(sub.Close(), sub.Close(), p.Close(), p.Close()); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(began); d > time.Second {
		t.Errorf("closing took %v", d)
	}
	if _, open := <-msgs; open {
		t.Error("messages after Close")
	}
	if errs := p.Send(t.Context(), n, text("x")...); len(errs) != 1 || errs[0] == nil {
		t.Error("a closed producer sends")
	}
}

// A topic that is not there is waited for by a subscription, and an error for Join.
func TestMissingTopic(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	n := name("missing")
	err := c.Join(t.Context(), kafka.GroupOptions{ID: name("g"), Topics: []string{n}}, func(context.Context, *kafka.Assignment) error { return nil })
	if err == nil || err.Error() != n+": topic is not there" {
		t.Errorf("got %v", err)
	}
	sub := c.NewSubscriber(t.Context(), kafka.SubscriberOptions{Group: kafka.GroupOptions{ID: name("g")}})
	closing(t, sub)
	msgs, err := sub.Subscribe(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.SubscribeInitialize(n); err != nil {
		t.Fatal(err)
	}
	p := c.NewProducer(t.Context(), kafka.None)
	closing(t, p)
	if err := errors.Join(p.Send(t.Context(), n, text("x")...)...); err != nil {
		t.Fatal(err)
	}
	next(t, msgs).Ack()
}

// A message that is nacked too often goes to the reject topic with its cause, and the
// next one comes.
func TestRejectTopic(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	in, rejects := topic(t, c, 1, nil), topic(t, c, 1, nil)
	p := c.NewProducer(t.Context(), kafka.None)
	closing(t, p)
	bad := topics.Message{Key: []byte("k"), Value: []byte("bad"), Millis: 5, Headers: []topics.Header{{Name: "h", Value: []byte("1")}, {Name: "h", Value: []byte("2")}}}
	if err := errors.Join(p.SendTo(t.Context(), in, bad, text("good")[0])...); err != nil {
		t.Fatal(err)
	}
	group := name("g")
	sub := c.NewSubscriber(t.Context(), kafka.SubscriberOptions{
		Group: kafka.GroupOptions{ID: group}, Attempts: 3, Backoff: time.Millisecond, Reject: rejects, RejectTo: p,
	})
	msgs, err := sub.Subscribe(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		m := next(t, msgs)
		if string(m.Payload) != "bad" {
			t.Fatalf("delivery %d is %s", i, m.Payload)
		}
		m.Metadata.Set(kafka.MetadataCause, fmt.Sprintf("cause %d", i))
		m.Nack()
	}
	m := next(t, msgs)
	if rec, ok := kafka.FromContext(m.Context()); string(m.Payload) != "good" || !ok || rec.Offset != 1 {
		t.Errorf("got %s at %d", m.Payload, rec.Offset)
	}
	m.Ack()
	if err := sub.Close(); err != nil {
		t.Fatal(err)
	}
	got := read(t, c, kafka.TopicPartition{Topic: rejects}, 1)
	want := []topics.Message{{Key: bad.Key, Value: bad.Value, Millis: 5, Headers: append(bad.Headers,
		topics.Header{Name: kafka.HeaderTopic, Value: []byte(in)}, topics.Header{Name: kafka.HeaderPartition, Value: []byte("0")},
		topics.Header{Name: kafka.HeaderOffset, Value: []byte("0")}, topics.Header{Name: kafka.HeaderAttempts, Value: []byte("3")},
		topics.Header{Name: kafka.HeaderCause, Value: []byte("cause 2")})}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	tp := kafka.TopicPartition{Topic: in}
	if at, err := c.Committed(t.Context(), group, tp); err != nil || at[tp] != 2 {
		t.Errorf("committed %v, error %v; want 2", at, err)
	}
}
