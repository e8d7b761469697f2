//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// embed asks a local endpoint, which refuses some calls, for the vectors of 20,000 texts
// or of EVALSTREAM_TEXTS, as they are piped in. Its peak memory does not depend on how
// many there are.
func TestEmbedMemory(t *testing.T) {
	n := 20_000
	if text := os.Getenv("EVALSTREAM_TEXTS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 {
			t.Fatalf("EVALSTREAM_TEXTS: want a number of texts, got %q", text)
		}
	}
	const dims, most = 64, 96 * raced // MiB
	vector := "[" + strings.TrimSuffix(strings.Repeat("0.125,", dims), ",") + "]"
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Input []string }
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if calls.Add(1)%500 == 0 {
			w.Header().Set("Retry-After-Ms", "1")
			http.Error(w, "busy", http.StatusTooManyRequests)
			return
		}
		b := bufio.NewWriter(w)
		_, _ = b.WriteString(`{"data":[`)
		for i := range q.Input {
			if i > 0 {
				_ = b.WriteByte(',')
			}
			fmt.Fprintf(b, `{"index":%d,"embedding":%s}`, i, vector)
		}
		_, _ = b.WriteString(`]}`)
		_ = b.Flush() // the command says what it did not get
	}))
	defer server.Close()

	cmd := exec.CommandContext(t.Context(), "evalstream", "embed", "-q", "--provider", "http", "--model", "m", "--dims", strconv.Itoa(dims), "--batch", "256",
		"--url", server.URL+"/v1/embeddings")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	fed := make(chan error, 1)
	go func() {
		b := bufio.NewWriter(in)
		for i := range n {
			fmt.Fprintf(b, "{\"kind\":\"passage\",\"passage_id\":%d,\"text\":\"text %d of some length, as passages have it\"}\n", i, i)
		}
		err := b.Flush()
		if closeErr := in.Close(); err == nil {
			err = closeErr
		}
		fed <- err
	}()
	lines := 0
	for r := bufio.NewReader(out); ; lines++ {
		line, err := r.ReadString('\n')
		if err == io.EOF && line == "" {
			break
		}
		if err != nil || !strings.HasPrefix(line, fmt.Sprintf(`{"kind":"passage","passage_id":%d,`, lines)) {
			t.Fatalf("line %d: %v, %.100s", lines+1, err, line)
		}
	}
	if err := <-fed; err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil || lines != n {
		t.Errorf("want %d texts back, got %d: %v", n, lines, err)
	}
	peak := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss >> 10
	t.Logf("%d texts, %d calls, %v: peak %d MiB", n, calls.Load(), time.Since(began).Round(time.Second), peak)
	if peak > most {
		t.Errorf("want at most %d MiB, got %d", most, peak)
	}
}
