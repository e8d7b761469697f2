//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// sample is what one run of a command cost.
type sample struct {
	wall  float64 // seconds from start to end of the process
	cpu   float64 // user and system seconds
	query float64 // seconds of the query alone, if the command says so; else 0
	rss   float64 // MiB at the peak; never less than this program's own, some 10
}

// measureAll runs the contestants in turn, A B C A B C, and returns the samples by contestant, then round.
func measureAll(w workload, set settings) ([][]sample, error) {
	samples := make([][]sample, len(w.contestants))
	for round := range set.rounds {
		fmt.Fprintf(os.Stderr, "bench: %s, round %d of %d\n", w.name, round+1, set.rounds)
		for i, c := range w.contestants {
			s, err := measure(c, round, set.cpus)
			if err != nil {
				return nil, err
			}
			samples[i] = append(samples[i], s)
		}
	}
	return samples, nil
}

func measure(c contestant, round int, cpus []string) (sample, error) {
	argv := c.argv(round, cpus)
	cmd := exec.Command(argv[0], argv[1:]...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if c.stdout {
		out, err := os.Create(c.answers(round))
		if err != nil {
			return sample{}, err
		}
		defer out.Close()
		cmd.Stdout = out
	}
	start := time.Now()
	err := cmd.Run()
	wall := time.Since(start)
	if err != nil {
		return sample{}, fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, stderr.Bytes())
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return sample{}, fmt.Errorf("%s: no resource usage from the system", argv[0])
	}
	return sample{
		wall:  wall.Seconds(),
		cpu:   (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(),
		query: querySeconds(stderr.String()),
		rss:   float64(usage.Maxrss) / 1024,
	}, nil
}

// querySeconds reads the line query_seconds=X of what a command printed, or returns 0.
func querySeconds(stderr string) float64 {
	_, after, _ := strings.Cut(stderr, "query_seconds=")
	number, _, _ := strings.Cut(after, "\n")
	seconds, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0
	}
	return seconds
}
