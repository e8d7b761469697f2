package kafkatest

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"evalstream"
	"evalstream/topics/kafka"
)

// Members of one layout share a group; one of another layout is kept out while they are
// there, and let in once they have gone.
func TestLayouts(t *testing.T) {
	c := connect(t, cluster(t))
	session := 6 * time.Second // the least that a broker takes by default
	if os.Getenv(brokersEnv) == "" {
		session = 2 * time.Second
	}
	opt := kafka.GroupOptions{ID: name("g"), Topics: []string{topic(t, c, 2, nil)}, Session: session, Rebalance: session}
	type member struct {
		has  chan int // partitions of each generation
		stop context.CancelFunc
		end  chan error
	}
	start := func(layout string) *member {
		ctx, cancel := context.WithCancel(t.Context())
		m := &member{has: make(chan int, 100), stop: cancel, end: make(chan error, 1)}
		opt := opt
		opt.Layout = layout
		go func() {
			m.end <- c.Join(ctx, opt, func(ctx context.Context, a *kafka.Assignment) error {
				m.has <- len(a.Partitions)
				<-ctx.Done()
				return nil
			})
		}()
		return m
	}
	wants := func(m *member, n int) {
		t.Helper()
		for deadline := time.After(60 * time.Second); ; {
			select {
			case got := <-m.has:
				if got == n {
					return
				}
			case err := <-m.end:
				t.Fatalf("member has ended: %v", err)
			case <-deadline:
				t.Fatalf("member does not get %d partitions", n)
			}
		}
	}
	ends := func(m *member) {
		t.Helper()
		m.stop()
		if err := <-m.end; !errors.Is(err, context.Canceled) {
			t.Errorf("member ended with %v", err)
		}
	}

	a := start("one")
	wants(a, 2)
	b := start("one")
	wants(b, 1)
	wants(a, 1)

	began := time.Now()
	others := map[string]*member{"two": start("two"), "": start("")}
	for layout, x := range others {
		defer x.stop()
		select {
		case err := <-x.end:
			wantExit(t, err, evalstream.ExitUsage, "another layout of this pipeline is running in group "+opt.ID)
		case n := <-x.has:
			t.Fatalf("layout %q was let in, with %d partitions", layout, n)
		case <-time.After(60 * time.Second):
			t.Fatalf("layout %q: no answer", layout)
		}
		if took := time.Since(began); took < 2*session {
			t.Errorf("given up after %v: a killed member lingers for %v", took, session)
		}
	}

	waits := start("two")
	ends(a)
	ends(b)
	wants(waits, 2)
	ends(waits)
}
