//go:build kafka

package kafkatest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"
	kgo "github.com/segmentio/kafka-go"

	"evalstream"
	"evalstream/topics"
	"evalstream/topics/kafka"
)

// These tests need the broker of deploy/kafka/broker: its listeners, users, keys and
// process. `make test-kafka` runs them.

func env(t *testing.T, key string) string {
	t.Helper()
	v := os.Getenv(key)
	if v == "" {
		t.Fatalf("%s is not set: run make test-kafka", key)
	}
	return v
}

// control runs deploy/kafka/broker.
func control(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), env(t, "EVALSTREAM_TEST_BROKER_CONTROL"), args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("broker %v: %v\n%s", args, err, errs.String())
	}
	return string(out)
}

// listener is the broker's port at that distance from the plain one.
func listener(t *testing.T, distance int) string {
	t.Helper()
	return beside(t, env(t, brokersEnv), distance)
}

const (
	overTLS   = 2
	saslTLS   = 3
	saslPlain = 4
)

// conf reads a configuration from an environment.
func conf(t *testing.T, distance int, vars map[string]string) kafka.Config {
	t.Helper()
	c, err := kafka.FromEnv([]string{listener(t, distance)}, func(k string) string { return vars[k] })
	if err != nil {
		t.Fatal(err)
	}
	c.Timeout, c.Patience = 5*time.Second, 10*time.Second
	return c
}

func keys(t *testing.T, more map[string]string) map[string]string {
	dir := env(t, "EVALSTREAM_TEST_BROKER_TLS")
	vars := map[string]string{kafka.EnvCA: filepath.Join(dir, "ca.pem")}
	for k, v := range more {
		vars[k] = strings.ReplaceAll(v, "TLS/", dir+"/")
	}
	return vars
}

func user(t *testing.T, mechanism, who, password string) map[string]string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string]string{kafka.EnvMechanism: mechanism, kafka.EnvUsername: who, kafka.EnvPasswordFile: file}
}

// Every way in works for everything that a pipeline does: topics, transactions, groups.
func TestSecured(t *testing.T) {
	f := func(name string, distance int, vars map[string]string) {
		t.Helper()
		c, err := kafka.Connect(t.Context(), conf(t, distance, vars))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		defer c.Close()
		in := topic(t, c, 1, nil)
		tp := kafka.TopicPartition{Topic: in}
		commit(t, transactor(t, c, in), kafka.Transaction{Messages: map[kafka.TopicPartition][]topics.Message{tp: text("x")}})
		sub := c.NewSubscriber(t.Context(), kafka.SubscriberOptions{Group: kafka.GroupOptions{ID: in}})
		closing(t, sub)
		msgs, err := sub.Subscribe(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		next(t, msgs).Ack()
	}
	mutual := map[string]string{kafka.EnvCert: "TLS/client.pem", kafka.EnvKey: "TLS/client.key"}
	f("mTLS", overTLS, keys(t, mutual))
	for _, m := range []string{"plain", "scram-sha-256", "SCRAM-SHA-512"} {
		f(m, saslPlain, user(t, m, "alice", "alice-secret"))
		f(m+" over TLS", saslTLS, keys(t, user(t, m, "alice", "alice-secret")))
	}
}

// What is wrong is said in words, with exit 4 and what to do, and never with the secret.
func TestSecuredFaults(t *testing.T) {
	f := func(name string, c kafka.Config, want string) {
		t.Helper()
		began := time.Now()
		client, err := kafka.Connect(t.Context(), c)
		if err == nil {
			client.Close()
		}
		var exit *evalstream.ExitError
		if err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, &exit) || exit.Code != evalstream.ExitLost || exit.Hint == "" {
			t.Errorf("%s: want %q, got %v", name, want, err)
		}
		said := fmt.Sprintf("%v %+v %#v", err, c, c)
		if j, jerr := json.Marshal(c.SASL); jerr == nil {
			said += string(j)
		}
		if strings.Contains(said, "secret") && strings.Contains(said, "-secret") {
			t.Errorf("%s: the password is printed: %s", name, said)
		}
		if d := time.Since(began); d > 11*time.Second {
			t.Errorf("%s: took %v", name, d)
		}
		t.Logf("%s: %v", name, err)
	}
	for _, m := range []string{"plain", "scram-sha-256", "scram-sha-512"} {
		f("wrong password, "+m, conf(t, saslPlain, user(t, m, "alice", "wrong-secret")), "broker refuses the user name or password")
	}
	f("no such user", conf(t, saslTLS, keys(t, user(t, "plain", "eve", "eve-secret"))), "broker refuses the user name or password")
	f("TLS where there is none", conf(t, 0, keys(t, nil)), "broker hangs up: it is no Kafka port, or TLS or SASL")
	f("no TLS where there is", conf(t, overTLS, nil), "broker wants TLS on this port")
	f("no client certificate", conf(t, overTLS, keys(t, nil)), "broker refuses the client's certificate, or wants one")
	f("authority not trusted", conf(t, saslTLS, map[string]string{
		kafka.EnvTLS: "true", kafka.EnvMechanism: "plain", kafka.EnvUsername: "alice", kafka.EnvPassword: "alice-secret",
	}), "signed by an authority that is not trusted")
	f("SASL where there is none", conf(t, 0, user(t, "plain", "alice", "alice-secret")), "broker does not expect SASL on this port")
	f("no SASL where there is", conf(t, saslPlain, nil), "broker hangs up: it is no Kafka port, or TLS or SASL")
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := dead.Addr().String()
	_ = dead.Close()
	f("nobody listens", kafka.Config{Brokers: []string{address}, Timeout: 5 * time.Second, Patience: 5 * time.Second}, "no answer")
}

// A user without rights is told which one is missing, and where.
func TestMissingRights(t *testing.T) {
	c := connect(t, cluster(t))
	n := topic(t, c, 1, nil)
	tp := kafka.TopicPartition{Topic: n}
	bob, err := kafka.Connect(t.Context(), conf(t, saslPlain, user(t, "plain", "bob", "bob-secret")))
	if err != nil {
		t.Fatal(err)
	}
	defer bob.Close()
	f := func(about string, err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) || evalstream.ExitCode(err) != evalstream.ExitLost {
			t.Errorf("%s: want %q, got %v", about, want, err)
		}
	}
	_, err = bob.Partitions(t.Context(), n)
	f("describe", err, n+": this user has no right to the topic")
	_, err = bob.Read(tp, kafka.First, kafka.ReadOptions{}).Next(t.Context())
	f("read", err, "this user has no right to the topic")
	_, err = bob.CreateTopics(t.Context(), kafka.TopicSpec{Name: name("t"), Partitions: 1})
	f("create", err, "this user has no right to")
	_, err = bob.Transactor(t.Context(), "bobs", kafka.None)
	f("transact", err, "this user has no right to the transactional id")
	_, err = bob.Committed(t.Context(), "bobs", tp)
	f("group", err, "this user has no right to the group")
	p := bob.NewProducer(t.Context(), kafka.None)
	closing(t, p)
	f("write", errors.Join(p.Send(t.Context(), n, text("x")...)...), "this user has no right to the topic")
	// The right to the topic alone: the group is refused when it is joined.
	acl := func(resource kgo.ResourceType, name string, op kgo.ACLOperationType) {
		t.Helper()
		res, err := (&kgo.Client{Addr: kgo.TCP(cluster(t)...)}).CreateACLs(t.Context(), &kgo.CreateACLsRequest{ACLs: []kgo.ACLEntry{{
			ResourceType: resource, ResourceName: name, ResourcePatternType: kgo.PatternTypeLiteral,
			Principal: "User:bob", Host: "*", Operation: op, PermissionType: kgo.ACLPermissionTypeAllow,
		}}})
		if err == nil {
			err = errors.Join(res.Errors...)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	acl(kgo.ResourceTypeTopic, n, kgo.ACLOperationTypeRead)
	deadline, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for { // rights take a moment to be known
		if _, err := bob.Partitions(deadline, n); err == nil || deadline.Err() != nil {
			break
		}
	}
	err = bob.Join(deadline, kafka.GroupOptions{ID: "bobs", Topics: []string{n}}, func(context.Context, *kafka.Assignment) error { return nil })
	f("join", err, "this user has no right to the group")
}

// Kafka's own console tools read what is written here, and what they write is read.
func TestConsoleTools(t *testing.T) {
	c := connect(t, cluster(t))
	for _, codec := range []kafka.Codec{kafka.None, kafka.LZ4, kafka.Zstd} {
		n := topic(t, c, 1, nil)
		tp := kafka.TopicPartition{Topic: n}
		commit(t, transactor(t, c, n), kafka.Transaction{Messages: map[kafka.TopicPartition][]topics.Message{tp: {
			{Key: []byte("k1"), Value: []byte("v1"), Headers: []topics.Header{{Name: "b", Value: []byte("1")}, {Name: "a", Value: []byte("2")}, {Name: "b", Value: nil}}},
			{Key: []byte("k2")},
		}}})
		p := c.NewProducer(t.Context(), codec)
		if err := errors.Join(p.SendTo(t.Context(), n, topics.Message{Value: []byte("v3 " + strings.Repeat("z", 2000))})...); err != nil {
			t.Fatal(err)
		}
		_ = p.Close()
		got := control(t, "tool", "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", env(t, brokersEnv), "--topic", n,
			"--from-beginning", "--max-messages", "3", "--timeout-ms", "20000", "--isolation-level", "read_committed",
			"--formatter-property", "print.key=true", "--formatter-property", "print.headers=true",
			"--formatter-property", "null.literal=NULL")
		want := "b:1,a:2,b:NULL\tk1\tv1\nNO_HEADERS\tk2\tNULL\nNO_HEADERS\tNULL\tv3 " + strings.Repeat("z", 2000) + "\n"
		if d := cmp.Diff(want, printed(got)); d != "" {
			t.Errorf("codec %d: %s", codec, d)
		}
	}
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		n := topic(t, c, 1, nil)
		cmd := exec.CommandContext(t.Context(), env(t, "EVALSTREAM_TEST_BROKER_CONTROL"), "tool", "org.apache.kafka.tools.ConsoleProducer",
			"--bootstrap-server", env(t, brokersEnv), "--topic", n, "--compression-codec", codec,
			"--reader-property", "parse.key=true", "--reader-property", "parse.headers=true", "--reader-property", "null.marker=NULL")
		cmd.Stdin = strings.NewReader("b:1,a:2,b:3\tk1\tv1\nx:y\tk2\tNULL\nx:y\tNULL\tv3\n")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		var got []string
		for _, m := range read(t, c, kafka.TopicPartition{Topic: n}, 3) {
			got = append(got, fmt.Sprintf("%s %q %v %q %v", m.Headers, m.Key, m.Key == nil, m.Value, m.Value == nil))
		}
		want := []string{
			`[{b 1} {a 2} {b 3}] "k1" false "v1" false`,
			`[{x y}] "k2" false "" true`,
			`[{x y}] "" true "v3" false`,
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("codec %s: %s", codec, d)
		}
	}
}

// printed drops what a tool logs between what it prints.
func printed(out string) string {
	var keep strings.Builder
	for l := range strings.Lines(out) {
		if !strings.HasPrefix(l, "[20") {
			keep.WriteString(l)
		}
	}
	return keep.String()
}

// A log that compaction has gone through is read past its holes, to its end.
func TestCompactedLog(t *testing.T) {
	c := connect(t, cluster(t))
	n := topic(t, c, 1, map[string]string{
		"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": "100", "delete.retention.ms": "0",
	})
	tp := kafka.TopicPartition{Topic: n}
	tr := transactor(t, c, n)
	write := func(i int) {
		commit(t, tr, kafka.Transaction{Messages: map[kafka.TopicPartition][]topics.Message{tp: {
			{Key: []byte("a"), Value: fmt.Append(nil, i)}, {Key: fmt.Append(nil, "once ", i), Value: fmt.Append(nil, i)}, {Key: []byte("b"), Value: fmt.Append(nil, i)},
		}}})
	}
	for i := range 20 {
		write(i)
	}
	deadline := time.Now().Add(60 * time.Second)
	for i := 20; ; i++ {
		wait(t, 300*time.Millisecond) // segments roll by time
		write(i)
		var offsets []int64
		latest := map[string]string{}
		if err := c.Cat(t.Context(), n, func(m topics.Message) error {
			offsets = append(offsets, m.Offset)
			latest[string(m.Key)] = string(m.Value)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		// The last transaction may still be ending.
		if latest["a"] != latest["b"] || len(latest) != number(latest["a"])+3 || number(latest["a"]) < i-1 {
			t.Fatalf("after %d writes: a=%s b=%s, %d keys", i+1, latest["a"], latest["b"], len(latest))
		}
		if len(offsets) < 3*(i+1)-20 { // most of the early a and b are gone
			t.Logf("%d of %d messages are left after %d writes", len(offsets), 3*(i+1), i+1)
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("compaction has not come: %d messages", len(offsets))
		}
	}
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}

// Publishers and subscribers of all three kinds go on when the broker is restarted:
// every message that was published arrives.
func TestReconnect(t *testing.T) {
	b := cluster(t)
	const n, publishers = 4000, 50
	type running struct {
		pub   message.Publisher
		sub   message.Subscriber
		topic string
		msgs  <-chan *message.Message
	}
	var all []running
	for i, s := range []suite{ordered(b), pipelined(b), withoutGroup(b)} {
		group := s.group
		if group != "" {
			group = name("g")
		}
		r := running{topic: name(fmt.Sprintf("reconnect%d", i))}
		r.pub, r.sub = s.make(t, group)
		closing(t, r.pub)
		closing(t, r.sub)
		if err := r.sub.(message.SubscribeInitializer).SubscribeInitialize(r.topic); err != nil {
			t.Fatal(err)
		}
		var err error
		if r.msgs, err = r.sub.Subscribe(background(t), r.topic); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	var sent atomic.Int64
	var wg sync.WaitGroup
	for p := range publishers {
		wg.Go(func() {
			for i := p; i < n; i += publishers {
				if sent.Add(1) == n/2 {
					wg.Go(func() { control(t, "restart") })
				}
				for _, r := range all {
					if err := r.pub.Publish(r.topic, message.NewMessage(strconv.Itoa(i), []byte("x"))); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for _, r := range all {
		wg.Go(func() {
			late := time.After(4 * time.Minute)
			for got := map[string]bool{}; len(got) < n; {
				select {
				case m := <-r.msgs:
					got[m.UUID] = true
					m.Ack()
				case <-late:
					t.Errorf("%s: %d of %d messages", r.topic, len(got), n)
					return
				}
			}
		})
	}
	wg.Wait()
}

// A broker that is killed and comes back: nothing is lost, nothing is there twice.
func TestBrokerIsKilled(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	const partitions, n = 4, 2000
	in, out, group := topic(t, c, partitions, nil), topic(t, c, partitions, nil), name("g")
	want := make([][]string, partitions)
	m := startMember(t, b, group, in, out)
	p := c.NewProducer(t.Context(), kafka.LZ4)
	for k := range n {
		var ms []topics.Message
		for i := range partitions {
			v := fmt.Sprintf("%d/%d", i, k)
			want[i] = append(want[i], v)
			ms = append(ms, topics.Message{Partition: int32(i), Value: []byte(v)})
		}
		if err := errors.Join(p.SendTo(t.Context(), in, ms...)...); err != nil {
			t.Fatal(err)
		}
		if k == n/2 {
			pid, err := strconv.Atoi(strings.TrimSpace(control(t, "pid")))
			if err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			control(t, "start")
		}
	}
	_ = p.Close()
	checkCopy(t, c, in, want)
	checkCopy(t, c, out, want)
	m.stop()
	if err := m.wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("member ended with %v", err)
	}
}
