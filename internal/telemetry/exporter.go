package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"evalstream"
)

// Exporter holds the series of one job. Its methods may be called from any goroutine.
type Exporter struct {
	mu       sync.Mutex // a page shows results that belong together
	set      *metrics.Set
	results  results
	lines    *metrics.Counter
	marks    map[int32]evalstream.Time
	counters map[string]*metrics.Counter
	segments []*Segment
	health   Health
}

// Build is what is told of the program.
type Build struct{ Version, Revision, Go string }

// family is a name with what promtool wants said of it.
type family struct{ name, kind, help string }

// families lists what an Exporter shows, by name.
func families() []family {
	return []family{
		{"evalstream_build_info", "gauge", "Always 1: version, revision and Go version of the program."},
		{"evalstream_in_flight_messages", "gauge", "Messages that were made and whose transaction has not been committed."},
		{"evalstream_load_duration_seconds", "histogram", "Time from taking a partition over to reading its input: its changelog is loaded, or its input replayed."},
		{"evalstream_load_entries_total", "counter", "Entries of changelogs that were read when partitions were taken over."},
		{"evalstream_partitions_owned", "gauge", "Partitions that this process owns."},
		{"evalstream_rebalances_total", "counter", "Generations of the group that this process has been in."},
		{"evalstream_records_total", "counter", "Records that a stage took, made, and at the end of the job held, replaced, passed, rejected and found late, by kind."},
		{"evalstream_rejects_total", "counter", "Records set aside, by the stage that did and the class of fault."},
		{"evalstream_result", "gauge", "A metric's present value, of the newest window of each length."},
		{"evalstream_result_high", "gauge", "Upper end of the interval of evalstream_result."},
		{"evalstream_result_low", "gauge", "Lower end of the interval of evalstream_result."},
		{"evalstream_result_n", "gauge", "Scored units that evalstream_result rests on."},
		{"evalstream_result_window_start_timestamp_seconds", "gauge", "Start of the window that evalstream_result is of."},
		{"evalstream_series_dropped_total", "counter", "Results without series of their own, shown as __other__."},
		{"evalstream_source_bytes", "gauge", "Bytes read of the inputs."},
		{"evalstream_source_lag_records", "gauge", "Offsets still to be read when brokers last answered."},
		{"evalstream_source_lines_total", "counter", "Lines read of the inputs."},
		{"evalstream_source_size_bytes", "gauge", "Bytes of the inputs, where all of them end."},
		{"evalstream_transaction_duration_seconds", "histogram", "Time from the first request of a transaction to the answer that it is committed."},
		{"evalstream_transaction_messages_total", "counter", "Messages of committed transactions, those of changelogs included."},
		{"evalstream_watermark_timestamp_seconds", "gauge", "Event time that all partitions have come to."},
	}
}

// New makes an empty exporter.
func New(b Build) *Exporter {
	set := metrics.NewSet()
	e := &Exporter{set: set, lines: set.NewCounter("evalstream_source_lines_total"), marks: map[int32]evalstream.Time{}, counters: map[string]*metrics.Counter{}}
	e.results = results{
		set: set, max: MaxSeries, dropped: set.NewCounter("evalstream_series_dropped_total"),
		own: map[string]*shown{}, over: map[string]*pooled{}, times: map[string]windowing{},
	}
	set.NewGauge(series("evalstream_build_info", label{"version", b.Version}, label{"revision", b.Revision}, label{"goversion", b.Go}), func() float64 { return 1 })
	return e
}

// Source shows how far the inputs are read; progress is called when a page is made.
func (e *Exporter) Source(progress func() (read, total int64, known bool)) {
	e.set.NewGauge("evalstream_source_bytes", func() float64 {
		read, _, _ := progress()
		return float64(read)
	})
	if _, _, known := progress(); known {
		e.set.NewGauge("evalstream_source_size_bytes", func() float64 {
			_, total, _ := progress()
			return float64(total)
		})
	}
}

// Hooks are for the job that is shown.
func (e *Exporter) Hooks() evalstream.Hooks {
	return evalstream.Hooks{
		Block: e.block,
		Took:  func(step, kind string, n int) { e.records(step, kind, "received", int64(n)) },
		Made:  func(step, kind string, n int) { e.records(step, kind, "emitted", int64(n)) },
		Rejected: func(step string, class evalstream.Class) {
			e.count("evalstream_rejects_total", 1, label{"stage", step}, label{"class", string(class)})
		},
	}
}

func (e *Exporter) block(p evalstream.Progress) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := uint64(max(0, p.Lines)); n > e.lines.Get() {
		e.lines.Set(n) // blocks of several partitions may report out of order
	}
	if p.Watermark == evalstream.NoTime {
		return
	}
	e.marks[p.Partition] = p.Watermark
	least := slices.Min(slices.Collect(maps.Values(e.marks)))
	e.set.GetOrCreateGauge("evalstream_watermark_timestamp_seconds", nil).Set(float64(least) / float64(time.Second))
}

func (e *Exporter) records(step, kind, outcome string, n int64) {
	e.count("evalstream_records_total", n, label{"stage", step}, label{"kind", kind}, label{"outcome", outcome})
}

func (e *Exporter) count(family string, n int64, labels ...label) {
	var b strings.Builder
	b.WriteString(family)
	for _, l := range labels {
		b.WriteString("\x00" + l.value)
	}
	key := b.String()
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.counters[key]
	if c == nil {
		c = e.set.GetOrCreateCounter(series(family, labels...))
		e.counters[key] = c
	}
	c.AddInt64(n)
}

// Result shows r in place of the result before it.
func (e *Exporter) Result(r *evalstream.Result) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.results.take(r)
}

// Finish shows where all records went, when the job has ended.
func (e *Exporter) Finish(sum evalstream.Summary) {
	for _, t := range sum.Tallies {
		for _, o := range []struct {
			outcome string
			n       int64
		}{{"held", t.Held}, {"passed", t.Passed}, {"replaced", t.Replaced}, {"rejected", t.Rejected}, {"late", t.Late}} {
			e.records(t.Step, t.Kind, o.outcome, o.n)
		}
	}
}

// WriteTo writes a page: all series, with the type and meaning of each family.
func (e *Exporter) WriteTo(w io.Writer) (int64, error) {
	var page bytes.Buffer
	e.mu.Lock()
	room := MaxSeries
	for _, s := range e.segments {
		room = s.refresh(room)
	}
	e.set.WritePrometheus(&page)
	e.mu.Unlock()
	about := map[string]family{}
	for _, f := range families() {
		about[f.name] = f
	}
	var out bytes.Buffer
	last := ""
	for line := range bytes.Lines(page.Bytes()) {
		name := string(line[:max(0, bytes.IndexAny(line, "{ "))])
		f, ok := about[name]
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			if base := strings.TrimSuffix(name, part); !ok && about[base].kind == "histogram" {
				f = about[base]
			}
		}
		if f.name != last {
			fmt.Fprintf(&out, "# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kind)
			last = f.name
		}
		out.Write(line)
	}
	return out.WriteTo(w)
}

// ServeHTTP answers /metrics, /livez and /readyz, and says where they are on other paths.
func (e *Exporter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	health := e.health
	e.mu.Unlock()
	switch r.URL.Path {
	case "/metrics":
	case "/livez":
		answer(w, health.Live)
		return
	case "/readyz":
		answer(w, health.Ready)
		return
	default:
		http.Error(w, "see /metrics, /livez and /readyz", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = e.WriteTo(w) // a reader that has gone is not the job's concern
}

// Server answers on one address until Close.
type Server struct {
	http *http.Server
	at   net.Addr
	done chan error
}

// Serve listens on HOST:PORT. Without a host it is 127.0.0.1; port 0 takes a free one.
func (e *Exporter) Serve(ctx context.Context, address string) (*Server, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &evalstream.ExitError{Code: evalstream.ExitUsage, Err: fmt.Errorf("metrics-addr: want HOST:PORT such as 127.0.0.1:9100, got %q", address)}
	}
	if host == "" {
		host = "127.0.0.1"
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, &evalstream.ExitError{Code: evalstream.ExitLost, Err: fmt.Errorf("metrics-addr: %w", err), Hint: "name an address of this machine and a free port; port 0 takes one"}
	}
	s := &Server{
		http: &http.Server{Handler: e, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute},
		at:   listener.Addr(), done: make(chan error, 1),
	}
	go func() { s.done <- s.http.Serve(listener) }()
	return s, nil
}

// Addr is the address that was bound.
func (s *Server) Addr() string { return s.at.String() }

// closeWithin is how long a page that is being read may take at the end.
const closeWithin = 2 * time.Second

// Close lets pages that are being read end, for at most two seconds, and returns when no
// goroutine is left.
func (s *Server) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = s.http.Close()
	}
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
