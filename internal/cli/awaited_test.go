package cli

import (
	"testing"
	"time"
)

// What one look tells as time goes on.
func TestAwaited(t *testing.T) {
	start := time.Unix(1e9, 0)
	var partitions []int32
	waiting, atWork := true, false
	a := &awaited{
		segment: "live.merge", step: "aggregate", command: "evalstream run --until-end --only aggregate live.yaml",
		atWork: func() bool { return atWork }, waits: func() ([]int32, bool) { return partitions, waiting },
	}
	look := func(seconds int, want string) {
		t.Helper()
		if got := a.look(start.Add(time.Duration(seconds) * time.Second)); got != want {
			t.Errorf("after %d s: want %q, got %q", seconds, want, got)
		}
	}
	const what = "; if nobody runs it: evalstream run --until-end --only aggregate live.yaml"
	look(0, "")
	look(4, "")
	look(5, "note: live.merge: waits for the end of aggregate, which has said nothing of it yet"+what)
	partitions = []int32{2, 0}
	look(64, "")
	look(65, "note: live.merge: waits for partitions 0, 2 of aggregate to come to the end"+what)
	waiting = false
	look(200, "")
	waiting, partitions = true, []int32{1}
	look(201, "")
	atWork = true // in this process
	look(210, "")
	atWork = false
	look(211, "")
	look(216, "note: live.merge: waits for partition 1 of aggregate to come to the end"+what)
}
