package kafkatest

import (
	"testing"
	"time"

	franz "github.com/twmb/franz-go/pkg/kgo"

	"evalstream/topics"
	"evalstream/topics/kafka"
)

// What is committed a moment after somebody asks for the end is within it; a transaction
// that stays open is waited for a second, and then holds nobody back.
func TestEndsWaitForTransactions(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	in := topic(t, c, 1, nil)
	produce(t, c, in, []record{{"a", "1"}})
	tx, err := franz.NewClient(franz.SeedBrokers(b...), franz.TransactionalID(name("tx")), franz.DefaultProduceTopic(in))
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Close()
	open := func(value string) {
		t.Helper()
		if err := tx.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := tx.ProduceSync(t.Context(), franz.StringRecord(value)).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	end := func(how franz.TransactionEndTry) {
		t.Helper()
		if err := tx.EndTransaction(t.Context(), how); err != nil {
			t.Fatal(err)
		}
	}
	type seen struct {
		end      int64
		messages int
	}
	look := func() seen {
		ends := map[kafka.TopicPartition]int64{}
		if err := c.Ends(t.Context(), ends, in); err != nil {
			t.Error(err)
		}
		s := seen{end: ends[kafka.TopicPartition{Topic: in}]}
		if err := c.Cat(t.Context(), in, func(topics.Message) error { s.messages++; return nil }); err != nil {
			t.Error(err)
		}
		return s
	}
	open("2")
	looked := make(chan seen, 1)
	go func() { looked <- look() }()
	select {
	case s := <-looked:
		t.Fatalf("ends are known while a transaction is open: %+v", s)
	case <-time.After(300 * time.Millisecond):
	}
	end(franz.TryCommit)
	if s := <-looked; s.end < 2 || s.messages != 2 {
		t.Errorf("after the commit %+v, want both messages", s)
	}
	open("3")
	if s := look(); s.end < 2 || s.messages != 2 {
		t.Errorf("while a transaction stays open %+v, want what is committed", s)
	}
	end(franz.TryAbort)
	if s := look(); s.messages != 2 {
		t.Errorf("after the abort %+v", s)
	}
}
