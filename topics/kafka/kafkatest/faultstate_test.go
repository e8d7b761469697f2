package kafkatest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-cmp/cmp"
	kgo "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var topicFaults = []fault{
	{what: "a topic of `from:` is not there", does: "never made by accident: `topics create PIPELINE.yaml`", exit: 4, says: []string{"topic is not there", "topics create "}, try: lacks("from")},
	{what: "a topic of `via:` is not there", does: "the same", exit: 4, says: []string{"topic is not there"}, try: lacks("via")},
	{what: "the changelog is not there", does: "the same", exit: 4, says: []string{"topic is not there"}, try: lacks("changelog")},
	{what: "the topic of `to:` is not there", does: "the same", exit: 4, says: []string{"topic is not there"}, try: lacks("to")},
	{what: "the topic of `rejects:` is not there", does: "the same", exit: 4, says: []string{"topic is not there"}, try: lacks("rejects")},
	{
		what: "topics that are read together have unequal partitions", does: "nothing is read: partition p of all of them is read as one", exit: 2, says: []string{"need equal partitions, got"},
		try: func(s *scene) {
			a, b := s.topic(3, nil), s.topic(2, nil)
			s.create(s.name+".score.changelog", 3, compacted())
			s.create(s.name+".partials", 3, compacted())
			s.ends(s.write("from: [topic:%s, topic:%s]\nto: topic:%s\n%s", a, b, s.topic(1, compacted()), short))
		},
	},
	{
		what: "the changelog has other partitions than its inputs", does: "nothing is read: keys would be elsewhere", exit: 5, says: []string{"want 2 partitions, as", "got 3", "topics reset"},
		try: func(s *scene) {
			s.create(s.name+".score.changelog", 3, compacted())
			s.create(s.name+".partials", 2, compacted())
			s.ends(s.write("from: topic:%s\nto: topic:%s\n%s", s.topic(2, nil), s.topic(1, compacted()), short))
		},
	},
	{
		what: "partitions are added to the inputs of a pipeline that remembers", does: "the same: keys have moved", exit: 5, says: []string{"want 3 partitions, as", "got 2", "topics reset"},
		try: func(s *scene) {
			s.again(func(in, _, path string) string {
				grow(s.T, s.brokers, in, 3)
				return path
			})
		},
	},
	{
		what: "the changelog was made by other options (a measure, a horizon, another gold file)", does: "says which; the state is left as it is. The old options, another name, or `topics reset`", exit: 5,
		says: []string{"state was made with other options", "mrr", "topics reset"},
		try: func(s *scene) {
			s.again(func(_, _, path string) string { return s.replaced(path, "success@1", "mrr") })
		},
	},
	{
		what: "a changelog, partials or results topic is not compacted", does: "nothing is read: what is needed would be deleted by its age. Prints the command that mends it", exit: 2,
		says: []string{`want cleanup.policy=compact, got "delete"`, "kafka-configs.sh", "--add-config cleanup.policy=compact"},
		try: func(s *scene) {
			s.create(s.name+".score.changelog", 1, map[string]string{"cleanup.policy": "delete"})
			s.ends(s.write("from: topic:%s\nto: topic:%s\n%s", s.topic(1, nil), s.topic(1, compacted()), short))
		},
	},
	{
		what: "a topic of `from:`, `gold:` or `via:` is compacted", does: "nothing is read: records that still count would be gone. Prints the command that mends it", exit: 2,
		says: []string{`want cleanup.policy=delete, got "compact"`, "kafka-configs.sh", "--add-config cleanup.policy=delete"},
		try: func(s *scene) {
			s.create(s.name+".score.changelog", 1, compacted())
			s.ends(s.write("from: topic:%s\nto: topic:%s\n%s", s.topic(1, compacted()), s.topic(1, compacted()), short))
		},
	},
	{
		what: "such a topic keeps its records for less than `horizon` and `max_out_of_order`", does: "nothing is read. Prints the command that mends it", exit: 2,
		says: []string{"want retention.ms of at least 86400000 (horizon and max_out_of_order, 1d), got 3600000 (1h)", "kafka-configs.sh", "--add-config retention.ms=86400000"},
		try: func(s *scene) {
			s.create(s.name+".score.changelog", 1, compacted())
			s.ends(s.write("from: topic:%s\nto: topic:%s\nhorizon: 1d\n%s", s.topic(1, map[string]string{"retention.ms": "3600000"}), s.topic(1, compacted()), short))
		},
	},
	{
		what: "the changelog was deleted and made again", does: "stops: what was read before is not in it", exit: 5, says: []string{".score.changelog[", "]: holds no state, though group", "topics reset"},
		try: func(s *scene) {
			s.again(func(_, _, path string) string {
				log := s.name + ".score.changelog"
				if err := s.connection().DeleteTopics(s.Context(), log); err != nil {
					s.Fatal(err)
				}
				s.create(log, 2, compacted())
				return path
			})
		},
	},
	{
		what: "something else writes to the changelog", does: "stops before anything is read", exit: 5, says: []string{".changelog[", "something else writes to this topic", "topics reset"},
		try: func(s *scene) {
			s.again(func(_, _, path string) string {
				produce(s.T, s.connection(), s.name+".score.changelog", []record{{"a", "x"}, {"b", "x"}, {"c", "x"}, {"d", "x"}})
				return path
			})
		},
	},
	{
		what: "the topic of `from:` was deleted and made again, and is shorter", does: "stops: it is not what was read before", exit: 4, says: []string{"log ends at 0 before it: the topic was made again", "topics reset"},
		try: func(s *scene) {
			s.again(func(in, _, path string) string {
				if err := s.connection().DeleteTopics(s.Context(), in); err != nil {
					s.Fatal(err)
				}
				s.create(in, 2, nil)
				return path
			})
		},
	},
	{
		what: "that happens while it is read", does: "the same", exit: 4, says: []string{"log ends at 0 before it: the topic was made again", "topics reset"},
		try: func(s *scene) {
			in, to := s.topic(1, nil), s.topic(1, compacted())
			path := s.make("from: topic:%s\nto: topic:%s\n%s", in, to, strings.ReplaceAll(short, "by: run", "every: 50ms, by: run"))
			produce(s.T, s.connection(), in, scored("q"))
			p, stderr := s.start()(path)
			until(s.T, func() bool { return strings.Contains(s.latest(to), `"n":1,`) })
			if err := s.connection().DeleteTopics(s.Context(), in); err != nil {
				s.Fatal(err)
			}
			s.create(in, 1, nil)
			_ = p.Wait() // the exit code tells
			s.exit, s.told = p.ProcessState.ExitCode(), stderr.String()
		},
	},
	{
		what: "the group has forgotten its offsets (no member for `offsets.retention.minutes`, 7 days)", does: "each segment goes on from the position in its changelog; `merge` reads the partials from their start, as always",
		try: func(s *scene) {
			s.again(func(_, _, path string) string {
				group := s.name + ".score"
				res, err := (&kgo.Client{Addr: kgo.TCP(s.brokers...)}).DeleteGroups(s.Context(), &kgo.DeleteGroupsRequest{GroupIDs: []string{group}})
				if err == nil {
					err = res.Errors[group]
				}
				if err != nil {
					s.Fatal(err)
				}
				return path
			})
			s.holds(s.told, "parse line: received 4 =")
		},
	},
	{
		what: "retention or deletion has taken records that were not read yet", does: "stops: says how many are missing", exit: 4, says: []string{"records are gone by retention or deletion", "raise the topic's retention"},
		try: func(s *scene) {
			s.again(func(in, _, path string) string {
				more := scored("q")
				produce(s.T, s.connection(), in, append(more, more...))
				for p := range int32(2) {
					if err := s.cluster.DeleteRecords(in, p, s.cluster.PartitionInfo(in, p).HighWatermark); err != nil {
						s.Fatal(err)
					}
				}
				return path
			})
		},
	},
}

var brokerFaults = []fault{
	{
		what: "nobody listens at the address", does: "gives up at once", exit: 4, says: []string{"no answer", "check that a broker listens there"},
		try: func(s *scene) {
			s.brokers = []string{closedPort(s.T)}
			s.ends(s.write("from: topic:x\nto: topic:y\n%s", short))
		},
	},
	{
		what: "an address is no host:port", does: "nothing is asked", exit: 2, says: []string{`brokers: want host:port, got "nowhere"`},
		try: func(s *scene) {
			s.brokers = []string{"nowhere"}
			s.ends(s.write("from: topic:x\nto: topic:y\n%s", short))
		},
	},
	{
		what: "wrong user or password", does: "gives up at once; the password is printed nowhere", exit: 4, says: []string{"broker refuses the user name or password", "EVALSTREAM_KAFKA_SASL_USERNAME"},
		try: func(s *scene) {
			s.secured("alice", "wrong-secret")
			s.ends(s.write("from: topic:x\nto: topic:y\n%s", short))
			if strings.Contains(s.told, "wrong-secret") {
				s.Errorf("the password is printed: %s", s.told)
			}
		},
	},
	{
		what: "a right is missing", does: "gives up at once: says which right, to what", exit: 4, says: []string{"x: this user has no right to the topic", "kafka-acls"},
		try: func(s *scene) {
			s.secured("bob", "bob-secret")
			s.ends(s.write("from: topic:x\nto: topic:y\n%s", short))
		},
	},
	{
		what: "the broker goes away and comes back within `EVALSTREAM_KAFKA_PATIENCE` (2 min)", does: "waits, says so after five seconds, goes on: nothing lost, nothing twice (here ended by SIGTERM later)", exit: 143, says: []string{"level=WARN"},
		try: func(s *scene) { s.outage("30s", true) },
	},
	{
		what: "a commit takes long (a broker under load)", does: "waited for in the same way; also at the end of a run",
		try: func(s *scene) {
			in, to := s.topic(2, nil), s.topic(1, compacted())
			path := s.make("from: topic:%s\nto: topic:%s\n%s", in, to, short)
			produce(s.T, s.connection(), in, scored("q"))
			began := time.Now()
			s.cluster.ControlKey(int16(kmsg.EndTxn), func(req kmsg.Request) (kmsg.Response, error, bool) {
				s.cluster.KeepControl()
				if time.Since(began) > 8*time.Second {
					return nil, nil, false
				}
				res := req.ResponseKind().(*kmsg.EndTxnResponse)
				res.ErrorCode = int16(kgo.GroupLoadInProgress)
				return res, nil, true
			})
			s.ends(path)
			s.holds(s.latest(to), `"n":1,`, `"final":true`)
		},
	},
	{
		what: "the broker goes away for good", does: "waits that long, then gives up; started again, it goes on from the last commit", exit: 4, says: []string{"no answer", "check that a broker listens there"},
		try: func(s *scene) { s.outage("3s", false) },
	},
}

// secured makes the scene's cluster one that asks for a user: alice is refused, bob has
// no rights. Commands are this user.
func (s *scene) secured(user, password string) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.Superuser("SCRAM-SHA-256", "alice", "alice-secret"), kfake.User("SCRAM-SHA-256", "bob", "bob-secret"), kfake.SeedTopics(1, "x", "y"))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(c.Close)
	if user == "alice" { // what a fake broker would not say in words, as a real one does
		c.ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			res := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
			res.ErrorCode = int16(kgo.SASLAuthenticationFailed)
			return res, nil, true
		})
	}
	s.brokers = c.ListenAddrs()
	s.env = []string{"EVALSTREAM_KAFKA_SASL_MECHANISM=scram-sha-256", "EVALSTREAM_KAFKA_SASL_USERNAME=" + user, "EVALSTREAM_KAFKA_SASL_PASSWORD=" + password}
}

// outage runs a pipeline while its broker goes away, for good or for eight seconds.
func (s *scene) outage(patience string, back bool) {
	dir := filepath.Join(s.TempDir(), "broker")
	start := func(more ...kfake.Opt) *kfake.Cluster {
		c, err := kfake.NewCluster(append(more, kfake.NumBrokers(1), kfake.DataDir(dir), kfake.BrokerConfigs(map[string]string{"group.min.session.timeout.ms": "1000"}))...)
		if err != nil {
			s.Fatal(err)
		}
		return c
	}
	broker := start()
	defer func() { broker.Close() }()
	s.brokers = broker.ListenAddrs()
	in, to := s.topic(2, nil), s.topic(1, compacted())
	path := s.make("from: topic:%s\nto: topic:%s\n%s", in, to, strings.ReplaceAll(short, "by: run", "every: 50ms, by: run"))
	produce(s.T, s.connection(), in, scored("q"))
	p, stderr := s.start("EVALSTREAM_KAFKA_SESSION=2s", "EVALSTREAM_KAFKA_PATIENCE="+patience)(path)
	until(s.T, func() bool { return strings.Contains(s.latest(to), `"n":1,`) })
	broker.Close()
	if !back {
		_ = p.Wait() // the exit code tells
		s.exit, s.told = p.ProcessState.ExitCode(), stderr.String()
		return
	}
	wait(s.T, 8*time.Second) // the time for which it is away: it is told after five
	var port int
	if _, err := fmt.Sscanf(s.brokers[0], "127.0.0.1:%d", &port); err != nil {
		s.Fatal(err)
	}
	broker = start(kfake.Ports(port))
	produce(s.T, s.connection(), in, scored("r"))
	until(s.T, func() bool { return strings.Contains(s.latest(to), `"n":2,`) })
	_ = p.Process.Signal(syscall.SIGTERM)
	_ = p.Wait() // the exit code tells
	s.exit, s.told = p.ProcessState.ExitCode(), stderr.String()
}

// start starts `run` of a pipeline with these variables.
func (s *scene) start(env ...string) func(path string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	return func(path string, args ...string) (*exec.Cmd, *bytes.Buffer) {
		p, _, stderr := command(s.T, append(append([]string{"run"}, args...), path)...)
		p.Env = append(append(os.Environ(), s.env...), env...)
		if err := p.Start(); err != nil {
			s.Fatal(err)
		}
		s.Cleanup(func() {
			if p.ProcessState == nil {
				_ = p.Process.Kill()
				_ = p.Wait()
			}
		})
		return p, stderr
	}
}

// signalled sends a signal to a running pipeline, and then runs it to its end, which
// must give the results of the pipe.
func signalled(sig syscall.Signal) func(*scene) {
	return func(s *scene) {
		predictions, gold := workload(60)
		out, _ := execute(s.T, lines(predictions, gold), 0, "run", "-q", pipeline(s.T, steps))
		want := finals(s.T, out)
		in, to := s.topic(2, nil), s.topic(1, compacted())
		path := s.make("from: topic:%s\nto: topic:%s\n%s", in, to, steps)
		half := len(predictions) / 2
		produce(s.T, s.connection(), in, append(slices.Clone(predictions[:half]), gold[:9]...))
		p, stderr := s.start()(path)
		until(s.T, func() bool { return published(s.T, s.connection(), to) > 0 })
		produce(s.T, s.connection(), in, append(slices.Clone(predictions[half:]), gold[9:]...))
		_ = p.Process.Signal(sig)
		_ = p.Wait() // the exit code tells
		s.exit, s.told = p.ProcessState.ExitCode(), stderr.String()
		execute(s.T, "", 0, "run", "-q", "--until-end", path)
		if diff := cmp.Diff(want, finals(s.T, s.latest(to))); diff != "" {
			s.Errorf("topics against the pipe (-pipe +topics):\n%s", diff)
		}
	}
}

// paused pauses the owner of all partitions until another has taken them and done what
// there is to do.
func (s *scene) paused() {
	predictions, gold := workload(60)
	out, _ := execute(s.T, lines(predictions, gold), 0, "run", "-q", pipeline(s.T, steps))
	want := finals(s.T, out)
	in, to := s.topic(2, nil), s.topic(1, compacted())
	path := s.make("from: topic:%s\nto: topic:%s\n%s", in, to, steps)
	produce(s.T, s.connection(), in, append(slices.Clone(predictions[:50]), gold[:9]...))
	start := s.start("EVALSTREAM_KAFKA_SESSION=2s")
	first, stderr := start(path)
	until(s.T, func() bool { return published(s.T, s.connection(), to) > 0 })
	if err := first.Process.Signal(syscall.SIGSTOP); err != nil {
		s.Fatal(err)
	}
	second, _ := start(path)
	produce(s.T, s.connection(), in, append(slices.Clone(predictions[50:]), gold[9:]...))
	until(s.T, func() bool {
		out, _ := execute(s.T, "", 0, "topics", "lag", path)
		return strings.Count(out, `"behind":0}`) == strings.Count(out, "\n")
	})
	_ = first.Process.Signal(syscall.SIGCONT)
	_ = first.Process.Signal(syscall.SIGTERM)
	_ = first.Wait() // the exit code tells
	s.exit, s.told = first.ProcessState.ExitCode(), stderr.String()
	_ = second.Process.Signal(syscall.SIGTERM)
	_ = second.Wait()
	execute(s.T, "", 0, "run", "-q", "--until-end", path)
	if diff := cmp.Diff(want, finals(s.T, s.latest(to))); diff != "" {
		s.Errorf("topics against the pipe (-pipe +topics):\n%s", diff)
	}
}

// cached runs a pipeline twice with a copy of its state on the disk, with a change of the
// copy between.
func cached(change func(s *scene, dir string)) func(*scene) {
	return func(s *scene) {
		dir := filepath.Join(s.TempDir(), "state")
		in, to := s.topic(1, nil), s.topic(1, compacted())
		path := s.make("from: topic:%s\nto: topic:%s\nstate: %s\n%s", in, to, dir, short)
		produce(s.T, s.connection(), in, scored("q"))
		execute(s.T, "", 0, "run", "-q", "--until-end", path)
		change(s, filepath.Join(dir, s.name+".score", "0"))
		produce(s.T, s.connection(), in, scored("r"))
		s.ends(path)
		if s.exit == 0 {
			s.holds(s.latest(to), `"n":2,`)
		}
	}
}

var processFaults = []fault{
	{
		what: "SIGTERM or SIGINT (130)", does: "what was read takes effect; nothing becomes final. A second signal stops at once", exit: 143, says: []string{"finishing what was read"},
		try: signalled(syscall.SIGTERM),
	},
	{what: "`kill -9`, or the machine fails", does: "what was not committed never took effect, and is done again by the next owner, after the session (10 s)", exit: -1, try: signalled(syscall.SIGKILL)},
	{
		what: "a process is paused for longer than the session, and wakes up", does: "its partitions have gone to another; nothing it does then takes effect, and it joins again (here ended by SIGTERM)", exit: 143,
		try: func(s *scene) { s.paused() },
	},
	{
		what: "a process dies, and another reads to the end beside it (`--until-end`)", does: "that one stays until the session of the dead is over, and reads what was theirs too",
		says: []string{"taken over"}, try: func(s *scene) { s.heir() },
	},
	{
		what: "members of another layout (other cuts or topics) are in the group", does: "gives up: stop all members first. Where the state would fit, it waits two sessions for them to go", exit: 2, says: []string{"another layout of this pipeline is running in group", "stop all its members first"},
		try: func(s *scene) {
			s.two(func(path string) string {
				return s.replaced(path, "  - score", "  - parse: {}\n    via: "+s.topic(1, nil)+"\n  - score")
			}, "--only", "score")
		},
	},
	{
		what: "two pipelines of one name and layout, with other options", does: "the second cannot use the state: another name", exit: 5, says: []string{"state was made with other options"},
		try: func(s *scene) {
			s.again(func(_, _, path string) string { return s.replaced(path, "by: run", "by: ticker") })
		},
	},
	{
		what: "the copy in `state:` is lost", does: "made again from the changelog",
		try: cached(func(s *scene, dir string) {
			if err := os.RemoveAll(dir); err != nil {
				s.Fatal(err)
			}
		}),
	},
	{
		what: "the copy in `state:` is damaged", does: "stops: remove the directory, and it is made again from the changelog", exit: 5, says: []string{"state ", "hint: remove ", "it is a copy"},
		try: cached(func(s *scene, dir string) {
			files, err := filepath.Glob(filepath.Join(dir, "*", "MANIFEST-*"))
			if err != nil || len(files) == 0 {
				s.Fatalf("no manifest in %s: %v", dir, err)
			}
			for _, f := range files {
				if err := os.WriteFile(f, []byte("damaged"), 0o600); err != nil {
					s.Fatal(err)
				}
			}
		}),
	},
	{
		what: "the disk of `state:` is full", does: "stops; nothing was lost: make room and run it again", exit: 4, says: []string{"no space left on device", "make room on the disk"},
		try: func(s *scene) {
			dir := s.TempDir()
			in, to := s.topic(1, nil), s.topic(1, compacted())
			path := s.make("from: topic:%s\nto: topic:%s\nstate: %s\n%s", in, to, filepath.Join(dir, "state"), short)
			produce(s.T, s.connection(), in, scored("q"))
			program, err := program()
			if err != nil {
				s.Fatal(err)
			}
			// A file system of 8 KiB that only this process sees.
			c := exec.CommandContext(s.Context(), "unshare", "-rm", "sh", "-c", `mount -t tmpfs -o size=8k full "$1" && exec "$2" run --until-end "$3"`, "sh", dir, program, path)
			var stderr bytes.Buffer
			c.Stderr = &stderr
			_ = c.Run() // the exit code tells
			s.exit, s.told = c.ProcessState.ExitCode(), stderr.String()
			execute(s.T, "", 0, "run", "-q", "--until-end", path)
			s.holds(s.latest(to), `"n":1,`)
		},
	},
	{
		what: "two processes with one `state:` directory", does: "the second is refused when it gets a partition that the first has not let go: a directory of its own for each", exit: 5, says: []string{"in use"},
		try: func(s *scene) { s.sharedCache() },
	},
}

// heir runs a pipeline to its end beside a process that has half of the partitions and is
// killed.
func (s *scene) heir() {
	predictions, gold := workload(60)
	out, _ := execute(s.T, lines(predictions, gold), 0, "run", "-q", pipeline(s.T, steps))
	want := finals(s.T, out)
	in, to := s.topic(2, nil), s.topic(1, compacted())
	path := s.make("from: topic:%s\nto: topic:%s\n%s", in, to, steps)
	produce(s.T, s.connection(), in, slices.Concat(predictions[:50], gold[:9]))
	session := []string{"EVALSTREAM_KAFKA_SESSION=3s"}
	first, _ := s.start(session...)(path)
	until(s.T, func() bool { return published(s.T, s.connection(), to) > 0 })
	second := watch(s.T, nil, session, "--until-end", path)
	until(s.T, func() bool { return strings.Contains(second.text(), "taken over") })
	_ = first.Process.Kill()
	produce(s.T, s.connection(), in, slices.Concat(predictions[50:], gold[9:]))
	second.read.Wait()
	_ = second.cmd.Wait() // the exit code tells
	s.exit, s.told = second.cmd.ProcessState.ExitCode(), second.text()
	execute(s.T, "", 0, "run", "-q", "--until-end", path)
	if diff := cmp.Diff(want, finals(s.T, s.latest(to))); diff != "" {
		s.Errorf("topics against the pipe (-pipe +topics):\n%s", diff)
	}
}

// two starts a pipeline, and then runs another one beside it.
func (s *scene) two(other func(path string) string, args ...string) {
	in, to := s.topic(1, nil), s.topic(1, compacted())
	s.env = []string{"EVALSTREAM_KAFKA_SESSION=3s"}
	path := s.make("from: topic:%s\nto: topic:%s\n%s", in, to, short)
	produce(s.T, s.connection(), in, scored("q"))
	first, _ := s.start()(path)
	until(s.T, func() bool { return published(s.T, s.connection(), to) > 0 })
	s.run(append(append([]string{"run"}, args...), other(path))...)
	_ = first.Process.Kill()
}

// sharedCache runs a pipeline whose cache another process holds.
func (s *scene) sharedCache() {
	dir := filepath.Join(s.TempDir(), "state")
	in, to := s.topic(1, nil), s.topic(1, compacted())
	path := s.make("from: topic:%s\nto: topic:%s\nstate: %s\n%s", in, to, dir, short)
	produce(s.T, s.connection(), in, scored("q"))
	first, _ := s.start("EVALSTREAM_KAFKA_SESSION=3s")(path)
	until(s.T, func() bool { return published(s.T, s.connection(), to) > 0 })
	// A paused process loses its partition, but not its lock.
	if err := first.Process.Signal(syscall.SIGSTOP); err != nil {
		s.Fatal(err)
	}
	s.env = []string{"EVALSTREAM_KAFKA_SESSION=3s"}
	s.ends(path)
	_ = first.Process.Kill()
}
