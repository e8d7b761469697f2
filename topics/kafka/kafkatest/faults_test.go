package kafkatest

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"

	"evalstream/topics"
	"evalstream/topics/kafka"
)

var update = flag.Bool("update", false, "rewrite the table of docs/faults.md")

// fault is a row of docs/faults.md.
type fault struct {
	what string   // is wrong
	does string   // what is done about it
	exit int      // of the command
	says []string // parts of stderr, in this order
	try  func(s *scene)
}

// faults are the tables of docs/faults.md, in its order: the documents' one source.
func faults() []struct {
	title string
	rows  []fault
} {
	return []struct {
		title string
		rows  []fault
	}{
		{"Records", recordFaults},
		{"Configuration", configFaults},
		{"Topics and state", topicFaults},
		{"Brokers", brokerFaults},
		{"Processes and disks", processFaults},
	}
}

//go:generate go test -count=1 -run ^TestFaultsDocument$ -update .

// TestFaults does what each row of docs/faults.md says and looks at the exit code and at
// stderr.
func TestFaults(t *testing.T) {
	for _, group := range faults() {
		for _, row := range group.rows {
			t.Run(group.title+"/"+row.what, func(t *testing.T) {
				t.Parallel()
				s := &scene{T: t, name: name("live"), exit: -1}
				row.try(s)
				if s.exit != row.exit {
					t.Errorf("exit %d, want %d: %s", s.exit, row.exit, s.told)
				}
				rest := s.told
				for _, part := range row.says {
					_, behind, found := strings.Cut(rest, part)
					if !found {
						t.Fatalf("want %q in stderr, got %s", part, s.told)
					}
					rest = behind
				}
			})
		}
	}
}

// The tables of docs/faults.md are those of TestFaults; -update writes them.
func TestFaultsDocument(t *testing.T) {
	const path, begin, end = "../../../docs/faults.md", "<!-- tables of TestFaults: make gen writes them -->\n", "<!-- end -->\n"
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(data), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s: want the lines %q and %q", path, begin, end)
	}
	var b strings.Builder
	for _, group := range faults() {
		fmt.Fprintf(&b, "\n## %s\n\n| what is wrong | what is done | stderr | exit |\n|---|---|---|---|\n", group.title)
		for _, row := range group.rows {
			says := "–"
			if len(row.says) > 0 {
				says = "`" + strings.Join(row.says, "` … `") + "`"
			}
			exit := strconv.Itoa(row.exit)
			if row.exit < 0 {
				exit = "killed"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", row.what, row.does, strings.ReplaceAll(says, "|", "\\|"), exit)
		}
	}
	b.WriteByte('\n')
	want := head + begin + b.String() + end + tail
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil { //nolint:gosec // a document
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Errorf("%s is not what TestFaults checks; run make gen (-tests +document):\n%s", path, diff)
	}
}

// scene is a cluster and what a command did there.
type scene struct {
	*testing.T
	cluster *kfake.Cluster // nil if the scene has one of another kind, or none
	brokers []string
	client  *kafka.Client
	name    string   // of the pipeline
	env     []string // of commands
	exit    int      // of the last command
	told    string   // what it has told on stderr
}

// at is where the brokers are; by default a cluster of the scene's own.
func (s *scene) at() string {
	if s.brokers == nil {
		s.cluster = fake(s.T, 1)
		s.brokers = s.cluster.ListenAddrs()
	}
	return strings.Join(s.brokers, ",")
}

func (s *scene) connection() *kafka.Client {
	if s.client == nil {
		s.at()
		s.client = connect(s.T, s.brokers)
	}
	return s.client
}

// topic makes a topic.
func (s *scene) topic(partitions int32, config map[string]string) string {
	return topic(s.T, s.connection(), partitions, config)
}

// write writes a pipeline file; its topics are not made.
func (s *scene) write(format string, args ...any) string {
	return pipeline(s.T, fmt.Sprintf("name: %s\nbrokers: [%s]\n", s.name, s.at())+fmt.Sprintf(format, args...))
}

// make writes a pipeline file and makes its topics.
func (s *scene) make(format string, args ...any) string {
	path := s.write(format, args...)
	execute(s.T, "", 0, "topics", "create", path)
	return path
}

// run runs a command to its end.
func (s *scene) run(args ...string) {
	s.Helper()
	c, _, stderr := command(s.T, args...)
	c.Env = append(os.Environ(), s.env...)
	_ = c.Run() // the exit code tells
	s.exit, s.told = c.ProcessState.ExitCode(), stderr.String()
}

// ends runs the pipeline to the ends of its topics.
func (s *scene) ends(path string) {
	s.Helper()
	s.run("run", "--until-end", path)
}

// latest are the last values of a topic's keys.
func (s *scene) latest(topic string) string {
	out, _ := execute(s.T, "", 0, "topics", "cat", "--brokers", s.at(), "--latest", topic)
	return out
}

// holds fails unless the text has all parts.
func (s *scene) holds(text string, parts ...string) {
	s.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			s.Errorf("want %q in %s", p, text)
		}
	}
}

// scored is a prediction and its gold, of one route.
func scored(q string) []record {
	return []record{
		{q, fmt.Sprintf(`{"kind":"run","query_id":%q,"run":"a","time":"2024-05-01T10:00:00Z","top":[{"id":"p"}]}`, q)},
		{q, fmt.Sprintf(`{"kind":"qrel","query_id":%q,"passage_id":"p"}`, q)},
	}
}

const short = "stages:\n  - score: {measure: success@1}\n  - aggregate: {by: run, window: [all, 1h]}\n"

// rejected runs a pipeline over one good unit and a record that is set aside, and wants
// parts of the reject on the rejects topic, and the good unit in the results.
func rejected(extra string, bad record, parts ...string) func(*scene) {
	return func(s *scene) {
		in, to, rejects := s.topic(1, nil), s.topic(1, compacted()), s.topic(1, nil)
		produce(s.T, s.connection(), in, append(scored("q"), bad))
		s.ends(s.make("from: topic:%s\nto: topic:%s\nrejects: topic:%s\n%s%s", in, to, rejects, extra, short))
		s.holds(s.latest(to), `"n":1,`, `"final":true`)
		s.holds(s.latest(rejects), append(parts, in+"[0]@2")...)
		if all := messages(s.T, s.connection(), rejects); len(all) != 1 {
			s.Errorf("want one reject, got %q", all)
		}
	}
}

var recordFaults = []fault{
	{
		what: "a line is no JSON", does: "set aside: one reject, at the rejects topic too, with `topic[partition]@offset`; the rest goes on",
		says: []string{"[0]@2", "1 reject: parse 1"}, try: rejected("", record{"x", "{broken"}, `"class":"parse"`),
	},
	{
		what: "a line is longer than `max_line`", does: "set aside; the reject has its length and its first 256 bytes",
		says: []string{"[0]@2", "1 reject: too_large 1"}, try: rejected("max_line: 300\n", record{"x", `"` + strings.Repeat("z", 400) + `"`}, `"class":"too_large"`, "line of 402 bytes"),
	},
	{
		what: "more is set aside than `max_rejects`, where that is given", does: "all is read; at the end, exit 3", exit: 3, says: []string{"[0]@2", "1 reject of 3 records, over --max-rejects 0"},
		try: rejected("max_rejects: 0\n", record{"x", "{broken"}, `"class":"parse"`),
	},
	{
		what: "a record is of no known kind", does: "set aside",
		says: []string{"[0]@2", "kind", "1 reject: schema 1"}, try: rejected("", record{"x", `{"kind":"song"}`}, `"class":"schema"`),
	},
	{
		what: "a prediction has no time, and there are windows", does: "set aside",
		says: []string{"[0]@2: /time: want a time, since windows are cut by it, got none", "schema"}, try: rejected("", record{"r", `{"kind":"run","query_id":"r","run":"a","top":[{"id":"p"}]}`}, "time"),
	},
	{
		what: "a record is older than `horizon`", does: "set aside as late; it changes nothing that was published",
		says: []string{"[0]@2", "is older than the horizon of 1h before the watermark", "late 1"},
		try:  rejected("horizon: 1h\n", record{"r", `{"kind":"run","query_id":"r","run":"a","time":"2024-05-01T08:59:00Z","top":[{"id":"p"}]}`}, `"class":"late"`),
	},
	{
		what: "a message has no value (a tombstone)", does: "left out and counted; it retracts nothing: take a judgment back by `\"grade\":null`",
		says: []string{"1 tombstone of the topics left out"},
		try: func(s *scene) {
			in, to := s.topic(1, nil), s.topic(1, compacted())
			produce(s.T, s.connection(), in, scored("q"))
			s.send(in, topics.Message{Key: []byte("q")})
			s.ends(s.make("from: topic:%s\nto: topic:%s\n%s", in, to, short))
			s.holds(s.latest(to), `"n":1,`)
		},
	},
	{
		what: "a record is not in the partition of its route, in front of a step that remembers", does: "stops: its parts would never meet. Put `via: TOPIC` behind `parse`, or produce with the route as the key",
		exit: 2, says: []string{`run with route "q0" belongs in partition`, "via: TOPIC"},
		try: func(s *scene) {
			in, to := s.topic(3, nil), s.topic(1, compacted())
			path := s.make("from: topic:%s\nto: topic:%s\n%s", in, to, short)
			s.send(in, topics.Message{Partition: (kafka.Partition([]byte("q0"), 3) + 1) % 3, Value: []byte(`{"kind":"run","query_id":"q0","run":"a","top":[]}`)})
			s.ends(path)
		},
	},
	{
		what: "somebody writes lines of their own to a `via:` topic", does: "set aside, as from any topic",
		says: []string{"[0]@", "1 reject: parse 1"},
		try: func(s *scene) {
			s.behindCut(topics.Message{Value: []byte("{broken")})
		},
	},
	{
		what: "somebody writes a partial of another number of partitions to what `merge` reads", does: "set aside; the pipeline's own count",
		says: []string{".partials[0]@0: /partitions: want partials of 2 partitions, as the input of aggregate has, got one of 7; something else writes here", "1 reject: stage 1"},
		try: func(s *scene) {
			in, to := s.topic(2, nil), s.topic(1, compacted())
			path := s.make("from: topic:%s\nto: topic:%s\n%s", in, to, short)
			s.send(s.name+".partials", topics.Message{Key: []byte("x"), Value: []byte(`{"kind":"partial","step":"aggregate","partition":6,"partitions":7,"family":"retrieval","by":{"run":"a"},"window":"all","pane":0,"n":1,"pending":0,"unjudged":0,"expired":0,"measures":["success@1"],"sums":[1],"judged":1}`)})
			produce(s.T, s.connection(), in, scored("q"))
			s.ends(path)
			s.holds(s.latest(to), `"n":1,`, `"final":true`)
		},
	},
	{
		what: "a mark in a `via:` topic cannot be read (somebody else has written it)", does: "stops. Delete the message (kafka-delete-records), or `topics reset`",
		exit: 4, says: []string{"[0]@", "only evalstream writes to topics between steps"},
		try: func(s *scene) {
			s.behindCut(topics.Message{Value: []byte(`{"kind":"mark","step":"parse"`), Headers: []topics.Header{{Name: kafka.HeaderKind, Value: []byte("mark")}}})
		},
	},
	{
		what: "a result or record is larger than `max.message.bytes` of `to:` or `via:`", does: "set aside by the step `sink`; the rest goes on",
		says: []string{"is over the topic's max.message.bytes of 100000", "raise max.message.bytes of the topic", "too_large 1"},
		try: func(s *scene) {
			in, via, to, rejects := s.topic(1, nil), s.topic(1, map[string]string{"max.message.bytes": "100000"}), s.topic(1, compacted()), s.topic(1, nil)
			var top []string
			for i := range 3000 { // nothing that a codec could make small
				top = append(top, fmt.Sprintf(`{"id":"%x"}`, sha256.Sum256([]byte{byte(i), byte(i >> 8)})))
			}
			large := fmt.Sprintf(`{"kind":"run","query_id":"r","run":"a","top":[%s]}`, strings.Join(top, ","))
			produce(s.T, s.connection(), in, append(scored("q"), record{"r", large}))
			s.ends(s.make("from: topic:%s\nto: topic:%s\nrejects: topic:%s\nstages:\n  - parse: {}\n    via: %s\n  - score: {measure: success@1}\n  - aggregate: {by: run}\n", in, to, rejects, via))
			s.holds(s.latest(to), `"n":1,`)
			s.holds(s.latest(rejects), `"stage":"sink"`, `"class":"too_large"`)
		},
	},
	{
		what: "an entry of the state is larger than `max.message.bytes` of the changelog", does: "stops, since state and position must agree. Nothing was lost: raise it and run again",
		exit: 4, says: []string{"is over the topic's max.message.bytes of 900", "raise max.message.bytes of", "nothing was lost"},
		try: func(s *scene) {
			in, to := s.topic(1, nil), s.topic(1, compacted())
			path := s.write("from: topic:%s\nto: topic:%s\n%s", in, to, short)
			s.create(s.name+".score.changelog", 1, map[string]string{"cleanup.policy": "compact", "max.message.bytes": "900"})
			produce(s.T, s.connection(), in, []record{{"q", fmt.Sprintf(`{"kind":"run","query_id":"q","run":"a","time":"2024-05-01T10:00:00Z","top":[{"id":"%s"}]}`, strings.Repeat("p", 2000))}})
			s.ends(path)
		},
	},
}

// send produces messages to the partitions that they name.
func (s *scene) send(topic string, ms ...topics.Message) {
	s.Helper()
	p := s.connection().NewProducer(s.Context(), kafka.None)
	defer p.Close() //nolint:errcheck // each message has told
	for _, err := range p.SendTo(s.Context(), topic, ms...) {
		if err != nil {
			s.Fatal(err)
		}
	}
}

// create makes a topic of that name.
func (s *scene) create(name string, partitions int32, config map[string]string) {
	s.Helper()
	if _, err := s.connection().CreateTopics(s.Context(), kafka.TopicSpec{Name: name, Partitions: partitions, Config: config}); err != nil {
		s.Fatal(err)
	}
}

// behindCut runs a pipeline with a cut, and the message in the topic behind it. Whatever
// it is, it must not be counted.
func (s *scene) behindCut(m topics.Message) {
	in, via, to := s.topic(1, nil), s.topic(1, nil), s.topic(1, compacted())
	produce(s.T, s.connection(), in, scored("q"))
	path := s.make("from: topic:%s\nto: topic:%s\nstages:\n  - parse: {}\n    via: %s\n  - score: {measure: success@1}\n  - aggregate: {by: run}\n", in, to, via)
	s.send(via, m)
	s.ends(path)
	if s.exit == 0 {
		s.holds(s.latest(to), `"n":1,`)
	}
}

var configFaults = []fault{
	{
		what: "no broker is named", does: "set `brokers:` or `EVALSTREAM_BROKERS`", exit: 2, says: []string{"brokers: want host:port, got none"},
		try: func(s *scene) {
			s.env = []string{"EVALSTREAM_BROKERS="}
			s.ends(pipeline(s.T, "from: topic:x\n"+short))
		},
	},
	{
		what: "`--only` names no step", does: "nothing is read", exit: 2, says: []string{`only: no step "scor"`, `did you mean "score"`},
		try: func(s *scene) {
			in, to := s.topic(1, nil), s.topic(1, compacted())
			s.run("run", "--only", "scor", s.make("from: topic:%s\nto: topic:%s\n%s", in, to, short))
		},
	},
	{
		what: "`--only` or `--until-end`, but `from:` is a file or a pipe", does: "nothing is read", exit: 2, says: []string{"only: want from: topic:NAME"},
		try: func(s *scene) { s.run("run", "--only", "score", pipeline(s.T, short)) },
	},
	{
		what: "`via:`, but `from:` is a file or a pipe", does: "nothing is read. Write the input to a topic first", exit: 2, says: []string{"parse: via: want from: topic:NAME"},
		try: func(s *scene) { s.run("run", s.write("stages:\n  - parse: {}\n    via: x\n  - score: {}\n")) },
	},
	{
		what: "`via:` at the last step", does: "name the topic in `to:`", exit: 2, says: []string{"want a step behind via: x, got none"},
		try: func(s *scene) {
			s.ends(s.write("from: topic:%s\nstages:\n  - score: {}\n    via: x\n", s.topic(1, nil)))
		},
	},
	{
		what: "a topic stands in two places of one pipeline", does: "name another", exit: 2, says: []string{"is that of from: too; name another"},
		try: func(s *scene) {
			in := s.topic(1, nil)
			s.ends(s.write("from: topic:%s\nto: topic:x\nstages:\n  - parse: {}\n    via: %s\n  - score: {}\n", in, in))
		},
	},
	{
		what: "`gold: topic:NAME` in one segment with a `parse` that has `as:` or `map:`", does: "judgments would be read as predictions: cut behind `parse`", exit: 2,
		says: []string{"would be read as parse says; cut between the two: via: TOPIC at parse"},
		try: func(s *scene) {
			s.ends(s.write("from: topic:%s\nto: topic:x\nstages:\n  - parse: {as: run, map: run=/model}\n  - score: {gold: topic:%s}\n", s.topic(1, nil), s.topic(1, nil)))
		},
	},
	{
		what: "`EVALSTREAM_KAFKA_SESSION`, `_PATIENCE` or `_TRANSACTION` is no duration", does: "nothing is read", exit: 2, says: []string{"EVALSTREAM_KAFKA_PATIENCE: want a duration of at least 1s"},
		try: func(s *scene) {
			s.env = []string{"EVALSTREAM_KAFKA_PATIENCE=long"}
			s.ends(s.write("from: topic:x\n%s", short))
		},
	},
	{
		what: "`EVALSTREAM_KAFKA_TRANSACTION` is longer than the broker's `transaction.max.timeout.ms`", does: "stops at the first takeover: nothing is written", exit: 2,
		says: []string{"EVALSTREAM_KAFKA_TRANSACTION: 20m0s is longer than the broker lets a transaction be open", "transaction.max.timeout.ms"},
		try: func(s *scene) {
			s.env = []string{"EVALSTREAM_KAFKA_TRANSACTION=20m"}
			s.ends(s.make("from: topic:%s\nto: topic:%s\n%s", s.topic(1, nil), s.topic(1, compacted()), short))
		},
	},
}

// lacks runs a pipeline with all its topics but one.
func lacks(which string) func(*scene) {
	return func(s *scene) {
		all := map[string]string{}
		for _, k := range []string{"from", "via", "to", "rejects"} {
			if all[k] = name(k); k != which {
				s.create(all[k], 2, nil)
			}
		}
		if which != "changelog" {
			s.create(s.name+".score.changelog", 2, compacted())
		}
		s.create(s.name+".parse.changelog", 2, compacted())
		s.create(s.name+".partials", 2, compacted())
		s.ends(s.write("from: topic:%s\nto: topic:%s\nrejects: topic:%s\nstages:\n  - parse: {}\n    via: %s\n  - score: {}\n  - aggregate: {by: run}\n", all["from"], all["to"], all["rejects"], all["via"]))
		missing := all[which]
		if which == "changelog" {
			missing = s.name + ".score.changelog"
		}
		s.holds(s.told, missing+": topic is not there")
	}
}

// again runs a pipeline of two units and then something else on what it has left.
func (s *scene) again(change func(in, to, path string) string) {
	in, to := s.topic(2, nil), s.topic(1, compacted())
	path := s.make("from: topic:%s\nto: topic:%s\n%s", in, to, short)
	produce(s.T, s.connection(), in, append(scored("q"), scored("r")...))
	s.ends(path)
	if s.exit != 0 {
		s.Fatalf("exit %d: %s", s.exit, s.told)
	}
	s.ends(change(in, to, path))
}

func (s *scene) replaced(path, old, text string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		s.Fatal(err)
	}
	if !strings.Contains(string(data), old) {
		s.Fatalf("%s: no %q", path, old)
	}
	other := filepath.Join(s.TempDir(), "other.yaml")
	if err := os.WriteFile(other, []byte(strings.Replace(string(data), old, text, 1)), 0o600); err != nil {
		s.Fatal(err)
	}
	return other
}
