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
	// marked says that time comes from the marks of the step before, whose partitions run
	// ahead of each other, and not from the records.
	marked bool
}

func newHorizon(span, slack time.Duration, marked bool) horizon {
	if marked {
		slack = 0 // the marks have it
	}
	return horizon{span: evalstream.Time(span), slack: evalstream.Time(slack), newest: evalstream.NoTime, swept: evalstream.NoTime, marked: marked}
}

// watermark is the time that the records have come to; NoTime before the first.
func (h *horizon) watermark() evalstream.Time {
	if h.newest == evalstream.NoTime {
		return evalstream.NoTime
	}
	return before(h.newest, h.slack)
}

// arrival is the time of what comes without one: the watermark, where units are
// forgotten.
func (h *horizon) arrival() evalstream.Time {
	if h.span <= 0 {
		return evalstream.NoTime
	}
	return h.watermark()
}

// before is t less span, and no earlier than a time can be.
func before(t, span evalstream.Time) evalstream.Time {
	if t < evalstream.NoTime+span {
		return evalstream.NoTime
	}
	return t - span
}

// see takes in a record's time and says whether units older than limit are to be
// forgotten now: an eighth of the horizon after the last time.
func (h *horizon) see(t evalstream.Time) (limit evalstream.Time, due bool) {
	if h.marked {
		return 0, false
	}
	return h.reach(t)
}

// move is see for a watermark, which counts only if it comes from marks.
func (h *horizon) move(watermark evalstream.Time) (limit evalstream.Time, due bool) {
	if !h.marked {
		return 0, false
	}
	return h.reach(watermark)
}

func (h *horizon) reach(t evalstream.Time) (limit evalstream.Time, due bool) {
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
		return before(w, h.span), h.marked // records were taken in before there was a mark
	}
	if before(w, max(1, h.span/8)) < h.swept {
		return 0, false
	}
	h.swept = w
	return before(w, h.span), true
}

// grace is how much longer aggregate remembers a unit than score: what score has to
// say of a unit when it forgets it comes after the horizon has passed.
func (h *horizon) grace() evalstream.Time { return h.span / 4 }

// settled reports whether a late record may still be what score says of a unit that it
// remembered.
func (h *horizon) settled(t evalstream.Time) bool {
	return t >= before(before(h.watermark(), h.span), h.grace())
}

// past is the time before which no unit is remembered and none is taken in again;
// NoTime if there is none.
func (h *horizon) past() evalstream.Time {
	if h.span <= 0 {
		return evalstream.NoTime
	}
	return before(before(h.swept, h.span), h.grace())
}

// limit is the time before which everything has ended; NoTime: nothing has.
func (h *horizon) limit() evalstream.Time {
	if h.span <= 0 || h.newest == evalstream.NoTime {
		return evalstream.NoTime
	}
	return before(h.watermark(), h.span)
}

// late is the fault of a record that is older than what is remembered, nil if it is not.
func (h *horizon) late(t evalstream.Time) *evalstream.Fault {
	if t == evalstream.NoTime || t >= h.limit() {
		return nil
	}
	return &evalstream.Fault{
		Class: evalstream.ClassLate, Path: "/time",
		Reason: fmt.Sprintf("time %s is older than the horizon of %s before the watermark %s", t, spanText(time.Duration(h.span)), h.watermark()),
	}
}
