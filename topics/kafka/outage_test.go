package kafka

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	kgo "github.com/segmentio/kafka-go"
)

// told is what a log has, without the times of its lines.
func told(b *bytes.Buffer) []string {
	defer b.Reset()
	if b.Len() == 0 {
		return nil
	}
	return strings.Split(strings.TrimSpace(b.String()), "\n")
}

func outagesInto(b *bytes.Buffer) *outages {
	return newOutages(&Config{Brokers: []string{"b:9092"}, Log: slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))})
}

// passes lets time pass, in a bubble of synctest.
func passes(t *testing.T, d time.Duration) {
	t.Helper()
	if err := pause(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

// Ten wait for a broker that is away for 150 s, trying each 200 ms: that is told when it
// begins, once a minute, and when it is over.
func TestOutageIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		o := outagesInto(&b)
		var ws []*wait
		for range 10 {
			w := o.wait("group live.score")
			ws = append(ws, &w)
		}
		for range 750 {
			for _, w := range ws {
				w.failed(t.Context(), syscall.ECONNREFUSED)
			}
			passes(t, 200*time.Millisecond)
		}
		for _, w := range ws {
			w.over(t.Context())
		}
		want := []string{
			`level=WARN msg=waiting for=brokers brokers=b:9092 since=5s because="connection refused"`,
			`level=WARN msg=waiting for=brokers brokers=b:9092 since=1m5s because="connection refused"`,
			`level=WARN msg=waiting for=brokers brokers=b:9092 since=2m5s because="connection refused"`,
			`level=INFO msg="going on" with="group live.score" brokers=b:9092 after=2m30s`,
		}
		if diff := cmp.Diff(want, told(&b)); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
		// The next one is another.
		w := o.wait("p[0]")
		w.failed(t.Context(), syscall.ECONNREFUSED)
		if got := told(&b); got != nil {
			t.Errorf("want nothing told at once, got %q", got)
		}
	})
}

// What passes within 5 s is nothing to tell, and what nobody saw the end of is not the
// beginning of what comes later.
func TestOutageThatPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		o := outagesInto(&b)
		for _, err := range []error{kgo.NotCoordinatorForGroup, kgo.ConcurrentTransactions, kgo.UnknownTopicOrPartition} {
			w := o.wait("live.score.0")
			for range 49 {
				w.failed(t.Context(), err)
				passes(t, 100*time.Millisecond)
			}
			w.over(t.Context())
		}
		left := o.wait("live.score.0")
		left.failed(context.Background(), kgo.LeaderNotAvailable)
		passes(t, time.Hour)
		w := o.wait("live.score.0")
		w.failed(t.Context(), kgo.LeaderNotAvailable)
		w.over(t.Context())
		if got := told(&b); got != nil {
			t.Errorf("want nothing told, got %q", got)
		}
	})
}
