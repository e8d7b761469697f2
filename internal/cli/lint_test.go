package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// lintText lints a text as a file p.yaml and returns the faults without the file's name.
func lintText(t *testing.T, text string, files bool) []string {
	t.Helper()
	e := &env{getenv: func(name string) (string, bool) {
		v, ok := map[string]string{"MEASURE": "mrr"}[name]
		return v, ok
	}}
	l := &linter{env: e, file: "p.yaml", files: files}
	l.lint(t.Context(), []byte(text))
	var faults []string
	for _, f := range l.sorted() {
		if f.File != "p.yaml" || f.Line < 1 || f.Column < 1 {
			t.Errorf("%s: fault at %s:%d:%d", text, f.File, f.Line, f.Column)
		}
		faults = append(faults, fmt.Sprintf("%d:%d: %s", f.Line, f.Column, f.Reason))
	}
	return faults
}

func TestLint(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		if d := cmp.Diff(want, lintText(t, text, false)); d != "" {
			t.Errorf("%s\n(-want +got):\n%s", text, d)
		}
	}
	// Whole pipelines.
	f("stages:\n  - score: {}\n  - aggregate: {}\n")
	f("stages: [score, aggregate]\n", "1:10: stage: want fields, got a value", "1:10: stage: want a verb, got none", "1:17: stage: want fields, got a value", "1:17: stage: want a verb, got none")
	f("", "1:1: pipeline: want stages, got an empty file")
	f("name: x\n", "1:1: pipeline: want stages, got none")
	f("stages:\n  - score: {}\n---\nname: b\n", "3:1: pipeline: want one pipeline a file, got a second document")
	f("stages:\n  - score: {}\n---\nname: [\n", "4:1: did not find expected node content")
	f("stages:\n  - score: {}\n# Z\xfcrich\n", "3:4: byte 0xfc is not UTF-8")
	f("stages: [\n", "1:1: did not find expected node content")
	f("stages: []\nfrom: s3://bucket/x\nto: ''\n", `2:7: from: want PATH, file:PATH, - or topic:NAME, got "s3://bucket/x"; a file of that name is file:s3://bucket/x`)
	f("stages:\n  - score: {}\nnaem: x\n", `3:1: pipeline: no field "naem"; did you mean "name"?`)
	f("stages:\n  - score: {}\nstage: []\n", "3:8: stage: want at least one value, got an empty list")
	f("stages:\n  - score: {}\nstage: [x]\n", `3:9: pipeline: no field "stage"; did you mean "stages"?`)
	f("name: a\nname: b\nstages:\n  - score: {}\n", "2:1: pipeline: field name is there twice")
	f("from: ${INPUT}\nstages:\n  - score: {measure: '${MEASURE}'}\n", "1:7: from: variable INPUT is not set; set it or write ${INPUT:-default}")

	// Options of the whole.
	f("time_unit: h\nconfidence: 2\nhorizon: soon\nmax_rejects: 200%\nstages:\n  - aggregate: {}\n",
		`1:1: pipeline: time-unit: want s, ms, us or ns, got "h"`,
		"2:1: pipeline: confidence: want a number between 0 and 1, got 2",
		`3:1: pipeline: horizon: want a time span such as 500ms, 15m, 1h or 30d, got "soon"`,
		`4:1: pipeline: max_rejects: want a number or a share such as 100 or 0.5%, got "200%"`)
	f("interval: [wilson, wald]\non_conflict: keep\nstages:\n  - aggregate: {}\n",
		"1:20: pipeline: interval: want wilson, beta_cs, normal_mixture_cs or poisson_bootstrap, got \"wald\"",
		`2:1: pipeline: on-conflict: want replace or reject, got "keep"`)
	f("fail_if: ['f1.value < 1', 'f1.valeu < 1']\nstages:\n  - score: {}\n",
		"1:11: fail-if: want a command that publishes results, such as aggregate, merge, eval or a pipeline with one of them",
		`1:27: pipeline: fail_if: want .value, .low, .high or .n, got .valeu in "f1.valeu < 1"; did you mean "value"?`)

	// Rules that no result can be meant by; which metrics there are is known from the kind of the lines, or from what score is told.
	f("fail_if: [mrrr.value < 1, 'mrr{rum=a}.low < 1', 'mrr{run=a,window=1h}.n < 1']\nstages:\n  - score: {measure: mrr}\n  - aggregate: {}\n",
		`1:11: fail-if "mrrr.value < 1": no metric "mrrr" here; did you mean "mrr"?`, `1:27: fail-if "mrr{rum=a}.low < 1": no grouping has the field "rum"; did you mean "run"?`)
	f("fail_if: success@1.value < 1\nstages:\n  - parse: {as: prediction}\n  - score: {}\n  - aggregate: {}\n",
		`1:1: fail-if "success@1.value < 1": no metric "success@1" here (have f1, precision, recall, macro_f1, macro_precision, macro_recall)`)
	f("fail_if: [alfa.value < 1, 'alpha{topic=x}.n < 1']\nstages:\n  - parse: {as: rating}\n  - score: {}\n  - aggregate: {by: [topic]}\n",
		`1:11: fail-if "alfa.value < 1": no metric "alfa" here; did you mean "alpha"?`)
	f("fail_if: success@1.value < 1\nstages:\n  - rank: {passages: p, method: bm25}\n  - score: {gold: g, measure: [mrr, success@10]}\n  - aggregate: {}\n  - merge: {}\n",
		`1:1: fail-if "success@1.value < 1": no metric "success@1" here; did you mean "success@10"?`)
	f("fail_if: clarity_judged.value < 1\nstages:\n  - parse: {as: verdict}\n  - score: {}\n  - aggregate: {}\n")
	f("fail_if: anything.value < 1\nstages:\n  - score: {}\n  - aggregate: {}\n")

	// Stages.
	f("stages:\n  - scroe: {}\n", `2:5: stages: no verb "scroe"; did you mean "score"?`)
	f("stages:\n  - score: {}\n    vai: scored\n  - aggregate: {}\n", `3:5: stage score: want one verb an item, got vai beside it; did you mean "via"?`)
	f("stages:\n  - score: {}\n    aggregate: {}\n", "3:5: stage score: want one verb an item, got aggregate beside it; start it with a dash of its own")
	f("stages:\n  - score: {}\n    via: scored\n", `2:5: pipeline: step "score": want a step behind via: scored, got none; name the topic in the field to`)
	f("from: topic:a\ntime_from: record\nstages:\n  - parse: {}\n    via: parsed\n  - score: {}\n    via: scored\n  - aggregate: {}\n")
	f("time_from: record\nstages:\n  - score: {}\n", "1:1: pipeline: time-from record: want from: topic:NAME; files and pipes have no time stamps of records; use body")
	f("from: topic:a\nstages:\n  - parse: {}\n    via: b\n  - score: {}\n  - aggregate: {}\n    via: c\n  - merge: {}\nto: topic:d\n")
	f("stages:\n  - score: {mesure: mrr, ties: tec, gold: {a: b}}\n",
		`2:13: score: no field "mesure"; did you mean "measure"?`, `2:26: score: ties: want trec, rank, worst, best or expected, got "tec"; did you mean "trec"?`, "2:43: gold: want a value, got fields")
	f("stages:\n  - score: {measure: [mrr, sucess@1, mrr, map@0]}\n",
		`2:28: score: measure "sucess@1" is unknown: did you mean success@1?`, `2:38: score: measure "mrr": want it once, got it twice`, `2:43: score: measure "map@0": want map or map@K with K a whole number from 1 to 2147483647`)
	f("stages:\n  - score: {ties: expected, measure: [mrr, map]}\n", `2:44: score: measure "map" has no expected value over ties here: want ties trec, rank, worst or best, or another measure`)
	f("stages:\n  - aggregate: {by: [run, '', 'a,,b', run], window: [1h/7m, 1h, 1h, 1w], every: -1, missing: none, level: cardinal, zero_division: two, max_groups: -1}\n",
		`2:31: aggregate: by "a,,b": want field names between commas, got an empty one`,
		`2:39: aggregate: by "run": want each grouping once, got it twice`,
		`2:54: aggregate: window: window "1h/7m": want a size that is a multiple of the step`,
		"2:65: aggregate: window 1h: want it once, got it twice",
		`2:69: aggregate: window: window "1w": want a time span such as 500ms, 15m, 1h or 30d, got "1w"`,
		"2:74: aggregate: every: want a number of records above 0, got -1",
		"2:85: aggregate: missing: want skip or miss, got \"none\"",
		`2:100: aggregate: level: want nominal, ordinal, interval or ratio, got "cardinal"; did you mean "ordinal"?`,
		`2:117: aggregate: zero-division: want one, zero or null, got "two"`,
		"2:137: aggregate: want bootstrap, r and max-groups above 0, got 1000, 0.18, -1")
	f("stages:\n  - aggregate: {by: 'run,seed', over: seed}\n", `2:33: aggregate: by "run,seed": the mean is taken over seed, so it cannot be grouped by`)
	f("stages:\n  - parse: {map: [x, 'run=model']}\n", `2:19: parse: map: want FIELD=/json/pointer, got "x"`, `2:22: parse: map: run: want a JSON Pointer that begins with /, got "model" (for example run=/model)`)
	if got := lintText(t, "stages:\n  - parse: {as: runs}\n", false); len(got) != 1 || !strings.HasPrefix(got[0], `2:13: parse: as: no kind "runs"; did you mean run?`) {
		t.Errorf("as: runs: %v", got)
	}

	// Names that topics, groups and changelogs cannot have.
	f("from: topic:a b\nto: topic:results/\nstages:\n  - parse: {}\n    via: b c\n  - score: {}\n    as: süß\n",
		`1:7: from: want up to 249 letters, digits, dots, _ and -, as topics are named, got "a b"`,
		`2:5: to: want up to 249 letters, digits, dots, _ and -, as topics are named, got "results/"`,
		`4:5: via: want up to 249 letters, digits, dots, _ and -, as topics are named, got "b c"`,
		`6:5: as: want up to 249 letters, digits, dots, _ and -, as topics are named, got "süß"`)
	f("name: my live\nfrom: topic:a\nstages:\n  - score: {}\n", `1:1: name: want up to 249 letters, digits, dots, _ and -, as topics are named, got "my live"`)
	f("name: my live\nstages:\n  - score: {}\n")
	long := strings.Repeat("x", 240)
	f("name: "+long+"\nfrom: topic:a\nstages:\n  - score: {}\n", `4:5: name: want up to 249 letters, digits, dots, _ and -, as topics are named, got "`+long+`.score.changelog"`)

	// Stages together.
	f("stages:\n  - score: {}\n  - score: {}\n", `3:5: step "score": score reads run, qrel, prediction, rating, verdict: want it before step "score", which leaves score, review alone`)
	f("stages:\n  - merge: {}\n  - aggregate: {}\n", `3:5: step "aggregate": aggregate reads score: want it before step "merge", which leaves result, review alone`)
	f("stages:\n  - aggregate: {}\n  - score: {}\n", `3:5: step "score": score reads run, qrel, prediction, rating, verdict: want it before step "aggregate", which leaves result, partial, review alone`)
	f("stages:\n  - score: {}\n  - aggregate: {}\n  - merge: {}\n")
	f("stages:\n  - context-prefix: {}\n  - parse: {}\n  - context-prefix: {}\n    as: again\n", `3:5: step "parse": parse reads lines: want it in front or behind a via:, got it after step "context-prefix"`)
	f("stages:\n  - context-prefix: {}\n  - context-prefix: {}\n", `3:5: pipeline: step "context-prefix": want a name of its own, got it twice; rename one with as: NAME`)

	// The name of a field is text.
	f("stages:\n  - score: {}\n  - aggregate: {over: 7, by: [run, 1.5, '7']}\n",
		`3:17: aggregate: over: want the name of a field, got the number 7; a field of that name is written "7"`,
		`3:36: aggregate: by: want the name of a field, got the number 1.5; a field of that name is written "1.5"`)
}

func TestLintFiles(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "gold.ndjson")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("from: %s\nto: %s\nrejects: %s\nstages:\n  - rank: {passages: %s, method: bm25}\n  - classify: {instances: %s}\n  - score: {gold: inline}\n",
		filepath.Join(dir, "runs"), filepath.Join(dir, "nowhere", "out"), filepath.Join(dir, "rejects"), there, filepath.Join(dir, "instances"))
	got := strings.ReplaceAll(strings.Join(lintText(t, text, true), "\n"), dir, "DIR")
	want := "1:7: from: DIR/runs: no such file or directory\n2:5: to: DIR/nowhere: no such file or directory\n6:16: classify: instances: DIR/instances: no such file or directory"
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestLintMarkdown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "guide.md")
	text := "# Guide\n\n```yaml\nstages:\n  - scor: {}\n```\n\n```yaml\nother: [\n```\n\n```sh\nstages:\n```\n\n```yaml\nname: x\nstages:\n  - score: {ties: no}\n```\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := command(t, "", "lint", path)
	want := "guide.md:5:5: stages: no verb \"scor\"; did you mean \"score\"?\nguide.md:19:13: score: ties: want trec, rank, worst, best or expected, got \"no\"\n"
	if got := strings.ReplaceAll(s.stdout, path, "guide.md"); s.code != 2 || got != want || s.stderr != "" {
		t.Errorf("exit code %d: %s%s, want 2: %s", s.code, got, s.stderr, want)
	}
	s = command(t, "", "lint", "--json", path)
	line, _, _ := strings.Cut(s.stdout, "\n")
	var fault struct {
		File         string
		Line, Column int
		Reason       string
	}
	if err := json.Unmarshal([]byte(line), &fault); err != nil || fault.File != path || fault.Line != 5 || fault.Column != 5 || fault.Reason == "" {
		t.Errorf("%s: %v", line, err)
	}
}

func FuzzLint(f *testing.F) {
	f.Add("stages:\n  - score: {ties: no, measure: [a, b]}\n  - aggregate: {by: [a, a]}\n")
	f.Add("fail_if: ['a.n<1']\nhorizon: 1d\nstages: [parse: {map: [a=/b]}]\n")
	f.Add("a: &x {b: *x}\nstages: *x\n")
	f.Add("stages:\n- ? {a: b}\n  : c\n")
	f.Fuzz(func(t *testing.T, text string) { lintText(t, text, false) })
}
