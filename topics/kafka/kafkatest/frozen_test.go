package kafkatest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// With gold in a file, each partition says at its end what waits among its own units, and
// no more: whether a run has answered all of them does not depend on the partitions.
func TestRunFrozenGold(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	predictions, gold := workload(60)
	dir := t.TempDir()
	qrels := filepath.Join(dir, "qrels.ndjson")
	if err := os.WriteFile(qrels, []byte(lines(gold[:len(gold)/2], []record{{"nobody", `{"kind":"qrel","query_id":"nobody","passage_id":"p1"}`}})), 0o600); err != nil {
		t.Fatal(err)
	}
	frozen := fmt.Sprintf(`stages:
  - parse: {}
%%s  - score: {gold: %s, measure: [success@1]}
%%s  - aggregate: {by: [run], missing: miss}
`, qrels)
	out, _ := execute(t, lines(predictions), 0, "run", "-q", pipeline(t, fmt.Sprintf(frozen, "", "")))
	want := finals(t, out)
	if !strings.Contains(out, `"missing":1,`) {
		t.Fatalf("want a unit that nobody answered: %s", out)
	}
	for _, cuts := range [][2]string{{}, {"    via: VIA.parsed\n"}, {"    via: VIA.parsed\n", "    via: VIA.scored\n"}} {
		in, to := topic(t, c, 3, nil), topic(t, c, 1, compacted())
		produce(t, c, in, predictions)
		path := live(t, b, fmt.Sprintf("from: topic:%s\nto: topic:%s\n", in, to)+strings.ReplaceAll(fmt.Sprintf(frozen, cuts[0], cuts[1]), "VIA", name("via")))
		execute(t, "", 0, "run", "-q", "--until-end", path)
		got, _ := execute(t, "", 0, "topics", "cat", "--brokers", strings.Join(b, ","), "--latest", to)
		if diff := cmp.Diff(want, finals(t, got)); diff != "" {
			t.Errorf("cuts %q (-pipe +topics):\n%s", cuts, diff)
		}
	}
}

// Files of to: and rejects: go on where the run before has stopped.
func TestRunToFile(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	in := topic(t, c, 1, nil)
	dir := t.TempDir()
	out, rejects := filepath.Join(dir, "out.ndjson"), filepath.Join(dir, "rejects.ndjson")
	path := live(t, b, fmt.Sprintf("from: topic:%s\nto: %s\nrejects: %s\nstages:\n  - parse: {}\n  - score: {measure: success@1}\n", in, out, rejects))
	for _, q := range []string{"q1", "q2", "q3"} {
		produce(t, c, in, []record{{q, fmt.Sprintf(`{"kind":"run","query_id":%q,"run":"a","top":[{"id":"p"}]}`, q)}, {q, "bad " + q}})
		execute(t, "", 0, "run", "-q", "--until-end", path)
	}
	for file, want := range map[string]string{out: `"unit":"%s"`, rejects: "bad %s"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		at := -1
		for _, q := range []string{"q1", "q2", "q3"} {
			next := strings.Index(string(text), fmt.Sprintf(want, q))
			if next <= at {
				t.Errorf("%s: want %s behind what came before: %s", filepath.Base(file), q, text)
			}
			at = next
		}
	}
}

// A state is that of its topics: a pipeline of the same name that reads others is refused.
func TestRunOtherTopics(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	one, two, to := topic(t, c, 1, nil), topic(t, c, 1, nil), topic(t, c, 1, compacted())
	called := name("live")
	f := func(from string, code int, says string) {
		t.Helper()
		path := pipeline(t, fmt.Sprintf("name: %s\nbrokers: [%s]\nfrom: topic:%s\nto: topic:%s\n%s", called, strings.Join(b, ","), from, to, steps))
		execute(t, "", 0, "topics", "create", path)
		if _, told := execute(t, "", code, "run", "-q", "--until-end", path); !strings.Contains(told, says) {
			t.Errorf("from %s: %s", from, told)
		}
	}
	f(one, 0, "")
	f(two, 5, "from was "+one+" and is "+two)
}

// A changelog has the partitions of what its segment reads, whatever the sources have.
func TestCreateChangelogLikeItsInput(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	in, scored, to := topic(t, c, 2, nil), topic(t, c, 3, nil), topic(t, c, 1, compacted())
	predictions, gold := workload(20)
	produce(t, c, in, append(predictions, gold...))
	path := live(t, b, fmt.Sprintf("from: topic:%s\nto: topic:%s\nstages:\n  - score: {measure: success@1}\n    via: %s\n  - aggregate: {by: run}\n", in, to, scored))
	execute(t, "", 0, "run", "-q", "--until-end", path)
	out, _ := execute(t, "", 0, "topics", "describe", path)
	if n := strings.Count(out, ".aggregate.changelog"); n != 1 {
		t.Errorf("describe: %s", out)
	}
}
