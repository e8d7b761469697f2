package kafkatest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The rights that docs/kafka.md lists are enough to run a pipeline with all kinds of
// topics, and each of them is needed.
func TestRights(t *testing.T) {
	const user, password = "carol", "carol-secret"
	type right struct {
		of    kmsg.ACLResourceType
		names string // with commas; one that ends in * is a prefix
		ops   []kmsg.ACLOperation
	}
	topics, group, id := kmsg.ACLResourceTypeTopic, kmsg.ACLResourceTypeGroup, kmsg.ACLResourceTypeTransactionalId
	read, write, configs := kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationDescribeConfigs
	all := []right{
		{topics, "in,gold", []kmsg.ACLOperation{read}},
		{topics, "runs,partials,live.parse.changelog,live.score.changelog", []kmsg.ACLOperation{read, write}},
		{topics, "out,rejects", []kmsg.ACLOperation{write}},
		{topics, "runs,partials,live.parse.changelog,live.score.changelog,out,rejects", []kmsg.ACLOperation{configs}},
		{group, "live.*", []kmsg.ACLOperation{read}},
		{id, "live.*", []kmsg.ACLOperation{write}},
	}
	try := func(t *testing.T, rights []right) (exit int, told string) {
		t.Helper()
		var acls []kfake.ACL
		for _, r := range rights {
			for name := range strings.SplitSeq(r.names, ",") {
				pattern := kmsg.ACLResourcePatternTypeLiteral
				name, prefix := strings.CutSuffix(name, "*")
				if prefix {
					pattern = kmsg.ACLResourcePatternTypePrefixed
				}
				for _, op := range r.ops {
					acls = append(acls, kfake.ACL{Resource: r.of, Name: name, Pattern: pattern, Operation: op, Allow: true})
				}
			}
		}
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.EnableACLs(),
			kfake.Superuser("SCRAM-SHA-256", "alice", "alice-secret"), kfake.User("SCRAM-SHA-256", user, password, acls...))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		as := func(user, password string) []string {
			return []string{"EVALSTREAM_KAFKA_SASL_MECHANISM=scram-sha-256", "EVALSTREAM_KAFKA_SASL_USERNAME=" + user, "EVALSTREAM_KAFKA_SASL_PASSWORD=" + password}
		}
		s := &scene{T: t, name: "live", brokers: c.ListenAddrs(), env: as("alice", "alice-secret")}
		path := s.write("from: topic:in\nto: topic:out\nrejects: topic:rejects\nstages:\n  - parse: {}\n    via: runs\n  - score: {gold: \"topic:gold\", measure: success@1}\n  - aggregate: {by: run}\n    via: partials\n  - merge: {}\n")
		s.run("topics", "create", "--partitions", "2", path)
		if s.exit != 0 {
			t.Fatal(s.told)
		}
		for topic, lines := range map[string]string{"in": scored("q")[0].line + "\n{broken\n", "gold": scored("q")[1].line + "\n"} {
			c, _, told := command(t, "run", "-q", "--max-rejects", "9", pipeline(t, fmt.Sprintf("brokers: [%s]\nto: topic:%s\nstages: [parse: {}]\n", s.at(), topic)))
			c.Env, c.Stdin = append(c.Environ(), s.env...), strings.NewReader(lines)
			if err := c.Run(); err != nil {
				t.Fatal(err, told)
			}
		}
		s.env = as(user, password)
		s.ends(path)
		return s.exit, s.told
	}
	t.Run("enough", func(t *testing.T) {
		if exit, told := try(t, all); exit != 0 {
			t.Errorf("exit %d: %s", exit, told)
		}
	})
	for i, r := range all {
		if r.ops[0] == configs {
			continue // where they may not be read, the broker's defaults are taken
		}
		for k := range r.ops {
			t.Run(fmt.Sprintf("without %v of %s", r.ops[k], r.names), func(t *testing.T) {
				less := append([]right(nil), all...)
				less[i].ops = append(append([]kmsg.ACLOperation(nil), r.ops[:k]...), r.ops[k+1:]...)
				if exit, told := try(t, less); exit != 4 || !strings.Contains(told, "this user has no right to") {
					t.Errorf("exit %d: %s", exit, told)
				}
			})
		}
	}
}
