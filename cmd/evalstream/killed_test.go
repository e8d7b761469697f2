package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// embed is killed with no warning again and again, at moments drawn from a seed. What
// its log had is not asked for again, and the last run's output is that of a run that
// nobody killed.
func TestEmbedKilled(t *testing.T) {
	const texts, kills, seed = 400, 8, 1
	var mu sync.Mutex
	asked := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Input []string }
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		<-time.After(3 * time.Millisecond)
		var data []string
		mu.Lock()
		for i, text := range q.Input {
			asked[text]++
			data = append(data, fmt.Sprintf(`{"index":%d,"embedding":[%d,1]}`, i, len(text)))
		}
		mu.Unlock()
		fmt.Fprintf(w, `{"data":[%s]}`, strings.Join(data, ","))
	}))
	defer server.Close()

	dir := t.TempDir()
	var lines strings.Builder
	for i := range texts {
		fmt.Fprintf(&lines, "{\"kind\":\"query\",\"query_id\":%d,\"text\":\"text %d\"}\n", i, i)
	}
	queries := filepath.Join(dir, "queries.ndjson")
	if err := os.WriteFile(queries, []byte(lines.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "evalstream")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	command := func(log string, out *bytes.Buffer) *exec.Cmd {
		cmd := exec.Command(program, "embed", "-q", "--provider", "http", "--model", "m", "--dims", "2", "--batch", "4",
			"--url", server.URL+"/v1/embeddings", "--log", filepath.Join(dir, log), queries)
		cmd.Stdout, cmd.Stderr = out, os.Stderr
		return cmd
	}
	dice := rand.New(rand.NewPCG(seed, 0))
	for range kills {
		var out bytes.Buffer
		cmd := command("log", &out)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Duration(5+dice.IntN(60)) * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	var got, want bytes.Buffer
	if err := command("log", &got).Run(); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	// A kill costs at most the calls in flight: four of four texts.
	mu.Lock()
	again := 0
	for _, n := range asked {
		again += n - 1
	}
	if again > kills*16 || len(asked) != texts {
		t.Errorf("seed %d: %d texts asked for, %d asked for again; want %d and at most %d", seed, len(asked), again, texts, kills*16)
	}
	mu.Unlock()
	if err := command("fresh", &want).Run(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want.Bytes(), got.Bytes()) {
		t.Errorf("seed %d: output after kills is not that of one run", seed)
	}
}
