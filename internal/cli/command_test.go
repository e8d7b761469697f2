package cli

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const testdata = "../../testdata/"

// said is what one command did.
type said struct {
	code           int
	stdout, stderr string
}

// command runs the command line in this process.
func command(t *testing.T, stdin string, args ...string) said {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := Main(t.Context(), args, strings.NewReader(stdin), &stdout, &stderr)
	return said{code: code, stdout: stdout.String(), stderr: stderr.String()}
}

// succeed is command, and the test ends if its exit code is not 0.
func succeed(t *testing.T, stdin string, args ...string) said {
	t.Helper()
	s := command(t, stdin, args...)
	if s.code != 0 {
		t.Fatalf("evalstream %s: exit code %d\n%s", strings.Join(args, " "), s.code, s.stderr)
	}
	return s
}

// published is a result as a reader of the output sees it.
type published struct {
	Kind           string
	Metric         string
	By             map[string]any
	Window         any
	Value          *float64
	Undefined      string
	Num            *json.Number
	Den            *json.Number
	N              int64
	Missing        *int64
	MissingUnknown string `json:"missing_unknown"`
	Pending        int64
	Unjudged       int64
	Interval       []struct {
		Method, Looks         string
		Confidence, Low, High float64
		R, Replicas           float64
	}
	NoInterval string `json:"no_interval"`
	Over       string
	SD         *float64
	Of         int64
	Units      int64
	Values     int64
	Closed     bool
	Final      bool
	Revision   int64
	Through    map[string]int64
	Settings   string
}

// ratio is "num/den".
func (p *published) ratio() string {
	if p.Num == nil || p.Den == nil {
		return "none"
	}
	return p.Num.String() + "/" + p.Den.String()
}

// value is the value, NaN's stand-in -1e99 if there is none.
func (p *published) value() float64 {
	if p.Value == nil {
		return -1e99
	}
	return *p.Value
}

// start is the start of the window, "all" for all time.
func (p *published) start() string {
	if m, ok := p.Window.(map[string]any); ok {
		return m["start"].(string)
	}
	return p.Window.(string)
}

// read decodes every line of stdout; a field that published does not have is a fault.
func (s said) read(t *testing.T) []published {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(s.stdout))
	d.DisallowUnknownFields()
	var rs []published
	for d.More() {
		var r published
		if err := d.Decode(&r); err != nil {
			t.Fatalf("result %d: %v", len(rs)+1, err)
		}
		if r.Kind != "result" {
			t.Fatalf("result %d: kind %q", len(rs)+1, r.Kind)
		}
		rs = append(rs, r)
	}
	return rs
}

// finals is the final results alone.
func (s said) finals(t *testing.T) []published {
	t.Helper()
	return slices.DeleteFunc(s.read(t), func(r published) bool { return !r.Final })
}

// find is the one result of a metric that f wants.
func find(t *testing.T, rs []published, metric string, f func(*published) bool) *published {
	t.Helper()
	var found *published
	for i := range rs {
		if rs[i].Metric != metric || f != nil && !f(&rs[i]) {
			continue
		}
		if found != nil {
			t.Fatalf("%s: want one result, got more", metric)
		}
		found = &rs[i]
	}
	if found == nil {
		t.Fatalf("%s: want a result, got none among %d", metric, len(rs))
	}
	return found
}

// whose picks the results of one group.
func whose(name, value string) func(*published) bool {
	return func(p *published) bool { return p.By[name] == value }
}

// comparable is what law 1 compares of an output: the final results without through, revision and closed, as sorted lines.
func (s said) comparable(t *testing.T, without ...string) []string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(s.stdout) {
		var m map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		if string(m["final"]) != "true" {
			continue
		}
		for _, name := range append(without, "through", "revision", "closed") {
			delete(m, name)
		}
		var b strings.Builder
		for _, k := range slices.Sorted(maps.Keys(m)) {
			b.WriteString(k + "=" + string(m[k]) + " ")
		}
		lines = append(lines, b.String())
	}
	slices.Sort(lines)
	return lines
}

// same fails the test if two outputs do not end with the same results, or with none.
func same(t *testing.T, name string, want, got []string) {
	t.Helper()
	if len(want) == 0 {
		t.Errorf("%s: want results, got none", name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		if len(diff) > 4000 {
			diff = diff[:4000]
		}
		t.Errorf("%s: results differ (-want +got):\n%s", name, diff)
	}
}

// save writes a file of the test's own folder and returns its path.
func save(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// load decodes a JSON file of testdata.
func load(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(testdata + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// lines joins lines, each with its newline.
func lines(ls ...string) string { return strings.Join(ls, "\n") + "\n" }
