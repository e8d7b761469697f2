package cli

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"evalstream"
	"evalstream/topics/kafka"
)

// A generation is told in one line once all its partitions are loaded; one that ends
// before that says what was loaded when the next begins.
func TestTakeover(t *testing.T) {
	var told []string
	seen := 0
	s := &kafka.Segment{Segment: evalstream.Segment{Pipeline: &evalstream.Pipeline{Name: "live.score"}}}
	s.Hooks.Loaded = func(int32, time.Duration, int64) { seen++ }
	takeoversOf(s, func(line string) { told = append(told, line) })
	s.Hooks.Generation(2)
	s.Hooks.Loaded(2, 300*time.Millisecond, 1000)
	if told != nil {
		t.Errorf("want nothing told before all are loaded, got %q", told)
	}
	s.Hooks.Loaded(0, 100*time.Millisecond, 234)
	s.Hooks.Generation(3)
	s.Hooks.Loaded(1, time.Second, 0)
	s.Hooks.Generation(0)
	want := []string{
		"live.score: partitions 0, 2 taken over (state 1,234 entries in 0.3 s)",
		"live.score: partition 1 taken over",
		"live.score: waits in its group, other members have all partitions",
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if seen != 3 {
		t.Errorf("want the hook that was there before called 3 times, got %d", seen)
	}
}
