package kafkatest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"evalstream/topics"
	"evalstream/topics/kafka"
)

// program is the command, built once for all tests of it.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "evalstream")
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", fmt.Sprintf("-race=%t", underRace), "-o", filepath.Join(dir, "evalstream"), "./cmd/evalstream")
	build.Dir = "../../.."
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return filepath.Join(dir, "evalstream"), nil
})

func TestMain(m *testing.M) {
	if underRace { // its builds wait for a second before they exit, and many are started here
		if err := os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0")); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	if path, err := program(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// command is evalstream with these arguments, ready to start.
func command(t *testing.T, args ...string) (c *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	c = exec.CommandContext(t.Context(), path, args...)
	c.Stdout, c.Stderr = stdout, stderr
	return c, stdout, stderr
}

// execute runs the command, which must end with this code.
func execute(t *testing.T, stdin string, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	c, out, told := command(t, args...)
	c.Stdin = strings.NewReader(stdin)
	err := c.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	if got := c.ProcessState.ExitCode(); got != code {
		t.Fatalf("%v: exit %d, want %d\n%s\n%s", args, got, code, told, out)
	}
	return out.String(), told.String()
}

// pipeline writes a pipeline file.
func pipeline(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "live.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// live writes a pipeline file under a name of its own and makes the topics that are
// missing.
func live(t *testing.T, brokers []string, text string) string {
	t.Helper()
	path := pipeline(t, fmt.Sprintf("name: %s\nbrokers: [%s]\n%s", name("live"), strings.Join(brokers, ","), text))
	execute(t, "", 0, "topics", "create", path)
	return path
}

func compacted() map[string]string { return map[string]string{"cleanup.policy": "compact"} }

const steps = `stages:
  - score: {measure: [success@1, mrr@10]}
  - aggregate: {by: [run, "run,ticker"], window: [all, 1h]}
`

// record is one line and the key to produce it with.
type record struct{ route, line string }

// workload is predictions of two systems, with repeats, and gold, some of it corrected,
// some taken back, and some for nobody.
func workload(n int) (predictions, gold []record) {
	for i := range n {
		q := fmt.Sprintf("q%d", i)
		for s, system := range []string{"a", "b"} {
			line := fmt.Sprintf(`{"kind":"run","query_id":%q,"run":%q,"ticker":"t%d","time":"2024-05-01T%02d:%02d:00Z","top":[{"id":"p%d"},{"id":"p%d"}]}`,
				q, system, i%3, i/60%24, i%60, (i+s)%4, (i+s+1)%4)
			predictions = append(predictions, record{q, line})
			if i%5 == 0 {
				predictions = append(predictions, record{q, line})
			}
		}
		if i%7 != 0 {
			gold = append(gold, record{q, fmt.Sprintf(`{"kind":"qrel","query_id":%q,"passage_id":"p%d"}`, q, i%4)})
		}
		if i%11 == 0 {
			gold = append(gold, record{q, fmt.Sprintf(`{"kind":"qrel","query_id":%q,"passage_id":"p%d","grade":null,"revision":2}`, q, i%4)},
				record{q, fmt.Sprintf(`{"kind":"qrel","query_id":%q,"passage_id":"p%d","grade":1,"revision":3}`, q, (i+1)%4)})
		}
	}
	return predictions, append(gold, record{"nobody", `{"kind":"qrel","query_id":"nobody","passage_id":"p1"}`})
}

func lines(rs ...[]record) string {
	var b strings.Builder
	for _, r := range slices.Concat(rs...) {
		b.WriteString(r.line + "\n")
	}
	return b.String()
}

func produce(t *testing.T, c *kafka.Client, topic string, rs []record) {
	t.Helper()
	p := c.NewProducer(t.Context(), kafka.None)
	closing(t, p)
	var ms []topics.Message
	for _, r := range rs {
		ms = append(ms, topics.Message{Key: []byte(r.route), Value: []byte(r.line)})
	}
	if err := errors.Join(p.Send(t.Context(), topic, ms...)...); err != nil {
		t.Fatal(err)
	}
}

// results are the last ones of each key, without what depends on how they came about.
func results(t *testing.T, text string) map[string]string {
	t.Helper()
	got := map[string]string{}
	scan := bufio.NewScanner(strings.NewReader(text))
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		var r map[string]any
		if err := json.Unmarshal(scan.Bytes(), &r); err != nil {
			t.Fatalf("%s: %v", scan.Bytes(), err)
		}
		key, err := json.Marshal([]any{r["metric"], r["by"], r["window"]})
		if err != nil {
			t.Fatal(err)
		}
		delete(r, "through")
		delete(r, "revision")
		delete(r, "closed")
		rest, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		got[string(key)] = string(rest)
	}
	return got
}

func finals(t *testing.T, text string) map[string]string {
	t.Helper()
	got := results(t, text)
	for k, r := range got {
		if !strings.Contains(r, `"final":true`) {
			t.Errorf("%s: not final: %s", k, r)
		}
	}
	return got
}

// Results over topics are those of the pipe on the same records: with 1 and 3 partitions,
// gold in a topic of its own or in the same one, first or last.
func TestRunIsThePipe(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	predictions, gold := workload(300)
	out, _ := execute(t, lines(predictions, gold), 0, "run", "-q", pipeline(t, steps))
	want := finals(t, out)
	if len(want) < 20 {
		t.Fatalf("%d results of the pipe", len(want))
	}
	f := func(title string, partitions int32, together, cuts bool, extra string) {
		t.Run(title, func(t *testing.T) {
			runs, qrels, to := topic(t, c, partitions, nil), topic(t, c, partitions, nil), topic(t, c, 2, map[string]string{"cleanup.policy": "compact"})
			from := fmt.Sprintf("[topic:%s, topic:%s]", runs, qrels)
			if together {
				from, qrels = "topic:"+runs, runs
			}
			produce(t, c, runs, predictions)
			produce(t, c, qrels, gold)
			steps := steps
			if cuts {
				via := name("via")
				steps = fmt.Sprintf(`stages:
  - parse: {}
    via: %[1]s.parsed
  - score: {measure: [success@1, mrr@10]}
    via: %[1]s.scored
  - aggregate: {by: [run, "run,ticker"], window: [all, 1h]}
    via: %[1]s.partials
  - merge: {}
`, via)
			}
			path := live(t, b, fmt.Sprintf("from: %s\nto: topic:%s\n%s%s", from, to, extra, steps))
			execute(t, "", 0, "run", "-q", "--until-end", path)
			got, _ := execute(t, "", 0, "topics", "cat", "--brokers", strings.Join(b, ","), "--latest", to)
			if diff := cmp.Diff(want, finals(t, got)); diff != "" {
				t.Errorf("topics against the pipe (-pipe +topics):\n%s", diff)
			}
		})
	}
	f("1 partition", 1, false, false, "")
	f("3 partitions", 3, false, false, "")
	f("3 partitions in one topic", 3, true, false, "")
	f("3 partitions, 4 workers", 3, false, false, "workers: 4\n")
	f("1 partition, cut", 1, false, true, "")
	f("3 partitions, cut", 3, true, true, "")
	predictions, gold = predictions[:1], gold[2:3] // two partitions get nothing
	predictions[0], gold[0] = record{"q2", strings.ReplaceAll(predictions[0].line, `"q0"`, `"q2"`)}, record{"q2", `{"kind":"qrel","query_id":"q2","passage_id":"p0"}`}
	out, _ = execute(t, lines(predictions, gold), 0, "run", "-q", pipeline(t, steps))
	want = finals(t, out)
	f("3 partitions, 2 of them empty", 3, false, false, "")
	f("3 partitions, 2 of them empty, cut", 3, false, true, "")
}

// Gold of a topic of its own, read behind a cut: the segment ends when both the step
// before and that topic have come to their ends.
func TestRunGoldBehindACut(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	predictions, gold := workload(100)
	out, _ := execute(t, lines(predictions, gold), 0, "run", "-q", pipeline(t, steps))
	want := finals(t, out)
	logged, qrels, to := topic(t, c, 3, nil), topic(t, c, 3, nil), topic(t, c, 1, compacted())
	foreign := slices.Clone(predictions)
	for i := range foreign { // as somebody else writes it, and in any partition
		foreign[i].line = strings.ReplaceAll(strings.ReplaceAll(foreign[i].line, `"kind":"run",`, ""), `"run":`, `"model":`)
		foreign[i].route = strconv.Itoa(i)
	}
	produce(t, c, logged, foreign)
	produce(t, c, qrels, gold)
	path := live(t, b, fmt.Sprintf(`from: topic:%s
to: topic:%s
stages:
  - parse: {as: run, map: run=/model}
    via: %s
  - score: {gold: "topic:%s", measure: [success@1, mrr@10]}
  - aggregate: {by: [run, "run,ticker"], window: [all, 1h]}
`, logged, to, name("runs"), qrels))
	for range 2 { // the second time there is nothing to read
		execute(t, "", 0, "run", "-q", "--until-end", path)
		got, _ := execute(t, "", 0, "topics", "cat", "--brokers", strings.Join(b, ","), "--latest", to)
		if diff := cmp.Diff(want, finals(t, got)); diff != "" {
			t.Errorf("topics against the pipe (-pipe +topics):\n%s", diff)
		}
	}
}

// A run that is ended by a signal, or killed, goes on from its state.
func TestRunGoesOn(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	predictions, gold := workload(300)
	out, _ := execute(t, lines(predictions, gold), 0, "run", "-q", pipeline(t, steps))
	want := finals(t, out)
	runs, qrels, to := topic(t, c, 3, nil), topic(t, c, 3, nil), topic(t, c, 1, compacted())
	state := filepath.Join(t.TempDir(), "state")
	path := live(t, b, fmt.Sprintf("from: [topic:%s, topic:%s]\nto: topic:%s\nstate: %s\n%s", runs, qrels, to, state, steps))
	behind := func() (n int64) {
		t.Helper()
		out, _ := execute(t, "", 0, "topics", "lag", path)
		for line := range strings.Lines(out) {
			var l struct{ Behind int64 }
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatal(err)
			}
			n += l.Behind
		}
		return n
	}
	third := len(predictions) / 3
	early := len(gold) / 4
	produce(t, c, runs, predictions[:third])
	produce(t, c, qrels, gold[:early])
	for i, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		before := published(t, c, to)
		p, _, told := command(t, "run", "-q", path)
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		until(t, func() bool { return published(t, c, to) > before })
		if err := p.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		err := p.Wait()
		if sig == syscall.SIGTERM && (p.ProcessState.ExitCode() != 143 || behind() != 0) {
			t.Fatalf("%v: exit %v, %d behind; %s", sig, err, behind(), told)
		}
		latest, _ := execute(t, "", 0, "topics", "cat", "--brokers", strings.Join(b, ","), "--latest", to)
		if strings.Contains(latest, `"final":true`) {
			t.Errorf("%v: a result is final, though the topics have not ended", sig)
		}
		produce(t, c, runs, [][]record{predictions[third : 2*third], predictions[2*third:]}[i])
	}
	produce(t, c, qrels, gold[early:])
	if n := behind(); n < int64(len(gold)-early) {
		t.Errorf("%d behind, want %d at least", n, len(gold)-early)
	}
	_, told := execute(t, "", 0, "run", "--until-end", path)
	if want := fmt.Sprintf("parse line: received %d = passed", len(predictions)+len(gold)); !strings.Contains(strings.ReplaceAll(told, ",", ""), want) {
		t.Errorf("want %q, got %s", want, told)
	}
	got, _ := execute(t, "", 0, "topics", "cat", "--brokers", strings.Join(b, ","), "--latest", to)
	if diff := cmp.Diff(want, finals(t, got)); diff != "" {
		t.Errorf("topics against the pipe (-pipe +topics):\n%s", diff)
	}
	if n := behind(); n != 0 {
		t.Errorf("%d behind at the end", n)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other := pipeline(t, strings.Replace(string(text), "mrr@10", "mrr@5", 1))
	if _, told := execute(t, "", 5, "run", "--until-end", other); !strings.Contains(told, "mrr@5") || !strings.Contains(told, "topics reset") {
		t.Errorf("another measure: %s", told)
	}
}

// A pipeline that has come to an end goes on with more input, and comes to an end again.
func TestRunAfterTheEnd(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	predictions, gold := workload(90)
	out, _ := execute(t, lines(predictions, gold), 0, "run", "-q", pipeline(t, steps))
	want := finals(t, out)
	in, to := topic(t, c, 3, nil), topic(t, c, 2, compacted())
	via := name("via")
	path := live(t, b, fmt.Sprintf(`from: topic:%s
to: topic:%s
stages:
  - parse: {}
    via: %[3]s.parsed
  - score: {measure: [success@1, mrr@10]}
    via: %[3]s.scored
  - aggregate: {by: [run, "run,ticker"], window: [all, 1h]}
    via: %[3]s.partials
  - merge: {}
`, in, to, via))
	all := slices.Concat(predictions[:len(predictions)/3], gold, predictions[len(predictions)/3:])
	execute(t, "", 0, "run", "-q", "--until-end", path) // nothing yet
	for _, part := range [][]record{all[:len(predictions)/3], all[len(predictions)/3 : len(all)-20], all[len(all)-20:], nil} {
		if part != nil {
			produce(t, c, in, part)
		}
		execute(t, "", 0, "run", "-q", "--until-end", path)
	}
	got, _ := execute(t, "", 0, "topics", "cat", "--brokers", strings.Join(b, ","), "--latest", to)
	if diff := cmp.Diff(want, finals(t, got)); diff != "" {
		t.Errorf("topics against the pipe (-pipe +topics):\n%s", diff)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other := pipeline(t, strings.Replace(string(text), "mrr@10", "mrr@5", 1))
	for range 3 { // whichever segment is the first to see it
		if _, told := execute(t, "", 5, "run", "-q", "--until-end", other); !strings.Contains(told, "topics reset") {
			t.Errorf("another measure: %s", told)
		}
	}
}

// What is published on the way after an end does not stay: the next end says again what is
// final, though nothing has come.
func TestRunToTheSameEnd(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	in, to := topic(t, c, 1, nil), topic(t, c, 1, compacted())
	produce(t, c, in, []record{
		{"q", `{"kind":"run","query_id":"q","run":"a","top":[{"id":"p"}]}`},
		{"q", `{"kind":"qrel","query_id":"q","passage_id":"p"}`},
		{"r", `{"kind":"run","query_id":"r","run":"a","top":[{"id":"p"}]}`}, // nobody judges it
	})
	path := live(t, b, fmt.Sprintf("from: topic:%s\nto: topic:%s\nstages:\n  - score: {measure: success@1}\n  - aggregate: {by: run, every: 50ms}\n", in, to))
	latest := func(want string) bool {
		out, _ := execute(t, "", 0, "topics", "cat", "--brokers", strings.Join(b, ","), "--latest", to)
		return strings.Contains(out, want)
	}
	const open, final = `"pending":1,"unjudged":0`, `"pending":0,"unjudged":1`
	execute(t, "", 0, "run", "-q", "--until-end", path)
	if !latest(final) {
		t.Fatal("the first end makes nothing final")
	}
	p, _, told := command(t, "run", "-q", path)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return latest(open) })
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); p.ProcessState.ExitCode() != 130 {
		t.Errorf("%v: %s", err, told)
	}
	for range 2 {
		execute(t, "", 0, "run", "-q", "--until-end", path)
		if !latest(final) {
			t.Error("what was published on the way is there after the end")
		}
	}
}

// A result whose group has emptied is deleted by a tombstone.
func TestWithdrawn(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	in, to := topic(t, c, 2, nil), topic(t, c, 1, compacted())
	send := func(ticker string, revision int) {
		t.Helper()
		produce(t, c, in, []record{
			{"q", fmt.Sprintf(`{"kind":"run","query_id":"q","run":"a","ticker":%q,"revision":%d,"top":[{"id":"p"}]}`, ticker, revision)},
			{"q", `{"kind":"qrel","query_id":"q","passage_id":"p"}`},
		})
	}
	all := strings.Join(b, ",")
	path := live(t, b, fmt.Sprintf("from: topic:%s\nto: topic:%s\nstages:\n  - score: {measure: success@1}\n  - aggregate: {by: ticker, every: 50ms}\n", in, to))
	p, _, told := command(t, "run", "-q", path)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	latest := func() string {
		out, _ := execute(t, "", 0, "topics", "cat", "--brokers", all, "--latest", to)
		return out
	}
	send("old", 1)
	until(t, func() bool { return strings.Contains(latest(), `"ticker":"old"`) })
	send("new", 2)
	until(t, func() bool {
		s := latest()
		return strings.Contains(s, `"ticker":"new"`) && !strings.Contains(s, `"ticker":"old"`)
	})
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); p.ProcessState.ExitCode() != 130 {
		t.Errorf("%v: %s", err, told)
	}
	if out, _ := execute(t, "", 0, "topics", "cat", "--brokers", all, to); !strings.Contains(out, "null\n") {
		t.Errorf("no tombstone: %s", out)
	}
}

// A result whose group has emptied while nobody was there to publish it is deleted too: in
// the end the results of the pipe stand, and no others.
func TestWithdrawnAfterRestart(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	all := strings.Join(b, ",")
	const options = `by: [ticker, run, "run,ticker"], window: [all, 1h], max_groups: 3`
	var before, after []record
	for i := range 24 {
		q := fmt.Sprintf("q%d", i)
		send := func(to *[]record, ticker, hour string, revision int) {
			*to = append(*to, record{q, fmt.Sprintf(`{"kind":"run","query_id":%q,"run":"a","ticker":%q,"revision":%d,"time":"2024-05-01T%s:00:00Z","top":[{"id":"p%d"}]}`, q, ticker, revision, hour, i%2)})
		}
		send(&before, fmt.Sprintf("old%d", i%6), fmt.Sprintf("%02d", i%4), 1)
		if i%6 > 0 { // old0 stays
			send(&after, fmt.Sprintf("new%d", i%2), fmt.Sprintf("%02d", 10+i%2), 2)
		}
		before = append(before, record{q, fmt.Sprintf(`{"kind":"qrel","query_id":%q,"passage_id":"p0"}`, q)})
	}
	out, _ := execute(t, lines(before, after), 0, "run", "-q", pipeline(t, "stages:\n  - score: {measure: success@1}\n  - aggregate: {"+options+"}\n"))
	want := finals(t, out)
	f := func(title string, partitions int32, stages string, meanwhile func(t *testing.T, path string)) {
		t.Run(title, func(t *testing.T) {
			in, to := topic(t, c, partitions, nil), topic(t, c, 2, compacted())
			path := live(t, b, fmt.Sprintf("from: topic:%s\nto: topic:%s\n%s", in, to, stages))
			produce(t, c, in, before)
			execute(t, "", 0, "run", "-q", "--until-end", path)
			produce(t, c, in, after)
			meanwhile(t, path)
			execute(t, "", 0, "run", "-q", "--until-end", path)
			got, _ := execute(t, "", 0, "topics", "cat", "--brokers", all, "--latest", to)
			if diff := cmp.Diff(want, finals(t, got)); diff != "" {
				t.Errorf("topics against the pipe (-pipe +topics):\n%s", diff)
			}
		})
	}
	via := name("via")
	f("nobody runs merge", 3, fmt.Sprintf(`stages:
  - score: {measure: success@1}
    via: %[1]s.scored
  - aggregate: {%[2]s}
    via: %[1]s.partials
  - merge: {}
`, via, options), func(t *testing.T, path string) {
		execute(t, "", 0, "run", "-q", "--until-end", "--only", "score", path)
		execute(t, "", 0, "run", "-q", "--until-end", "--only", "aggregate", path)
	})
	f("aggregate is killed before it publishes", 1, "stages:\n  - score: {measure: success@1}\n  - aggregate: {every: 1h, "+options+"}\n", func(t *testing.T, path string) {
		p, _, told := command(t, "run", "-q", path)
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		until(t, func() bool {
			out, _ := execute(t, "", 0, "topics", "lag", path)
			return strings.Count(out, `"behind":0}`) == strings.Count(out, "\n")
		})
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(); p.ProcessState.ExitCode() != -1 {
			t.Errorf("%v: %s", err, told)
		}
	})
}

// published is how many messages a topic has.
func published(t *testing.T, c *kafka.Client, topic string) int {
	t.Helper()
	n := 0
	if err := c.Cat(t.Context(), topic, func(topics.Message) error { n++; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// until waits for something that must happen soon.
func until(t *testing.T, f func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)
	for !f() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("it does not happen")
		}
	}
}

// Rejects go to their topic and do not end the job with 3, unless that is asked for.
func TestRunRejects(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	in, to, rejects := topic(t, c, 3, nil), topic(t, c, 1, compacted()), topic(t, c, 1, nil)
	predictions, _ := workload(20)
	produce(t, c, in, append(predictions, record{"x", "{broken"}, record{"y", strings.Repeat("z", 2000)}))
	path := live(t, b, fmt.Sprintf("from: topic:%s\nto: topic:%s\nrejects: topic:%s\nmax_line: 1000\n%s", in, to, rejects, steps))
	execute(t, "", 0, "run", "--until-end", path)
	execute(t, "", 3, "run", "--until-end", "--max-rejects", "1", path)
	got, _ := execute(t, "", 0, "topics", "cat", "--brokers", strings.Join(b, ","), "--latest", rejects)
	if n := strings.Count(got, "\n"); n != 2 || !strings.Contains(got, `"parse"`) || !strings.Contains(got, `"too_large"`) || !strings.Contains(got, in+"[") {
		t.Errorf("%d rejects: %s", n, got)
	}
}

// What cannot work is refused, and says why.
func TestRunRefuses(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	three, one, to := topic(t, c, 3, nil), topic(t, c, 1, nil), topic(t, c, 1, compacted())
	called := name("live")
	f := func(brokers, from, to string, code int, want string, args ...string) {
		t.Helper()
		path := pipeline(t, fmt.Sprintf("name: %s\nbrokers: [%s]\nfrom: %s\nto: %s\n%s", called, brokers, from, to, steps))
		_, told := execute(t, "", code, append(append([]string{"run", "-q"}, args...), path)...)
		if !strings.Contains(told, want) {
			t.Errorf("from %s to %s: got %q, want %q", from, to, told, want)
		}
	}
	all := strings.Join(b, ",")
	execute(t, "", 0, "topics", "create", pipeline(t, fmt.Sprintf("name: %s\nbrokers: [%s]\nfrom: topic:%s\nto: topic:%s\n%s", called, all, three, to, steps)))
	f(all, "topic:"+name("none"), "topic:"+to, 4, "topic is not there", "--until-end")
	f(all, "topic:"+three, "topic:"+name("none"), 4, "topic is not there", "--until-end")
	f(all, fmt.Sprintf("[topic:%s, topic:%s]", three, one), "topic:"+to, 2, "equal partitions", "--until-end")
	f(all, fmt.Sprintf("[topic:%s, x.ndjson]", three), "topic:"+to, 2, "want topics in a list", "--until-end")
	f(all, "topic:"+three, "topic:"+three, 2, "is an input of this pipeline", "--until-end")
	f(all, "'topic:'", "topic:"+three, 2, "want topic:NAME", "--until-end")
	f(all, "stdin", "topic:"+to, 2, "files and pipes end by themselves", "--until-end")
	f(closedPort(t), "topic:"+three, "topic:"+to, 4, "check that a broker listens there", "--until-end")
	f("nowhere", "topic:"+three, "topic:"+to, 2, "want host:port")

	// A record in another partition than that of its route.
	p := c.NewProducer(t.Context(), kafka.None)
	closing(t, p)
	wrong := topics.Message{Partition: (kafka.Partition([]byte("q0"), 3) + 1) % 3, Value: []byte(`{"kind":"run","query_id":"q0","run":"a","top":[]}`)}
	if err := errors.Join(p.SendTo(t.Context(), three, wrong)...); err != nil {
		t.Fatal(err)
	}
	f(all, "topic:"+three, "topic:"+to, 2, `run with route "q0" belongs in partition`, "--until-end")
	f(all, "topic:"+three, "topic:"+to, 2, "as the key", "--until-end")
}

// closedPort is an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return at
}

// The topics commands make what a pipeline needs and show it.
func TestTopicsCommands(t *testing.T) {
	b := cluster(t)
	in, gold, to, rejects := name("in"), name("gold"), name("out"), name("rejects")
	all := strings.Join(b, ",")
	path := pipeline(t, fmt.Sprintf("name: %s\nbrokers: [%s]\nfrom: [topic:%s, topic:%s]\nto: topic:%s\nrejects: topic:%s\n%s", name("live"), all, in, gold, to, rejects, steps))
	out, _ := execute(t, "", 0, "topics", "create", "--partitions", "3", path)
	if strings.Count(out, `"partitions":3,"made":true`) != 6 {
		t.Errorf("create: %s", out)
	}
	out, _ = execute(t, "", 0, "topics", "create", path)
	if strings.Count(out, `"made":false`) != 6 {
		t.Errorf("create again: %s", out)
	}
	if _, told := execute(t, "", 2, "topics", "create", "--partitions", "2", path); !strings.Contains(told, in+": want 2 partitions, got 3") {
		t.Errorf("create with other partitions: %s", told)
	}
	out, _ = execute(t, "", 0, "topics", "describe", path)
	if strings.Count(out, `"first":0,"end":0`) != 18 || !strings.Contains(out, `"cleanup.policy":"compact"`) {
		t.Errorf("describe: %s", out)
	}
	// A pipeline from a pipe to a topic, by route.
	predictions, _ := workload(10)
	execute(t, lines(predictions), 0, "run", "-q", pipeline(t, fmt.Sprintf("brokers: [%s]\nto: topic:%s\nstages: [parse: {}]\n", all, in)))
	out, _ = execute(t, "", 0, "topics", "cat", "--brokers", all, "--latest", in)
	if n := strings.Count(out, "\n"); n != 20 {
		t.Errorf("%d latest predictions, want 20: %s", n, out)
	}
	execute(t, "", 0, "run", "-q", "--until-end", path)
	execute(t, "", 4, "topics", "cat", "--brokers", all, name("none"))
	execute(t, "", 4, "topics", "cat", "--brokers", closedPort(t), in)
	execute(t, "", 2, "topics", "cat", in)
	out, _ = execute(t, "", 0, "topics", "lag", path)
	if strings.Count(out, "\n") != 9 || strings.Count(out, `"behind":0}`) != 9 {
		t.Errorf("lag: %s", out)
	}
}

// A segment that has read everything says which step it waits for, and how to run that; not
// with -q. It ends when that step has.
func TestRunSaysWhatItAwaits(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	predictions, gold := workload(20)
	in, to := topic(t, c, 2, nil), topic(t, c, 1, compacted())
	via := name("via")
	path := live(t, b, fmt.Sprintf(`from: topic:%s
to: topic:%s
stages:
  - score: {measure: success@1}
    via: %[3]s.scored
  - aggregate: {by: run}
    via: %[3]s.partials
  - merge: {}
`, in, to, via))
	produce(t, c, in, slices.Concat(predictions, gold))
	loud := watch(t, nil, nil, "--until-end", "--only", "merge", path)
	quiet := watch(t, nil, nil, "-q", "--until-end", "--only", "merge", path)
	const says = "merge: waits for the end of aggregate, which has said nothing of it yet; if nobody runs it: evalstream run --until-end --only aggregate "
	until(t, func() bool { return strings.Contains(loud.text(), says+path) })
	if told := quiet.text(); strings.Contains(told, "waits") {
		t.Errorf("with -q: %s", told)
	}
	execute(t, "", 0, "run", "-q", "--until-end", "--only", "score", path)
	execute(t, "", 0, "run", "-q", "--until-end", "--only", "aggregate", path)
	loud.wait(0)
	quiet.wait(0)
}

// A member that is told to go does so at once, be it that others have the rest.
func TestHandsOverAtOnce(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	in, to := topic(t, c, 2, nil), topic(t, c, 1, compacted())
	predictions, gold := workload(20)
	produce(t, c, in, slices.Concat(predictions, gold))
	path := live(t, b, "from: topic:"+in+"\nto: topic:"+to+"\n"+steps)
	first := watch(t, nil, nil, path)
	until(t, func() bool { return strings.Contains(first.text(), "taken over") })
	second := watch(t, nil, nil, path)
	until(t, func() bool { return strings.Contains(second.text(), "taken over") })
	began := time.Now()
	second.stop(130)
	if took := time.Since(began); took > kafka.DefaultSession/2 {
		t.Errorf("took %v to hand over", took)
	}
	first.stop(130)
}

// A line over a limit that is shorter than what a reject shows is one reject.
func TestShortLimit(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	in, to := topic(t, c, 1, nil), topic(t, c, 1, compacted())
	produce(t, c, in, []record{{"k", "0123456789"}})
	path := live(t, b, "from: topic:"+in+"\nto: topic:"+to+"\nmax_line: 5\n"+steps)
	if _, stderr := execute(t, "", 3, "run", "--until-end", "--max-rejects", "0", path); !strings.Contains(stderr, "too_large 1") {
		t.Error(stderr)
	}
}
