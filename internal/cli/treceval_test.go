package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	trecData  = "../../testdata/trec_eval/"
	tatqaData = "../../testdata/tatqa/"
)

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// computed drops the lines of the measures that are left out.
func computed(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "utility") && !strings.HasPrefix(line, "relstring") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// The commands of trec_eval's own quicktest that need no other input format, against the output of 9.0.8.
func TestTrecEvalQuicktest(t *testing.T) {
	f := func(want, args, qrels, run string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		words := append(strings.Fields(args), trecData+qrels, trecData+run)
		if code := TrecEval(words, nil, &stdout, &stderr); code != 0 {
			t.Errorf("%s: exit code %d: %s", args, code, &stderr)
		}
		if diff := cmp.Diff(computed(readFile(t, trecData+"v9.0.8-out/"+want)), stdout.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", args, diff)
		}
	}
	f("out.test", "", "qrels.test", "results.test")
	f("out.test.a", "-m all_trec", "qrels.test", "results.test")
	f("out.test.aq", "-m all_trec -q", "qrels.test", "results.test")
	f("out.test.aqc", "-m all_trec -q -c", "qrels.test", "results.trunc")
	f("out.test.aqcM", "-m all_trec -q -c -M100", "qrels.test", "results.trunc")
	f("out.test.aql", "-m all_trec -mrelstring.20 -q -l2", "qrels.rel_level", "results.test")
	f("out.test.meas_params", "-q -miprec_at_recall..10,.20,.25,.75,.50 -m P.5,7,3 -m recall.20,2000 -m Rprec_mult.5.0,0.2,0.35"+
		" -mutility.2,-1,0,0 -m 11pt_avg..25,.5,.75 -mndcg.1=3,2=9,4=4.5 -mndcg_cut.10,20,23.4 -msuccess.2,5,20", "qrels.test", "results.test")
}

// Each case of edge_cases.ndjson gives the exit code and the stdout that 9.0.8 gave.
func TestTrecEvalEdgeCases(t *testing.T) {
	file, err := os.Open(trecData + "edge_cases.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	dir := t.TempDir()
	lines := bufio.NewScanner(file)
	cases := 0
	for lines.Scan() {
		var c struct {
			Name       string
			Qrels, Run string
			Args       []string
			Want       struct {
				RC     int
				Stdout string
			} `json:"v9.0.8"`
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		cases++
		qrels, run := filepath.Join(dir, "qrels"), filepath.Join(dir, "run")
		for name, text := range map[string]string{qrels: c.Qrels, run: c.Run} {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var stdout, stderr bytes.Buffer
		code := TrecEval(append(c.Args, qrels, run), nil, &stdout, &stderr)
		if code != c.Want.RC {
			t.Errorf("%s: exit code %d, want %d: %s", c.Name, code, c.Want.RC, &stderr)
		}
		if diff := cmp.Diff(c.Want.Stdout, stdout.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.Name, diff)
		}
		if code != 0 && stderr.Len() == 0 {
			t.Errorf("%s: exit code %d without a word on stderr", c.Name, code)
		}
	}
	if lines.Err() != nil || cases != 33 {
		t.Errorf("%d cases, %v; want 33", cases, lines.Err())
	}
}

func TestTrecEvalTATQA(t *testing.T) {
	var stdout, stderr bytes.Buffer
	args := strings.Fields("-c -q -m num_q -m num_rel -m recip_rank -m recall.1 -m success.1 " + tatqaData + "tatqa_dev.qrels -")
	run, err := os.Open(tatqaData + "tatqa_dev.bm25.run")
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	if code := TrecEval(args, run, &stdout, &stderr); code != 0 || stderr.Len() > 0 {
		t.Errorf("exit code %d: %s", code, &stderr)
	}
	if diff := cmp.Diff(readFile(t, tatqaData+"tatqa_dev.bm25.trec_eval.out"), stdout.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Arguments are read as getopt_long does. Exit codes and outputs were compared with trec_eval 9.0.8.
func TestTrecEvalArguments(t *testing.T) {
	const mapAll, mapQuery = "map                   \tall\t0.1785\n", "map                   \t301\t0.0324\n"
	f := func(args string, wantCode int, wantStart, wantStderr string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		args = strings.ReplaceAll(args, "FILES", "QRELS RUN")
		words := strings.Fields(strings.NewReplacer("QRELS", trecData+"qrels.test", "RUN", trecData+"results.test").Replace(args))
		code := TrecEval(words, strings.NewReader(""), &stdout, &stderr)
		if code != wantCode || !strings.HasPrefix(stdout.String(), wantStart) || !strings.Contains(stderr.String(), wantStderr) {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q; want %d, %q, %q", args, code, stdout.String(), stderr.String(), wantCode, wantStart, wantStderr)
		}
		if wantCode != 0 && stdout.Len() > 0 {
			t.Errorf("%s: exit code %d with output %q", args, code, stdout.String())
		}
	}
	f("-m map FILES", 0, mapAll, "")
	f("-mmap FILES", 0, mapAll, "")
	f("QRELS -m map RUN", 0, mapAll, "")
	f("FILES -m map -q", 0, mapQuery, "")
	f("-qm map FILES", 0, mapQuery, "")
	f("--measure=map --query FILES", 0, mapQuery, "")
	f("--meas map -- FILES", 0, mapAll, "")
	f("-m map -m map.5 -N 5 -o -R qrels -T trec_results FILES", 0, mapAll, "")
	f("-nc FILES", 0, "", "")
	f("-h", 0, "usage: evalstream trec-eval", "")
	f("-v", 0, "", "9.0.8")
	f("-vm unj", 0, "", "9.0.8")
	f("", 1, "", "want two files, QRELS and RUN, got 0")
	f("QRELS", 1, "", "got 1")
	f("FILES RUN", 1, "", "hint: evalstream trec-eval -h")
	f("-z FILES", 1, "", "no option -z")
	f("--nope FILES", 1, "", "no option --nope")
	f("--R qrels FILES", 1, "", "short for --Rel_info_format and --Results_format")
	f("--nosummary=1 FILES", 1, "", "want no argument")
	f("FILES -m", 1, "", "option -m: want an argument")
	f("-m unj FILES", 1, "", `illegal measure "unj"`)
	f("-m P. FILES", 1, "", "want parameters behind the dot")
	f("-M -3 FILES", 1, "", "want a depth of 0 or more")
	f("-Z z FILES", 1, "", "option -Z is not offered here")
	f("-m utility FILES", 1, "", "no measure is left")
	f("-m utility -m map FILES", 0, mapAll, "utility: not computed here")
	f("-m P.0 FILES", 2, "", `measure "P.0": want cutoffs above 0`)
	f("-m P.5,5 FILES", 2, "", "got 5 twice")
	f("-m ndcg.1 FILES", 2, "", "want grade=gain")
	f("-R prefs FILES", 2, "", "option -R: want qrels")
	f("nosuch RUN", 2, "", "open nosuch: no such file")
	f("QRELS -", 2, "", "-: want at least one line, got an empty file")
	f("-m prefs_simp FILES", 4, "", "needs another format than qrels")
}

// Faults in the files, as exit codes and as what is said.
func TestTrecEvalFaults(t *testing.T) {
	f := func(args, qrels, run string, wantCode int, wantStderr string) {
		t.Helper()
		name := filepath.Join(t.TempDir(), "qrels")
		if err := os.WriteFile(name, []byte(qrels), 0o600); err != nil {
			t.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		code := TrecEval(append(strings.Fields(args), name, "-"), strings.NewReader(run), &stdout, &stderr)
		if code != wantCode || !strings.Contains(stderr.String(), wantStderr) {
			t.Errorf("%q with %q and %q: exit code %d, stderr %q; want %d, %q", args, qrels, run, code, stderr.String(), wantCode, wantStderr)
		}
	}
	f("-m map", "1 0 a 1\n\n", "1 Q0 a 1 1 r\n", 2, "qrels: line 2: want 4 fields (query iteration document grade), got 0")
	f("-m map", "1 0 a 1 x\n", "1 Q0 a 1 1 r\n", 2, "got 5 or more")
	f("-m map", "1 0 a 1\n", "\n1 Q0 a 1 1\n", 2, "-: line 2: want 6 fields")
	f("-m map", "1 0 a 1\n1 0 a 0\n", "1 Q0 a 1 1 r\n", 4, `query "1": document "a" is judged twice`)
	f("-m map", "1 0 a 1\n", "1 Q0 a 1 1 r\n1 Q0 a 1 1 r\n", 4, `query "1": document "a" is twice in the run`)
	f("-m num_q", "1 0 a 1\n", "1 Q0 a 1 1 r\n1 Q0 a 1 1 r\n", 0, "") // the lists are not looked at
	f("-m map", "1 0 a -1\n", "1 Q0 a 1 1 r\n", 4, "all its grades are below 0")
	f("-m map", "1 0 a 9999999999\n", "1 Q0 a 1 1 r\n", 4, "want a grade below 2147483647")
	f("-m map", "1 0 a 1\n", " \n", 7, "no query has both")
}

// twoFiles writes n queries with 10 documents each, one of them relevant: at rank i mod 10 + 1 for query i.
func twoFiles(t testing.TB, n int) (qrels, run string) {
	t.Helper()
	var judged, ranked bytes.Buffer
	for i := range n {
		q := i * 7919 % n // file order is not query order
		fmt.Fprintf(&judged, "q%d 0 d%d 1\n", q, q*10+i%10)
		for k := range 10 {
			fmt.Fprintf(&ranked, "q%d Q0 d%d %d %.4f bm25\n", q, q*10+k, k+1, 20-float64(k))
		}
	}
	dir := t.TempDir()
	qrels, run = filepath.Join(dir, "qrels"), filepath.Join(dir, "run")
	for name, b := range map[string]*bytes.Buffer{qrels: &judged, run: &ranked} {
		if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return qrels, run
}

// BenchmarkTrecEval10k and BenchmarkTrecEval100k show that time is linear in the input:
// the second takes about ten times as long. trec_eval's own search is quadratic.
func BenchmarkTrecEval10k(b *testing.B)  { benchTrecEval(b, 10_000) }
func BenchmarkTrecEval100k(b *testing.B) { benchTrecEval(b, 100_000) }

func benchTrecEval(b *testing.B, queries int) {
	b.Helper()
	qrels, run := twoFiles(b, queries)
	b.ResetTimer()
	for b.Loop() {
		var stdout, stderr bytes.Buffer
		if code := TrecEval([]string{"-q", qrels, run}, nil, &stdout, &stderr); code != 0 {
			b.Fatal(stderr.String())
		}
	}
}
