package kafkatest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"evalstream/topics"
	"evalstream/topics/kafka"
)

// Reset drops groups, changelogs and what is between steps, and the next run has the same
// results again. It does nothing while somebody is in a group, nor without --yes where the
// sources have lost records.
func TestReset(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	all := strings.Join(b, ",")
	predictions, gold := workload(100)
	out, _ := execute(t, lines(predictions, gold), 0, "run", "-q", pipeline(t, steps))
	want := finals(t, out)
	in, to, rejects, called := topic(t, c, 3, nil), topic(t, c, 1, compacted()), topic(t, c, 1, nil), name("live")
	copied := t.TempDir()
	via := called + ".scored"
	path := pipeline(t, fmt.Sprintf(`name: %s
brokers: [%s]
from: topic:%s
to: topic:%s
rejects: topic:%s
state: %s
stages:
  - score: {measure: [success@1, mrr@10]}
    via: %s
  - aggregate: {by: [run, "run,ticker"], window: [all, 1h]}
`, called, all, in, to, rejects, copied, via))
	execute(t, "", 0, "topics", "create", path)
	produce(t, c, in, append(predictions, append(gold, record{"x", "{broken"})...))
	latest := func() map[string]string {
		t.Helper()
		got, _ := execute(t, "", 0, "topics", "cat", "--brokers", all, "--latest", to)
		return finals(t, got)
	}
	execute(t, "", 0, "run", "-q", "--until-end", path)
	if diff := cmp.Diff(want, latest()); diff != "" {
		t.Fatalf("topics against the pipe (-pipe +topics):\n%s", diff)
	}
	scored, _ := execute(t, "", 0, "topics", "cat", "--brokers", all, via)
	marked, _ := execute(t, "", 0, "topics", "cat", "--brokers", all, "--marks", via)
	if strings.Contains(scored, `"kind":"mark"`) || !strings.Contains(marked, `"kind":"mark"`) || !strings.Contains(marked, `"kind":"score"`) {
		t.Errorf("cat without marks: %s\nwith: %s", scored, marked)
	}

	if _, told := execute(t, "", 5, "state", "verify", filepath.Join(copied, called+".score", "0")); !strings.Contains(told, "names no steps") || strings.Contains(told, "damaged") {
		t.Errorf("a copy is sound, and cannot be verified: %s", told)
	}

	p, _, told := command(t, "run", "-q", path)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	var busy string
	until(t, func() bool {
		g, err := c.DescribeGroup(t.Context(), called+".aggregate")
		return err == nil && len(g.Members) == 1
	})
	_, busy = execute(t, "", 2, "topics", "reset", "--yes", path)
	if !strings.Contains(busy, "group "+called+".aggregate has 1 member: evalstream@") {
		t.Errorf("reset while it runs: %s", busy)
	}
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); p.ProcessState.ExitCode() != 130 {
		t.Fatalf("%v: %s", err, told)
	}

	out, notes := execute(t, "", 0, "topics", "reset", "--yes", path)
	for _, line := range []string{
		fmt.Sprintf(`{"group":"%s.score","deleted":true}`, called),
		fmt.Sprintf(`{"group":"%s.merge","deleted":true}`, called),
		fmt.Sprintf(`{"topic":"%s.score.changelog","role":"changelog","partitions":3,"deleted":true,"made":true}`, called),
		fmt.Sprintf(`{"topic":"%s","role":"via","partitions":3,"deleted":true,"made":true}`, via),
		fmt.Sprintf(`{"topic":"%s.partials","role":"partials","partitions":3,"deleted":true,"made":true}`, called),
	} {
		if !strings.Contains(out, line+"\n") {
			t.Errorf("want %s in %s", line, out)
		}
	}
	if strings.Contains(out, to) || !strings.Contains(notes, to+" is left") || !strings.Contains(notes, rejects+" is left") {
		t.Errorf("results and rejects: %s %s", out, notes)
	}
	for topic, n := range map[string]int{via: 0, called + ".score.changelog": 0, called + ".partials": 0, rejects: 1} {
		if got := published(t, c, topic); got != n {
			t.Errorf("%s: %d messages, want %d", topic, got, n)
		}
	}
	if st, err := c.DescribeTopic(t.Context(), called+".partials"); err != nil || st.Config["cleanup.policy"] != "compact" {
		t.Errorf("partials were made with %v, %v", st.Config["cleanup.policy"], err)
	}
	_, told2 := execute(t, "", 0, "run", "--until-end", path)
	if diff := cmp.Diff(want, latest()); diff != "" {
		t.Errorf("after a reset (-pipe +topics):\n%s", diff)
	}
	if want := fmt.Sprintf("parse line: received %d = passed", len(predictions)+len(gold)+1); !strings.Contains(strings.ReplaceAll(told2, ",", ""), want) {
		t.Errorf("want %q, got %s", want, told2)
	}
	if _, told := execute(t, "", 2, "topics", "reset", pipeline(t, fmt.Sprintf("brokers: [%s]\nto: topic:%s\nstages: [parse: {}]\n", all, to))); !strings.Contains(told, "no state to reset") {
		t.Errorf("a pipeline without topics in from: %s", told)
	}
}

// A source that has lost its first records cannot be read again: --yes is wanted.
func TestResetLoses(t *testing.T) {
	cl := fake(t, 1) // kafka-go cannot delete records
	b := cl.ListenAddrs()
	c := connect(t, b)
	in, to := topic(t, c, 1, nil), topic(t, c, 1, compacted())
	predictions, gold := workload(10)
	produce(t, c, in, append(predictions, gold...))
	path := live(t, b, fmt.Sprintf("from: topic:%s\nto: topic:%s\n%s", in, to, steps))
	execute(t, "", 0, "run", "-q", "--until-end", path)
	if err := cl.DeleteRecords(in, 0, 5); err != nil {
		t.Fatal(err)
	}
	if _, told := execute(t, "", 2, "topics", "reset", path); !strings.Contains(told, in+"[0] begins at offset 5") || !strings.Contains(told, "want --yes to delete group ") || !strings.Contains(told, "hint: evalstream topics reset --yes "+path) {
		t.Errorf("without --yes: %s", told)
	}
	if _, told := execute(t, "", 0, "topics", "reset", "--yes", path); !strings.Contains(told, in+"[0] begins at offset 5") {
		t.Errorf("with --yes: %s", told)
	}
}

// A reset is done whole, though nobody reads on what it prints, as behind head -1.
func TestResetUnread(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	in, via, to := topic(t, c, 1, nil), topic(t, c, 1, nil), topic(t, c, 1, compacted())
	path := live(t, b, fmt.Sprintf("from: topic:%s\nto: topic:%s\nstages:\n  - parse: {}\n    via: %s\n  - score: {measure: success@1}\n", in, to, via))
	predictions, _ := workload(10)
	produce(t, c, in, predictions)
	execute(t, "", 0, "run", "-q", "--until-end", path)
	p, _, told := command(t, "topics", "reset", "--yes", path)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.Stdout = w
	if err := errors.Join(r.Close(), p.Run(), w.Close()); err != nil {
		t.Errorf("%v: %s", err, told)
	}
	if out, _ := execute(t, "", 0, "topics", "cat", "--brokers", strings.Join(b, ","), via); out != "" {
		t.Errorf("still between the steps: %s", out)
	}
}

// After a change of the number of partitions run is refused until the state is reset.
func TestResetAfterGrowth(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	in, to := topic(t, c, 2, nil), topic(t, c, 1, compacted())
	path := live(t, b, fmt.Sprintf("from: topic:%s\nto: topic:%s\n%s", in, to, steps))
	execute(t, "", 0, "run", "-q", "--until-end", path)
	grow(t, b, in, 3)
	_, told := execute(t, "", 5, "run", "-q", "--until-end", path)
	if !strings.Contains(told, ".changelog: want 3 partitions, as "+in+" has, got 2") || !strings.Contains(told, "evalstream topics reset") {
		t.Errorf("after growth: %s", told)
	}
	execute(t, "", 0, "topics", "reset", "--yes", path)
	predictions, gold := workload(100)
	produce(t, connect(t, b), in, append(predictions, gold...)) // who writes knows of the new partition
	execute(t, "", 0, "run", "-q", "--until-end", path)
	out, _ := execute(t, lines(predictions, gold), 0, "run", "-q", pipeline(t, steps))
	got, _ := execute(t, "", 0, "topics", "cat", "--brokers", strings.Join(b, ","), "--latest", to)
	if diff := cmp.Diff(finals(t, out), finals(t, got)); diff != "" {
		t.Errorf("topics against the pipe (-pipe +topics):\n%s", diff)
	}
}

// Topics that are not as they must be are refused by run and by topics create, in the
// same words and with the command that mends them; what is only worth knowing is a note.
func TestTopicsFit(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	all := strings.Join(b, ",")
	alter := func(topic, setting string) string {
		return fmt.Sprintf("kafka-configs.sh --bootstrap-server %s --alter --entity-type topics --entity-name %s --add-config %s", all, topic, setting)
	}
	// wrong has settings for one topic of the pipeline by what stands in the place of its
	// name: in, via, changelog, partials, results.
	f := func(title, extra, what string, wrong map[string]string, code int, want func(topic string) []string) {
		t.Run(title, func(t *testing.T) {
			called := name("live")
			names := map[string]string{
				"in": called + ".in", "via": called + ".via", "changelog": called + ".score.changelog", "partials": called + ".partials", "results": called + ".out",
			}
			path := pipeline(t, fmt.Sprintf(`name: %s
brokers: [%s]
from: topic:%s
to: topic:%s
%sstages:
  - parse: {}
    via: %s
  - score: {measure: success@1}
  - aggregate: {by: run, window: all}
`, called, all, names["in"], names["results"], extra, names["via"]))
			if wrong != nil {
				if _, err := c.CreateTopics(t.Context(), kafka.TopicSpec{Name: names[what], Partitions: 2, Config: wrong}); err != nil {
					t.Fatal(err)
				}
			}
			_, created := execute(t, "", code, "topics", "create", "--partitions", "2", path)
			_, ran := execute(t, "", code, "run", "--until-end", path)
			for _, line := range want(names[what]) {
				if !strings.Contains(created, line) || !strings.Contains(ran, line) {
					t.Errorf("want %q\ncreate: %s\nrun: %s", line, created, ran)
				}
			}
		})
	}
	none := func(string) []string { return nil }
	f("as made", "", "in", nil, 0, none)
	f("as made, with a horizon", "horizon: 30d\n", "in", nil, 0, none)
	f("changelog that forgets", "", "changelog", map[string]string{"cleanup.policy": "delete"}, 2, func(n string) []string {
		return []string{n + `: want cleanup.policy=compact, got "delete"`, alter(n, "cleanup.policy=compact")}
	})
	f("changelog that forgets too", "", "changelog", map[string]string{"cleanup.policy": "compact,delete"}, 2, func(n string) []string {
		return []string{n + `: want cleanup.policy=compact, got "compact,delete"`}
	})
	f("partials that are forgotten", "", "partials", map[string]string{"cleanup.policy": "delete"}, 2, func(n string) []string {
		return []string{n + `: want cleanup.policy=compact, got "delete"`, alter(n, "cleanup.policy=compact")}
	})
	f("results that are forgotten", "", "results", map[string]string{"cleanup.policy": "delete"}, 2, func(n string) []string {
		return []string{n + `: want cleanup.policy=compact, got "delete"`, alter(n, "cleanup.policy=compact")}
	})
	f("results of a while", "", "results", map[string]string{"cleanup.policy": "compact,delete"}, 0, none)
	f("compacted source", "", "in", map[string]string{"cleanup.policy": "compact"}, 2, func(n string) []string {
		return []string{n + `: want cleanup.policy=delete, got "compact"`, alter(n, "cleanup.policy=delete")}
	})
	f("compacted via", "", "via", map[string]string{"cleanup.policy": "compact"}, 2, func(n string) []string {
		return []string{n + `: want cleanup.policy=delete, got "compact"`, alter(n, "cleanup.policy=delete")}
	})
	for _, what := range []string{"in", "via"} {
		f(what+" that lives too short", "horizon: 30d\nmax_out_of_order: 1h\n", what, map[string]string{"retention.ms": "2592000000"}, 2, func(n string) []string {
			return []string{n + ": want retention.ms of at least 2595600000 (horizon and max_out_of_order, 30d1h", "got 2592000000 (30d)", alter(n, "retention.ms=2595600000")}
		})
		f(what+" of a size", "horizon: 30d\n", what, map[string]string{"retention.ms": "-1", "retention.bytes": "1000000"}, 2, func(n string) []string {
			return []string{n + ": want retention.bytes=-1, got 1000000", alter(n, "retention.bytes=-1")}
		})
		f(what+" that lives long enough", "horizon: 1d\n", what, map[string]string{"retention.ms": "86400000"}, 0, none)
	}
	f("source that forgets, without horizon", "", "in", map[string]string{"retention.ms": "604800000"}, 0, func(n string) []string {
		return []string{"note: " + n + ": retention.ms is 604800000 (7d): without horizon state is kept for ever"}
	})
	f("source of a size, without horizon", "", "in", map[string]string{"retention.ms": "-1", "retention.bytes": "1000000"}, 0, func(n string) []string {
		return []string{"note: " + n + ": retention.bytes is 1000000"}
	})
	f("changelog of small messages", "", "changelog", map[string]string{"cleanup.policy": "compact", "max.message.bytes": "500000"}, 0, func(n string) []string {
		return []string{"note: " + n + ": max.message.bytes is 500000, less than the ", alter(n, "max.message.bytes=")}
	})
}

// Where settings may not be read, that is said, and it goes on.
func TestTopicsFitUnread(t *testing.T) {
	cl := fake(t, 1)
	b := cl.ListenAddrs()
	c := connect(t, b)
	in, to := topic(t, c, 1, nil), topic(t, c, 1, nil) // not compacted, which cannot be seen
	cl.ControlKey(int16(kmsg.DescribeConfigs), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cl.KeepControl()
		res := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
		for _, r := range req.(*kmsg.DescribeConfigsRequest).Resources {
			denied := kmsg.NewDescribeConfigsResponseResource()
			denied.ResourceType, denied.ResourceName, denied.ErrorCode = r.ResourceType, r.ResourceName, kerr.TopicAuthorizationFailed.Code
			res.Resources = append(res.Resources, denied)
		}
		return res, nil, true
	})
	path := pipeline(t, fmt.Sprintf("name: %s\nbrokers: [%s]\nfrom: topic:%s\nto: topic:%s\n%s", name("live"), strings.Join(b, ","), in, to, steps))
	_, created := execute(t, "", 0, "topics", "create", path)
	_, ran := execute(t, "", 0, "run", "--until-end", path)
	for _, told := range []string{created, ran} {
		if !strings.Contains(told, "note: "+in) || !strings.Contains(told, to) || !strings.Contains(told, "settings may not be read by this user") {
			t.Errorf("told: %s", told)
		}
	}
}

// With time_from: record a record's time is that of its message, whatever its body says,
// also behind a cut; results are those of a pipe whose bodies have these times.
func TestTimeFromRecord(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	p := c.NewProducer(t.Context(), kafka.None)
	closing(t, p)
	var piped []record
	var ms []topics.Message
	for i := range 40 {
		q := fmt.Sprintf("q%d", i)
		at := time.Date(2024, 5, 1, i%4, i, 0, 0, time.UTC)
		head := fmt.Sprintf(`{"kind":"run","query_id":%q,"run":"a","top":[{"id":"p%d"}]`, q, i%3)
		gold := fmt.Sprintf(`{"kind":"qrel","query_id":%q,"passage_id":"p0"}`, q)
		piped = append(piped, record{q, fmt.Sprintf("%s,%q:%q}", head, "time", at.Format(time.RFC3339))}, record{q, gold})
		body := head + "}"
		if i%2 == 0 {
			body = head + `,"time":"1999-01-01T00:00:00Z"}`
		}
		ms = append(ms, topics.Message{Key: []byte(q), Value: []byte(body), Millis: at.UnixMilli()}, topics.Message{Key: []byte(q), Value: []byte(gold), Millis: 1})
	}
	windows := "stages:\n  - score: {measure: success@1}\n  - aggregate: {by: run, window: 1h}\n"
	cut := "stages:\n  - parse: {}\n    via: %s\n  - score: {measure: success@1}\n  - aggregate: {by: run, window: 1h}\n"
	out, _ := execute(t, lines(piped), 0, "run", "-q", pipeline(t, windows))
	want := finals(t, out)
	if len(want) != 4 {
		t.Fatalf("%d windows of the pipe", len(want))
	}
	for _, steps := range []string{windows, fmt.Sprintf(cut, name("parsed"))} {
		in, to := topic(t, c, 2, nil), topic(t, c, 1, compacted())
		if err := errors.Join(p.Send(t.Context(), in, ms...)...); err != nil {
			t.Fatal(err)
		}
		path := live(t, b, fmt.Sprintf("from: topic:%s\nto: topic:%s\ntime_from: record\n%s", in, to, steps))
		execute(t, "", 0, "run", "-q", "--until-end", path)
		got, _ := execute(t, "", 0, "topics", "cat", "--brokers", strings.Join(b, ","), "--latest", to)
		if diff := cmp.Diff(want, finals(t, got)); diff != "" {
			t.Errorf("%s(-pipe +topics):\n%s", steps, diff)
		}
	}
	if _, told := execute(t, "", 2, "run", pipeline(t, "time_from: record\n"+windows)); !strings.Contains(told, "want from: topic:NAME") {
		t.Errorf("a pipe: %s", told)
	}
}
