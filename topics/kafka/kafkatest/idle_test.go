package kafkatest

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	kgo "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"evalstream/topics/kafka"
)

// dated is a prediction of that time of day and its gold, of one of two partitions.
func dated(partition int32, clock string) []record {
	for i := 0; ; i++ {
		if q := fmt.Sprintf("q%s.%d", clock, i); kafka.Partition([]byte(q), 2) == partition {
			rs := scored(q)
			rs[0].line = strings.Replace(rs[0].line, "10:00", clock, 1)
			return rs
		}
	}
}

// unread lets nobody fetch from a partition as long as on is set; met is how many have tried.
func unread(b *kfake.Cluster, topic string, partition int32, on *atomic.Bool) (met *atomic.Int64) {
	met = new(atomic.Int64)
	b.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		r := req.(*kmsg.FetchRequest)
		if !on.Load() || len(r.Topics) != 1 || r.Topics[0].Topic != topic || r.Topics[0].Partitions[0].Partition != partition {
			return nil, nil, false
		}
		met.Add(1)
		res := r.ResponseKind().(*kmsg.FetchResponse)
		p := kmsg.NewFetchResponseTopicPartition()
		p.Partition, p.ErrorCode = partition, int16(kgo.LeaderNotAvailable)
		res.Topics = []kmsg.FetchResponseTopic{{Topic: topic, Partitions: []kmsg.FetchResponseTopicPartition{p}}}
		return res, nil, true
	})
	return met
}

// A partition that is read to its end and gives nothing is left out of the watermark after
// idle_timeout, and not before: then windows close as the others go on. It is so whether its
// marks go through one cut or several.
func TestIdleTimeout(t *testing.T) {
	const timeout = 2 * time.Second
	const fused = "stages:\n  - score: {measure: success@1}\n  - aggregate: {by: run, window: 1h, every: 50ms}\n"
	const cut = "stages:\n  - parse: {}\n    via: %[1]s.parsed\n  - score: {measure: success@1}\n    via: %[1]s.scored\n  - aggregate: {by: run, window: 1h, every: 50ms}\n"
	f := func(title, steps string, held bool) {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			b := fake(t, 1)
			c := connect(t, b.ListenAddrs())
			in, to := topic(t, c, 2, nil), topic(t, c, 1, compacted())
			var on atomic.Bool
			met := unread(b, in, 0, &on)
			path := live(t, b.ListenAddrs(), fmt.Sprintf("from: topic:%s\nto: topic:%s\nidle_timeout: %v\n", in, to, timeout)+strings.ReplaceAll(steps, "%[1]s", name("via")))
			p := watch(t, nil, nil, "-q", path)
			// since is a moment before the last record of partition 0 could be read.
			since := time.Now()
			produce(t, c, in, slices.Concat(dated(0, "10:10"), dated(1, "10:20")))
			if on.Store(held); held {
				until(t, func() bool { return met.Load() > 0 }) // the request before would have them
				produce(t, c, in, dated(0, "10:30"))
			}
			var open, closed bool // what was said of the first hour
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			late := time.After(40 * time.Second)
			for i := 0; !closed; i++ {
				produce(t, c, in, dated(1, fmt.Sprintf("12:%02d", i%60)))
				for _, m := range messages(t, c, to) {
					if strings.Contains(m, `"start":"2024-05-01T10:00:00Z"`) {
						closed = closed || strings.Contains(m, `"closed":true`)
						open = open || strings.Contains(m, `"closed":false`)
					}
				}
				if on.Load() && (closed || time.Since(since) > 3*timeout) {
					since = time.Now()
					on.Store(false)
				}
				select {
				case <-tick.C:
				case <-late:
					t.Fatalf("10:00 to 11:00 does not close: %s\n%s", strings.Join(messages(t, c, to), "\n"), p.text())
				}
			}
			if took := time.Since(since); took < timeout || !open {
				t.Errorf("closed %v after the last record of partition 0 could be read, want %v at least, and open before: %t", took, timeout, open)
			}
			p.stop(130)
		})
	}
	f("fused", fused, false)
	f("cut", cut, false)
	f("fused, with records that cannot be read yet", fused, true)
	f("cut, with records that cannot be read yet", cut, true)
}
