package cli

import (
	"context"
	"sync"

	"evalstream"
)

// followed is a sink whose results others see too, before they go on.
type followed struct {
	evalstream.Sink
	by []func(*evalstream.Result)
}

// Write shows each result.
func (s *followed) Write(ctx context.Context, recs []evalstream.Record) error {
	for i := range recs {
		if r, ok := recs[i].Body.(*evalstream.Result); ok {
			for _, f := range s.by {
				f(r)
			}
		}
	}
	return s.Sink.Write(ctx, recs)
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

// headline is the one result that a progress line shows: of the first metric and group
// that were published, over all time if that is published.
type headline struct {
	mu      sync.Mutex
	key     string
	window  evalstream.Window
	text    string
	groups  string // the group that others were seen beside
	several bool
}

// Result takes r if it is the one to show.
func (h *headline) Result(r *evalstream.Result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := r.Metric
	group := ""
	for _, by := range r.By {
		key += "\x00" + by.Name + "\x00" + by.Value
		group += " " + shown(by.Value)
	}
	if h.groups == "" {
		h.groups = group
	}
	h.several = h.several || group != h.groups
	switch {
	case h.key == "" || r.Window.All && !h.window.All:
	case key != h.key || !r.Window.All && (h.window.All || r.Window.Start < h.window.Start):
		return
	}
	h.key, h.window = key, r.Window
	h.text = headlineText(r, group, h.several)
}

// Text is the result as a person reads it, "" before there is one.
func (h *headline) Text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text
}

func headlineText(r *evalstream.Result, group string, several bool) string {
	s := r.Metric
	if several {
		s += group
	}
	if r.Undefined != "" {
		return s + " undefined, n " + count(r.N)
	}
	d := rowDecimals(r)
	s += " " + fixed(r.Value, d)
	if iv, ok := shownInterval(r); ok {
		s += " ± " + fixed((iv.High-iv.Low)/2, d)
	}
	return s + ", n " + count(r.N)
}
