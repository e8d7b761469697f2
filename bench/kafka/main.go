//go:build linux

// Kafka measures evalstream over the topics of a real broker, next to what a user would take instead and to Kafka's own
// tool, all in one run.
//
// `make bench-kafka` starts a broker and runs it, from the module's root. Exit codes: 0 measured; 1 a bar is missed under
// --check; 2 it could not measure.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// settings are the flags of one run.
type settings struct {
	parts      []string
	rounds     int
	messages   int
	partitions int
	seconds    int
	units      int
	against    string
	markdown   string
	keep       bool
	check      bool
}

var errMissed = errors.New("")

// part is one of the things to measure.
type part struct {
	name string
	run  func(context.Context, *bench) error
}

func allParts() []part {
	return []part{{"hop", hop}, {"chain", chain}, {"latency", latency}, {"stop", stop}, {"recovery", recovery}}
}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	cancel()
	switch {
	case err == nil:
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errMissed):
		os.Exit(1)
	default:
		fmt.Fprintf(os.Stderr, "bench-kafka: %v\n", err)
		os.Exit(2)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "loop" {
		return runLoop(ctx, args[1:])
	}
	set, err := parse(args)
	if err != nil {
		return err
	}
	b, err := newBench(ctx, set)
	if err != nil {
		return err
	}
	defer b.close()
	for _, p := range allParts() {
		if !slices.Contains(set.parts, p.name) {
			continue
		}
		if err := p.run(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	text := b.report.markdown()
	fmt.Print(text)
	if set.markdown != "" {
		if err := os.WriteFile(set.markdown, []byte(text), 0o644); err != nil {
			return err
		}
	}
	if set.check && b.report.missed {
		return errMissed
	}
	return nil
}

func parse(args []string) (settings, error) {
	var set settings
	var names []string
	for _, p := range allParts() {
		names = append(names, p.name)
	}
	var parts string
	flags := flag.NewFlagSet("bench-kafka", flag.ContinueOnError)
	flags.StringVar(&parts, "parts", strings.Join(names, ","), "what to measure")
	flags.IntVar(&set.rounds, "rounds", 3, "rounds of hop and chain; medians are printed")
	flags.IntVar(&set.messages, "n", 1_000_000, "messages of hop and chain")
	flags.IntVar(&set.partitions, "partitions", 4, "partitions of every topic")
	flags.IntVar(&set.seconds, "seconds", 30, "how long latency is measured")
	flags.IntVar(&set.units, "units", 1_000_000, "units of recovery")
	flags.StringVar(&set.against, "against", "", "another build of evalstream, to measure in the same rounds of hop and chain")
	flags.StringVar(&set.markdown, "markdown", "", "file to write the tables to, as Markdown")
	flags.BoolVar(&set.keep, "keep", false, "leave the topics where they are, to look at")
	flags.BoolVar(&set.check, "check", false, "exit with 1 where a bar is missed")
	if err := flags.Parse(args); err != nil {
		return set, err
	}
	set.parts = strings.Split(parts, ",")
	for _, p := range set.parts {
		if !slices.Contains(names, p) {
			return set, fmt.Errorf("parts: want some of %s, got %q", strings.Join(names, ","), p)
		}
	}
	switch {
	case flags.NArg() > 0:
		return set, fmt.Errorf("want flags only, got %q", flags.Arg(0))
	case min(set.rounds, set.messages, set.partitions, set.seconds, set.units) < 1:
		return set, errors.New("want numbers of 1 or more")
	}
	return set, nil
}
