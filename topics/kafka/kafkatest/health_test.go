package kafkatest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"evalstream/topics/kafka"
)

// watched is a run whose metrics address is known.
type watched struct {
	t    *testing.T
	cmd  *exec.Cmd
	base string
	mu   sync.Mutex
	told strings.Builder
	read sync.WaitGroup
}

// watch starts a run with metrics.
func watch(t *testing.T, stdin io.Reader, vars []string, args ...string) *watched {
	t.Helper()
	program, err := program()
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{t: t, cmd: exec.CommandContext(t.Context(), program, append([]string{"run", "--metrics-addr", "127.0.0.1:0"}, args...)...)}
	w.cmd.Env, w.cmd.Stdin = append(os.Environ(), vars...), stdin
	stderr, err := w.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address := make(chan string, 1)
	w.read.Go(func() {
		for scan := bufio.NewScanner(stderr); scan.Scan(); {
			if _, at, ok := strings.Cut(scan.Text(), "metrics on "); ok {
				address <- strings.TrimSuffix(at, "/metrics")
			}
			w.mu.Lock()
			w.told.WriteString(scan.Text() + "\n")
			w.mu.Unlock()
		}
	})
	select {
	case w.base = <-address:
	case <-time.After(30 * time.Second):
		t.Fatalf("no metrics: %s", w.text())
	}
	return w
}

func (w *watched) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.told.String()
}

// get is 0 when nobody answers.
func (w *watched) get(path string) (code int, body string) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.base+path, http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		w.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// until waits until path answers with code.
func (w *watched) until(path string, code int) (body string) {
	w.t.Helper()
	var got int
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)
	for {
		if got, body = w.get(path); got == code {
			return body
		}
		select {
		case <-tick.C:
		case <-late:
			w.t.Fatalf("%s: %d %s, want %d; %s", path, got, body, code, w.text())
		}
	}
}

func (w *watched) stop(code int) {
	w.t.Helper()
	if err := w.cmd.Process.Signal(os.Interrupt); err != nil {
		w.t.Fatal(err)
	}
	w.wait(code)
}

func (w *watched) wait(code int) {
	w.t.Helper()
	w.read.Wait()
	if err := w.cmd.Wait(); w.cmd.ProcessState.ExitCode() != code {
		w.t.Errorf("%v, want exit code %d; %s", err, code, w.text())
	}
}

// A live run shows where it stands, segment by segment.
func TestMetricsOfRun(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	in, to, rejects, called := topic(t, c, 2, nil), topic(t, c, 1, compacted()), topic(t, c, 1, nil), name("live")
	via := called + ".scored"
	predictions, gold := workload(50)
	path := pipeline(t, fmt.Sprintf(`name: %s
brokers: [%s]
from: topic:%s
to: topic:%s
rejects: topic:%s
stages:
  - score: {measure: [success@1, mrr@10]}
    via: %s
  - aggregate: {by: run, window: [all, 1h]}
`, called, strings.Join(b, ","), in, to, rejects, via))
	execute(t, "", 0, "topics", "create", path)
	produce(t, c, in, append(predictions, append(gold, record{"x", "{broken"})...))
	w := watch(t, nil, nil, path)
	n := len(predictions) + len(gold) + 1
	line := func(format string, args ...any) string { return fmt.Sprintf(format, args...) }
	segment := func(step string) string { return called + "." + step }
	var page string
	wants := []string{
		line("evalstream_source_lines_total %d", n),
		line(`evalstream_rejects_total{class="parse",stage="parse"} 1`),
		line("evalstream_partitions_owned{segment=%q} 2", segment("score")),
		line("evalstream_partitions_owned{segment=%q} 2", segment("aggregate")),
		line("evalstream_source_lag_records{partition=%q,segment=%q,topic=%q} 0", "0", segment("score"), in),
		line("evalstream_source_lag_records{partition=%q,segment=%q,topic=%q} 0", "1", segment("score"), in),
		line("evalstream_source_lag_records{partition=%q,segment=%q,topic=%q} 0", "1", segment("aggregate"), via),
		line("evalstream_in_flight_messages{segment=%q} 0", segment("merge")),
		line("evalstream_load_duration_seconds_count{segment=%q} 2", segment("score")),
		line("evalstream_load_entries_total{segment=%q} 0", segment("score")),
		line(`evalstream_result_n{metric="mrr@10",run="a",window="all"} 43`),
	}
	positive := []string{
		line("evalstream_transaction_duration_seconds_count{segment=%q}", segment("score")),
		line("evalstream_transaction_messages_total{segment=%q}", segment("aggregate")),
		line("evalstream_rebalances_total{segment=%q}", segment("score")),
		line("evalstream_watermark_timestamp_seconds{segment=%q}", segment("score")),
		line("evalstream_watermark_timestamp_seconds{segment=%q}", segment("merge")),
	}
	value := func(series string) float64 {
		m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindStringSubmatch(page)
		if m == nil {
			return -1
		}
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	missing := func() []string {
		_, page = w.get("/metrics")
		var not []string
		for _, want := range wants {
			if !strings.Contains(page, want+"\n") {
				not = append(not, want)
			}
		}
		for _, p := range positive {
			if value(p) <= 0 {
				not = append(not, p)
			}
		}
		return not
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)
	for not := missing(); not != nil; not = missing() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("not shown:\n%s\npage:\n%s", strings.Join(not, "\n"), page)
		}
	}
	if at, want := value(positive[4]), value(positive[3]); at > want {
		t.Errorf("watermark behind two cuts is %v, ahead of %v at the front", at, want)
	}
	if text := w.text(); !strings.Contains(text, "note: without horizon score and aggregate remember each unit for ever") {
		t.Errorf("nothing is said of what grows: %s", text)
	}
	w.stop(130)

	// What is left of the state is read when it goes on.
	w = watch(t, nil, nil, path)
	w.until("/readyz", 200)
	_, page = w.get("/metrics")
	if n := value(line("evalstream_load_entries_total{segment=%q}", segment("score"))); n < 50 {
		t.Errorf("%v entries of the changelog were read, want one a query at least", n)
	}
	w.stop(130)
}

// A member is ready once it has loaded what it owns, and not while it is stopped; the one
// that gets nothing is ready too.
func TestReadiness(t *testing.T) {
	cl := fake(t, 1)
	b := cl.ListenAddrs()
	c := connect(t, b)
	in, to := topic(t, c, 1, nil), topic(t, c, 1, compacted())
	predictions, gold := workload(20)
	produce(t, c, in, append(predictions, gold...))
	path := live(t, b, fmt.Sprintf("from: topic:%s\nto: topic:%s\n%s", in, to, steps))
	execute(t, "", 0, "run", "-q", "--until-end", path)

	// The changelog cannot be read until it is let go, from when the group is joined.
	var held atomic.Bool
	release := make(chan struct{})
	cl.ControlKey(int16(kmsg.JoinGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
		held.Store(true)
		return nil, nil, false
	})
	cl.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		cl.KeepControl()
		if held.Load() {
			cl.SleepControl(func() { <-release })
		}
		return nil, nil, false
	})
	w := watch(t, nil, nil, path)
	until(t, func() bool {
		_, body := w.get("/readyz")
		return strings.Contains(body, "[0]: is being loaded")
	})
	if code, body := w.get("/livez"); code != 200 {
		t.Errorf("livez while loading: %d %s", code, body)
	}
	held.Store(false)
	close(release)
	w.until("/readyz", 200)
	idle := watch(t, nil, nil, path)
	idle.until("/readyz", 200)
	// While it is stopped it is not ready: what it has is being committed, which is held.
	stopping := make(chan struct{})
	cl.ControlKey(int16(kmsg.LeaveGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
		cl.KeepControl()
		cl.SleepControl(func() { <-stopping })
		return nil, nil, false
	})
	if err := w.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { // a partition may be on its way back from a rebalance
		_, body := w.get("/readyz")
		return strings.Contains(body, "is being stopped")
	})
	if code, body := w.get("/livez"); code != 200 {
		t.Errorf("livez while it is stopped: %d %s", code, body)
	}
	close(stopping)
	w.wait(130)
	idle.stop(130)
}

// A broker that takes requests and does not answer makes livez say so after Patience, for
// reading as for writing, and no longer than that lasts.
func TestLiveness(t *testing.T) {
	for _, what := range []struct {
		name string
		key  int16
		want string
	}{{"fetch", int16(kmsg.Fetch), "nothing could be fetched of "}, {"commit", int16(kmsg.EndTxn), "nothing could be committed for "}} {
		t.Run(what.name, func(t *testing.T) {
			cl := fake(t, 1)
			b := cl.ListenAddrs()
			c := connect(t, b)
			in, to := topic(t, c, 1, nil), topic(t, c, 1, compacted())
			path := live(t, b, fmt.Sprintf("from: topic:%s\nto: topic:%s\n%s", in, to, steps))
			w := watch(t, nil, []string{kafka.EnvPatience + "=1s"}, path)
			w.until("/readyz", 200)
			if code, body := w.get("/livez"); code != 200 || body != "ok\n" {
				t.Fatalf("livez: %d %s", code, body)
			}
			release := make(chan struct{})
			var held atomic.Bool
			held.Store(true)
			cl.ControlKey(what.key, func(kmsg.Request) (kmsg.Response, error, bool) {
				cl.KeepControl()
				if held.Load() {
					cl.SleepControl(func() { <-release })
				}
				return nil, nil, false
			})
			predictions, gold := workload(5)
			produce(t, c, in, append(predictions, gold...))
			if body := w.until("/livez", 503); !strings.Contains(body, what.want) {
				t.Errorf("livez: %s, want %s", body, what.want)
			}
			held.Store(false)
			close(release)
			w.until("/livez", 200)
			w.stop(130)
		})
	}
}

// A pipe is alive, and ready once it reads.
func TestHealthOfPipe(t *testing.T) {
	r, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	predictions, _ := workload(2)
	if _, err := in.WriteString(lines(predictions[:1])); err != nil {
		t.Fatal(err)
	}
	w := watch(t, r, nil, "-q", pipeline(t, steps))
	for _, path := range []string{"/livez", "/readyz"} {
		if body := w.until(path, 200); body != "ok\n" {
			t.Errorf("%s: %q", path, body)
		}
	}
	if _, err := in.WriteString(lines(predictions[1:])); err != nil {
		t.Fatal(err)
	}
	if code, _ := w.get("/"); code != 404 {
		t.Errorf("/: %d", code)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	w.wait(0)
}
