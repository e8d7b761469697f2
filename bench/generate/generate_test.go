package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func generateRetrieval(t *testing.T, r retrieval) (log, gold *bytes.Buffer) {
	t.Helper()
	log, gold = new(bytes.Buffer), new(bytes.Buffer)
	if err := r.write(log, gold); err != nil {
		t.Fatalf("write: %v", err)
	}
	return log, gold
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// Figures are published for these bytes; a change of them is a new data set.
func TestBytesArePinned(t *testing.T) {
	f := func(name string, got []byte, want string) {
		t.Helper()
		if d := digest(got); d != want {
			t.Errorf("%s: want digest %s, got %s", name, want, d)
		}
	}
	log, gold := generateRetrieval(t, retrieval{Lines: 2000, Seed: 1})
	f("log", log.Bytes(), "42a3cbdbfc9fbc01")
	f("gold", gold.Bytes(), "c4248ed039eb4da1")
	var predictions bytes.Buffer
	if err := (fewshot{Lines: 2000, Seed: 1}).write(&predictions); err != nil {
		t.Fatalf("write: %v", err)
	}
	f("predictions", predictions.Bytes(), "0ed1f250e893e119")
	var judged bytes.Buffer
	if err := (verdicts{Lines: 2000, Seed: 1}).write(&judged); err != nil {
		t.Fatalf("write: %v", err)
	}
	f("verdicts", judged.Bytes(), "4aba3abe8d050eb1")
}

func TestRetrievalShape(t *testing.T) {
	const lines = 20_000
	log, gold := generateRetrieval(t, retrieval{Lines: lines, Seed: 7, SecondGold: 0.01})
	type record struct {
		QueryID   string `json:"query_id"`
		Ticker    string
		Model     string
		TS        time.Time
		Retrieved []struct {
			ID    string
			Score float64
			Text  string
		}
	}
	size := log.Len()
	records := map[string]record{}
	tickers := map[string]bool{}
	var texts, ties int
	var first, last time.Time
	for s := newScanner(log); s.Scan(); {
		var r record
		if err := json.Unmarshal(s.Bytes(), &r); err != nil {
			t.Fatalf("log: %v", err)
		}
		if len(r.Retrieved) != depth {
			t.Fatalf("%s: want %d passages, got %d", r.QueryID, depth, len(r.Retrieved))
		}
		ids := map[string]bool{}
		for i, p := range r.Retrieved {
			ids[p.ID] = true
			if p.Text != "" {
				texts++
			}
			switch {
			case i == 0:
			case p.Score == r.Retrieved[i-1].Score:
				ties++
			case p.Score > r.Retrieved[i-1].Score:
				t.Fatalf("%s: score rises at %d", r.QueryID, i)
			}
		}
		if len(ids) != depth {
			t.Fatalf("%s: a passage stands twice", r.QueryID)
		}
		if first.IsZero() || r.TS.Before(first) {
			first = r.TS
		}
		if r.TS.After(last) {
			last = r.TS
		}
		records[r.QueryID] = r
		tickers[r.Ticker] = true
	}
	if len(records) != lines {
		t.Errorf("want %d distinct queries, got %d", lines, len(records))
	}

	relevant := map[string][]string{}
	for s := newScanner(gold); s.Scan(); {
		var j struct {
			QueryID   string `json:"query_id"`
			PassageID string `json:"passage_id"`
		}
		if err := json.Unmarshal(s.Bytes(), &j); err != nil {
			t.Fatalf("gold: %v", err)
		}
		relevant[j.QueryID] = append(relevant[j.QueryID], j.PassageID)
	}
	var firstRank, nowhere, two int
	for id, passages := range relevant {
		r, ok := records[id]
		if !ok {
			t.Fatalf("gold: query %s is not in the log", id)
		}
		if len(passages) == 2 {
			two++
			continue
		}
		rank := 0
		for i, p := range r.Retrieved {
			if p.ID == passages[0] {
				rank = i + 1
			}
		}
		switch rank {
		case 0:
			nowhere++
		case 1:
			firstRank++
		}
	}
	if len(relevant) != lines {
		t.Errorf("want gold for %d queries, got %d", lines, len(relevant))
	}
	near := func(what string, got, want, within float64) {
		t.Helper()
		if got < want-within || got > want+within {
			t.Errorf("%s: want %v ± %v, got %v", what, want, within, got)
		}
	}
	near("bytes a line", float64(size)/lines, 1813, 10)
	near("share of passages with text", float64(texts)/lines/depth, 0.5, 0.01)
	near("share of lists with a tie", float64(ties)/lines, 0.01, 0.004)
	near("share at rank 1", float64(firstRank)/lines, 0.62, 0.015)
	near("share not retrieved", float64(nowhere)/lines, 0.10, 0.01)
	near("share with two relevant passages", float64(two)/lines, 0.01, 0.004)
	near("tickers", float64(len(tickers)), 500, 5)
	near("hours", last.Sub(first).Hours(), 6, 0.02)
}

func TestFewshotShape(t *testing.T) {
	const lines = 50_000
	var predictions bytes.Buffer
	if err := (fewshot{Lines: lines, Seed: 7}).write(&predictions); err != nil {
		t.Fatalf("write: %v", err)
	}
	size := predictions.Len()
	seeds := map[int]int{}
	for s := newScanner(&predictions); s.Scan(); {
		var p struct {
			Seed        int
			Label, Gold string
		}
		if err := json.Unmarshal(s.Bytes(), &p); err != nil {
			t.Fatalf("%v", err)
		}
		if p.Label == "" || p.Gold == "" {
			t.Fatalf("want a label and gold, got %+v", p)
		}
		seeds[p.Seed]++
	}
	for seed := 1; seed <= 5; seed++ {
		if seeds[seed] != lines/5 {
			t.Errorf("seed %d: want %d lines, got %d", seed, lines/5, seeds[seed])
		}
	}
	if mean := float64(size) / lines; mean < 57 || mean > 59 {
		t.Errorf("want 57 to 59 bytes a line, got %v", mean)
	}
}

func TestVerdictsShape(t *testing.T) {
	const lines = 45_000
	var judged bytes.Buffer
	if err := (verdicts{Lines: lines, Seed: 7}).write(&judged); err != nil {
		t.Fatalf("write: %v", err)
	}
	size, missing, ones := judged.Len(), 0, 0
	type unit struct {
		Span      string `json:"span_id"`
		Triple    string `json:"triple_id"`
		Mode      string
		Dimension string
		Prompt    string `json:"prompt_version"`
	}
	units := map[unit]map[string]bool{}
	for s := newScanner(&judged); s.Scan(); {
		var v struct {
			unit
			Judge, Reason, Reasoning string
			Verdict                  *int
		}
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			t.Fatalf("%v", err)
		}
		switch {
		case v.Verdict == nil:
			if missing++; v.Reason == "" || v.Reasoning != "" {
				t.Fatalf("want a reason and no reasoning without a verdict, got %+v", v)
			}
		case *v.Verdict == 1:
			ones++
		}
		if units[v.unit] == nil {
			units[v.unit] = map[string]bool{}
		}
		if units[v.unit][v.Judge] {
			t.Fatalf("a verdict stands twice: %+v", v)
		}
		units[v.unit][v.Judge] = true
	}
	if len(units) != lines/3 {
		t.Errorf("want %d units, got %d", lines/3, len(units))
	}
	if mean := float64(size) / lines; mean < 580 || mean > 600 {
		t.Errorf("want 580 to 600 bytes a line, got %v", mean)
	}
	if share := float64(missing) / lines; share < .017 || share > .023 {
		t.Errorf("want 2 missing verdicts in 100, got %v", share)
	}
	if share := float64(ones) / lines; share < .6 || share > .9 {
		t.Errorf("want most verdicts to be 1, got a share of %v", share)
	}
}

func TestBadSettings(t *testing.T) {
	f := func(want string, args ...string) {
		t.Helper()
		err := run(append(args, "--out", t.TempDir()))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: want an error with %q, got %v", args, want, err)
		}
	}
	f("want 1 to 10000000 lines, got 10000001", "retrieval", "--n", "10000001")
	f("want 1 line or more, got -1", "fewshot", "--n", "-1")
	f("want 1 line or more, got -1", "verdicts", "--n", "-1")
	f("want a share from 0 to 1, got 2", "retrieval", "--n", "1", "--second-gold", "2")
	f(`got "ratings"`, "ratings")
}

func newScanner(b *bytes.Buffer) *bufio.Scanner {
	s := bufio.NewScanner(b)
	s.Buffer(nil, 1<<20)
	return s
}
