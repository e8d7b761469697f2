//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func read(t *testing.T, lines ...string) answers {
	t.Helper()
	a, err := readAnswers(strings.NewReader(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatalf("%q: %v", lines, err)
	}
	return a
}

const (
	duck = `{"kind":"result","metric":"mrr","by":{"run":"m1"},"window":"all","value":0.5,"num":2.0,"den":4,"n":4,"final":true}`
	hour = `{"kind":"result","metric":"mrr","by":{"run":"m1"},"window":{"start":"2026-03-02T09:00:00Z","end":"2026-03-02T10:00:00Z"},"value":0.5,"num":2,"den":4,"n":4,"final":true}`
)

func TestDifferences(t *testing.T) {
	f := func(want, got []string, diffs ...string) {
		t.Helper()
		if d := cmp.Diff(diffs, differences(read(t, want...), read(t, got...))); d != "" {
			t.Errorf("%q against %q (-want +got):\n%s", got, want, d)
		}
	}
	one := func(s string) []string { return []string{s} }
	f(one(duck), one(duck))
	f(one(duck), one(strings.Replace(duck, "0.5", "0.500000009", 1)))
	f(one(duck), one(strings.Replace(duck, "0.5", "0.50000002", 1)),
		`mrr by run="m1", window all: want value 0.5, got 0.50000002`)
	f(one(duck), one(strings.Replace(duck, "0.5", "null", 1)), `mrr by run="m1", window all: want value 0.5, got NaN`)
	f(one(duck), one(strings.Replace(duck, "2.0", "2.1", 1)), `mrr by run="m1", window all: want num 2, got 2.1`)
	f(one(duck), one(strings.Replace(duck, `"n":4`, `"n":5`, 1)),
		`mrr by run="m1", window all: want n 4, den 4, got n 5, den 4`)
	f([]string{duck, hour}, one(duck),
		`mrr by run="m1", window 2026-03-02T09:00:00Z/2026-03-02T10:00:00Z: missing`)
	f(one(duck), []string{duck, hour},
		`mrr by run="m1", window 2026-03-02T09:00:00Z/2026-03-02T10:00:00Z: too much`)
	// Only the metrics that the other side has are compared.
	f(one(duck), []string{duck, strings.Replace(duck, "mrr", "macro_f1", 1)})
	// A result that is not final is no answer.
	f(one(duck), []string{strings.Replace(duck, `"value":0.5`, `"value":0.4`, 1)[:len(duck)-len("true}")] + "false}", duck})
	// How a time, a number or the group's fields are written does not matter.
	f(one(hour), one(strings.NewReplacer("T09:00:00Z", "T10:00:00.000+01:00", `"num":2`, `"num":"2.000000000"`).Replace(hour)))
	f(one(strings.Replace(duck, `{"run":"m1"}`, `{"seed":"1","k":5}`, 1)),
		one(strings.Replace(duck, `{"run":"m1"}`, `{"k":"5","seed":1}`, 1)))
}

func TestAnswersOfNoUse(t *testing.T) {
	f := func(want string, lines ...string) {
		t.Helper()
		_, err := readAnswers(strings.NewReader(strings.Join(lines, "\n")))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: want an error that starts with %q, got %v", lines, want, err)
		}
	}
	f(`2: a second final result for mrr by run="m1", window all`, duck, duck)
	f("1: window: ", strings.Replace(duck, `"all"`, "3", 1))
	f("2: ", duck, "{")
}

func TestQuerySeconds(t *testing.T) {
	f := func(want float64, stderr string) {
		t.Helper()
		if got := querySeconds(stderr); got != want {
			t.Errorf("%q: want %v, got %v", stderr, want, got)
		}
	}
	f(0, "")
	f(0.25, "warming up\nquery_seconds=0.25\n")
	f(0, "query_seconds=soon\n")
}

func TestCommands(t *testing.T) {
	set, err := parse([]string{"--cpus", "2,3", "--second-gold", "0.01"})
	if err != nil {
		t.Fatal(err)
	}
	f := func(workload, name string, cores int, want string) {
		t.Helper()
		w := newWorkload(workload, set)
		i := w.find(name, cores)
		if i < 0 {
			t.Fatalf("%s: no %s on %d", workload, name, cores)
		}
		if d := cmp.Diff(want, strings.Join(w.contestants[i].argv(4, set.cpus), " ")); d != "" {
			t.Errorf("%s, %s on %d (-want +got):\n%s", workload, name, cores, d)
		}
	}
	f("fewshot", "evalstream", 2, "taskset -c 2,3 bin/evalstream eval fewshot --by seed bench/data/fewshot.ndjson")
	f("fewshot", "duckdb", 1, "taskset -c 2 node bench/duckdb.mjs fewshot bench/data/fewshot.ndjson"+
		" bench/data/out/fewshot-duckdb-1.4.ndjson --threads 1")
	f("verdicts", "evalstream", 1, "taskset -c 2 bin/evalstream eval judge --panel judge-a,judge-b,judge-c --by mode"+
		" bench/data/verdicts.ndjson")
	f("verdicts", "python", 1, "taskset -c 2 python3 bench/baseline.py verdicts bench/data/verdicts.ndjson"+
		" bench/data/out/verdicts-python-1.4.ndjson")
	f("retrieval", "wc", 1, "taskset -c 2 wc -l bench/data/second0.01/retrieval.ndjson")
	f("retrieval", "duckdb", 2, "taskset -c 2,3 node bench/duckdb.mjs retrieval bench/data/second0.01/retrieval.ndjson"+
		" bench/data/second0.01/gold.ndjson bench/data/second0.01/out/retrieval-duckdb-2.4.ndjson --threads 2 --many-gold")
}

func TestReport(t *testing.T) {
	set, err := parse([]string{"--contestants", "evalstream,duckdb", "--workloads", "fewshot"})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorkload("fewshot", set)
	f := func(ours, theirs float64, faults []string, missed bool, want ...string) {
		t.Helper()
		rounds := make([][]sample, len(w.contestants))
		for i, c := range w.contestants {
			wall := theirs
			if c.name == "evalstream" {
				wall = ours
			}
			s := sample{wall: wall / float64(c.cores), cpu: wall, rss: 50}
			rounds[i] = []sample{s, s, s}
		}
		r := &report{machine: "here"}
		if got := r.add(w, rounds, faults, 15); got != missed {
			t.Errorf("want missed %v, got %v", missed, got)
		}
		for _, text := range []string{r.text(), r.markdown()} {
			for _, line := range want {
				if !strings.Contains(strings.Join(strings.Fields(strings.ReplaceAll(text, "|", "")), " "), line) {
					t.Errorf("want the line %q, got\n%s", line, text)
				}
			}
		}
	}
	f(1, 4, nil, false, "evalstream / DuckDB, 2 cores 0.25 (0.25–0.25) 0.25 ≤ 0.40 ≤ 0.55 aim met",
		"evalstream, 1 core / 2 cores 2.00 (2.00–2.00) 1.00 ≥ 1.60 ≥ 1.60 aim met", "all 15 results agree")
	f(2, 4, nil, false, "≤ 0.40 ≤ 0.55 must met")
	f(4, 4, []string{"mrr: missing"}, true, "≤ 0.40 ≤ 0.55 missed", "AND THEY DIFFER", "mrr: missing")
}
