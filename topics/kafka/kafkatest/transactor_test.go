package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"evalstream"
	"evalstream/topics"
	"evalstream/topics/kafka"
)

// values reads the partition from its start until it has n messages, and then as long
// as more come at once.
func values(t *testing.T, c *kafka.Client, tp kafka.TopicPartition, n int) []string {
	t.Helper()
	var out []string
	for _, m := range read(t, c, tp, n) {
		out = append(out, string(m.Value))
	}
	return out
}

func read(t *testing.T, c *kafka.Client, tp kafka.TopicPartition, n int) []topics.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	r := c.Read(tp, kafka.First, kafka.ReadOptions{MaxWait: 200 * time.Millisecond})
	var out []topics.Message
	for {
		b, err := r.Next(ctx)
		if err != nil {
			t.Fatalf("%d of %d messages: %v", len(out), n, err)
		}
		out = append(out, b.Messages...)
		if len(out) >= n && len(b.Messages) == 0 {
			return out
		}
	}
}

func text(values ...string) []topics.Message {
	var ms []topics.Message
	for _, v := range values {
		ms = append(ms, topics.Message{Value: []byte(v)})
	}
	return ms
}

func transactor(t *testing.T, c *kafka.Client, id string) *kafka.Transactor {
	t.Helper()
	tr, err := c.Transactor(t.Context(), id, kafka.None)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func commit(t *testing.T, tr *kafka.Transactor, tx kafka.Transaction) {
	t.Helper()
	if _, err := tr.Commit(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
}

// Outputs and offsets of a transaction are there together, and those of a former owner
// are refused.
func TestTakeover(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	out, in := topic(t, c, 2, nil), topic(t, c, 1, nil)
	id, group := name("tx"), name("g")
	p0, p1, q := kafka.TopicPartition{Topic: out, Partition: 0}, kafka.TopicPartition{Topic: out, Partition: 1}, kafka.TopicPartition{Topic: in}
	put := func(offset int64, values ...string) kafka.Transaction {
		return kafka.Transaction{
			Messages: map[kafka.TopicPartition][]topics.Message{p0: text(values...), p1: text(values...)},
			Offsets:  map[kafka.TopicPartition]int64{q: offset}, Group: group,
		}
	}
	first := transactor(t, c, id)
	for i := range 20 { // back to back, while the last is still ending
		commit(t, first, put(int64(i+1), fmt.Sprint(i)))
	}
	second := transactor(t, c, id)
	_, err := first.Commit(t.Context(), put(99, "zombie"))
	if !errors.Is(err, kafka.ErrLost) {
		t.Errorf("former owner: want ErrLost, got %v", err)
	}
	if _, err := first.Commit(t.Context(), put(100, "again")); !errors.Is(err, kafka.ErrLost) {
		t.Errorf("former owner again: want ErrLost, got %v", err)
	}
	at, err := c.Committed(t.Context(), group, q)
	if err != nil || at[q] != 20 {
		t.Errorf("committed %v, error %v; want 20", at, err)
	}
	commit(t, second, put(21, "last"))
	var want []string
	for i := range 20 {
		want = append(want, fmt.Sprint(i))
	}
	want = append(want, "last")
	for _, p := range []kafka.TopicPartition{p0, p1} {
		if d := cmp.Diff(want, values(t, c, p, 21)); d != "" {
			t.Errorf("%v: %s", p, d)
		}
	}
}

// A member that is not in the generation commits nothing, outputs included.
func TestWrongMember(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	out := topic(t, c, 1, nil)
	p, group := kafka.TopicPartition{Topic: out}, name("g")
	ctx, cancel := context.WithCancel(t.Context())
	var m kafka.Member
	joined, left := make(chan struct{}), make(chan error, 1)
	go func() {
		left <- c.Join(ctx, kafka.GroupOptions{ID: group, Topics: []string{out}}, func(ctx context.Context, a *kafka.Assignment) error {
			m = a.Member
			close(joined)
			<-ctx.Done()
			return nil
		})
	}()
	<-joined
	tr := transactor(t, c, name("tx"))
	tx := kafka.Transaction{
		Messages: map[kafka.TopicPartition][]topics.Message{p: text("x")},
		Offsets:  map[kafka.TopicPartition]int64{p: 7}, Group: group, Member: kafka.Member{ID: m.ID, Generation: m.Generation + 1},
	}
	if _, err := tr.Commit(t.Context(), tx); !errors.Is(err, kafka.ErrLost) {
		t.Errorf("wrong generation: want ErrLost, got %v", err)
	}
	tr = transactor(t, c, name("tx"))
	tx.Member = m
	tx.Messages[p] = text("y")
	commit(t, tr, tx)
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("member ended with %v", err)
	}
	if d := cmp.Diff([]string{"y"}, values(t, c, p, 1)); d != "" {
		t.Error(d)
	}
}

// A transaction that is larger than a batch may be goes in several; a record that no
// batch can hold is found before.
func TestLargeTransaction(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	out := topic(t, c, 1, map[string]string{"max.message.bytes": "200000"})
	p := kafka.TopicPartition{Topic: out}
	tr := transactor(t, c, name("tx"))
	large := topics.Message{Value: []byte(strings.Repeat("x", 300_000))}
	var tooLarge *kafka.TooLargeError
	if err := tr.Check(t.Context(), out, &large); !errors.As(err, &tooLarge) || tooLarge.Limit != 200_000 {
		t.Errorf("want a TooLargeError, got %v", err)
	}
	var ms []topics.Message
	for i := range 3000 {
		ms = append(ms, topics.Message{Value: fmt.Appendf(nil, "%06d%s", i, strings.Repeat("y", 250))})
	}
	commit(t, tr, kafka.Transaction{Messages: map[kafka.TopicPartition][]topics.Message{p: ms}})
	commit(t, tr, kafka.Transaction{Messages: map[kafka.TopicPartition][]topics.Message{p: text("end")}})
	got := read(t, c, p, 3001)
	if len(got) != 3001 {
		t.Fatalf("%d messages, want 3,001", len(got))
	}
	for i, m := range got[:3000] {
		if want := fmt.Sprintf("%06d", i); string(m.Value[:6]) != want {
			t.Fatalf("message %d is %s", i, m.Value[:6])
		}
	}
}

func TestSink(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	out, in := topic(t, c, 3, nil), topic(t, c, 1, nil)
	q, group := kafka.TopicPartition{Topic: in}, name("g")
	s := kafka.NewSink(t.Context(), transactor(t, c, name("tx")), kafka.SinkOptions{Group: group, MaxRecords: 500})
	closing(t, s)
	const n = 3000
	for i := range n {
		u := kafka.Unit{Offsets: map[kafka.TopicPartition]int64{q: int64(i + 1)}}
		for p := range int32(3) {
			u.Outputs = append(u.Outputs, kafka.Output{To: kafka.TopicPartition{Topic: out, Partition: p}, Message: text(fmt.Sprint(i))[0]})
		}
		if err := s.Put(t.Context(), u); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.Transactions(); got < 5 || got > 40 {
		t.Errorf("%d transactions for 9,000 records of at most about 500 each", got)
	}
	at, err := c.Committed(t.Context(), group, q)
	if err != nil {
		t.Fatal(err)
	}
	for p := range int32(3) {
		got := values(t, c, kafka.TopicPartition{Topic: out, Partition: p}, n)
		for i, v := range got {
			if v != fmt.Sprint(i) {
				t.Fatalf("partition %d: message %d is %s", p, i, v)
			}
		}
		if len(got) != n {
			t.Errorf("partition %d: %d messages, want %d", p, len(got), n)
		}
	}
	if at[q] != n {
		t.Errorf("committed %d, want %d", at[q], n)
	}
	began := time.Now()
	if err := s.Put(t.Context(), kafka.Unit{Outputs: []kafka.Output{{To: kafka.TopicPartition{Topic: out}, Message: text("x")[0]}}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("a lone record is committed after %v", time.Since(began))
}

// An offset behind the end of the log is a gap that is named, or skipped.
func TestGap(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	p := kafka.TopicPartition{Topic: topic(t, c, 1, nil)}
	_, err := c.Read(p, 5, kafka.ReadOptions{}).Next(t.Context())
	var gap *kafka.GapError
	if !errors.As(err, &gap) || gap.Want != 5 || gap.First != 0 || gap.End != 0 || evalstream.ExitCode(err) != evalstream.ExitLost {
		t.Errorf("want a gap at 5 of 0..0 and exit 4, got %v", err)
	}
	r := c.Read(p, 5, kafka.ReadOptions{OnGap: kafka.SkipGap})
	if batch, err := r.Next(t.Context()); err != nil || batch.Next != 0 {
		t.Errorf("skipping the gap: %+v, %v", batch, err)
	}
}

// A request whose answer was lost may arrive later; what comes after its transaction is
// written under another epoch, in which it is refused.
func TestLostAnswerEndsTheEpoch(t *testing.T) {
	for _, key := range transaction() {
		t.Run(key.Name(), func(t *testing.T) {
			b := fake(t, 1)
			c := connect(t, b.ListenAddrs())
			out, group := topic(t, c, 1, nil), name("g")
			p := kafka.TopicPartition{Topic: out}
			tr := transactor(t, c, name("tx"))
			tx := func(i int) kafka.Transaction {
				return kafka.Transaction{
					Messages: map[kafka.TopicPartition][]topics.Message{p: text(fmt.Sprint(i))},
					Offsets:  map[kafka.TopicPartition]int64{p: int64(i)}, Group: group,
				}
			}
			commit(t, tr, tx(1))
			first := tr.Epoch()
			b.ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) { return nil, io.EOF, true })
			commit(t, tr, tx(2))
			if tr.Epoch() <= first {
				t.Errorf("epoch is %d after a lost answer, and was %d before", tr.Epoch(), first)
			}
			second := tr.Epoch()
			commit(t, tr, tx(3))
			if tr.Epoch() != second {
				t.Errorf("epoch is %d, want %d: no answer was lost", tr.Epoch(), second)
			}
			if d := cmp.Diff([]string{"1", "2", "3"}, values(t, c, p, 3)); d != "" {
				t.Error(d)
			}
			if at, err := c.Committed(t.Context(), group, p); err != nil || at[p] != 3 {
				t.Errorf("committed %v, error %v", at, err)
			}
		})
	}
}
