package kafkatest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"evalstream/topics"
	"evalstream/topics/kafka"
)

// What a sink says of its transactions agrees with what is in the topic.
func TestSinkTells(t *testing.T) {
	c := connect(t, cluster(t))
	tp := kafka.TopicPartition{Topic: topic(t, c, 1, map[string]string{"max.message.bytes": "2000"})}
	other := kafka.TopicPartition{Topic: topic(t, c, 1, nil)}
	var transactions, records atomic.Int64
	id := name("tx")
	s := kafka.NewSink(t.Context(), transactor(t, c, id), kafka.SinkOptions{MaxRecords: 100, Took: func(d time.Duration, n int) {
		if d <= 0 {
			t.Errorf("took %v", d)
		}
		transactions.Add(1)
		records.Add(int64(n))
	}})
	closing(t, s)
	if !s.Ready() || s.Err() != nil {
		t.Error("a new sink is not ready")
	}
	const n = 1000
	var order []int // Done is called by one goroutine, and read behind Drain
	ends := map[int64]int{}
	for i := range n {
		u := kafka.Unit{Outputs: []kafka.Output{{To: tp, Message: text(fmt.Sprintf("%0100d", i))[0]}}, Log: tp, Done: func(end int64) {
			order = append(order, i)
			if end > 0 {
				ends[end] = i
			}
		}}
		if i%7 == 0 {
			u.Outputs = append(u.Outputs, kafka.Output{To: other, Message: text("x")[0]})
		}
		if i%9 == 8 {
			u.Done = nil
		}
		if err := s.Put(t.Context(), u); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !s.Ready() {
		t.Error("a sink that was drained is not ready")
	}
	called, goOn := make(chan struct{}), make(chan struct{})
	if err := s.Put(t.Context(), kafka.Unit{Done: func(int64) {
		close(called)
		<-goOn
	}}); err != nil {
		t.Fatal(err)
	}
	<-called
	if s.Ready() {
		t.Error("a sink is ready while Done runs")
	}
	close(goOn)
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.IsSorted(order) || len(order) != n-n/9 {
		t.Errorf("%d calls of Done, want %d in order", len(order), n-n/9)
	}
	if got := s.Transactions(); got != transactions.Load() || len(ends) == 0 || len(ends) > int(got) || records.Load() != n+n/7+1 {
		t.Errorf("%d transactions, %d told, with %d records, %d ends", got, transactions.Load(), records.Load(), len(ends))
	}
	// An end lies behind the last message of its transaction: the next one is of a later unit.
	msgs := read(t, c, tp, n)
	for end, unit := range ends {
		i := slices.IndexFunc(msgs, func(m topics.Message) bool { return m.Offset >= end })
		if i < 0 {
			i = n
		}
		if i <= unit {
			t.Errorf("end %d of unit %d is before message %d", end, unit, i)
		}
	}

	// The id is taken over: an owner that waits for input hears of it by its next transaction.
	transactor(t, c, id)
	select {
	case <-s.Failed():
		t.Fatal("failed without anything to do")
	default:
	}
	if err := s.Put(t.Context(), kafka.Unit{Outputs: []kafka.Output{{To: tp, Message: text("late")[0]}}, Done: func(int64) {
		t.Error("Done of a unit that had no effect")
	}}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Failed():
	case <-time.After(30 * time.Second):
		t.Fatal("the sink does not say that it has failed")
	}
	if err := s.Err(); !errors.Is(err, kafka.ErrLost) || s.Ready() {
		t.Errorf("error %v, ready %v", err, s.Ready())
	}
}

// Transactions that are not full begin Pause apart; full ones do not wait. Messages of one
// are not seen in another, though their memory is used again.
func TestSinkPauses(t *testing.T) {
	c := connect(t, cluster(t))
	tp := kafka.TopicPartition{Topic: topic(t, c, 1, nil)}
	const apart = time.Second
	var began []time.Time
	s := kafka.NewSink(t.Context(), transactor(t, c, name("tx")), kafka.SinkOptions{MaxRecords: 3, Pause: apart, Took: func(d time.Duration, _ int) {
		began = append(began, time.Now().Add(-d))
	}})
	closing(t, s)
	put := func(texts ...string) {
		t.Helper()
		var u kafka.Unit
		for _, v := range texts {
			u.Outputs = append(u.Outputs, kafka.Output{To: tp, Message: text(v)[0]})
		}
		if err := errors.Join(s.Put(t.Context(), u), s.Flush(t.Context()), s.Drain(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	put("a", "b")
	if s.Ready() {
		t.Error("a sink is ready before its pause is over")
	}
	put("c")
	put("d", "e", "f")
	if len(began) != 3 {
		t.Fatalf("%d transactions, want 3", len(began))
	}
	if d := began[1].Sub(began[0]); d < apart-10*time.Millisecond {
		t.Errorf("the second transaction began %v after the first, want %v", d, apart)
	}
	if d := began[2].Sub(began[1]); d >= apart {
		t.Errorf("a full transaction waited %v", d)
	}
	var got []string
	if err := c.Cat(t.Context(), tp.Topic, func(m topics.Message) error { got = append(got, string(m.Value)); return nil }); err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "b", "c", "d", "e", "f"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A sink that several use tells each the end of its own log, and Drain waits for what was
// put before it and for nothing else.
func TestSinkIsShared(t *testing.T) {
	c := connect(t, cluster(t))
	logs := []kafka.TopicPartition{{Topic: topic(t, c, 2, nil)}, {}}
	logs[1] = kafka.TopicPartition{Topic: logs[0].Topic, Partition: 1}
	s := kafka.NewSink(t.Context(), transactor(t, c, name("tx")), kafka.SinkOptions{Gather: 50 * time.Millisecond})
	closing(t, s)
	ends := make([][]int64, len(logs)) // written by one goroutine, and read behind Drain
	put := func(log, messages int) {
		t.Helper()
		u := kafka.Unit{Log: logs[log], Done: func(end int64) { ends[log] = append(ends[log], end) }}
		for range messages {
			u.Outputs = append(u.Outputs, kafka.Output{To: logs[log], Message: text("x")[0]})
		}
		if err := errors.Join(s.Put(t.Context(), u), s.Flush(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	put(0, 1)
	put(1, 5)
	put(0, 2)
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.Transactions() != 1 {
		t.Fatalf("%d transactions, want one: they were put within the time to gather", s.Transactions())
	}
	if want := [][]int64{{0, 3}, {5}}; !slices.EqualFunc(ends, want, slices.Equal) {
		t.Errorf("ends %v, want %v", ends, want)
	}

	var others sync.WaitGroup
	stop := make(chan struct{})
	others.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := s.Put(t.Context(), kafka.Unit{Outputs: []kafka.Output{{To: logs[1], Message: text("y")[0]}}}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	put(0, 1)
	if err := s.Drain(t.Context()); err != nil { // it would wait for ever for all
		t.Error(err)
	}
	if len(ends[0]) != 3 {
		t.Errorf("%d units have taken effect, want 3", len(ends[0]))
	}
	close(stop)
	others.Wait()
}
