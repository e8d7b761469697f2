//go:build kafka

package kafkatest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"evalstream"
	"evalstream/topics/kafka"
)

// A changelog from which the broker has taken most messages gives the same state, to
// an empty cache and to one that is behind.
func TestCompactedChangelog(t *testing.T) {
	c := connect(t, cluster(t))
	opt := kafka.ChangelogOptions{Topic: changelogTopic(t, c, 1, map[string]string{
		"segment.ms": "100", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "600000", "max.compaction.lag.ms": "200",
	}), Partitions: 1}
	id := name("tx")
	sink := kafka.NewSink(t.Context(), transactor(t, c, id), kafka.SinkOptions{})
	closing(t, sink)
	cache, behind := inMemory(t), inMemory(t)
	l := mustLoad(t, c, cache, opt)
	const rounds = 40
	want := map[string]string{}
	written := int64(0)
	for i := range rounds {
		var kv []string
		for k := range 50 {
			v := fmt.Sprintf("%d of %d", k, i)
			if k == i {
				v = "-"
			}
			kv = append(kv, fmt.Sprint(k), v)
			want[fmt.Sprintf("0/s/%d", k)] = v
		}
		want[fmt.Sprintf("0/s/%d", 1000+i)] = "once"
		kv = append(kv, fmt.Sprint(1000+i), "once")
		l.write(t, sink, puts("s", kv...), &evalstream.Checkpoint{Next: evalstream.Seq(i + 1)}, false)
		drain(t, sink)
		written += 52
		if i == rounds/2 {
			mustLoad(t, c, behind, opt)
		}
		wait(t, 120*time.Millisecond) // segments are closed by age
	}
	transactor(t, c, id)
	delete(want, fmt.Sprintf("0/s/%d", rounds-1)) // the deletions before were written over
	for deadline := time.Now().Add(2 * time.Minute); ; {
		s := inMemory(t)
		l := mustLoad(t, c, s, opt)
		if d := cmp.Diff(want, held(t, s)); d != "" || l.Checkpoint().Next != rounds {
			t.Fatalf("checkpoint at %d: %s", l.Checkpoint().Next, d)
		}
		if l.read < written/2 {
			t.Logf("%d of %d messages are left", l.read, written)
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d messages are left: the broker does not compact", l.read, written)
		}
		wait(t, time.Second)
	}
	l = mustLoad(t, c, behind, opt)
	if d := cmp.Diff(want, held(t, behind)); d != "" || l.cleared {
		t.Errorf("cleared %v: %s", l.cleared, d)
	}
}
