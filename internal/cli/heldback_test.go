package cli

import (
	"testing"
	"time"

	"evalstream"
)

// What one look tells as time goes on.
func TestHeldBack(t *testing.T) {
	start := time.Unix(1e9, 0)
	at := func(minutes int64) evalstream.Time { return evalstream.Time(minutes * int64(time.Minute)) }
	mark := func(p int32, w evalstream.Time) evalstream.Mark {
		return evalstream.Mark{Step: "score", Partition: p, Partitions: 3, Watermark: w, Through: []evalstream.Cursor{
			{Origin: evalstream.Origin{Name: "predictions", Topic: true, Partition: p}}, {Origin: evalstream.Origin{Name: "gold", Topic: true, Partition: p}},
		}}
	}
	var marks []evalstream.Mark
	s := &heldSegment{name: "live.merge", marks: func() []evalstream.Mark { return marks }}
	h := &heldBack{segments: []*heldSegment{s}}
	look := func(seconds int, want string) {
		t.Helper()
		if got := s.look(start.Add(time.Duration(seconds) * time.Second)); got != want {
			t.Errorf("after %d s: want %q, got %q", seconds, want, got)
		}
	}
	const silent = "live.merge: windows and horizon wait for predictions[2] and gold[2]: no record with a time has come from there; idle_timeout: 1m lets the others go on without it"
	look(0, "")
	marks = []evalstream.Mark{mark(0, at(5)), mark(1, at(6)), mark(2, evalstream.NoTime)}
	look(1, "")
	look(30, "")
	look(31, "note: "+silent)
	look(90, "") // once
	if got := h.notes(); len(got) != 1 || got[0] != silent {
		t.Errorf("at the end: want %q, got %q", silent, got)
	}
	marks[2].Idle = true
	look(91, "")
	if got := h.notes(); got != nil {
		t.Errorf("without an idle partition: want no note, got %q", got)
	}
	// All stand still: there is nothing to wait for.
	s.told = false
	look(150, "")
	// One stays behind while another goes on.
	marks[1].Watermark = at(30)
	look(151, "note: live.merge: windows and horizon wait for predictions[0] and gold[0]: event time there stands at 1970-01-01T00:05:00Z; idle_timeout: 1m lets the others go on without it")
	// A step that reads steps is named itself, and what has ended waits for nobody.
	for i := range marks {
		marks[i].Through = append(marks[i].Through, evalstream.Cursor{Origin: evalstream.Origin{Name: "gold", Topic: true, Partition: 9}})
	}
	if got := sourcesOf(&marks[1]); got != "partition 1 of score" {
		t.Errorf("got %q", got)
	}
	marks[0].Ended = true
	look(300, "")
}
