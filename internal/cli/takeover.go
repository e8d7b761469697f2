package cli

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"evalstream/topics/kafka"
)

// takeover is the partitions of a segment that a generation of its group gives to this
// process, until all of them are loaded.
type takeover struct {
	segment string
	tell    func(string)

	mu      sync.Mutex
	of      int // partitions of the generation
	loaded  []int32
	took    time.Duration // of the slowest
	entries int64
}

// takeoversOf tells people which partitions a segment has taken over: a line a
// generation, once all are loaded.
func takeoversOf(s *kafka.Segment, tell func(string)) {
	t := &takeover{segment: s.Name, tell: tell}
	generation, loaded := s.Hooks.Generation, s.Hooks.Loaded
	s.Hooks.Generation = func(partitions int) {
		if generation != nil {
			generation(partitions)
		}
		t.begin(partitions)
	}
	s.Hooks.Loaded = func(p int32, took time.Duration, entries int64) {
		if loaded != nil {
			loaded(p, took, entries)
		}
		t.add(p, took, entries)
	}
}

func (t *takeover) begin(partitions int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.say() // some of the last generation were never loaded
	t.of = partitions
	if partitions == 0 {
		t.tell(t.segment + ": waits in its group, other members have all partitions")
	}
}

func (t *takeover) add(p int32, took time.Duration, entries int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.loaded = append(t.loaded, p)
	t.took, t.entries = max(t.took, took), t.entries+entries
	if len(t.loaded) >= t.of {
		t.say()
	}
}

// say tells what is loaded: "live.score: partitions 0, 2 taken over (state 1,234 entries
// in 0.3 s)".
func (t *takeover) say() {
	if len(t.loaded) == 0 {
		return
	}
	state := ""
	if t.entries > 0 {
		entries := count(t.entries) + " entries"
		if t.entries == 1 {
			entries = "1 entry"
		}
		state = fmt.Sprintf(" (state %s in %.1f s)", entries, t.took.Seconds())
	}
	t.tell(t.segment + ": " + partitionsText(t.loaded) + " taken over" + state)
	t.loaded, t.took, t.entries = nil, 0, 0
}

// partitionsText names partitions: "partition 1", "partitions 0, 2".
func partitionsText(ps []int32) string {
	var numbers []string
	for _, p := range slices.Sorted(slices.Values(ps)) {
		numbers = append(numbers, fmt.Sprint(p))
	}
	what := "partition "
	if len(numbers) > 1 {
		what = "partitions "
	}
	return what + strings.Join(numbers, ", ")
}
