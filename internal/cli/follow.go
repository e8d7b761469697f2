package cli

import (
	"context"
	"slices"
	"strings"
	"sync"

	"evalstream"
	"evalstream/stages"
)

// followed is a sink whose results others see too, before they go on.
type followed struct {
	evalstream.Sink
	first func() error // nil once it was called
	by    []func(*evalstream.Result)
}

// follow shows results to others, and calls first before the first of them; the sink can
// be cut back if the one behind can.
func follow(sink evalstream.Sink, first func() error, by []func(*evalstream.Result)) evalstream.Sink {
	s := &followed{Sink: sink, first: first, by: by}
	if _, ok := sink.(evalstream.ResumableSink); ok {
		return s
	}
	return struct{ evalstream.Sink }{s}
}

// Write shows each result.
func (s *followed) Write(ctx context.Context, recs []evalstream.Record) error {
	for i := range recs {
		if r, ok := recs[i].Body.(*evalstream.Result); ok {
			if s.first != nil {
				if err := s.first(); err != nil {
					return err
				}
				s.first = nil
			}
			for _, f := range s.by {
				f(r)
			}
		}
	}
	return s.Sink.Write(ctx, recs)
}

// Length is that of the sink behind, 0 if it cannot be cut back.
func (s *followed) Length() (int64, error) {
	if r, ok := s.Sink.(evalstream.ResumableSink); ok {
		return r.Length()
	}
	return 0, nil
}

// CutBack cuts the sink behind back, if it can be.
func (s *followed) CutBack(n int64) error {
	if r, ok := s.Sink.(evalstream.ResumableSink); ok {
		return r.CutBack(n)
	}
	return nil
}

// both calls the hooks of a, then those of b.
func both(a, b evalstream.Hooks) evalstream.Hooks {
	return evalstream.Hooks{
		Block: func(p evalstream.Progress) {
			if a.Block != nil {
				a.Block(p)
			}
			if b.Block != nil {
				b.Block(p)
			}
		},
		Took: pair(a.Took, b.Took), Made: pair(a.Made, b.Made), Rejected: pairRejected(a.Rejected, b.Rejected),
		Calls: pairCalls(a.Calls, b.Calls),
	}
}

func pair(a, b func(step, kind string, n int)) func(step, kind string, n int) {
	if a == nil || b == nil {
		if a == nil {
			return b
		}
		return a
	}
	return func(step, kind string, n int) {
		a(step, kind, n)
		b(step, kind, n)
	}
}

func pairRejected(a, b func(string, evalstream.Class)) func(string, evalstream.Class) {
	if a == nil || b == nil {
		if a == nil {
			return b
		}
		return a
	}
	return func(step string, class evalstream.Class) {
		a(step, class)
		b(step, class)
	}
}

func pairCalls(a, b func(string, evalstream.Calls)) func(string, evalstream.Calls) {
	if a == nil || b == nil {
		if a == nil {
			return b
		}
		return a
	}
	return func(step string, now evalstream.Calls) {
		a(step, now)
		b(step, now)
	}
}

// headline is the one result that a progress line shows: of one metric and the group that
// was published first, over all time if that is published.
type headline struct {
	prefer string // the metric, if it is published; else the first that is

	mu            sync.Mutex
	metric, group string
	first         string // group seen first
	several       bool
	window        evalstream.Window
	numbers       string
}

// Result takes r if it is the one to show.
func (h *headline) Result(r *evalstream.Result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var values strings.Builder
	for _, by := range r.By {
		values.WriteString(" " + shown(by.Value))
	}
	group := values.String()
	if r.Undefined == "withdrawn" && (r.Metric != h.metric || group != h.group) {
		return
	}
	if h.metric == "" {
		h.first = group
	}
	h.several = h.several || group != h.first
	switch {
	case h.metric == "", r.Metric == h.prefer && h.metric != h.prefer:
	case r.Metric != h.metric || group != h.group:
		return
	case r.Window.All && !h.window.All:
	case r.Window.All != h.window.All || r.Window.Start < h.window.Start:
		return
	}
	h.metric, h.group, h.window, h.numbers = strings.Clone(r.Metric), group, r.Window, headlineNumbers(r)
}

// Text is the result as a person reads it, "" before there is one. The group is named if
// there are others.
func (h *headline) Text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.several {
		return h.metric + h.group + h.numbers
	}
	return h.metric + h.numbers
}

func headlineNumbers(r *evalstream.Result) string {
	if r.Undefined != "" {
		return " undefined, n " + count(r.N)
	}
	d := rowDecimals(r)
	s := " " + fixed(r.Value, d)
	if iv, ok := shownInterval(r); ok {
		s += " ± " + fixed((iv.High-iv.Low)/2, d)
	}
	return s + ", n " + count(r.N)
}

// headlineMetric is the metric that a pipeline is about: the first measure asked for.
func headlineMetric(list []stage) string {
	for _, s := range list {
		if o, ok := s.options.(*stages.ScoreOptions); ok {
			return append(slices.Clone(o.Measures), stages.DefaultMeasures()...)[0]
		}
	}
	return ""
}
