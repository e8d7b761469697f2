// Generate writes the inputs of evalstream's benchmarks.
//
// The same workload, size and seed give the same bytes on every machine and Go version: the generator takes its random
// numbers from PCG and reduces them itself.
//
//	generate retrieval --n 447000 --out bench/data    retrieval.ndjson and gold.ndjson
//	generate fewshot --n 1000000 --out bench/data     fewshot.ndjson
//	generate verdicts --n 1000000 --out bench/data    verdicts.ndjson
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

const usage = `usage: generate retrieval|fewshot|verdicts [--n LINES] [--seed S] [--out DIR] [--second-gold SHARE]
`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "generate: %v\n", err)
		os.Exit(2)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("want a workload, got none\n%s", usage)
	}
	workload := args[0]
	flags := flag.NewFlagSet("generate "+workload, flag.ContinueOnError)
	n := flags.Int("n", 0, "lines to write; 0 means 447,000 for retrieval and 1,000,000 for the others")
	seed := flags.Uint64("seed", 1, "seed of the random numbers")
	dir := flags.String("out", filepath.Join("bench", "data"), "directory to write to")
	second := flags.Float64("second-gold", 0, "share of the queries that have two relevant passages, 0 to 1")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("want flags after %s, got %q", workload, flags.Arg(0))
	}
	if err := os.MkdirAll(*dir, 0o755); err != nil {
		return err
	}
	switch workload {
	case "retrieval":
		r := retrieval{Lines: *n, Seed: *seed, SecondGold: *second}
		if r.Lines == 0 {
			r.Lines = 447_000
		}
		return write(*dir, []string{"retrieval.ndjson", "gold.ndjson"}, func(w []io.Writer) error { return r.write(w[0], w[1]) })
	case "fewshot":
		f := fewshot{Lines: *n, Seed: *seed}
		if f.Lines == 0 {
			f.Lines = 1_000_000
		}
		return write(*dir, []string{"fewshot.ndjson"}, func(w []io.Writer) error { return f.write(w[0]) })
	case "verdicts":
		v := verdicts{Lines: *n, Seed: *seed}
		if v.Lines == 0 {
			v.Lines = 1_000_000
		}
		return write(*dir, []string{"verdicts.ndjson"}, func(w []io.Writer) error { return v.write(w[0]) })
	default:
		return fmt.Errorf("want the workload retrieval, fewshot or verdicts, got %q\n%s", workload, usage)
	}
}

// write opens the named files in dir, has fill write them, and gives them their names only when all are whole, so that
// an interrupted run leaves nothing that looks like data.
func write(dir string, names []string, fill func([]io.Writer) error) (err error) {
	files := make([]*os.File, len(names))
	buffers := make([]*bufio.Writer, len(names))
	writers := make([]io.Writer, len(names))
	defer func() {
		for _, f := range files {
			if f != nil && err != nil {
				f.Close()
				os.Remove(f.Name())
			}
		}
	}()
	for i, name := range names {
		if files[i], err = os.Create(filepath.Join(dir, name+".part")); err != nil {
			return err
		}
		buffers[i] = bufio.NewWriterSize(files[i], 1<<20)
		writers[i] = buffers[i]
	}
	if err = fill(writers); err != nil {
		return err
	}
	for i, f := range files {
		if err = buffers[i].Flush(); err != nil {
			return err
		}
		if err = f.Close(); err != nil {
			return err
		}
	}
	for i, name := range names {
		if err = os.Rename(files[i].Name(), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}
