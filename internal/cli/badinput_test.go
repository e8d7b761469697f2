package cli

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	goodRun  = `{"query_id":"q1","run":"a","top":[{"id":"p1","score":2}]}`
	goodGold = `{"query_id":"q1","passage_id":"p1"}`
)

// setAside is a line of a rejects file.
type setAside struct {
	Kind, Pos, Stage, Class, Reason, Raw string
	RawBase64                            []byte `json:"raw_base64"`
	RawLength                            int64  `json:"raw_length"`
}

func readRejects(t *testing.T, path string) []setAside {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var rs []setAside
	for line := range bytes.Lines(data) {
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		var r setAside
		if err := d.Decode(&r); err != nil || r.Kind != "reject" {
			t.Fatalf("%s: %v", line, err)
		}
		rs = append(rs, r)
	}
	return rs
}

// TestBadRecords puts one bad line between good ones: it is set aside with where and why, the others count, and the exit code
// is 3.
func TestBadRecords(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	gold := write("gold", goodGold+"\n")
	input, rejects := filepath.Join(dir, "in"), filepath.Join(dir, "rejects")
	eval := []string{"eval", "retrieval", "--measure", "success@1", "--rejects", rejects, "--qrels", gold}
	f := func(name, bad, at, stage, class, reason string, more ...string) {
		t.Helper()
		write("in", goodRun+"\n"+bad+"\n"+strings.Replace(goodRun, `"a"`, `"b"`, 1)+"\n")
		s := command(t, "", append(append(append([]string{}, eval...), more...), input)...)
		if s.code != 3 {
			t.Errorf("%s: exit code %d, want 3\n%s", name, s.code, s.stderr)
		}
		rs := readRejects(t, rejects)
		if len(rs) != 1 {
			t.Fatalf("%s: %d rejects, want 1", name, len(rs))
		}
		r := rs[0]
		if r.Pos != input+at || r.Stage != stage || r.Class != class || !strings.Contains(r.Reason, reason) {
			t.Errorf("%s: %s %s %s %q, want %s %s %s %q", name, strings.TrimPrefix(r.Pos, input), r.Stage, r.Class, r.Reason, at, stage, class, reason)
		}
		raw := r.Raw
		if r.RawBase64 != nil {
			raw = string(r.RawBase64)
		}
		if len(bad) <= 256 && raw != bad || !strings.HasPrefix(bad, raw) || raw == "" {
			t.Errorf("%s: raw %q, want %q", name, raw, bad)
		}
		if want := "evalstream eval retrieval: " + input + at + ": "; !strings.Contains(s.stderr, want) || !strings.Contains(s.stderr, reason) {
			t.Errorf("%s: want %q and %q on stderr, got\n%s", name, want, reason, s.stderr)
		}
		if want := "1 reject of 4 records, over --max-rejects 0"; !strings.Contains(s.stderr, want) {
			t.Errorf("%s: want %q on stderr, got\n%s", name, want, s.stderr)
		}
		if class == "schema" && stage == "aggregate" {
			return // the good lines have the same fault
		}
		for _, run := range []string{"a", "b"} {
			if got := find(t, s.finals(t), "success@1", whose("run", run)).ratio(); got != "1/1" {
				t.Errorf("%s: run %s has %s, want 1/1", name, run, got)
			}
		}
	}
	f("broken JSON", `{"query_id":"q2","run":"a","top":[}`, ":2:35", "parse", "parse", "invalid character")
	f("cut inside", `{"query_id":"q2","run":"a","to`, ":2:31", "parse", "parse", "line ends inside a value")
	f("no JSON", `hello`, ":2:1", "parse", "parse", `want one JSON object a line, got "hello"`)
	f("no object", `[1]`, ":2:1", "parse", "parse", "want one JSON object a line, got array")
	f("two objects", goodRun+goodRun, fmt.Sprintf(":2:%d", len(goodRun)+1), "parse", "parse", "")
	f("bad UTF-8", "{\"query_id\":\"q\xff2\",\"run\":\"a\",\"top\":[]}", ":2:15", "parse", "parse", "/query_id: byte 15 (0xff) is not UTF-8")
	f("lone surrogate", `{"query_id":"q\ud800","run":"a","top":[]}`, ":2:15", "parse", "parse", "surrogate")
	f("duplicate key", `{"query_id":"q2","run":"a","run":"b","top":[]}`, ":2:28", "parse", "parse", `key "run" stands twice`)
	f("NaN", `{"query_id":"q2","run":"a","top":[{"id":"p","score":NaN}]}`, ":2:53", "parse", "parse", "/top/0/score: NaN is no JSON number")
	f("too great", `{"query_id":"q2","run":"a","top":[{"id":"p","score":1e999}]}`, ":2:53", "parse", "schema", "/top/0/score: number 1e999 is out of range")
	f("passage twice", `{"query_id":"q2","run":"a","top":[{"id":"p","score":2},{"id":"p","score":1}]}`, ":2:62", "parse", "schema", `/top/1/id: id "p" stands twice`)
	f("missing field", `{"run":"a","top":[]}`, ":2", "parse", "schema", "/query_id: missing; want string or number (--map query_id=/POINTER")
	f("wrong type", `{"query_id":"q2","run":"a","top":{}}`, ":2:34", "parse", "schema", "/top: want array of {id, score}, got object")
	f("wrong type inside", `{"query_id":"q2","run":"a","top":[{"id":"p","score":"2"}]}`, ":2:53", "parse", "schema", "/top/0/score: want number, got string")
	f("bad time", `{"query_id":"q2","run":"a","time":"noon","top":[]}`, ":2:35", "parse", "schema", `/time: want RFC 3339 time, got "noon"`, "--horizon", "1h")
	f("time without unit", `{"query_id":"q2","run":"a","time":5,"top":[]}`, ":2:35", "parse", "schema", "--time-unit s, ms, us or ns", "--horizon", "1h")
	f("too long", `{"query_id":"q2","text":"`+strings.Repeat("x", 5000)+`","run":"a","top":[]}`, ":2", "source", "too_large", "raise --max-line", "--max-line", "4096")

	// --as says the kind of every line; without it each says its own.
	s := command(t, lines(`{"kind":"run",`+goodRun[1:], `{"kind":"runn","query_id":"q2","run":"a","top":[]}`, goodRun), "score", "--gold", gold, "--rejects", rejects)
	rs := readRejects(t, rejects)
	if s.code != 3 || len(rs) != 2 || rs[0].Pos != "<stdin>:2:9" || !strings.Contains(rs[0].Reason, `/kind: no kind "runn"; did you mean run?`) || rs[1].Pos != "<stdin>:3" || !strings.Contains(rs[1].Reason, "--as run") {
		t.Errorf("unknown kind: exit code %d, rejects %+v", s.code, rs)
	}
}

// TestTruncatedLastLine: a last line without newline is a record if it is whole, and else a reject that says so.
func TestTruncatedLastLine(t *testing.T) {
	gold, rejects := save(t, "gold", goodGold), filepath.Join(t.TempDir(), "rejects")
	args := []string{"eval", "retrieval", "--measure", "success@1", "--rejects", rejects, "--qrels", gold, "-"}
	if s := command(t, goodRun, args...); s.code != 0 || find(t, s.finals(t), "success@1", nil).ratio() != "1/1" {
		t.Errorf("whole: exit code %d\n%s", s.code, s.stderr)
	}
	s := command(t, goodRun+"\n"+goodRun[:30], args...)
	rs := readRejects(t, rejects)
	if s.code != 3 || len(rs) != 1 || rs[0].Pos != "<stdin>:2:31" || !strings.HasPrefix(rs[0].Reason, "truncated last line: ") || rs[0].Raw != goodRun[:30] {
		t.Errorf("cut: exit code %d, rejects %+v", s.code, rs)
	}
}

func TestBadGold(t *testing.T) {
	runs, rejects := save(t, "runs", goodRun+"\n"), filepath.Join(t.TempDir(), "rejects")
	f := func(name, text string, code int, message string, more ...string) said {
		t.Helper()
		gold := save(t, "gold", text)
		s := command(t, "", append([]string{"eval", "retrieval", "--rejects", rejects, "--qrels", gold, runs}, more...)...)
		if s.code != code || !strings.Contains(s.stderr, strings.ReplaceAll(message, "GOLD", gold)) {
			t.Errorf("%s: exit code %d, want %d and %q on stderr, got\n%s", name, s.code, code, message, s.stderr)
		}
		return s
	}
	two := `{"query_id":"q1","passage_id":"p1","source":"human"}` + "\n" + `{"query_id":"q1","passage_id":"p2","source":"llm"}` + "\n"
	f("two sources", two, 3, `GOLD:2: /source: want gold of one source, got "llm" beside "human"; choose one with --source`)
	if rs := readRejects(t, rejects); len(rs) != 1 || rs[0].Class != "stage" || rs[0].Raw == "" {
		t.Errorf("two sources: rejects %+v", rs)
	}
	if s := f("one source of two", two, 0, "", "--source", "human", "--measure", "success@1"); find(t, s.finals(t), "success@1", nil).ratio() != "1/1" {
		t.Error("one source of two: wrong result")
	}
	f("bad grade", `{"query_id":"q1","passage_id":"p1","grade":"high"}`+"\n"+goodGold+"\n", 3, "GOLD:1:44: /grade: want integer or null, got string")
	f("empty", "", 2, "gold GOLD: want judgments, got none\nhint: a line is {")
	f("runs for gold", goodRun+"\n", 2, "GOLD:1: want gold")
	if s := command(t, "", "eval", "retrieval", runs); s.code != 2 || !strings.Contains(s.stderr, "--qrels gold.ndjson") {
		t.Errorf("no gold: exit code %d\n%s", s.code, s.stderr)
	}
	// Two sources in the stream.
	s := command(t, `{"kind":"qrel","query_id":"q1","passage_id":"p1"}`+"\n"+`{"kind":"qrel","query_id":"q1","passage_id":"p1","source":"llm"}`+"\n", "score", "--rejects", rejects)
	if rs := readRejects(t, rejects); s.code != 3 || len(rs) != 1 || rs[0].Pos != "<stdin>:2" || rs[0].Stage != "score" || !strings.Contains(rs[0].Reason, "--source") {
		t.Errorf("two sources in the stream: exit code %d, rejects %+v", s.code, rs)
	}
}

// TestBadCommands are faults of the command line, of files and of pipeline files: nothing on stdout, one message that says what
// is wanted, and the exit code.
func TestBadCommands(t *testing.T) {
	t.Setenv("EVALSTREAM_BROKERS", "") // someone who has just been through docs/kafka.md may have it
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	gold, runs := write("gold", goodGold+"\n"), write("runs", goodRun+"\n")
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	for i := range 3000 {
		fmt.Fprintf(z, `{"query_id":"q%d","run":"a","top":[{"id":"p%x","score":2}]}`+"\n", i, i*7919)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	half := zipped.Bytes()[:zipped.Len()/2]
	flipped := bytes.Clone(zipped.Bytes())
	flipped[len(flipped)-6] ^= 1 // in the checksum

	f := func(code int, message string, args ...string) {
		t.Helper()
		s := command(t, "", args...)
		if s.code != code || !strings.Contains(s.stderr, strings.ReplaceAll(message, "DIR", dir)) || s.stdout != "" {
			t.Errorf("evalstream %s: exit code %d, %d bytes on stdout; want %d and %q on stderr, got\n%s", strings.Join(args, " "), s.code, len(s.stdout), code, message, s.stderr)
		}
	}
	eval := func(code int, message string, args ...string) {
		t.Helper()
		f(code, message, append([]string{"eval", "retrieval", "--qrels", gold}, args...)...)
	}
	eval(4, "evalstream eval retrieval: DIR/nope: no such file or directory\nhint: check the path", filepath.Join(dir, "nope"))
	eval(4, "DIR: want a file, got a directory\nhint: name the files in it", dir)
	eval(4, "DIR/half.gz: gzip stream is truncated\nhint: the lines before line ", write("half.gz", string(half)))
	eval(4, "DIR/flipped.gz: gzip stream is corrupt", write("flipped.gz", string(flipped)))
	eval(4, "DIR/no/such: no such file or directory\nhint: name a file in a directory", "--rejects", filepath.Join(dir, "no", "such"), runs)
	eval(2, "is an input of this command", "--rejects", runs, runs)
	eval(2, "standard output carries results", "--rejects", "-", runs)
	eval(2, "standard input is named 2 times", "-", "-")
	eval(2, "topics can be from:, to: and rejects: of a pipeline file", "topic:runs")
	eval(2, "unknown flag: --meassure", "--meassure", "success@1", runs)
	eval(2, `measure "success@x": want success@K`, "--measure", "success@x", runs)
	eval(2, `measure "hits" is unknown: did you mean success@1?`, "--measure", "hits", runs)
	eval(2, `measure "mrr,map" is unknown: want one name; several are several --measure`, "--measure", "mrr,map", runs)
	eval(2, `measure "foo@1" is unknown: want one of success@K`, "--measure", "foo@1", runs)
	eval(2, `want a time span such as 500ms, 15m, 1h or 30d, got "1x"`, "--window", "1x", runs)
	eval(2, "want a size that is a multiple of the step", "--window", "1h/7m", runs)
	eval(2, "aggregate: every: want a number of records above 0, got 0", "--every", "0", runs)
	eval(2, `by "a,a": want each field once`, "--by", "a,a", runs)
	eval(2, "confidence: want a number between 0 and 1, got 2", "--confidence", "2", runs)
	eval(2, "interval: want wilson, ", "--interval", "wald", runs)
	eval(2, "ties", "--ties", "random", runs)
	eval(2, "missing: want skip or miss", "--missing", "zero", runs)
	eval(2, `output: want ndjson, table, csv, md, got "cvs"; did you mean "csv"?`, "-o", "cvs", runs)
	eval(2, "want a number or a share such as 100 or 0.5%", "--max-rejects", "few", runs)
	eval(2, "want", "--map", "nonsense", runs)
	eval(2, "map", "--map", "label=/x", runs)
	f(4, "evalstream eval retrieval: score: DIR/nope: no such file", "eval", "retrieval", "--qrels", filepath.Join(dir, "nope"), runs)
	f(2, "level: want nominal, ordinal, interval or ratio", "eval", "agreement", runs)
	f(2, "level: want nominal, ordinal, interval or ratio, got \"cardinal\"", "eval", "agreement", "--level", "cardinal", runs)
	words := write("words", `{"unit":"u","coder":"a","value":"x"}`+"\n"+`{"unit":"u","coder":"b","value":"y"}`+"\n")
	f(2, "--order", "eval", "agreement", "--level", "ordinal", words)
	f(2, "hint: take --level nominal, or --level ordinal with", "eval", "agreement", "--level", "interval", words)
	f(2, `value "x": want a number at interval level`, "eval", "agreement", "--level", "interval", words)
	f(2, `no command "evall"`, "evall")
	f(2, `no command "retreival"; did you mean "retrieval"?`, "eval", "retreival")
	f(2, `no command "retreival"; did you mean "retrieval"?`, "eval", "retreival", "--qrels", gold, runs)
	f(2, `--class: no class "shema"; did you mean "schema"?`, "dlq", "list", "--class", "shema", "rejects")
	f(2, `got "live.yaml/"`, "topics", "cat", "live.yaml/")
	f(2, "want the name of a TOPIC, got an empty one", "topics", "cat", "")
	f(2, "want the name of a TOPIC, got an empty one", "dlq", "replay", "topic:")
	f(2, "unknown flag: --qrel; did you mean --qrels?; see evalstream eval retrieval --help", "eval", "retrieval", "--qrel", gold, runs)
	f(2, "want the judgments, as in --qrels gold.ndjson, got none (where they come in the stream: evalstream parse |", "eval", "retrieval", runs)
	f(2, "got none\nhint: a line is", "eval", "retrieval", "--qrels", runs, "--map", "query_id=/q", runs)
	f(2, "other names go through evalstream parse --as qrel --map query_id=/POINTER", "eval", "retrieval", "--qrels", runs, runs)
	f(2, "want a pipeline file, as in evalstream run deploy/pipelines/tatqa.yaml, got none", "run")
	f(2, "want one pipeline file, got 2 arguments; its input is stdin or the from: of the file", "plan", "p.yaml", runs)

	scored := func(more ...string) string {
		return succeed(t, "", append([]string{"score", "--gold", gold, write("kinds", `{"kind":"run",`+goodRun[1:]+"\n")}, more...)...).stdout
	}
	f(12, "score everything with the same options", "aggregate", write("ties", scored("--measure", "success@1")+scored("--measure", "success@1", "--ties", "worst")))
	f(12, "score everything with the same options", "aggregate", write("measures", scored("--measure", "success@1")+scored("--measure", "mrr")))

	run := func(message, yaml string) {
		t.Helper()
		f(2, message, "run", write("p.yaml", yaml))
	}
	run(`DIR/p.yaml:2:1: pipeline: no field "horizn"; did you mean "horizon"?`, "from: x\nhorizn: 1d\nstages: [score: {}]\n")
	run(`DIR/p.yaml:3:13: score: no field "measur"; did you mean "measure"?`, "from: x\nstages:\n  - score: {measur: mrr}\n")
	run(`DIR/p.yaml:2:5: stages: no verb "agregate"; did you mean "aggregate"?`, "stages:\n  - agregate: {}\n")
	run("DIR/p.yaml:2:1: pipeline: field from is there twice", "from: x\nfrom: y\nstages: [score: {}]\n")
	run("DIR/p.yaml:2:22: score: field gold is there twice", "stages:\n  - score: {gold: x, gold: y}\n")
	run(`DIR/p.yaml:2:17: aggregate: window: window "1x": want a time span`, "stages:\n  - aggregate: {window: 1x}\n")
	run("DIR/p.yaml:1:1: pipeline: want stages, got an empty file", "")
	run("DIR/p.yaml:", "stages:\n  - score: {gold: x\n")
	run("brokers: want host:port, got none; set brokers: in the pipeline or EVALSTREAM_BROKERS", "from: topic:x\nstages: [score: {}]\n")
	f(2, "no such file", "run", filepath.Join(dir, "nope.yaml"))

	// All faults are told at once, in the order of their positions.
	s := command(t, "", "run", write("p.yaml", "horizn: 1d\nstages:\n  - score: {measur: mrr}\n  - agregate: {}\n"))
	if got := strings.Count(s.stderr, "did you mean"); got != 3 {
		t.Errorf("%d faults told, want 3:\n%s", got, s.stderr)
	}
}

// TestMaxRejects: 2 of 10 lines, and of 11 records with the gold, are bad.
func TestMaxRejects(t *testing.T) {
	gold, rejects := save(t, "gold", goodGold+"\n"), filepath.Join(t.TempDir(), "rejects")
	bad := goodRun[:len(goodRun)-1]
	var ls []string
	for i := range 10 {
		if i == 2 || i == 6 {
			ls = append(ls, bad)
		} else {
			ls = append(ls, goodRun)
		}
	}
	args := []string{"eval", "retrieval", "-q", "--measure", "success@1", "--workers", "1", "--rejects", rejects, "--qrels", gold, "-"}
	for limit, code := range map[string]int{"0": 3, "1": 3, "2": 0, "18%": 3, "18.2%": 0, "0.5%": 3, "100%": 0} {
		s := command(t, lines(ls...), append(args, "--max-rejects", limit)...)
		if s.code != code || len(s.finals(t)) != 1 {
			t.Errorf("--max-rejects %s: exit code %d and %d results, want %d and 1\n%s", limit, s.code, len(s.finals(t)), code, s.stderr)
		}
		if rs := readRejects(t, rejects); len(rs) != 2 || rs[0].Raw != bad || rs[1].Raw != bad {
			t.Errorf("--max-rejects %s: rejects %+v", limit, rs)
		}
		if over := strings.Contains(s.stderr, "over --max-rejects "+limit); over != (code == 3) {
			t.Errorf("--max-rejects %s: stderr\n%s", limit, s.stderr)
		}
	}
	s := command(t, lines(ls...), append(args, "--fail-fast", "--max-rejects", "100")...)
	if s.code != 3 || s.stdout != "" || !strings.Contains(s.stderr, "<stdin>:3:") {
		t.Errorf("--fail-fast: exit code %d, stdout %q, stderr\n%s", s.code, s.stdout, s.stderr)
	}
	if rs := readRejects(t, rejects); len(rs) == 0 || !strings.HasPrefix(rs[0].Pos, "<stdin>:3:") {
		t.Errorf("--fail-fast: rejects %+v", rs)
	}
	// A pipeline file can name the limit and the file too; the command line wins.
	yaml := save(t, "p.yaml", lines("stages:", "  - parse: {as: run}", "  - score: {gold: "+gold+"}", "rejects: "+rejects, "max_rejects: 2"))
	if s := command(t, lines(ls...), "run", yaml); s.code != 0 || len(readRejects(t, rejects)) != 2 {
		t.Errorf("run: exit code %d, %d rejects\n%s", s.code, len(readRejects(t, rejects)), s.stderr)
	}
	other := filepath.Join(t.TempDir(), "other")
	if s := command(t, lines(ls...), "run", "--rejects", other, "--max-rejects", "1", yaml); s.code != 3 || len(readRejects(t, other)) != 2 {
		t.Errorf("run with flags: exit code %d\n%s", s.code, s.stderr)
	}
	if s := succeed(t, goodRun, "run", "-q", yaml); s.stderr != "" {
		t.Errorf("run -q: stderr\n%s", s.stderr)
	}
}

// TestRejectedBytes: a line that is no UTF-8 comes whole, in base64.
func TestRejectedBytes(t *testing.T) {
	rejects := filepath.Join(t.TempDir(), "rejects")
	command(t, "\xfe\xff\n", "parse", "--as", "run", "--rejects", rejects)
	data, err := os.ReadFile(rejects)
	if err != nil {
		t.Fatal(err)
	}
	if want := `"raw_base64":"` + base64.StdEncoding.EncodeToString([]byte("\xfe\xff")) + `"`; !strings.Contains(string(data), want) {
		t.Errorf("reject %s, want %s in it", data, want)
	}
}
