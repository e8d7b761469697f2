package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// number is a number from the environment.
func number(t *testing.T, name string, standby uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return standby
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// victim is a command that is killed at random moments.
type victim struct {
	dir   string
	args  []string
	stdin []byte         // nil: the command reads files
	sent  atomic.Int64   // how much of stdin a command was given so far
	pours sync.WaitGroup // what gives it
}

// ended is what a command that ended by itself has left.
type ended struct {
	Code    int
	Final   []string // the last final result of each key
	Summary []string
	Rejects []string // as lines; between steps their order follows the blocks
}

// start runs the command; input is given at once up to where an earlier one was, and
// then drop by drop.
func (v *victim) start(t *testing.T, rng *rand.Rand, whole bool) (cmd *exec.Cmd, stderr *bytes.Buffer) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), "evalstream", v.args...)
	cmd.Dir = v.dir
	stderr = new(bytes.Buffer)
	cmd.Stderr = stderr
	if v.stdin != nil {
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		drop := 1 + rng.IntN(20_000)
		v.pours.Go(func() { v.pour(t.Context(), in, drop, whole) })
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, stderr
}

func (v *victim) pour(ctx context.Context, in io.WriteCloser, drop int, whole bool) {
	defer func() { _ = in.Close() }() // it may be killed
	at := int(v.sent.Load())
	if whole {
		at = len(v.stdin)
	}
	if _, err := in.Write(v.stdin[:at]); err != nil {
		return // it was killed
	}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for at < len(v.stdin) && ctx.Err() == nil {
		<-tick.C
		to := min(len(v.stdin), at+drop)
		if _, err := in.Write(v.stdin[at:to]); err != nil {
			return
		}
		at = to
		v.sent.Store(max(v.sent.Load(), int64(at)))
	}
}

// finish lets the command end by itself.
func (v *victim) finish(t *testing.T, rng *rand.Rand) ended {
	t.Helper()
	cmd, stderr := v.start(t, rng, true)
	err := cmd.Wait()
	v.pours.Wait()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	e := ended{Code: cmd.ProcessState.ExitCode()}
	out, err := os.ReadFile(filepath.Join(v.dir, "out"))
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	at := map[string]int{}
	for line := range strings.Lines(string(out)) {
		var r struct {
			Metric, Undefined string
			By, Window        json.RawMessage
			Final             bool
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if !r.Final {
			continue
		}
		line = cut(cut(cut(line, "closed"), "revision"), "through")
		key := fmt.Sprint(r.Metric, string(r.By), string(r.Window))
		if i, ok := at[key]; ok {
			e.Final[i] = line
			continue
		}
		at[key] = len(e.Final)
		e.Final = append(e.Final, line)
	}
	slices.Sort(e.Final)
	for line := range strings.Lines(stderr.String()) {
		if !strings.HasPrefix(line, "evalstream") { // the first rejects are told once
			e.Summary = append(e.Summary, line)
		}
	}
	rejects, err := os.ReadFile(filepath.Join(v.dir, "rejects"))
	if err != nil {
		t.Fatal(err)
	}
	e.Rejects = slices.Sorted(strings.Lines(string(rejects)))
	return e
}

// cut takes a field out of a line.
func cut(line, field string) string {
	from := strings.Index(line, `"`+field+`":`)
	if from < 0 {
		return line
	}
	depth := 0
	for to := from; to < len(line); to++ {
		switch line[to] {
		case '{':
			depth++
		case '}':
			depth--
		case ',':
			if depth == 0 {
				return line[:from] + line[to+1:]
			}
		}
	}
	return line
}

// records are ranked lists with repeats, corrections, late times and bad lines, among
// them their gold if open is set.
func records(rng *rand.Rand, n int, open bool) []byte {
	var b bytes.Buffer
	for i := range n {
		at := time.Date(2026, 1, 1, 0, 0, i+rng.IntN(600)-300, 0, time.UTC)
		if rng.IntN(200) == 0 {
			at = at.Add(-5 * time.Hour)
		}
		q := fmt.Sprintf("q%d", i/8+rng.IntN(40))
		switch {
		case rng.IntN(300) == 0:
			b.WriteString(`{"kind":"run","query_id":` + "\n")
		case rng.IntN(400) == 0:
			b.WriteString("\n")
		case open && rng.IntN(4) == 0:
			fmt.Fprintf(&b, `{"kind":"qrel","query_id":%q,"passage_id":"p%d","grade":%d}`+"\n", q, rng.IntN(12), rng.IntN(3))
		default:
			fmt.Fprintf(&b, `{"kind":"run","query_id":%q,"run":"m%d","ticker":"T%d","time":%q,"top":[`, q, rng.IntN(3), rng.IntN(9), at.Format(time.RFC3339))
			for k, p := range rng.Perm(12)[:1+rng.IntN(8)] {
				if k > 0 {
					b.WriteByte(',')
				}
				fmt.Fprintf(&b, `{"id":"p%d","score":%d}`, p, 20-k)
			}
			b.WriteString("]}\n")
		}
	}
	return b.Bytes()
}

// TestKill kills a command with SIGKILL at random moments and gives it again, until it
// has ended by itself: results, counters and rejects are those of one that nobody
// killed. EVALSTREAM_KILLS says how often, EVALSTREAM_SEED from which moments on.
func TestKill(t *testing.T) {
	kills := int(number(t, "EVALSTREAM_KILLS", 10))
	seed := number(t, "EVALSTREAM_SEED", uint64(time.Now().UnixNano()))
	t.Logf("EVALSTREAM_SEED=%d EVALSTREAM_KILLS=%d", seed, kills)
	rng := rand.New(rand.NewPCG(seed, 0))
	const lines = 20_000
	kinds := []struct {
		name, yaml          string
		open, memory, stdin bool
	}{
		{name: "frozen gold from stdin", stdin: true, yaml: `
  - parse: {as: run}
  - score: {gold: gold.ndjson}
  - aggregate: {by: [run, "run,ticker"], window: [all, 1h], every: 3000}`},
		{name: "open gold from files with a horizon and little memory", open: true, memory: true, yaml: `
  - score: {}
  - aggregate: {by: [run, ticker], window: [all, 1h], every: 1000}`},
	}
	for i, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			data := records(rng, lines, kind.open)
			setup := func() *victim {
				v := &victim{dir: t.TempDir()}
				yaml := "name: kill\nto: out\nrejects: rejects\nmax_rejects: 100%\n"
				if kind.open {
					yaml += "horizon: 30m\nmax_out_of_order: 10m\n"
				}
				v.write(t, "gold.ndjson", gold())
				v.args = []string{"run", "p.yaml"}
				if kind.stdin {
					v.stdin = data
				} else {
					v.write(t, "data.ndjson", data)
					yaml += "from: data.ndjson\n"
				}
				v.write(t, "p.yaml", []byte(yaml+"stages:"+kind.yaml+"\n"))
				return v
			}
			from := time.Now()
			want := setup().finish(t, rng)
			whole := time.Since(from)
			if len(want.Final) < 10 || len(want.Rejects) == 0 {
				t.Fatalf("%d final results, %d rejects", len(want.Final), len(want.Rejects))
			}
			for killed, ends := 0, 0; killed < (kills+i)/len(kinds) || ends == 0; {
				v := setup()
				v.args = append(v.args, "--state", "state")
				if kind.memory {
					v.args = append(v.args, "--state-memory", "50kB")
				}
				times := 0
				for killed < (kills+i)/len(kinds) && v.killed(t, rng, whole) {
					killed++
					times++
				}
				ends++
				// Once more after the end, since nothing must be counted twice.
				for range 2 {
					if diff := cmp.Diff(want, v.finish(t, rng)); diff != "" {
						t.Fatalf("after %d kills: -want +got\n%s", times, diff)
					}
				}
				t.Logf("killed %d times", times)
			}
		})
	}
}

func gold() []byte {
	var b bytes.Buffer
	for q := range 2400 {
		fmt.Fprintf(&b, `{"query_id":"q%d","passage_id":"p%d"}`+"\n", q, q%12)
	}
	b.WriteString("{\n")
	return b.Bytes()
}

func (v *victim) write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(v.dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// killed starts the command and kills it after a random time; false says that it had
// ended before.
func (v *victim) killed(t *testing.T, rng *rand.Rand, whole time.Duration) bool {
	t.Helper()
	cmd, stderr := v.start(t, rng, false)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // how it ended is in its state
	}()
	limit := whole
	if v.stdin != nil {
		limit += 100 * time.Millisecond // it comes drop by drop
	}
	timer := time.NewTimer(time.Duration(rng.Int64N(int64(limit))))
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		_ = cmd.Process.Kill()
		<-done
	}
	v.pours.Wait()
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !status.Signaled() && status.ExitStatus() != 0 {
		t.Fatalf("exit code %d\n%s", status.ExitStatus(), stderr)
	}
	return status.Signaled()
}
