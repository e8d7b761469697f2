package stages

import (
	"fmt"
	"time"

	"evalstream"
)

// horizon is how long units are remembered. It moves with the records, not with the
// blocks they come in, so that the same records in the same order are late, and the
// same units forgotten, however they were read.
type horizon struct {
	span   evalstream.Time // 0: for ever
	slack  evalstream.Time // how far the watermark stays behind the newest time
	newest evalstream.Time
	swept  evalstream.Time // watermark of the last sweep
}

func newHorizon(span, slack time.Duration) horizon {
	return horizon{span: evalstream.Time(span), slack: evalstream.Time(slack), newest: evalstream.NoTime, swept: evalstream.NoTime}
}

// watermark is the time that the records have come to; NoTime before the first.
func (h *horizon) watermark() evalstream.Time {
	if h.newest == evalstream.NoTime {
		return evalstream.NoTime
	}
	return h.newest - h.slack
}

// see takes in a record's time and says whether units older than limit are to be
// forgotten now: an eighth of the horizon after the last time.
func (h *horizon) see(t evalstream.Time) (limit evalstream.Time, due bool) {
	if t <= h.newest {
		return 0, false
	}
	h.newest = t
	if h.span <= 0 {
		return 0, false
	}
	w := h.watermark()
	if h.swept == evalstream.NoTime {
		h.swept = w
		return 0, false
	}
	if w < h.swept+max(1, h.span/8) {
		return 0, false
	}
	h.swept = w
	return w - h.span, true
}

// late is the fault of a record that is older than what is remembered, nil if it is not.
func (h *horizon) late(t evalstream.Time) *evalstream.Fault {
	if h.span <= 0 || t == evalstream.NoTime || h.newest == evalstream.NoTime || t >= h.watermark()-h.span {
		return nil
	}
	return &evalstream.Fault{
		Class: evalstream.ClassLate, Path: "/time",
		Reason: fmt.Sprintf("time %s is older than the horizon of %s before the watermark %s", t, spanText(time.Duration(h.span)), h.watermark()),
	}
}
