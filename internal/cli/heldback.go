package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"evalstream"
	"evalstream/stages"
	"evalstream/topics/kafka"
)

// heldFor is how long event time may stand still because of a partition before people
// are told.
const heldFor = 30 * time.Second

// heldBack watches which partitions hold back the event time of others: as long as one
// might still bring an old record, no window closes.
type heldBack struct {
	segments []*heldSegment
}

// heldSegment is what a segment that reads marks waits for.
type heldSegment struct {
	name  string
	marks func() []evalstream.Mark

	mu    sync.Mutex
	least evalstream.Time
	since time.Time       // that the least has stood still
	most  evalstream.Time // as it was then
	text  string          // "" if nothing is held back
	told  bool
}

// heldBack watches the segments of the flow that read marks, if a step waits for time.
func (f *flow) heldBack() *heldBack {
	h := new(heldBack)
	for _, s := range f.segments {
		if s.Marked() && f.timed {
			h.segments = append(h.segments, &heldSegment{name: s.Name, marks: s.Marks})
		}
	}
	return h
}

// waitsForTime reports whether a stage has windows or a horizon.
func waitsForTime(list []stage, c *common) bool {
	return c.horizon > 0 || slices.ContainsFunc(list, func(s stage) bool {
		o, ok := s.options.(*stages.AggregateOptions)
		if !ok {
			return false
		}
		a, err := o.Aggregation()
		return err == nil && a.Timed()
	})
}

// looks are those of its segments.
func (h *heldBack) looks() []func(now time.Time) string {
	var all []func(time.Time) string
	for _, s := range h.segments {
		all = append(all, s.look)
	}
	return all
}

// keepLooking takes each look once a second until stop is called, which waits until nothing is
// told any more.
func keepLooking(ctx context.Context, tell func(string), looks []func(now time.Time) string) (stop func()) {
	if len(looks) == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(time.Second)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-t.C:
				for _, look := range looks {
					if text := look(now); text != "" {
						tell(text)
					}
				}
			}
		}
	}()
	return func() { cancel(); <-done }
}

// look returns what is to be told now, which is said once.
func (s *heldSegment) look(now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	marks := s.marks()
	if marks == nil {
		return "" // what was known last stands
	}
	least, most := evalstream.EndOfTime, evalstream.NoTime
	for i := range marks {
		m := &marks[i]
		if m.Step == "" {
			return "" // nobody owns it yet
		}
		if !m.Idle && !m.Ended {
			least = min(least, m.Watermark)
		}
		most = max(most, marks[i].Watermark)
	}
	s.text = ""
	if least != s.least || s.since.IsZero() {
		s.least, s.most, s.since = least, most, now
	}
	silent := least == evalstream.NoTime && most > least
	behind := most > least && most > s.most // the others have gone on
	if now.Sub(s.since) < heldFor || !silent && !behind {
		return ""
	}
	var who []string
	for i := range marks {
		if m := &marks[i]; !m.Idle && !m.Ended && m.Watermark == least {
			who = append(who, sourcesOf(m))
		}
	}
	why := "no record with a time has come from there"
	if least != evalstream.NoTime {
		why = "event time there stands at " + least.String()
	}
	s.text = fmt.Sprintf("%s: windows and horizon wait for %s: %s; idle_timeout: 1m lets the others go on without it", s.name, strings.Join(who, ", "), why)
	if s.told {
		return ""
	}
	s.told = true
	return "note: " + s.text
}

// notes says at the end what is still held back.
func (h *heldBack) notes() []string {
	var notes []string
	for _, s := range h.segments {
		s.mu.Lock()
		if s.text != "" {
			notes = append(notes, s.text)
		}
		s.mu.Unlock()
	}
	return notes
}

// sourcesOf is the partitions behind a mark: those of the topics that its step reads, or,
// where it reads what another step has written, its own.
func sourcesOf(m *evalstream.Mark) string {
	var names []string
	for _, c := range m.Through {
		if c.Origin.Partition != m.Partition {
			names = nil
			break
		}
		names = append(names, kafka.TopicPartition{Topic: c.Origin.Name, Partition: c.Origin.Partition}.String())
	}
	if names == nil {
		return fmt.Sprintf("partition %d of %s", m.Partition, m.Step)
	}
	return strings.Join(names, " and ")
}
