package cli

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// account is one row of the summary.
type account struct {
	name                                             string
	received, passed, held, replaced, rejected, late int64
	of                                               map[string]int64
}

// accounts reads the summary off stderr; a row that does not add up is a fault.
func accounts(t *testing.T, stderr string) map[string]account {
	t.Helper()
	number := func(s string) int64 {
		n, err := strconv.ParseInt(strings.ReplaceAll(s, ",", ""), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	row := regexp.MustCompile(`(?m)^(.+): received ([\d,]+) = (.*)$`)
	part := regexp.MustCompile(`([a-z]+) ([\d,]*\d)`)
	all := map[string]account{}
	for _, m := range row.FindAllStringSubmatch(stderr, -1) {
		a := account{name: m[1], received: number(m[2]), of: map[string]int64{}}
		parts := m[3]
		if i := strings.Index(parts, "("); i >= 0 {
			j := strings.Index(parts, ")")
			sum := int64(0)
			for _, p := range part.FindAllStringSubmatch(parts[i:j], -1) {
				a.of[p[1]] = number(p[2])
				sum += number(p[2])
			}
			parts = parts[:i] + parts[j:]
			if held := part.FindStringSubmatch(parts[strings.Index(parts, "held"):]); number(held[2]) != sum {
				t.Errorf("%s: held parts give %d", m[0], sum)
			}
		}
		sum := int64(0)
		for _, p := range part.FindAllStringSubmatch(parts, -1) {
			n := number(p[2])
			sum += n
			switch p[1] {
			case "passed":
				a.passed = n
			case "held":
				a.held = n
			case "replaced":
				a.replaced = n
			case "rejected":
				a.rejected = n
			case "late":
				a.late = n
			default:
				t.Errorf("%s: unknown part %s", m[0], p[1])
			}
		}
		if sum != a.received {
			t.Errorf("%s: parts give %d", m[0], sum)
		}
		all[a.name] = a
	}
	if len(all) == 0 {
		t.Errorf("no summary on stderr:\n%s", stderr)
	}
	return all
}

// TestNothingVanishes is law 2 over the families: what each step received went somewhere, and what one step let through the next
// received.
func TestNothingVanishes(t *testing.T) {
	f := func(name, input, rows string, code int, args ...string) {
		t.Helper()
		s := command(t, input, args...)
		if s.code != code {
			t.Errorf("%s: exit code %d, want %d\n%s", name, s.code, code, s.stderr)
		}
		all := accounts(t, s.stderr)
		for row := range strings.Lines(rows) {
			step, want, ok := strings.Cut(strings.TrimSpace(row), ": ")
			if !ok {
				continue
			}
			a := all[step]
			got := fmt.Sprintf("received %d passed %d held %d replaced %d rejected %d late %d", a.received, a.passed, a.held, a.replaced, a.rejected, a.late)
			for _, status := range []string{"scored", "matched", "unjudged", "waiting", "expired", "retracted"} {
				if n, ok := a.of[status]; ok {
					got += fmt.Sprintf(" %s %d", status, n)
				}
			}
			if got != want {
				t.Errorf("%s: %s:\n  got  %s\n  want %s", name, step, got, want)
			}
		}
		// Lines are read, and are blank or received by a parse step, or were too long for it.
		m := regexp.MustCompile(`(?m)^([\d,]+) lines? = ([\d,]+) blank \+ ([\d,]+) read$`).FindStringSubmatch(s.stderr)
		if m == nil {
			t.Fatalf("%s: no lines in the summary", name)
		}
		if got, want := fmt.Sprint(all["parse line"].received+all["parse gold line"].received), strings.ReplaceAll(m[3], ",", ""); got != want {
			t.Errorf("%s: %s lines read, %s parsed", name, want, got)
		}
	}

	run := func(q, run string, p int) string {
		return fmt.Sprintf(`{"kind":"run","query_id":%q,"run":%q,"top":[{"id":"p%d","score":1}]}`, q, run, p)
	}
	qrel := func(q string, p int, more string) string {
		return fmt.Sprintf(`{"kind":"qrel","query_id":%q,"passage_id":"p%d"%s}`, q, p, more)
	}
	gold := save(t, "gold", lines(qrel("q1", 1, ""), qrel("q1", 1, ""), qrel("q2", 1, ""), qrel("q9", 1, ""), "{}"))
	ranked := []string{run("q1", "a", 1), run("q1", "a", 2), "", run("q1", "b", 1), run("q2", "a", 1), run("q3", "a", 1), "oops", run("q1", "a", 1)}
	f("retrieval, frozen gold", lines(ranked...), `
		parse gold line: received 5 passed 4 held 0 replaced 0 rejected 1 late 0
		gold gold: received 4 passed 0 held 3 replaced 1 rejected 0 late 0
		parse line: received 7 passed 6 held 0 replaced 0 rejected 1 late 0
		score run: received 6 passed 0 held 6 replaced 0 rejected 0 late 0 scored 5 unjudged 1
		aggregate score: received 7 passed 0 held 5 replaced 2 rejected 0 late 0 scored 3 unjudged 1 waiting 1
		`, 3, "eval", "retrieval", "--qrels", gold, "-")

	judged := []string{qrel("q1", 1, ""), qrel("q1", 2, `,"grade":0`), qrel("q1", 1, `,"grade":null`), qrel("q2", 1, ""), qrel("q9", 1, ""), qrel("q9", 2, `,"source":"llm"`)}
	open := save(t, "open.yaml", lines("stages:", "  - score: {}", "  - aggregate: {}"))
	f("retrieval, open gold", lines(append(slices.Clone(ranked), judged...)...), `
		parse line: received 13 passed 12 held 0 replaced 0 rejected 1 late 0
		score run: received 6 passed 0 held 4 replaced 2 rejected 0 late 0 scored 3 unjudged 1
		score qrel: received 6 passed 0 held 4 replaced 1 rejected 1 late 0 matched 2 waiting 1 retracted 1
		`, 3, "run", open)

	f("a slot holds another", lines(ranked...), `
		score run: received 6 passed 0 held 6 replaced 0 rejected 0 late 0 scored 5 unjudged 1
		aggregate score: received 7 passed 0 held 5 replaced 1 rejected 1 late 0 scored 3 unjudged 1 waiting 1
		`, 3, "eval", "retrieval", "--qrels", gold, "--measure", "success@1", "--on-conflict", "reject", "-")

	labels := lines(
		`{"episode":1,"query":1,"run":"a","label":"x","gold":"x"}`, `{"episode":1,"query":1,"run":"a","label":"y","gold":"x"}`,
		`{"episode":1,"query":2,"run":"a","label":"x"}`, `{"label":"x","gold":"x"}`, `{"label":"x","gold":"x"}`, `{"episode":1,"query":3,"run":"a","gold":"x"}`)
	f("few-shot", labels, `
		parse line: received 6 passed 6 held 0 replaced 0 rejected 0 late 0
		score prediction: received 6 passed 0 held 5 replaced 0 rejected 1 late 0 scored 4 unjudged 1
		aggregate score: received 5 passed 0 held 4 replaced 1 rejected 0 late 0 scored 3 unjudged 1
		`, 3, "eval", "fewshot", "-")

	ratings := lines(
		`{"unit":"u1","coder":"a","value":1}`, `{"unit":"u1","coder":"b","value":1}`, `{"unit":"u1","coder":"b","value":2}`,
		`{"unit":"u2","coder":"a","value":2}`, `{"unit":"u2","coder":"a","value":null}`, `{"unit":"u3","coder":"a"}`)
	f("agreement", ratings, `
		parse line: received 6 passed 5 held 0 replaced 0 rejected 1 late 0
		score rating: received 5 passed 0 held 3 replaced 2 rejected 0 late 0 scored 2 retracted 1
		aggregate score: received 5 passed 0 held 2 replaced 3 rejected 0 late 0 scored 1 retracted 1
		`, 3, "eval", "agreement", "--level", "nominal", "-")

	f("not for this stage", lines(run("q1", "a", 1), `{"kind":"rating","unit":"u","coder":"a","value":1}`), `
		score run: received 1 passed 0 held 1 replaced 0 rejected 0 late 0 scored 1
		score other: received 1 passed 0 held 0 replaced 0 rejected 1 late 0
		`, 3, "score", "--max-rejects", "1", "--gold", gold)
}

// dated is a line of a run whose first passage is p.
func dated(q, clock, p, more string) string {
	return fmt.Sprintf(`{"kind":"run","query_id":%q,"run":"a","top":[{"id":%q,"score":1}],"time":"2026-03-02T%sZ"%s}`, q, p, clock, more)
}

// judgedRight is gold that says p1 for each query.
func judgedRight(t *testing.T, queries ...string) string {
	t.Helper()
	var ls []string
	for _, q := range queries {
		ls = append(ls, fmt.Sprintf(`{"query_id":%q,"passage_id":"p1"}`, q))
	}
	return save(t, "gold", lines(ls...))
}

// TestLate: the watermark is the newest time less --max-out-of-order, read at each tick; what is older than it by more than the
// horizon is late, which is a reject of its own class and counted.
func TestLate(t *testing.T) {
	dir := t.TempDir()
	input := lines(
		dated("q1", "10:00:00", "p1", ""), dated("q2", "12:00:00", "p1", ""),
		dated("q3", "10:59:59", "p1", ""), // a second past the horizon, if nothing is out of order
		dated("q4", "11:00:00", "p1", ""), // just within it
		dated("q5", "12:30:00", "p1", ""))
	f := func(slack string, late int64, n int64) {
		t.Helper()
		for _, pipeline := range []string{"eval", "open"} {
			rejects := filepath.Join(dir, pipeline+slack)
			args := []string{"--horizon", "1h", "--max-out-of-order", slack, "--rejects", rejects, "--max-rejects", "1"}
			in := input
			if pipeline == "eval" {
				args = append([]string{"eval", "retrieval", "--qrels", judgedRight(t, "q1", "q2", "q3", "q4", "q5"), "--measure", "success@1", "--every", "1", "--window", "1h", "--window", "all", "-"}, args...)
			} else {
				for i := range 5 {
					in += fmt.Sprintf(`{"kind":"qrel","query_id":"q%d","passage_id":"p1"}`+"\n", i+1)
				}
				args = append([]string{"run", save(t, "p.yaml", lines("stages:", "  - score: {measure: success@1}", "  - aggregate: {every: 1, window: [1h, all]}"))}, args...)
			}
			s := succeed(t, in, args...)
			all := accounts(t, s.stderr)
			step := map[string]string{"eval": "aggregate score", "open": "score run"}[pipeline]
			if all[step].late != late {
				t.Errorf("%s, --max-out-of-order %s: %d late, want %d\n%s", pipeline, slack, all[step].late, late, s.stderr)
			}
			rs := readRejects(t, rejects)
			if int64(len(rs)) != late {
				t.Errorf("%s, --max-out-of-order %s: %d rejects, want %d", pipeline, slack, len(rs), late)
			}
			for _, r := range rs {
				if r.Class != "late" || r.Pos != "<stdin>:3" || !strings.Contains(r.Reason, "2026-03-02T10:59:59Z is older than the horizon of 1h before the watermark 2026-03-02T12:00:00Z") || r.Raw == "" {
					t.Errorf("%s: reject %+v", pipeline, r)
				}
			}
			if pipeline == "eval" {
				if got := find(t, s.finals(t), "success@1", func(p *published) bool { return p.start() == "all" }); got.N != n {
					t.Errorf("--max-out-of-order %s: n %d, want %d", slack, got.N, n)
				}
			}
		}
	}
	f("0s", 1, 4)
	f("1m", 0, 5)
}
