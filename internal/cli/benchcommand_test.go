package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestBenchCommand holds the command that bench/ measures, whose case is the fast one (frozen gold, four measures, the default
// order of ties), to the general case: the same numbers come out where both apply.
func TestBenchCommand(t *testing.T) {
	l := newRetrievalLog(11, 5000, 1)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	log, gold := write("log", lines(l.lines...)), write("gold", lines(l.gold...))
	bench := []string{
		"eval", "retrieval", "--qrels", gold, "--map", "run=/model", "--map", "time=/ts", "--map", "top=/retrieved",
		"--measure", "success@1", "--measure", "recall@10", "--measure", "mrr", "--measure", "ndcg@10",
		"--by", "run", "--by", "ticker", "--window", "all", "--window", "1h",
	}
	fast := succeed(t, "", append(bench, log)...)
	want := fast.comparable(t)
	if rs := fast.finals(t); len(rs) != 4*(4+9)*(1+6) {
		t.Errorf("%d results, want 4 measures of 4 runs and 9 tickers over all time and in 6 hours", len(rs))
	}
	for _, workers := range []string{"1", "3", "8"} {
		same(t, "--workers "+workers, want, succeed(t, "", append(bench, "--workers", workers, log)...).comparable(t))
	}
	same(t, "shuffled", want, succeed(t, shuffled(12, l.lines), append(bench, "-")...).comparable(t))
	twice := append(slices.Clone(l.lines), l.lines...)
	same(t, "every line twice", want, succeed(t, shuffled(13, twice), append(bench, "-")...).comparable(t))

	seven := append(slices.Clone(bench), "--measure", "success@10", "--measure", "map", "--measure", "precision@5")
	all := succeed(t, "", append(seven, log)...)
	four := slices.DeleteFunc(all.comparable(t, "settings"), func(line string) bool {
		return strings.Contains(line, `metric="success@10"`) || strings.Contains(line, `metric="map"`) || strings.Contains(line, `metric="precision@5"`)
	})
	same(t, "four of seven measures", fast.comparable(t, "settings"), four)

	pipeline := func(score string) string {
		return lines("stages:", "  - parse: {map: [run=/model, time=/ts, top=/retrieved]}", "  - score: "+score,
			"  - aggregate: {by: [run, ticker], window: [all, 1h]}")
	}
	open := write("open.yaml", pipeline("{measure: [success@1, recall@10, mrr, ndcg@10, success@10, map, precision@5]}"))
	for i, workers := range []string{"1", "2", "5"} {
		got := succeed(t, l.stream(uint64(20+i)), "run", "--workers", workers, open)
		same(t, "open gold, --workers "+workers, all.comparable(t), got.comparable(t))
	}

	for i, policy := range []string{"worst", "best"} {
		frozen := succeed(t, "", append(seven, "--ties", policy, log)...).comparable(t)
		path := write("open.yaml", pipeline("{ties: "+policy+", measure: [success@1, recall@10, mrr, ndcg@10, success@10, map, precision@5]}"))
		same(t, "open gold, --ties "+policy, frozen, succeed(t, l.stream(uint64(30+i)), "run", path).comparable(t))
		if slices.Equal(frozen, all.comparable(t)) {
			t.Errorf("--ties %s changes nothing", policy)
		}
	}

	// Where no list has a tie, the order of ties is nothing; where some have, worst and best enclose the others.
	ties := map[string]map[string]map[string]float64{}
	for _, policy := range []string{"trec", "worst", "best", "expected", "rank"} {
		s := succeed(t, "", "run", write("ties.yaml", lines("from: "+log, "stages:", "  - parse: {as: run, map: [run=/model, time=/ts, top=/retrieved]}",
			"  - score: {gold: "+gold+", ties: "+policy+", measure: [success@1, recall@10, mrr, ndcg@10]}")))
		ties[policy] = map[string]map[string]float64{}
		for line := range strings.Lines(s.stdout) {
			var score struct {
				Unit   string
				Values map[string]float64
			}
			if err := json.Unmarshal([]byte(line), &score); err != nil {
				t.Fatal(err)
			}
			ties[policy][score.Unit] = score.Values
		}
	}
	tied := tiedQueries(t, l.lines)
	moved := 0
	for unit, trec := range ties["trec"] {
		for metric, v := range trec {
			worst, best, expected := ties["worst"][unit][metric], ties["best"][unit][metric], ties["expected"][unit][metric]
			switch {
			case !tied[unit]:
				if v != worst || v != best || v != expected || v != ties["rank"][unit][metric] {
					t.Errorf("%s of %s, without tie: trec %v, worst %v, best %v, expected %v, rank %v", metric, unit, v, worst, best, expected, ties["rank"][unit][metric])
				}
			case worst > v || v > best || worst > expected || expected > best:
				t.Errorf("%s of %s, with ties: worst %v, trec %v, expected %v, best %v", metric, unit, worst, v, expected, best)
			case worst < best:
				moved++
			}
		}
	}
	if len(tied) < 500 || len(tied) > 4500 || moved < 100 {
		t.Errorf("%d lists with ties, %d values that they move; want many, and not all", len(tied), moved)
	}
}

// tiedQueries are those whose list has two equal scores.
func tiedQueries(t *testing.T, log []string) map[string]bool {
	t.Helper()
	tied := map[string]bool{}
	for _, line := range log {
		var r struct {
			QueryID   string `json:"query_id"`
			Retrieved []struct{ Score float64 }
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		for i := 1; i < len(r.Retrieved); i++ {
			if r.Retrieved[i].Score == r.Retrieved[i-1].Score {
				tied[r.QueryID] = true
			}
		}
	}
	return tied
}
