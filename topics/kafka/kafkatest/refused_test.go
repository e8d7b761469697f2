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

// onlyMerge is a pipeline whose merge runs in a process of its own, behind partials that
// the others have written and merge has not read.
func onlyMerge(t *testing.T, s *scene) (path, to string) {
	t.Helper()
	predictions, gold := workload(60)
	c := s.connection()
	in, to := topic(t, c, 2, nil), topic(t, c, 2, compacted())
	path = s.make(`from: topic:%[1]s
to: topic:%[2]s
stages:
  - score: {measure: [success@1, mrr@10]}
    via: %[3]s.scored
  - aggregate: {by: [run, "run,ticker"], window: [all, 1h], max_groups: 4}
    via: %[3]s.partials
  - merge: {}
`, in, to, name("via"))
	all := slices.Concat(predictions, gold)
	produce(t, c, in, all[:len(all)-30])
	s.ends(path)
	if s.exit != 0 {
		t.Fatal(s.told)
	}
	produce(t, c, in, all[len(all)-30:])
	execute(t, "", 0, "run", "-q", "--until-end", "--only", "score", path)
	execute(t, "", 0, "run", "-q", "--until-end", "--only", "aggregate", path)
	return path, to
}

// A process that runs merge alone, which keeps nothing, refuses other options than those of
// the states that its partials come of.
func TestMergeAloneIsRefused(t *testing.T) {
	f := func(title, old, text, says string) {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			s := &scene{T: t, name: name("live")}
			path, to := onlyMerge(t, s)
			want := messages(t, s.client, to)
			s.run("run", "--until-end", "--only", "merge", s.replaced(path, old, text))
			if s.exit != 5 {
				t.Errorf("exit %d: %s", s.exit, s.told)
			}
			s.holds(s.told, "state was made with other options: "+says, "topics reset")
			if diff := cmp.Diff(want, messages(t, s.client, to)); diff != "" {
				t.Errorf("results of a refused run (-before +after):\n%s", diff)
			}
			s.run("run", "--until-end", "--only", "merge", path)
			if s.exit != 0 || len(messages(t, s.client, to)) == len(want) {
				t.Errorf("with the options that were: exit %d, nothing published: %s", s.exit, s.told)
			}
		})
	}
	f("max_groups", "max_groups: 4", "max_groups: 2", "aggregate.MaxGroups")
	f("by", `"run,ticker"`, "ticker", "aggregate.By")
	f("window", "1h", "2h", "aggregate.Windows")
	f("measure", "mrr@10", "mrr@5", "score.Measures")
	f("horizon", "stages:", "horizon: 9d\nstages:", "horizon")
}

// merge alone begins where it cannot know the states of the others: they have not run, or
// this user may not look.
func TestMergeAloneKnowsNoState(t *testing.T) {
	t.Run("no changelog", func(t *testing.T) {
		t.Parallel()
		s := &scene{T: t, name: name("live")}
		path := s.write("from: topic:%s\nto: topic:%s\nstages:\n  - score: {measure: success@1}\n    via: %s\n  - aggregate: {by: run}\n    via: %s\n  - merge: {}\n",
			s.topic(2, nil), s.topic(2, compacted()), s.topic(2, nil), s.topic(2, compacted()))
		p := watch(t, nil, nil, "--until-end", "--only", "merge", path)
		until(t, func() bool { return strings.Contains(p.text(), "merge: waits for the end of aggregate") })
		p.stop(130)
	})
	t.Run("no right", func(t *testing.T) {
		t.Parallel()
		allow := func(of kmsg.ACLResourceType, prefix string, op kmsg.ACLOperation) kfake.ACL {
			return kfake.ACL{Resource: of, Name: prefix, Pattern: kmsg.ACLResourcePatternTypePrefixed, Operation: op, Allow: true}
		}
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "alice", "alice-secret"),
			kfake.User("PLAIN", "carol", "carol-secret",
				allow(kmsg.ACLResourceTypeTopic, "in", kmsg.ACLOperationRead), allow(kmsg.ACLResourceTypeTopic, "via", kmsg.ACLOperationRead),
				allow(kmsg.ACLResourceTypeTopic, "out", kmsg.ACLOperationWrite), allow(kmsg.ACLResourceTypeGroup, "live", kmsg.ACLOperationRead),
				allow(kmsg.ACLResourceTypeTransactionalId, "live", kmsg.ACLOperationWrite)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		as := func(user string) []string {
			return []string{"EVALSTREAM_KAFKA_SASL_MECHANISM=plain", "EVALSTREAM_KAFKA_SASL_USERNAME=" + user, "EVALSTREAM_KAFKA_SASL_PASSWORD=" + user + "-secret"}
		}
		s := &scene{T: t, name: "live", brokers: c.ListenAddrs(), env: as("alice")}
		path := s.write("from: topic:in\nto: topic:out\nstages:\n  - score: {measure: success@1}\n    via: via.scored\n  - aggregate: {by: run}\n    via: via.partials\n  - merge: {}\n")
		for _, args := range [][]string{{"topics", "create", "--partitions", "2", path}, {"run", "--until-end", path}} {
			if s.run(args...); s.exit != 0 {
				t.Fatal(s.told)
			}
		}
		s.env = as("carol")
		if s.run("run", "--until-end", "--only", "merge", path); s.exit != 0 {
			t.Errorf("exit %d: %s", s.exit, s.told)
		}
		if s.run("run", "--until-end", "--only", "aggregate", path); s.exit != 4 || !strings.Contains(s.told, "live.aggregate.changelog: this user has no right to") {
			t.Errorf("aggregate: exit %d: %s", s.exit, s.told)
		}
	})
}
