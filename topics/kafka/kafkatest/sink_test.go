package kafkatest

import (
	"errors"
	"fmt"
	"slices"
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
		u := kafka.Unit{Outputs: []kafka.Output{{To: tp, Message: text(fmt.Sprintf("%0100d", i))[0]}}, Done: func(e map[kafka.TopicPartition]int64) {
			order = append(order, i)
			if end, ok := e[tp]; ok {
				ends[end] = i
			} else if e != nil {
				t.Errorf("unit %d ended a transaction and has no end of %v: %v", i, tp, e)
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
	if err := s.Put(t.Context(), kafka.Unit{Done: func(map[kafka.TopicPartition]int64) {
		close(called)
		<-goOn
	}}); err != nil {
		t.Fatal(err)
	}
	if s.Ready() {
		t.Error("a sink is ready while a unit waits")
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
	if err := s.Put(t.Context(), kafka.Unit{Outputs: []kafka.Output{{To: tp, Message: text("late")[0]}}, Done: func(map[kafka.TopicPartition]int64) {
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
