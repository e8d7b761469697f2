package kafkatest

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"evalstream"
	"evalstream/topics/kafka"
)

// silent is an address that takes connections and never says anything.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	open.Go(func() {
		var conns []net.Conn
		for {
			c, err := l.Accept()
			if err != nil {
				for _, c := range conns {
					_ = c.Close()
				}
				return
			}
			conns = append(conns, c)
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		open.Wait()
	})
	return l.Addr().String()
}

// A broker of the list that says nothing, or is not there, costs nothing as long as another
// answers.
func TestSilentBroker(t *testing.T) {
	good := fake(t, 1).ListenAddrs()[0]
	one, other, closed := silent(t), silent(t), closedPort(t)
	var tries sync.WaitGroup
	for range 8 { // kafka-go asks them in any order
		tries.Go(func() {
			c, err := kafka.Connect(t.Context(), kafka.Config{Brokers: []string{one, good, closed, other}})
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // half of what a request may take
			defer cancel()
			if _, err := c.CreateTopics(ctx, kafka.TopicSpec{Name: name("t"), Partitions: 1}); err != nil {
				t.Error(err)
			}
		})
	}
	tries.Wait()
	_, err := kafka.Connect(t.Context(), kafka.Config{Brokers: []string{one, other}, Timeout: time.Second})
	wantExit(t, err, evalstream.ExitLost, "no answer")
	_, err = kafka.Connect(t.Context(), kafka.Config{Brokers: []string{closed, closed}})
	wantExit(t, err, evalstream.ExitLost, "no answer")
}
