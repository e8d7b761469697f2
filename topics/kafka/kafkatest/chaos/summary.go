package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// A summary adds rounds up.
type summary struct {
	rounds, lines, rejects, scores, before int
	members, commits, markers, aborts      int
	violations                             int
	did                                    map[action]int
}

func (s *summary) add(o *outcome) {
	s.rounds++
	s.lines += o.lines
	s.rejects += o.rejects
	s.scores += o.scores
	s.before += o.before
	s.members += o.members
	s.commits += o.commits
	s.markers += o.markers
	s.aborts += o.aborts
	s.violations += len(o.violations)
	if s.did == nil {
		s.did = map[action]int{}
	}
	for a, n := range o.did {
		s.did[a] += n
	}
}

// tell writes a round in a line.
func (o *outcome) tell(w io.Writer) {
	gold := "with the predictions"
	if o.apart {
		gold = "in a topic of its own"
	}
	fmt.Fprintf(w, "chaos: seed %d, gold %s: %d lines, %d rejects, %d scores (%d before the end), %d processes, %v, %d transactions with offsets, %d violations, %.0f s\n",
		o.seed, gold, o.lines, o.rejects, o.scores, o.before, o.members, o.did, o.commits, len(o.violations), o.took.Seconds())
}

// print writes the sums as a table for the docs.
func (s *summary) print(w io.Writer, took time.Duration) {
	fmt.Fprintf(w, "\n| %d rounds in %v | |\n|---|---:|\n", s.rounds, took.Round(time.Second))
	row := func(name string, n int) { fmt.Fprintf(w, "| %s | %d |\n", name, n) }
	names := map[action]string{
		kill: "members killed (-9)", killAll: "segments whose members were all killed at once", pause: "members stopped past the session timeout or nearly, then let go on",
		term: "members ended by SIGTERM and started again", add: "members added", remove: "members removed",
		crash: "brokers killed (-9) and started again", restart: "brokers shut down in order and started again",
	}
	for _, a := range slices.Sorted(maps.Keys(names)) {
		row(names[a], s.did[a])
	}
	row("processes of members", s.members)
	row("lines of input", s.lines)
	row("rejects", s.rejects)
	row("scores written", s.scores)
	row("of them while the members were disturbed", s.before)
	row("transactions with offsets", s.commits)
	row("markers on the pipeline's topics", s.markers)
	row("of them of aborted transactions", s.aborts)
	row("violations", s.violations)
}
