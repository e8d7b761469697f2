package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

const (
	tatqaGold = testdata + "tatqa/tatqa_dev.qrels"
	tatqaRun  = testdata + "tatqa/tatqa_dev.bm25.run"
)

// trecNames are our names of trec_eval's measures.
func trecNames() map[string]string {
	return map[string]string{"recip_rank": "mrr", "recall_1": "recall@1", "success_1": "success@1"}
}

// tatqaGolden is what trec_eval printed, by query and measure.
func tatqaGolden(t *testing.T) map[string]map[string]string {
	t.Helper()
	data, err := os.ReadFile(testdata + "tatqa/tatqa_dev.bm25.trec_eval.out")
	if err != nil {
		t.Fatal(err)
	}
	golden := map[string]map[string]string{}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if golden[f[1]] == nil {
			golden[f[1]] = map[string]string{}
		}
		golden[f[1]][f[0]] = f[2]
	}
	return golden
}

func TestTATQA(t *testing.T) {
	golden := tatqaGolden(t)
	measures := []string{"--measure", "mrr", "--measure", "recall@1", "--measure", "success@1"}
	for _, policy := range []string{"skip", "miss"} {
		rs := succeed(t, "", append([]string{"eval", "retrieval", "--qrels", tatqaGold, "--missing", policy, tatqaRun}, measures...)...).finals(t)
		for trec, name := range trecNames() {
			r := find(t, rs, name, whose("run", "bm25"))
			if got := fmt.Sprintf("%.4f", r.value()); got != golden["all"][trec] {
				t.Errorf("%s: %s, want %s", name, got, golden["all"][trec])
			}
			if fmt.Sprint(r.N) != golden["all"]["num_q"] || r.Missing == nil || *r.Missing != 0 {
				t.Errorf("%s: n %d, missing %v; want %s and 0", name, r.N, r.Missing, golden["all"]["num_q"])
			}
		}
	}

	queries := 0
	for line := range strings.Lines(succeed(t, "", append([]string{"score", "--gold", tatqaGold, tatqaRun}, measures...)...).stdout) {
		var s struct {
			Unit, Run, Status string
			Values            map[string]float64
		}
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatal(err)
		}
		if s.Status != "scored" || s.Run != "bm25" {
			t.Fatalf("want every query scored, got %s", line)
		}
		queries++
		for trec, name := range trecNames() {
			if got := fmt.Sprintf("%.4f", s.Values[name]); got != golden[s.Unit][trec] {
				t.Errorf("%s of %s: %s, want %s", name, s.Unit, got, golden[s.Unit][trec])
			}
		}
	}
	if queries != len(golden)-1 {
		t.Errorf("%d queries, want %d", queries, len(golden)-1)
	}
}

// TestTATQAMissing takes the lists of some questions away: trec_eval's -c counts them as misses.
func TestTATQAMissing(t *testing.T) {
	golden := tatqaGolden(t)
	data, err := os.ReadFile(tatqaRun)
	if err != nil {
		t.Fatal(err)
	}
	var some strings.Builder
	hits, asked := 0, map[string]bool{}
	for line := range strings.Lines(string(data)) {
		query := strings.Fields(line)[0]
		if query[0] >= '8' { // about half
			continue
		}
		some.WriteString(line)
		if !asked[query] && golden[query]["success_1"] == "1.0000" {
			hits++
		}
		asked[query] = true
	}
	left := len(golden) - 1 - len(asked)
	if left < 500 || hits < 100 {
		t.Fatalf("%d questions left out, %d hits among the others", left, hits)
	}
	for policy, den := range map[string]int{"skip": len(asked), "miss": len(asked) + left} {
		rs := succeed(t, some.String(), "eval", "retrieval", "--qrels", tatqaGold, "--measure", "success@1", "--missing", policy, "-").finals(t)
		r := find(t, rs, "success@1", whose("run", "bm25"))
		if want := fmt.Sprintf("%d/%d", hits, den); r.ratio() != want || r.N != int64(len(asked)) || r.Missing == nil || *r.Missing != int64(left) {
			t.Errorf("--missing %s: %s, n %d, missing %v; want %s, %d, %d", policy, r.ratio(), r.N, r.Missing, want, len(asked), left)
		}
	}
}
