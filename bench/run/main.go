//go:build linux

// Run measures evalstream against what a user would take instead, on the same files and in one run.
//
// It builds evalstream, writes the input and installs DuckDB where they are missing, starts every contestant in turn,
// round after round, and prints medians, ratios and whether all answers agree. Run it from the module's root:
//
//	go run ./bench/run
//
// Exit codes: 0 measured, and all answers agree; 1 they do not, or a bar is missed under --check; 2 it could not measure.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
)

// settings are the flags of one run.
type settings struct {
	workloads   []string
	contestants []string
	cpus        []string
	rounds      int
	lines       int     // 0: each workload's own
	secondGold  float64 // share of queries with two relevant passages
	markdown    string
	check       bool
}

var errMissed = errors.New("")

func main() {
	err := run(os.Args[1:])
	switch {
	case err == nil:
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errMissed):
		os.Exit(1)
	default:
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(2)
	}
}

func run(args []string) error {
	set, err := parse(args)
	if err != nil {
		return err
	}
	if _, err := os.Stat("go.mod"); err != nil {
		return errors.New("go.mod: not here; start the bench from the module's root")
	}
	if err := prepareTools(set); err != nil {
		return err
	}
	report := newReport(set)
	good := true
	for _, name := range set.workloads {
		w := newWorkload(name, set)
		if err := prepareData(w); err != nil {
			return err
		}
		rounds, err := measureAll(w, set)
		if err != nil {
			return err
		}
		faults, compared, err := checkAnswers(w, set.rounds)
		if err != nil {
			return err
		}
		missed := report.add(w, rounds, faults, compared)
		good = good && len(faults) == 0 && (!set.check || !missed)
	}
	fmt.Print(report.text())
	if set.markdown != "" {
		if err := os.WriteFile(set.markdown, []byte(report.markdown()), 0o644); err != nil {
			return err
		}
	}
	if !good {
		return errMissed
	}
	return nil
}

func parse(args []string) (settings, error) {
	var set settings
	var workloads, contestants, cpus string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&workloads, "workloads", strings.Join(workloadNames(), ","), "what to measure")
	flags.StringVar(&contestants, "contestants", strings.Join(contestantNames(), ","), "who takes part")
	flags.StringVar(&cpus, "cpus", "0,1", "the two processors to run on; the first alone for the 1-core rows")
	flags.IntVar(&set.rounds, "rounds", 5, "rounds; medians are printed")
	flags.IntVar(&set.lines, "n", 0, "lines of input; 0 means 447,000 for retrieval and 1,000,000 for fewshot")
	flags.Float64Var(&set.secondGold, "second-gold", 0, "share of the queries that have two relevant passages, 0 to 1")
	flags.StringVar(&set.markdown, "markdown", "", "file to write the tables to, as Markdown")
	flags.BoolVar(&set.check, "check", false, "exit with 1 where a ratio misses its bar")
	if err := flags.Parse(args); err != nil {
		return set, err
	}
	set.workloads = strings.Split(workloads, ",")
	set.contestants = strings.Split(contestants, ",")
	set.cpus = strings.Split(cpus, ",")
	for _, w := range set.workloads {
		if !slices.Contains(workloadNames(), w) {
			return set, fmt.Errorf("workloads: want some of %s, got %q", strings.Join(workloadNames(), ","), w)
		}
	}
	for _, c := range set.contestants {
		if !slices.Contains(contestantNames(), c) {
			return set, fmt.Errorf("contestants: want some of %s, got %q", strings.Join(contestantNames(), ","), c)
		}
	}
	switch {
	case flags.NArg() > 0:
		return set, fmt.Errorf("want flags only, got %q", flags.Arg(0))
	case len(set.cpus) != 2:
		return set, fmt.Errorf("cpus: want two, as in 0,1, got %q", cpus)
	case set.rounds < 1:
		return set, fmt.Errorf("rounds: want 1 or more, got %d", set.rounds)
	}
	return set, nil
}
