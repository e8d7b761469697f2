package telemetry

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"evalstream"
)

// sample is one line of a page, read by the rules of the text format 0.0.4.
type sample struct {
	name   string
	labels map[string]string
	value  float64
}

// readPage reads a page strictly: each family's HELP and TYPE stand before its samples,
// which stand together, and no sample comes twice.
func readPage(page string) ([]sample, error) {
	var samples []sample
	seen, typed := map[string]bool{}, map[string]bool{}
	last, kind := "", ""
	for n, line := range strings.SplitAfter(page, "\n") {
		if line == "" {
			continue
		}
		text, ok := strings.CutSuffix(line, "\n")
		if !ok {
			return nil, fmt.Errorf("line %d: want a newline at the end", n+1)
		}
		if words := strings.SplitN(text, " ", 4); words[0] == "#" {
			if len(words) != 4 || words[1] != "HELP" && words[1] != "TYPE" {
				return nil, fmt.Errorf("line %d: want # HELP or # TYPE with a text, got %q", n+1, text)
			}
			if words[1] == "TYPE" {
				if typed[words[2]] {
					return nil, fmt.Errorf("line %d: family %s is there twice", n+1, words[2])
				}
				typed[words[2]] = true
				last, kind = words[2], words[3]
			}
			continue
		}
		s, err := readSample(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w in %q", n+1, err, text)
		}
		part, ok := strings.CutPrefix(s.name, last)
		if s.name != last && (!ok || kind != "histogram" || !slices.Contains([]string{"_bucket", "_sum", "_count"}, part)) {
			return nil, fmt.Errorf("line %d: %s stands under %s", n+1, s.name, last)
		}
		key := fmt.Sprint(s.name, s.labels)
		if seen[key] {
			return nil, fmt.Errorf("line %d: %s is there twice", n+1, key)
		}
		seen[key] = true
		samples = append(samples, s)
	}
	return samples, nil
}

func readSample(text string) (sample, error) {
	s := sample{labels: map[string]string{}}
	i := 0
	ident := func() string {
		from := i
		for i < len(text) && (text[i] == '_' || 'a' <= text[i] && text[i] <= 'z' || 'A' <= text[i] && text[i] <= 'Z' || i > from && '0' <= text[i] && text[i] <= '9') {
			i++
		}
		return text[from:i]
	}
	if s.name = ident(); s.name == "" {
		return s, fmt.Errorf("want a name")
	}
	if i < len(text) && text[i] == '{' {
		for i++; ; i++ {
			name := ident()
			if name == "" || !strings.HasPrefix(text[i:], `="`) {
				return s, fmt.Errorf("want a label at %d", i)
			}
			i += 2
			var v []byte
			for ; i < len(text) && text[i] != '"'; i++ {
				c := text[i]
				if c < ' ' || c == 0x7f {
					return s, fmt.Errorf("control character at %d", i)
				}
				if c == '\\' {
					if i++; i == len(text) {
						break
					}
					switch text[i] {
					case '\\', '"':
						c = text[i]
					case 'n':
						c = '\n'
					default:
						return s, fmt.Errorf("no escape \\%c", text[i])
					}
				}
				v = append(v, c)
			}
			if i+1 >= len(text) || !utf8.Valid(v) {
				return s, fmt.Errorf("want the end of a label in UTF-8 at %d", i)
			}
			if _, ok := s.labels[name]; ok {
				return s, fmt.Errorf("label %s is there twice", name)
			}
			s.labels[name] = string(v)
			if i++; text[i] == '}' {
				i++
				break
			}
			if text[i] != ',' {
				return s, fmt.Errorf("want , or } at %d", i)
			}
		}
	}
	value, ok := strings.CutPrefix(text[i:], " ")
	if !ok {
		return s, fmt.Errorf("want a value at %d", i)
	}
	var err error
	s.value, err = strconv.ParseFloat(value, 64)
	return s, err
}

func page(t *testing.T, e *Exporter) []sample {
	t.Helper()
	var b bytes.Buffer
	if _, err := e.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	samples, err := readPage(b.String())
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	return samples
}

// shownResults is the samples of results as name and labels, without metric and window.
func shownResults(t *testing.T, e *Exporter) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for _, s := range page(t, e) {
		if !strings.HasPrefix(s.name, "evalstream_result") {
			continue
		}
		key := strings.TrimPrefix(s.name, "evalstream_")
		for _, name := range slices.Sorted(func(yield func(string) bool) {
			for name := range s.labels {
				if !yield(name) {
					return
				}
			}
		}) {
			key += " " + name + "=" + s.labels[name]
		}
		out[key] = s.value
	}
	return out
}

func result(num, den int64, by ...string) *evalstream.Result {
	r := &evalstream.Result{
		Metric: "success@1", Window: evalstream.Window{All: true}, Ratio: true,
		Num: evalstream.Nano(num) * evalstream.One, Den: den, N: den, Value: float64(num) / float64(den),
	}
	for i := 0; i+1 < len(by); i += 2 {
		r.By = append(r.By, evalstream.Slice{Name: by[i], Value: by[i+1]})
	}
	return r
}

func TestResults(t *testing.T) {
	e := New(Build{Version: "v1"})
	want := func(want map[string]float64) {
		t.Helper()
		if diff := cmp.Diff(want, shownResults(t, e)); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
		}
	}
	r := result(1, 4, "run", `"a"`)
	r.Intervals = []evalstream.Interval{{Method: "beta_cs", Low: 0, High: 1}, {Method: "wilson", Low: .05, High: .7}}
	e.Result(r)
	want(map[string]float64{
		"result metric=success@1 run=a window=all": .25, "result_low metric=success@1 run=a window=all": .05,
		"result_high metric=success@1 run=a window=all": .7, "result_n metric=success@1 run=a window=all": 4,
	})
	r = result(0, 1, "run", `"a"`)
	r.N, r.Undefined = 0, "no units"
	e.Result(r)
	want(map[string]float64{"result_n metric=success@1 run=a window=all": 0})
	r.Undefined = "withdrawn"
	e.Result(r)
	want(map[string]float64{})

	// Of windows of one length the newest is shown.
	from := func(start time.Duration, num int64) *evalstream.Result {
		r := result(num, 4)
		r.Window = evalstream.Window{Start: evalstream.Time(start), End: evalstream.Time(start + time.Hour)}
		return r
	}
	shows := func(start time.Duration, value float64) {
		t.Helper()
		want(map[string]float64{
			"result metric=success@1 window=1h": value, "result_n metric=success@1 window=1h": 4,
			"result_window_start_timestamp_seconds metric=success@1 window=1h": start.Seconds(),
		})
	}
	const h, m = time.Hour, time.Minute
	e.Result(from(7*h, 1))
	e.Result(from(8*h, 2))
	e.Result(from(7*h, 3))
	shows(8*h, .5)
	late := from(8*h, 0)
	late.Undefined = "withdrawn"
	e.Result(late)
	want(map[string]float64{})

	// Of those that overlap the one that is nearest to its end, which is the fullest.
	for start := 8 * h; start <= 9*h-5*m; start += 5 * m {
		e.Result(from(start, 1))
	}
	shows(8*h, .25)
	e.Result(from(8*h+5*m, 2))
	shows(8*h, .25)
	gone := from(8*h+10*m, 2)
	gone.Undefined = "withdrawn"
	e.Result(gone)
	shows(8*h, .25)
	closed := from(8*h, 3)
	closed.Closed = true
	e.Result(closed)
	shows(8*h, .75)
	e.Result(from(8*h+5*m, 4))
	shows(8*h+5*m, 1)
	e.Result(from(8*h+10*m, 1))
	shows(8*h+5*m, 1)
	e.Result(from(9*h+5*m, 2)) // which it does not reach: it may never close
	shows(9*h+5*m, .5)
}

func TestLabels(t *testing.T) {
	f := func(literal, want string) {
		t.Helper()
		e := New(Build{})
		e.Result(result(1, 1, "filing type", literal))
		for _, s := range page(t, e) {
			if s.name != "evalstream_result" {
				continue
			}
			if got := s.labels["filing_type"]; got != want {
				t.Errorf("%s is shown as %q, want %q", literal, got, want)
			}
			return
		}
		t.Errorf("%s is not shown", literal)
	}
	f(`"10-K"`, "10-K")
	f(`7`, "7")
	f(`"7"`, `"7"`)
	f(`""`, `""`)
	f(`null`, "")
	f(``, "")
	f(`"a\"b\\c\nd"`, "a\"b\\c\nd")
	f(`"\u0001"`, "\ufffd~af63bc4c8601b62c") // FNV-1a, 64 bits, of the byte 1
	f(`"ü"`, "ü")
}

func TestSeriesOfNamesThatMeet(t *testing.T) {
	f := func(want string, labels ...label) {
		t.Helper()
		if got := series("x", labels...); got != want {
			t.Errorf("series %s, want %s", got, want)
		}
	}
	f("x")
	f("x", label{"a", ""})
	f(`x{metric="m",metric_="f"}`, label{"metric", "m"}, label{"metric", "f"})
	f(`x{a_b="1",a_b_="2"}`, label{"a.b", "1"}, label{"a b", "2"})
	f(`x{field_7="1",field___name__="2"}`, label{"7", "1"}, label{"__name__", "2"})
	f(`x{field_="1"}`, label{"", "1"})
	f(`x{field_le="1",field_quantile="2"}`, label{"le", "1"}, label{"quantile", "2"})
}

func TestCap(t *testing.T) {
	e := New(Build{})
	e.results.max = 2
	for i := range 5 {
		e.Result(result(int64(i), 10, "run", strconv.Itoa(i)))
	}
	want := map[string]float64{
		"result metric=success@1 run=0 window=all": 0, "result_n metric=success@1 run=0 window=all": 10,
		"result metric=success@1 run=1 window=all": .1, "result_n metric=success@1 run=1 window=all": 10,
		"result metric=success@1 run=__other__ window=all": .3, "result_n metric=success@1 run=__other__ window=all": 30,
	}
	if diff := cmp.Diff(want, shownResults(t, e)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := e.results.dropped.Get(); got != 3 {
		t.Errorf("%d series dropped, want 3", got)
	}
	// The stage's own group of small groups joins them; a place that is free is taken.
	e.Result(result(5, 10, "run", `"__other__"`))
	gone := result(1, 1, "run", "0")
	gone.Undefined = "withdrawn"
	e.Result(gone)
	e.Result(result(2, 10, "run", "2"))
	want = map[string]float64{
		"result metric=success@1 run=1 window=all": .1, "result_n metric=success@1 run=1 window=all": 10,
		"result metric=success@1 run=2 window=all": .2, "result_n metric=success@1 run=2 window=all": 10,
		"result metric=success@1 run=__other__ window=all": .4, "result_n metric=success@1 run=__other__ window=all": 30,
	}
	if diff := cmp.Diff(want, shownResults(t, e)); diff != "" {
		t.Errorf("after one was withdrawn (-want +got):\n%s", diff)
	}
	// What is no ratio has no common value.
	r := result(1, 1, "run", "9")
	r.Ratio = false
	e.Result(r)
	if _, ok := shownResults(t, e)["result metric=success@1 run=__other__ window=all"]; ok {
		t.Error("a value is shown for results that do not add up")
	}
}

func TestCounters(t *testing.T) {
	e := New(Build{Version: "v1", Revision: "abc", Go: "go1"})
	read := int64(0)
	e.Source(func() (int64, int64, bool) { return read, 100, true })
	h := e.Hooks()
	h.Took("score", "run", 3)
	h.Took("score", "run", 4)
	h.Made("score", "score", 7)
	h.Rejected("parse", evalstream.ClassParse)
	h.Block(evalstream.Progress{Lines: 8, Watermark: evalstream.NoTime})
	h.Block(evalstream.Progress{Partition: 1, Lines: 7, Watermark: evalstream.Time(9 * time.Second)})
	h.Block(evalstream.Progress{Partition: 2, Lines: 8, Watermark: evalstream.Time(8500 * time.Millisecond)})
	read = 50
	e.Finish(evalstream.Summary{Tallies: []evalstream.Tally{{Step: "score", Kind: "run", Received: 7, Held: 6, Replaced: 1}}})
	got := map[string]float64{}
	for _, s := range page(t, e) {
		got[fmt.Sprint(strings.TrimPrefix(s.name, "evalstream_"), s.labels)] = s.value
	}
	want := map[string]float64{
		"build_infomap[goversion:go1 revision:abc version:v1]":     1,
		"records_totalmap[kind:run outcome:received stage:score]":  7,
		"records_totalmap[kind:score outcome:emitted stage:score]": 7,
		"records_totalmap[kind:run outcome:held stage:score]":      6,
		"records_totalmap[kind:run outcome:replaced stage:score]":  1,
		"records_totalmap[kind:run outcome:passed stage:score]":    0,
		"records_totalmap[kind:run outcome:rejected stage:score]":  0,
		"records_totalmap[kind:run outcome:late stage:score]":      0,
		"rejects_totalmap[class:parse stage:parse]":                1,
		"series_dropped_totalmap[]":                                0,
		"source_bytesmap[]":                                        50,
		"source_size_bytesmap[]":                                   100,
		"source_lines_totalmap[]":                                  8,
		"watermark_timestamp_secondsmap[]":                         8.5,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name := range got {
		if !slices.ContainsFunc(families(), func(f family) bool { return strings.HasPrefix(name, strings.TrimPrefix(f.name, "evalstream_")) }) {
			t.Errorf("%s is not among the families", name)
		}
	}
}

// A segment shows what it owns now, and nothing of what it has let go.
func TestSegment(t *testing.T) {
	e := New(Build{})
	owned := []Partition{{0, map[string]int64{"in": 3, "gold": 0}, 5}, {1, map[string]int64{"in": 4}, 2}}
	s := e.Segment("live.score", "parse", func() []Partition { return owned })
	later := e.Segment(`live."odd"`, "", func() []Partition { return nil })
	h := s.Hooks()
	h.Took("parse", "line", 9)
	h.Took("score", "run", 9)
	h.Block(evalstream.Progress{Partition: 0, Watermark: evalstream.Time(9 * time.Second)})
	h.Block(evalstream.Progress{Partition: 1, Watermark: evalstream.Time(8 * time.Second)})
	later.Hooks().Took("parse-odd", "line", 5)
	s.Transaction(3*time.Millisecond, 10)
	s.Transaction(7*time.Second, 20)
	s.Generation()
	s.Loaded(20*time.Second, 1000)
	shows := func(want map[string]float64, gone ...string) {
		t.Helper()
		got := map[string]float64{}
		for _, s := range page(t, e) {
			labels := maps.Clone(s.labels)
			if labels["segment"] != "live.score" && s.name != "evalstream_source_lines_total" {
				continue
			}
			delete(labels, "segment")
			got[strings.TrimPrefix(s.name, "evalstream_")+fmt.Sprint(labels)[3:]] = s.value
		}
		for name, v := range want {
			if g, ok := got[name]; !ok || g != v {
				t.Errorf("%s: got %v (%v), want %v", name, g, ok, v)
			}
		}
		for _, name := range gone {
			if v, ok := got[name]; ok {
				t.Errorf("%s is shown as %v", name, v)
			}
		}
	}
	shows(map[string]float64{
		"source_lines_total[]":                          9,
		"source_lag_records[partition:0 topic:in]":      3,
		"source_lag_records[partition:0 topic:gold]":    0,
		"source_lag_records[partition:1 topic:in]":      4,
		"partitions_owned[]":                            2,
		"in_flight_messages[]":                          7,
		"watermark_timestamp_seconds[]":                 8,
		"transaction_duration_seconds_count[]":          2,
		"transaction_duration_seconds_bucket[le:0.005]": 1,
		"transaction_duration_seconds_bucket[le:+Inf]":  2,
		"transaction_messages_total[]":                  30,
		"rebalances_total[]":                            1,
		"load_entries_total[]":                          1000,
		"load_duration_seconds_bucket[le:10]":           0,
		"load_duration_seconds_bucket[le:30]":           1,
	})
	owned = owned[:1]
	s.LetGo(1)
	shows(map[string]float64{"partitions_owned[]": 1, "watermark_timestamp_seconds[]": 9}, "source_lag_records[partition:1 topic:in]")
	owned = nil
	s.LetGo(0)
	shows(map[string]float64{"partitions_owned[]": 0, "in_flight_messages[]": 0}, "source_lag_records[partition:0 topic:in]", "watermark_timestamp_seconds[]")

	// Beyond the cap partitions share a series.
	for p := range int32(MaxSeries + 10) {
		owned = append(owned, Partition{p, map[string]int64{"in": 1}, 0})
	}
	shows(map[string]float64{"source_lag_records[partition:1999 topic:in]": 1, "source_lag_records[partition:__other__ topic:in]": 10}, "source_lag_records[partition:2000 topic:in]")
}

func TestHealth(t *testing.T) {
	e := New(Build{})
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		return w.Code, w.Body.String()
	}
	f := func(path string, code int, body string) {
		t.Helper()
		if c, b := get(path); c != code || b != body {
			t.Errorf("%s: %d %q, want %d %q", path, c, b, code, body)
		}
	}
	f("/livez", 200, "ok\n")
	f("/readyz", 200, "ok\n")
	e.SetHealth(Health{Live: func() []string { return nil }, Ready: func() []string { return []string{"a", "b"} }})
	f("/livez", 200, "ok\n")
	f("/readyz", 503, "a\nb\n")
	e.SetHealth(Health{Live: func() []string { return []string{"stuck"} }})
	f("/livez", 503, "stuck\n")
	f("/readyz", 200, "ok\n")
}

func TestServe(t *testing.T) {
	e := New(Build{})
	f := func(address, want string) {
		t.Helper()
		s, err := e.Serve(t.Context(), address)
		if err == nil {
			t.Errorf("%s: got %s, want an error", address, s.Addr())
			_ = s.Close(t.Context())
			return
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", address, err, want)
		}
	}
	f("9100", "want HOST:PORT")
	f("127.0.0.1:http-nowhere", "metrics-addr: ")
	s, err := e.Serve(t.Context(), ":0")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(s.Addr(), "127.0.0.1:") {
		t.Errorf("no host is bound as %s, want loopback", s.Addr())
	}
	f(s.Addr(), "address already in use")
	get := func(path string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Addr()+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if closeErr := resp.Body.Close(); err != nil || closeErr != nil {
			t.Fatal(err, closeErr)
		}
		return resp.StatusCode, string(body)
	}
	if code, body := get("/metrics"); code != http.StatusOK || !strings.Contains(body, "evalstream_source_lines_total 0\n") {
		t.Errorf("/metrics: %d %s", code, body)
	}
	if code, _ := get("/"); code != http.StatusNotFound {
		t.Errorf("/: %d, want 404", code)
	}
	http.DefaultClient.CloseIdleConnections()
	if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}

func FuzzLabel(f *testing.F) {
	for _, s := range []string{"", `"`, `\`, "a\nb", "\x00\x7f\u0085", "\xff", "{x=\"y\"}", strings.Repeat("ü", 200), "null", `"7"`, "__other__"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		e := New(Build{Version: text})
		r := result(1, 2, name, text, "run", string(evalstream.AppendString(nil, text)), "metric", text)
		r.Metric = name
		e.Result(r)
		r.Value = math.NaN()
		e.Result(r)
		e.Hooks().Took(name, text, 1)
		e.Hooks().Rejected(text, evalstream.Class(name))
		for _, s := range page(t, e) {
			for _, v := range s.labels {
				if len(v) > maxLabel {
					t.Fatalf("label of %d bytes, want at most %d", len(v), maxLabel)
				}
			}
		}
	})
}

// TestDocumented holds the page that people read to what is shown.
func TestDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families() {
		row := regexp.MustCompile(`(?m)^\| [^|]*\b` + f.name + `\b[^|]* \| ` + f.kind + ` \|`)
		if !row.Match(doc) {
			t.Errorf("docs/monitoring.md has no row for %s, a %s", f.name, f.kind)
		}
	}
	for _, name := range regexp.MustCompile(`evalstream_[a-z_]+`).FindAllString(string(doc), -1) {
		if name == "evalstream_replay" { // a header of messages
			continue
		}
		plain := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
		if !slices.ContainsFunc(families(), func(f family) bool { return f.name == name || f.name == plain && f.kind == "histogram" }) {
			t.Errorf("docs/monitoring.md names %s, which is not shown", name)
		}
	}
}
