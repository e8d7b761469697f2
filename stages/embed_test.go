package stages_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"evalstream"
	"evalstream/codecs"
	"evalstream/stages"
	"evalstream/stages/embedding"
	"evalstream/topics/file"
)

// endpoint is a local /v1/embeddings server. Text "t7" has the vector (7, 1).
type endpoint struct {
	*httptest.Server
	// fault may answer the call in place of the server.
	fault func(w http.ResponseWriter, r *http.Request, call int, texts []string) (handled bool)

	mu       sync.Mutex
	calls    int
	answered map[string]int // how often a text's vector went out whole
}

const testKey = "sk-secret-1234"

func newEndpoint(t *testing.T, fault func(w http.ResponseWriter, r *http.Request, call int, texts []string) bool) *endpoint {
	t.Helper()
	e := &endpoint{fault: fault, answered: map[string]int{}}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Model    string   `json:"model"`
			Input    []string `json:"input"`
			Encoding string   `json:"encoding_format"`
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || q.Model != "m" || q.Encoding == "" {
			http.Error(w, "bad request", http.StatusBadRequest)
			return
		}
		e.mu.Lock()
		call := e.calls
		e.calls++
		e.mu.Unlock()
		if r.Header.Get("Authorization") != "Bearer "+testKey {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"error":{"message":"Incorrect API key provided: %s"}}`, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
			return
		}
		if e.fault != nil && e.fault(w, r, call, q.Input) {
			return
		}
		e.mu.Lock()
		for _, text := range q.Input {
			e.answered[text]++
		}
		e.mu.Unlock()
		fmt.Fprint(w, replyTo(q.Input, q.Encoding == "base64"))
	}))
	t.Cleanup(e.Close)
	return e
}

func number(text string) float32 {
	n, _ := strconv.ParseFloat(strings.TrimPrefix(text, "t"), 32)
	return float32(n)
}

// replyTo is an answer in reverse order, as servers may.
func replyTo(texts []string, packed bool) string {
	var data []string
	for i, text := range slices.Backward(texts) {
		v := fmt.Sprintf("[%v,1]", number(text))
		if packed {
			b := binary.LittleEndian.AppendUint32(nil, math.Float32bits(number(text)))
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(1))
			v = strconv.Quote(base64.StdEncoding.EncodeToString(b))
		}
		data = append(data, fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":%s}`, i, v))
	}
	return fmt.Sprintf(`{"object":"list","data":[%s],"model":"m","usage":{"total_tokens":%d}}`, strings.Join(data, ","), len(texts))
}

// embedding is embed against the endpoint, four texts a call.
func (e *endpoint) embedding() stages.Embedding {
	return stages.Embedding{
		Settings: embedding.Settings{Provider: "http", Model: "m", Dims: 2},
		Remote:   &embedding.HTTP{URL: e.URL + "/v1/embeddings", Model: "m", Dims: 2, Key: testKey, Timeout: time.Second, Client: e.Client()},
		Limits: evalstream.Limits{
			Records: 4, InFlight: 3, Deadline: 5 * time.Second,
			Retry: evalstream.Retry{Attempts: 4, Base: time.Millisecond, Max: 4 * time.Millisecond, GiveUp: 6},
		},
	}
}

// kept is a sink of the texts in order, with a note of each wrong vector.
type kept struct {
	lines, rejects []string
}

func (k *kept) Write(_ context.Context, recs []evalstream.Record) error {
	for i := range recs {
		switch b := recs[i].Body.(type) {
		case *evalstream.Query:
			k.lines = append(k.lines, b.Text)
			if v := b.Vector.Values; len(v) != 2 || v[0] != number(b.Text) || v[1] != 1 {
				k.lines = append(k.lines, fmt.Sprintf("wrong vector %v", v))
			}
		case *evalstream.Rejected:
			k.rejects = append(k.rejects, fmt.Sprintf("%d %s %s", b.At.Line, b.Class, b.Reason))
		}
	}
	return nil
}

func (*kept) Flush(context.Context) error { return nil }

func queries(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"kind\":\"query\",\"query_id\":%d,\"text\":\"t%d\"}\n", i, i)
	}
	return b.String()
}

func runEmbed(t *testing.T, e stages.Embedding, input string) (kept, evalstream.Summary, error) {
	t.Helper()
	step, err := stages.NewEmbed(e)
	if err != nil {
		t.Fatal(err)
	}
	p, err := evalstream.New("test",
		evalstream.Step{Name: "parse", New: stages.NewParse(func() (stages.Decoder, error) { return codecs.NewDecoder(codecs.Plan{}) })},
		evalstream.Step{Name: "embed", New: step})
	if err != nil {
		t.Fatal(err)
	}
	var k kept
	job := evalstream.Job{Pipeline: p, Source: file.NewSource(file.Reader("in", strings.NewReader(input))), Sink: &k, Rejects: &k}
	sum, err := job.Run(t.Context())
	if bad := sum.Unbalanced(); err == nil && len(bad) > 0 {
		t.Errorf("records vanished: %+v", bad)
	}
	return k, sum, err
}

// Whatever the endpoint does once, or with one text: order is kept, one bad record
// costs one record, and what was answered is not asked again.
func TestEmbedFaults(t *testing.T) {
	once := func(fault func(w http.ResponseWriter, r *http.Request)) func(http.ResponseWriter, *http.Request, int, []string) bool {
		var done atomic.Bool
		return func(w http.ResponseWriter, r *http.Request, _ int, texts []string) bool {
			if !slices.Contains(texts, "t5") || done.Swap(true) {
				return false
			}
			fault(w, r)
			return true
		}
	}
	poison := func(fault func(w http.ResponseWriter, texts []string)) func(http.ResponseWriter, *http.Request, int, []string) bool {
		return func(w http.ResponseWriter, _ *http.Request, _ int, texts []string) bool {
			if !slices.Contains(texts, "t5") {
				return false
			}
			fault(w, texts)
			return true
		}
	}
	const n = 14
	f := func(name string, fault func(http.ResponseWriter, *http.Request, int, []string) bool, reject string) {
		t.Helper()
		e := newEndpoint(t, fault)
		k, _, err := runEmbed(t, e.embedding(), queries(n))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		var want, wantRejects []string
		for i := range n {
			if reject != "" && i == 5 {
				continue
			}
			want = append(want, fmt.Sprintf("t%d", i))
		}
		if reject != "" {
			wantRejects = []string{"6 remote " + reject}
		}
		if diff := cmp.Diff(want, k.lines); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
		if diff := cmp.Diff(wantRejects, k.rejects); diff != "" {
			t.Errorf("%s: rejects (-want +got)\n%s", name, diff)
		}
		for text, times := range e.answered {
			if times > 1 {
				t.Errorf("%s: %s was answered %d times", name, text, times)
			}
		}
	}
	f("none", nil, "")
	f("429, seconds", once(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "0.01")
		w.WriteHeader(http.StatusTooManyRequests)
	}), "")
	f("429, date", once(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", "Mon, 30 Nov 2026 00:00:00 GMT")
		w.Header().Set("Retry-After", "Mon, 30 Nov 2026 00:00:01 GMT")
		w.WriteHeader(http.StatusTooManyRequests)
	}), "")
	f("500", once(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }), "")
	f("slow", once(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), "")
	f("cut body", once(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, `{"data":[{"index":0,`)
	}), "")
	f("dead connection", once(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), "")
	f("always 500", poison(func(w http.ResponseWriter, _ []string) {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, `{"error":{"message":"NaN in\n output"}}`)
	}), "4 attempts: status 500 (Internal Server Error): NaN in output")
	f("too long", poison(func(w http.ResponseWriter, _ []string) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		fmt.Fprint(w, `{"error":"9000 tokens"}`)
	}), "status 413 (Request Entity Too Large): 9000 tokens")
	f("wrong count", poison(func(w http.ResponseWriter, texts []string) { fmt.Fprint(w, replyTo(texts[1:], true)) }),
		"want 1 vectors, got 0")
	f("wrong index", poison(func(w http.ResponseWriter, texts []string) {
		fmt.Fprint(w, strings.ReplaceAll(replyTo(texts, true), `"index":0`, `"index":9`))
	}), "want each index from 0 to 0 once, got 9")
	f("not JSON", poison(func(w http.ResponseWriter, texts []string) {
		fmt.Fprint(w, strings.Replace(replyTo(texts, false), "[5,", "[NaN,", 1))
	}), "reply is not what /v1/embeddings answers: invalid character 'N' looking for beginning of value")

	// One bad vector in a good reply costs its record without another call.
	bad := func(from, to string, packed bool) func(http.ResponseWriter, *http.Request, int, []string) bool {
		return poison(func(w http.ResponseWriter, texts []string) {
			fmt.Fprint(w, strings.Replace(replyTo(texts, packed), from, to, 1))
		})
	}
	f("wrong dimension", bad("[5,1]", "[5,1,0]", false), "vector of the endpoint: want 2 dimensions, got 3")
	f("null", bad("[5,1]", "[null,1]", false), "vector of the endpoint: want finite numbers, got null at place 0")
	f("all 0", bad("[5,1]", "[0,0]", false), "vector of the endpoint: want a vector that is not all 0")
	f("NaN", bad(`"AACgQAAAgD8="`, `"AADAfwAAgD8="`, true), "vector of the endpoint: want finite numbers, got NaN at place 0")
	f("no vector", bad("[5,1]", "[]", false), "vector of the endpoint: want a vector of numbers, got none")
}

// What is wrong with the endpoint, and not with a record, ends the job with what to do.
func TestEmbedEndpointFaults(t *testing.T) {
	f := func(change func(e *endpoint, s *stages.Embedding), fault func(http.ResponseWriter, *http.Request, int, []string) bool, code int, want, hint string) {
		t.Helper()
		e := newEndpoint(t, fault)
		s := e.embedding()
		if change != nil {
			change(e, &s)
		}
		_, _, err := runEmbed(t, s, queries(30))
		if evalstream.ExitCode(err) != code || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("want exit %d, %q; got %d, %v", code, want, evalstream.ExitCode(err), err)
		}
		var exit *evalstream.ExitError
		if asExit(err, &exit) && !strings.Contains(exit.Hint, hint) {
			t.Errorf("want hint %q, got %q", hint, exit.Hint)
		}
		if strings.Contains(fmt.Sprint(err), "sk-") {
			t.Errorf("the key is printed: %v", err)
		}
	}
	status := func(code int, body string) func(http.ResponseWriter, *http.Request, int, []string) bool {
		return func(w http.ResponseWriter, _ *http.Request, _ int, _ []string) bool {
			w.WriteHeader(code)
			fmt.Fprint(w, body)
			return true
		}
	}
	f(func(_ *endpoint, s *stages.Embedding) { s.Remote.Key = "sk-wrong" }, nil, evalstream.ExitUsage,
		"status 401 (Unauthorized): Incorrect API key provided: ***", "the key was refused")
	f(func(_ *endpoint, s *stages.Embedding) { s.Remote.Key = "" }, nil, evalstream.ExitUsage, "status 401", "no key was sent")
	f(nil, status(404, `{"error":{"message":"no model m"}}`), evalstream.ExitUsage, "status 404 (Not Found): no model m", "is there such a model")
	f(nil, status(429, `{"error":{"code":"insufficient_quota","message":"pay"}}`), evalstream.ExitLost, "pay", "no quota left")
	f(nil, status(307, ""), evalstream.ExitUsage, "status 307", "give --url the final one")
	f(func(e *endpoint, _ *stages.Embedding) { e.Close() }, nil, evalstream.ExitLost, "connection refused", "is the endpoint running")
	f(nil, status(400, "no"), evalstream.ExitLost, "records in a row had no answer; the last: status 400 (Bad Request): no", "try the endpoint by hand")
	f(nil, func(w http.ResponseWriter, _ *http.Request, _ int, texts []string) bool {
		fmt.Fprint(w, strings.ReplaceAll(replyTo(texts, false), ",1]", ",1,1]"))
		return true
	}, evalstream.ExitLost, "the last: vector of the endpoint: want 2 dimensions, got 3", "")
}

// A text that an endpoint refuses is asked for once in a rerun: the others of its batch
// are in the log, so nothing is left to halve.
func TestEmbedRefusedOnceAgain(t *testing.T) {
	asked := 0
	e := newEndpoint(t, func(w http.ResponseWriter, _ *http.Request, _ int, texts []string) bool {
		if !slices.Contains(texts, "t3") {
			return false
		}
		asked++ // calls hold one slot, below
		w.WriteHeader(http.StatusBadRequest)
		return true
	})
	log, err := file.OpenResultLog(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	s := e.embedding()
	s.Log, s.Limits.InFlight, s.Limits.Records = log, 1, 16
	for i := range 2 {
		asked = 0
		k, _, err := runEmbed(t, s, queries(16))
		if err != nil || len(k.lines) != 15 || len(k.rejects) != 1 {
			t.Fatalf("job %d: %d lines, %v, %v", i+1, len(k.lines), k.rejects, err)
		}
	}
	if asked != 1 {
		t.Errorf("want the refused text asked for once by the second job, got %d", asked)
	}
}

func asExit(err error, to **evalstream.ExitError) bool { return errors.As(err, to) }

// A job that stops half way, and then runs again with its log, asks for nothing twice.
func TestEmbedLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	e := newEndpoint(t, func(w http.ResponseWriter, _ *http.Request, call int, _ []string) bool {
		if call != 5 {
			return false
		}
		w.WriteHeader(http.StatusForbidden) // the first job ends here
		return true
	})
	run := func() (kept, evalstream.Summary, error) {
		t.Helper()
		log, err := file.OpenResultLog(path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := log.Close(); err != nil {
				t.Error(err)
			}
		}()
		s := e.embedding()
		s.Log = log
		// Each text three times: also within one job it is asked for once.
		return runEmbed(t, s, strings.Repeat(queries(40), 3))
	}
	if _, _, err := run(); evalstream.ExitCode(err) != evalstream.ExitUsage {
		t.Fatalf("first job: %v", err)
	}
	for i := range 2 {
		k, sum, err := run()
		if err != nil || len(k.rejects) > 0 || len(k.lines) != 120 {
			t.Fatalf("job %d: %d lines, %v, %v", i+2, len(k.lines), k.rejects, err)
		}
		if i == 1 {
			for _, c := range sum.Counters {
				if c.Name == "calls" && c.N != 0 {
					t.Errorf("third job: want no call, got %d", c.N)
				}
			}
		}
	}
	for n := range 40 {
		if got := e.answered[fmt.Sprintf("t%d", n)]; got != 1 {
			t.Errorf("t%d: want 1 answer, got %d", n, got)
		}
	}
}

// Memory does not grow with the number of texts.
func TestEmbedMemory(t *testing.T) {
	if testing.Short() {
		t.Log("short: 20,000 texts in place of 100,000")
	}
	n := 100_000
	if testing.Short() {
		n = 20_000
	}
	e := newEndpoint(t, nil)
	s := e.embedding()
	s.Limits.Records = 256
	s.Remote.Client = &http.Client{Transport: answering(func(body []string) string { return replyTo(body, true) })}
	step, err := stages.NewEmbed(s)
	if err != nil {
		t.Fatal(err)
	}
	p, err := evalstream.New("test",
		evalstream.Step{Name: "parse", New: stages.NewParse(func() (stages.Decoder, error) { return codecs.NewDecoder(codecs.Plan{}) })},
		evalstream.Step{Name: "embed", New: step})
	if err != nil {
		t.Fatal(err)
	}
	var most uint64
	count := 0
	sink := sinkFunc(func(recs []evalstream.Record) {
		if before := count; before/20_000 != (before+len(recs))/20_000 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
		}
		count += len(recs)
	})
	job := evalstream.Job{Pipeline: p, Source: file.NewSource(file.Reader("in", &manyQueries{n: n})), Sink: sink}
	if _, err := job.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if count != n {
		t.Errorf("want %d records, got %d", n, count)
	}
	if most > 48<<20 {
		t.Errorf("want at most 48 MiB live, got %d", most>>20)
	}
}

// manyQueries writes n queries as they are read.
type manyQueries struct {
	n, i int
	rest []byte
}

func (m *manyQueries) Read(p []byte) (int, error) {
	for len(m.rest) < len(p) && m.i < m.n {
		m.rest = fmt.Appendf(m.rest, "{\"kind\":\"query\",\"query_id\":%d,\"text\":\"t%d\"}\n", m.i, m.i)
		m.i++
	}
	if len(m.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, m.rest)
	m.rest = append(m.rest[:0], m.rest[n:]...)
	return n, nil
}

type sinkFunc func(recs []evalstream.Record)

func (f sinkFunc) Write(_ context.Context, recs []evalstream.Record) error {
	f(recs)
	return nil
}

func (sinkFunc) Flush(context.Context) error { return nil }

// answering is a transport that answers each list of texts without a network.
type answering func(texts []string) string

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	var q struct {
		Input []string `json:"input"`
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	fmt.Fprint(w, a(q.Input))
	return w.Result(), nil
}
