//go:build linux

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

func workloadNames() []string   { return []string{"retrieval", "fewshot", "verdicts"} }
func contestantNames() []string { return []string{"evalstream", "duckdb", "python", "wc"} }

// workload is one job, and everybody who does it.
type workload struct {
	name        string
	lines       int      // of its input
	dir         string   // of its input
	inputs      []string // the log first
	generate    []string // arguments of bench/generate
	contestants []contestant
	aim, must   float64 // bars for the wall time of evalstream as a share of DuckDB's, both on 2 cores
}

// contestant is one command on some cores.
type contestant struct {
	name    string // one of contestantNames
	cores   int
	command []string
	out     string // file of its answers without the round; "" if it gives none
	stdout  bool   // answers come on stdout
}

// answers names the file that holds the contestant's answers of a round.
func (c contestant) answers(round int) string { return fmt.Sprintf("%s.%d.ndjson", c.out, round) }

// newWorkload returns the named workload with the contestants that set asks for.
func newWorkload(name string, set settings) workload {
	w := workload{name: name, lines: 447_000, dir: filepath.Join("bench", "data")}
	if name != "retrieval" {
		w.lines = 1_000_000
	}
	// Files of other sizes live apart: the plain directory always holds the data that figures are published for.
	if set.lines != 0 {
		w.lines = set.lines
		w.dir = filepath.Join(w.dir, fmt.Sprintf("n%d", set.lines))
	}
	manyGold := set.secondGold != 0 && name == "retrieval"
	if manyGold {
		w.dir = filepath.Join(w.dir, fmt.Sprintf("second%g", set.secondGold))
	}
	w.generate = []string{name, "--n", strconv.Itoa(w.lines), "--out", w.dir}
	if manyGold {
		w.generate = append(w.generate, "--second-gold", fmt.Sprint(set.secondGold))
	}
	file := func(name string) string { return filepath.Join(w.dir, name) }

	var ours []string
	switch name {
	case "retrieval":
		w.inputs = []string{file("retrieval.ndjson"), file("gold.ndjson")}
		w.aim, w.must = 0.55, 0.75
		ours = []string{
			"eval", "retrieval", "--qrels", w.inputs[1], "--map", "run=/model", "--map", "time=/ts", "--map", "top=/retrieved",
			"--measure", "success@1", "--measure", "recall@10", "--measure", "mrr", "--measure", "ndcg@10",
			"--by", "run", "--by", "ticker", "--window", "all", "--window", "1h", w.inputs[0],
		}
	case "fewshot":
		w.inputs = []string{file("fewshot.ndjson")}
		w.aim, w.must = 0.40, 0.55
		ours = []string{"eval", "fewshot", "--by", "seed", w.inputs[0]}
	case "verdicts":
		w.inputs = []string{file("verdicts.ndjson")}
		w.aim, w.must = 0.75, 0.85
		ours = []string{"eval", "judge", "--panel", "judge-a,judge-b,judge-c", "--by", "mode", w.inputs[0]}
	}
	evalstream := slices.Concat([]string{filepath.Join("bin", "evalstream")}, ours)
	duckdb := func(threads int) []string {
		command := slices.Concat([]string{"node", filepath.Join("bench", "duckdb.mjs"), name}, w.inputs,
			[]string{"", "--threads", strconv.Itoa(threads)})
		if manyGold {
			command = append(command, "--many-gold")
		}
		return command
	}
	python := slices.Concat([]string{"python3", filepath.Join("bench", "baseline.py"), name}, w.inputs, []string{""})

	for _, c := range []contestant{
		{name: "evalstream", cores: 2, command: evalstream, stdout: true},
		{name: "duckdb", cores: 2, command: duckdb(2)},
		{name: "evalstream", cores: 1, command: evalstream, stdout: true},
		{name: "duckdb", cores: 1, command: duckdb(1)},
		{name: "python", cores: 1, command: python},
		{name: "wc", cores: 1, command: []string{"wc", "-l", w.inputs[0]}},
	} {
		if !slices.Contains(set.contestants, c.name) {
			continue
		}
		if c.name != "wc" {
			c.out = file(filepath.Join("out", fmt.Sprintf("%s-%s-%d", name, c.name, c.cores)))
		}
		w.contestants = append(w.contestants, c)
	}
	return w
}

// find returns the index of a contestant, or -1.
func (w workload) find(name string, cores int) int {
	return slices.IndexFunc(w.contestants, func(c contestant) bool { return c.name == name && c.cores == cores })
}

// argv is the command of a round, bound to its processors. An empty argument stands for the file of the answers.
func (c contestant) argv(round int, cpus []string) []string {
	argv := []string{"taskset", "-c", strings.Join(cpus[:c.cores], ",")}
	for _, arg := range c.command {
		if arg == "" {
			arg = c.answers(round)
		}
		argv = append(argv, arg)
	}
	return argv
}
