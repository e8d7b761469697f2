package kafkatest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kgo "github.com/segmentio/kafka-go"
)

// A segment that remembers nothing goes on from the position in its changelog, whatever
// the group's offsets say and whatever its options were: nothing is written twice.
func TestPositionIsKept(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	group := func(t *testing.T, path string) string {
		t.Helper()
		return strings.TrimPrefix(strings.SplitN(textOf(t, path), "\n", 2)[0], "name: ") + ".parse"
	}
	forgotten := func(t *testing.T, _, path string) {
		t.Helper()
		if there, err := c.DeleteGroup(t.Context(), group(t, path)); err != nil || !there {
			t.Fatal(there, err)
		}
	}
	back := func(t *testing.T, in, path string) { // as a broker does that loses a commit
		t.Helper()
		res, err := (&kgo.Client{Addr: kgo.TCP(b...)}).OffsetCommit(t.Context(), &kgo.OffsetCommitRequest{
			GroupID: group(t, path), GenerationID: -1, Topics: map[string][]kgo.OffsetCommit{in: {{Partition: 0, Offset: 1}, {Partition: 1, Offset: 0}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range res.Topics[in] {
			if p.Error != nil {
				t.Fatal(p.Error)
			}
		}
	}
	deleted := func(t *testing.T, _, path string) { // then the group's offsets are good enough
		t.Helper()
		if err := c.DeleteTopics(t.Context(), group(t, path)+".changelog"); err != nil {
			t.Fatal(err)
		}
		until(t, func() bool {
			_, err := c.Partitions(t.Context(), group(t, path)+".changelog")
			return err != nil
		})
		execute(t, "", 0, "topics", "create", path)
	}
	grown := func(t *testing.T, in, _ string) {
		t.Helper()
		grow(t, b, in, 3)
	}
	options := func(t *testing.T, _, path string) {
		t.Helper()
		text := strings.Replace(textOf(t, path), "parse: {}", "parse: {as: run}", 1)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []struct {
		what   string
		events []func(t *testing.T, in, path string)
		says   string
	}{
		{"nothing happens", nil, ""},
		{"offsets are forgotten", []func(*testing.T, string, string){forgotten}, ""},
		{"offsets go back", []func(*testing.T, string, string){back}, "the group's offset is not that of the state, which is taken"},
		{"options are others", []func(*testing.T, string, string){options}, ""},
		{"changelog is deleted", []func(*testing.T, string, string){deleted}, ""},
		{"partitions are added", []func(*testing.T, string, string){grown}, ".changelog: has 2 partitions and "},
		{"partitions are added and offsets forgotten", []func(*testing.T, string, string){grown, forgotten}, ".changelog: has 2 partitions and "},
	} {
		t.Run(f.what, func(t *testing.T) {
			in, to := topic(t, c, 2, nil), topic(t, c, 1, nil)
			head := fmt.Sprintf("from: topic:%s\nto: topic:%s\n", in, to)
			path := live(t, b, head+"stages:\n  - parse: {}\n")
			predictions, _ := workload(40)
			first, more := predictions[:len(predictions)/2], predictions[len(predictions)/2:]
			produce(t, c, in, first)
			execute(t, "", 0, "run", "-q", "--until-end", path)
			for _, event := range f.events {
				event(t, in, path)
			}
			produce(t, connect(t, b), in, more)
			_, told := execute(t, "", 0, "run", "--until-end", path)
			if !strings.Contains(told, f.says) {
				t.Errorf("want %q in %s", f.says, told)
			}
			out, _ := execute(t, lines(predictions), 0, "parse", "-q")
			got, _ := execute(t, "", 0, "topics", "cat", "--brokers", strings.Join(b, ","), to)
			if diff := cmp.Diff(inOrder(out), inOrder(got)); diff != "" {
				t.Errorf("want each record once (-pipe +topics):\n%s", diff)
			}
		})
	}
}

// A topic that a segment without state no longer reads keeps its position there, for it may
// be read again; one that is new is read from its start.
func TestPositionIsKeptOfEachTopic(t *testing.T) {
	s := &scene{T: t, name: name("live")}
	c := s.connection()
	old, gone, to := s.topic(2, nil), s.topic(2, nil), s.topic(1, nil)
	const stages = "to: topic:%s\nstages:\n  - parse: {}\n"
	both := s.make("from: [topic:%s, topic:%s]\n"+stages, gone, old, to)
	alone := s.write("from: topic:%s\n"+stages, old, to)
	predictions, _ := workload(40)
	for i, path := range []string{alone, both, alone, both} {
		for k := i; k < len(predictions); k += 4 {
			produce(t, c, []string{old, gone}[k/4%2], predictions[k:k+1])
		}
		if s.ends(path); s.exit != 0 {
			t.Fatal(s.told)
		}
		if there, err := c.DeleteGroup(t.Context(), s.name+".parse"); err != nil || !there {
			t.Fatal(there, err)
		}
	}
	out, _ := execute(t, lines(predictions), 0, "parse", "-q")
	got, _ := execute(t, "", 0, "topics", "cat", "--brokers", s.at(), to)
	if diff := cmp.Diff(inOrder(out), inOrder(got)); diff != "" {
		t.Errorf("want each record once (-pipe +topics):\n%s", diff)
	}
}

func textOf(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
