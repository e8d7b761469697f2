package kafkatest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// reviewsIn is the last review of each unit that is not withdrawn.
func reviewsIn(t *testing.T, text string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for line := range strings.Lines(text) {
		var r struct {
			Kind, Unit, Dimension string
			Withdrawn             bool
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if r.Kind != "review" {
			continue
		}
		key := r.Unit + " " + r.Dimension
		if out[key] = line; r.Withdrawn {
			delete(out, key)
		}
	}
	return out
}

// Reviews go from score through cuts, aggregate and merge to the topic of results as they
// do in a pipe; one that is withdrawn is deleted there. What is taken over is told, unless
// it shall be quiet.
func TestReviews(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	in, scored, to := topic(t, c, 2, nil), topic(t, c, 2, nil), topic(t, c, 2, compacted())
	var verdicts []record
	say := func(span, judge string, verdict, revision int) {
		verdicts = append(verdicts, record{span, fmt.Sprintf(`{"kind":"verdict","span_id":%q,"dimension":"precision","judge":%q,"verdict":%d,"revision":%d}`, span, judge, verdict, revision)})
	}
	for i := range 20 {
		span := fmt.Sprintf("s%d", i)
		say(span, "a", 1, 1)
		say(span, "b", i%2, 1)
		if i%4 == 0 {
			say(span, "b", 1, 2) // the two are of one mind now
		}
	}
	const judging = `
  - aggregate: {by: dimension, every: 5}
`
	pipe, _ := execute(t, lines(verdicts), 0, "run", "-q", pipeline(t, "stages:\n  - score: {panel: [a, b]}"+judging))
	want := reviewsIn(t, pipe)
	if len(want) != 5 {
		t.Fatalf("want 5 reviews of the pipe, got %v", want)
	}
	path := live(t, b, fmt.Sprintf("from: topic:%s\nto: topic:%s\nstages:\n  - score: {panel: [a, b]}\n    via: %s%s", in, to, scored, judging))
	produce(t, c, in, verdicts)
	_, told := execute(t, "", 0, "run", "--until-end", path)
	if !strings.Contains(told, ".score: partitions 0, 1 taken over") || strings.Contains(told, "level=WARN") {
		t.Errorf("want what was taken over on stderr, and no warning, got %s", told)
	}
	latest, _ := execute(t, "", 0, "topics", "cat", "--brokers", strings.Join(b, ","), "--latest", to)
	if diff := cmp.Diff(want, reviewsIn(t, latest)); diff != "" {
		t.Errorf("reviews (-pipe +topics):\n%s", diff)
	}
	if strings.Contains(latest, `"withdrawn":true`) {
		t.Errorf("want a tombstone where a review was withdrawn, got %s", latest)
	}
	if all, _ := execute(t, "", 0, "topics", "cat", "--brokers", strings.Join(b, ","), to); !strings.Contains(all, "null\n") {
		t.Errorf("want tombstones in %s", all)
	}
	if _, told := execute(t, "", 0, "run", "-q", "--until-end", path); told != "" {
		t.Errorf("-q: want nothing on stderr, got %s", told)
	}
}
