package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const tatqaFolder = "../../testdata/tatqa/"

// output runs one command to its end.
func output(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := Main(t.Context(), args, strings.NewReader(stdin), &out, &errs); code != 0 {
		t.Fatalf("evalstream %s: exit %d\n%s", strings.Join(args, " "), code, errs.String())
	}
	return out.String()
}

// tatqaFiles writes passages.ndjson and qrels.ndjson to a folder, and gives the questions.
func tatqaFiles(t *testing.T) (dir, questions string) {
	t.Helper()
	dir = t.TempDir()
	part := func(kind string) string {
		return output(t, "", "transform", "tatqa", "--only", kind, tatqaFolder+"tatqa_dataset_dev.json.gz")
	}
	for kind, name := range map[string]string{"passage": "passages.ndjson", "qrel": "qrels.ndjson"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(part(kind)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir, part("query")
}

func splitLines(s string) []string { return strings.Split(strings.TrimSuffix(s, "\n"), "\n") }

func fileLines(t *testing.T, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return splitLines(string(b))
}

// The data set's own file gives the judgments and, by BM25, the run that were made of
// it by another program.
func TestTextsTATQA(t *testing.T) {
	dir, questions := tatqaFiles(t)
	var qrels []string
	for _, line := range fileLines(t, filepath.Join(dir, "qrels.ndjson")) {
		var q struct {
			QueryID   string `json:"query_id"`
			PassageID string `json:"passage_id"`
			Grade     int
		}
		if err := json.Unmarshal([]byte(line), &q); err != nil {
			t.Fatal(err)
		}
		qrels = append(qrels, fmt.Sprintf("%s 0 %s %d", q.QueryID, q.PassageID, q.Grade))
	}
	want := fileLines(t, tatqaFolder+"tatqa_dev.qrels")
	slices.Sort(qrels)
	slices.Sort(want)
	if diff := cmp.Diff(want, qrels); diff != "" {
		t.Errorf("judgments (-want +got)\n%s", diff)
	}

	var run []string
	for _, line := range splitLines(output(t, questions, "rank", "-q", "--method", "bm25", "--top", "5", "--passages", filepath.Join(dir, "passages.ndjson"))) {
		var r struct {
			QueryID string `json:"query_id"`
			Run     string
			Top     []struct {
				ID    string
				Score float64
			}
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		for i, h := range r.Top {
			run = append(run, fmt.Sprintf("%s Q0 %s %d %.6f %s", r.QueryID, h.ID, i+1, h.Score, r.Run))
		}
	}
	if diff := cmp.Diff(fileLines(t, tatqaFolder+"tatqa_dev.bm25.run"), run); diff != "" {
		t.Errorf("run (-want +got)\n%s", diff)
	}
}

// finalLines is the results in one order, without how far they were read and from where.
func finalLines(t *testing.T, out string) []string {
	t.Helper()
	var all []string
	for _, line := range splitLines(out) {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r["final"] != true {
			continue
		}
		for _, k := range []string{"through", "revision", "closed"} {
			delete(r, k)
		}
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(b))
	}
	slices.Sort(all)
	return all
}

// A pipe of filters and a pipeline file give the same results, with and without the
// context line, by words and by vectors.
func TestTextsPipelines(t *testing.T) {
	dir, questions := tatqaFiles(t)
	write := func(name, content string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := filepath.Join(dir, "passages.ndjson")
	context := write("passages.context.ndjson", output(t, "", "context-prefix", "--template", "{table_head}", plain))
	for _, p := range []string{plain, context} {
		write(strings.TrimSuffix(filepath.Base(p), ".ndjson")+".vectors.ndjson", output(t, "", "embed", "--dims", "1024", p))
	}
	gold := filepath.Join(dir, "qrels.ndjson")
	t.Setenv("DIR", dir)
	f := func(pipeline, passages, name string, rank ...string) {
		t.Helper()
		t.Setenv("PASSAGES", passages)
		t.Setenv("RUN", name)
		got := finalLines(t, output(t, questions, "run", "-q", "../../deploy/pipelines/"+pipeline))
		queries := questions
		if pipeline == "tatqa-vector.yaml" {
			queries = output(t, questions, "embed", "--dims", "1024")
		}
		runs := output(t, queries, append([]string{"rank", "-q", "--name", name, "--passages", filepath.Join(dir, passages)}, rank...)...)
		scores := output(t, runs, "score", "-q", "--gold", gold, "--measure", "success@1", "--measure", "mrr", "--measure", "ndcg@10")
		want := finalLines(t, output(t, scores, "aggregate", "-q", "--by", "run", "--by", "run,answer_type"))
		if len(want) != 3*(1+4) {
			t.Fatalf("want 15 results, got %d", len(want))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s over %s (-pipe +file)\n%s", pipeline, passages, diff)
		}
	}
	f("tatqa-bm25.yaml", "passages.ndjson", "bm25", "--method", "bm25")
	f("tatqa-bm25.yaml", "passages.context.ndjson", "bm25+context", "--method", "bm25")
	f("tatqa-vector.yaml", "passages.vectors.ndjson", "hash")
	f("tatqa-vector.yaml", "passages.context.vectors.ndjson", "hash+context")

	// context.yaml is the two filters of the passages in one process.
	out := output(t, `{"kind":"passage","passage_id":1,"text":"Sales rose.","company":"Acme","ticker":"ACM","n":1e2}`+"\n", "run", "-q", "../../deploy/pipelines/context.yaml")
	const want = `{"kind":"passage","passage_id":1,"text":"Acme (ACM)\nSales rose.","company":"Acme","ticker":"ACM","n":1e2,"context":"Acme (ACM)","vector":{"fingerprint":"`
	if !strings.HasPrefix(out, want) {
		t.Errorf("context.yaml:\n got %s\nwant %s…", out, want)
	}
}

// Records that come one by one go out one by one, and the metrics move.
func TestTextsLive(t *testing.T) {
	dir, questions := tatqaFiles(t)
	t.Setenv("DIR", dir)
	t.Setenv("EVERY", "1")
	in, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	r, w := io.Pipe()
	code := make(chan int, 1)
	var errs bytes.Buffer
	go func() {
		c := Main(t.Context(), []string{"run", "-q", "../../deploy/pipelines/tatqa-bm25.yaml"}, in, w, &errs)
		_ = w.Close()
		code <- c
	}()
	out := bufio.NewScanner(r)
	values := map[float64]bool{}
	for i, q := range splitLines(questions)[:20] {
		if _, err := feed.WriteString(q + "\n"); err != nil {
			t.Fatal(err)
		}
		// Three metrics over all questions and three of the answer's type.
		for range 6 {
			if !out.Scan() {
				t.Fatalf("question %d: output ended: %s", i+1, errs.String())
			}
			var res struct {
				Metric string
				Value  float64
				N      int
				By     map[string]string
			}
			if err := json.Unmarshal(out.Bytes(), &res); err != nil {
				t.Fatal(err)
			}
			if len(res.By) == 1 {
				if res.N != i+1 {
					t.Fatalf("question %d: want n %d, got %s", i+1, i+1, out.Text())
				}
				values[res.Value] = true
			}
		}
	}
	if len(values) < 10 {
		t.Errorf("want metrics that move, got %v", values)
	}
	if err := feed.Close(); err != nil {
		t.Fatal(err)
	}
	for out.Scan() {
	}
	if c := <-code; c != 0 {
		t.Errorf("exit %d: %s", c, errs.String())
	}
}
