package kafkatest

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	kgo "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"evalstream/topics"
	"evalstream/topics/kafka"
)

// messages are all messages of a topic, whole.
func messages(t *testing.T, c *kafka.Client, topic string) []string {
	t.Helper()
	var all []string
	if err := c.Cat(t.Context(), topic, func(m topics.Message) error {
		all = append(all, fmt.Sprintf("[%d]@%d %s %s", m.Partition, m.Offset, m.Key, m.Value))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// holdBack lets nobody take over a transactional id that other than names, for two
// seconds after the first tried to.
func holdBack(c *kfake.Cluster, other string) {
	var until atomic.Int64
	c.ControlKey(int16(kmsg.InitProducerID), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		id := req.(*kmsg.InitProducerIDRequest).TransactionalID
		if id == nil || strings.Contains(*id, other) {
			return nil, nil, false
		}
		until.CompareAndSwap(0, time.Now().Add(2*time.Second).UnixNano())
		if time.Now().UnixNano() > until.Load() {
			return nil, nil, false
		}
		res := req.ResponseKind().(*kmsg.InitProducerIDResponse)
		res.ErrorCode = int16(kgo.ConcurrentTransactions)
		return res, nil, true
	})
}

// A pipeline whose state is of other options publishes nothing, whichever of its segments
// would be the first to begin.
func TestRefusedPublishesNothing(t *testing.T) {
	predictions, gold := workload(60)
	more, _ := workload(90)
	f := func(title string, cut bool, old, text string) {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			b := fake(t, 1)
			c := connect(t, b.ListenAddrs())
			in, to := topic(t, c, 3, nil), topic(t, c, 2, compacted())
			steps := "stages:\n  - score: {measure: [success@1, mrr@10]}\n"
			if cut {
				steps = fmt.Sprintf("stages:\n  - parse: {}\n    via: %[1]s.parsed\n  - score: {measure: [success@1, mrr@10]}\n    via: %[1]s.scored\n", name("via"))
			}
			s := &scene{T: t, brokers: b.ListenAddrs(), client: c, name: name("live")}
			path := s.make("from: topic:%s\nto: topic:%s\n%s", in, to, steps+"  - aggregate: {by: [run, \"run,ticker\"], window: [all, 1h], max_groups: 4}\n")
			produce(t, c, in, slices.Concat(predictions, gold))
			s.ends(path)
			want := messages(t, c, to)
			if s.exit != 0 || len(want) == 0 {
				t.Fatalf("exit %d, %d results: %s", s.exit, len(want), s.told)
			}
			produce(t, c, in, more[len(predictions):])
			holdBack(b, ".merge.")
			s.ends(s.replaced(path, old, text))
			if s.exit != 5 || !strings.Contains(s.told, "state was made with other options") || !strings.Contains(s.told, "topics reset") {
				t.Errorf("exit %d: %s", s.exit, s.told)
			}
			if diff := cmp.Diff(want, messages(t, c, to)); diff != "" {
				t.Errorf("results of a refused run (-before +after):\n%s", diff)
			}
		})
	}
	f("max_groups", false, "max_groups: 4", "max_groups: 2")
	f("max_groups, cut", true, "max_groups: 4", "max_groups: 2")
	f("by", true, `"run,ticker"`, `ticker`)
	f("measure", false, "mrr@10", "mrr@5")
	f("measure, cut", true, "mrr@10", "mrr@5")
}
