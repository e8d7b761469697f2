package kafkatest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"evalstream/topics"
	"evalstream/topics/kafka"
)

// inOrder are the lines of a text, sorted.
func inOrder(text string) []string {
	return slices.Sorted(strings.SplitSeq(strings.TrimSpace(text), "\n"))
}

// Rejects are listed, and their records sent again once, as they were, from where the
// next run takes them.
func TestReplay(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	all := strings.Join(b, ",")
	in, to, rejects := topic(t, c, 2, nil), topic(t, c, 1, compacted()), topic(t, c, 2, nil)
	predictions, gold := workload(20)
	long := fmt.Sprintf(`{"kind":"run","query_id":"q1","run":"long","text":%q,"time":"2024-05-01T00:01:00Z","top":[{"id":"p1"}]}`, strings.Repeat("z", 70_000))
	place := func(key string) int32 { return kafka.Partition([]byte(key), 2) }
	p := c.NewProducer(t.Context(), kafka.None)
	closing(t, p)
	broken := topics.Message{Key: []byte("x"), Value: []byte("{broken\xff"), Headers: []topics.Header{{Name: "trace", Value: []byte("7")}}, Millis: 1_700_000_000_000}
	if err := errors.Join(p.Send(t.Context(), in, broken, topics.Message{Key: []byte("q1"), Value: []byte(long)})...); err != nil {
		t.Fatal(err)
	}
	atBroken, atLong := fmt.Sprintf("%s[%d]@0", in, place("x")), fmt.Sprintf("%s[%d]@0", in, place("q1"))
	if place("x") == place("q1") {
		atLong = fmt.Sprintf("%s[%d]@1", in, place("q1"))
	}
	produce(t, c, in, append(predictions, gold...))
	text := func(limit int) string {
		return fmt.Sprintf("from: topic:%s\nto: topic:%s\nrejects: topic:%s\nmax_line: %d\n%s", in, to, rejects, limit, steps)
	}
	called := name("live")
	file := func(limit int) string {
		return pipeline(t, fmt.Sprintf("name: %s\nbrokers: [%s]\n%s", called, all, text(limit)))
	}
	path := file(60_000)
	execute(t, "", 0, "topics", "create", path)
	execute(t, "", 0, "run", "-q", "--until-end", path)

	list := func(args ...string) []string {
		t.Helper()
		out, _ := execute(t, "", 0, append([]string{"dlq", "list"}, args...)...)
		return inOrder(out)
	}
	first := fmt.Sprintf(`{"pos":%q,"stage":"parse","class":"parse","reason":`, atBroken)
	second := fmt.Sprintf(`{"pos":%q,"stage":"source","class":"too_large","reason":"line of %d bytes is over the limit; raise --max-line"}`, atLong, len(long))
	got := list(path)
	if len(got) != 2 || !slices.Contains(got, second) || !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, first) }) {
		t.Fatalf("list: %s", got)
	}
	if diff := cmp.Diff(got, list("--brokers", all, rejects)); diff != "" {
		t.Errorf("list of a topic: %s", diff)
	}
	if diff := cmp.Diff([]string{second}, list("--class", "too_large", path)); diff != "" {
		t.Error(diff)
	}
	if got := list("--stage", "parse", "--raw", path); len(got) != 1 || !strings.Contains(got[0], `"raw_base64":"e2Jyb2tlbv8="`) {
		t.Errorf("raw: %s", got)
	}
	if got := list("--pos", in+"[7]@1", path); got[0] != "" {
		t.Errorf("a position that was not rejected: %s", got)
	}
	if diff := cmp.Diff([]string{`{"class":"parse","stage":"parse","n":1}`, `{"class":"too_large","stage":"source","n":1}`}, list("--summary", path)); diff != "" {
		t.Error(diff)
	}

	// The long line is taken now, and the broken one is rejected again.
	path = file(100_000)
	before := published(t, c, in)
	out, told := execute(t, "", 0, "dlq", "replay", path)
	if n := strings.Count(out, "\n"); n != 2 || !strings.Contains(told, "2 records replayed, 0 not") {
		t.Errorf("replay: %s %s", out, told)
	}
	var again []topics.Message
	if err := c.Cat(t.Context(), in, func(m topics.Message) error {
		if _, ok := m.Header("evalstream_replay"); ok {
			again = append(again, m)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(again) != 2 {
		t.Fatalf("%d messages with the header", len(again))
	}
	for _, m := range again {
		at, _ := m.Header("evalstream_replay")
		if string(m.Key) == "x" {
			trace, _ := m.Header("trace")
			if string(at) != atBroken || string(m.Value) != "{broken\xff" || string(trace) != "7" || m.Millis != broken.Millis || m.Partition != place("x") {
				t.Errorf("broken: %+v", m)
			}
		} else if string(at) != atLong || string(m.Value) != long || string(m.Key) != "q1" || m.Partition != place("q1") {
			t.Errorf("long: key %q, partition %d, %d bytes, from %s", m.Key, m.Partition, len(m.Value), at)
		}
	}
	if got := list(path); got[0] != "" {
		t.Errorf("after replay: %s", got)
	}
	if got := list("--all", path); len(got) != 2 || strings.Count(strings.Join(got, ""), `"replayed":true`) != 2 {
		t.Errorf("after replay, all: %s", got)
	}
	if out, told := execute(t, "", 0, "dlq", "replay", path); out != "" || !strings.Contains(told, "0 records replayed, 0 not") {
		t.Errorf("replay again: %s %s", out, told)
	}
	execute(t, "", 0, "run", "-q", "--until-end", path)
	if got := list(path); len(got) != 1 || strings.Contains(got[0], atBroken) || !strings.Contains(got[0], `"class":"parse"`) {
		t.Errorf("after another run: %s", got)
	}
	want, _ := execute(t, lines(predictions, gold)+long+"\n", 0, "run", "-q", pipeline(t, steps))
	latest, _ := execute(t, "", 0, "topics", "cat", "--brokers", all, "--latest", to)
	if diff := cmp.Diff(finals(t, want), finals(t, latest)); diff != "" {
		t.Errorf("results after replay (-pipe +topics):\n%s", diff)
	}
	if _, told := execute(t, "", 0, "dlq", "replay", "--again", "--pos", atLong, path); !strings.Contains(told, "1 record replayed") {
		t.Errorf("--again: %s", told)
	}
	if n := published(t, c, in); n != before+3 {
		t.Errorf("%d messages, want %d", n, before+3)
	}
	execute(t, "", 2, "dlq", "list", pipeline(t, "from: topic:x\nto: topic:y\nstages: [parse: {}]\n"))
	execute(t, "", 2, "dlq", "list")
	execute(t, "", 4, "dlq", "list", "--brokers", all, name("none"))
}

// Where the record is gone, the line of the reject is sent if it is whole, and otherwise
// nothing, which is exit 4.
func TestReplayOfWhatIsGone(t *testing.T) {
	cl := fake(t, 1)
	b := cl.ListenAddrs()
	c := connect(t, b)
	in, to, rejects := topic(t, c, 1, nil), topic(t, c, 1, compacted()), topic(t, c, 1, nil)
	produce(t, c, in, []record{{"k", "{broken"}, {"k", `{"text":"` + strings.Repeat("z", 80_000)}, {"k", "{last"}})
	path := live(t, b, fmt.Sprintf("from: topic:%s\nto: topic:%s\nrejects: topic:%s\n%s", in, to, rejects, steps))
	execute(t, "", 0, "run", "-q", "--until-end", path)
	if err := cl.DeleteRecords(in, 0, 2); err != nil {
		t.Fatal(err)
	}
	out, told := execute(t, "", 4, "dlq", "replay", path)
	if strings.Count(out, "\n") != 2 || !strings.Contains(told, in+"[0]@1: parse: not sent: the reject has a part of the line alone") {
		t.Errorf("replay: %s %s", out, told)
	}
	var got []string
	if err := c.Cat(t.Context(), in, func(m topics.Message) error {
		if at, ok := m.Header("evalstream_replay"); ok {
			got = append(got, fmt.Sprintf("%s %q %s", at, m.Key, m.Value))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{in + `[0]@0 "" {broken`, in + `[0]@2 "k" {last`}, got); diff != "" {
		t.Error(diff)
	}
	if out, _ := execute(t, "", 0, "dlq", "list", path); strings.Count(out, "\n") != 1 || !strings.Contains(out, "[0]@1") {
		t.Errorf("what is left: %s", out)
	}
}

// Of several replays at once, one sends a record.
func TestReplayOnce(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	in, to, rejects := topic(t, c, 1, nil), topic(t, c, 1, compacted()), topic(t, c, 1, nil)
	var bad []record
	for i := range 20 {
		bad = append(bad, record{"k", fmt.Sprintf("{broken %d", i)})
	}
	produce(t, c, in, bad)
	path := live(t, b, fmt.Sprintf("from: topic:%s\nto: topic:%s\nrejects: topic:%s\n%s", in, to, rejects, steps))
	execute(t, "", 0, "run", "-q", "--until-end", path)
	var wg sync.WaitGroup
	for range 3 {
		p, _, _ := command(t, "dlq", "replay", path)
		wg.Go(func() { _ = p.Run() }) // one that was fenced fails
	}
	wg.Wait()
	execute(t, "", 0, "dlq", "replay", path)
	if n := published(t, c, in); n != 40 {
		t.Errorf("%d messages, want each of 20 twice", n)
	}
}
