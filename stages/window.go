package stages

import (
	"fmt"
	"strings"
	"time"

	"evalstream"
)

// Window is how event time is cut: all of it, or spans of Size that start every
// Step. Size is a multiple of Step; they are equal for tumbling windows.
type Window struct {
	All        bool
	Size, Step time.Duration
}

// ParseWindow reads all, SIZE (tumbling) or SIZE/STEP (hopping), with units as in
// 90s, 15m, 1h, 7d.
func ParseWindow(s string) (Window, error) {
	if s == "all" {
		return Window{All: true}, nil
	}
	size, step, hopping := strings.Cut(s, "/")
	if !hopping {
		step = size
	}
	w := Window{}
	var err error
	if w.Size, err = ParseSpan(size); err == nil {
		w.Step, err = ParseSpan(step)
	}
	switch {
	case err != nil:
		return w, fmt.Errorf("window %q: %w", s, err)
	case w.Step <= 0 || w.Size <= 0:
		return w, fmt.Errorf("window %q: want spans longer than 0", s)
	case w.Size%w.Step != 0:
		return w, fmt.Errorf("window %q: want a size that is a multiple of the step", s)
	}
	if n := w.panes(); n > maxPanes {
		return w, fmt.Errorf("window %q: want at most %d steps in its size, got %d", s, maxPanes, n)
	}
	return w, nil
}

// maxPanes bounds in how many windows one unit is.
const maxPanes = 10000

// covers says that each window of o is one of w too.
func (w Window) covers(o Window) bool {
	return w != o && !w.All && !o.All && w.Size == o.Size && o.Step%w.Step == 0
}

// String is the form that ParseWindow reads.
func (w Window) String() string {
	switch {
	case w.All:
		return "all"
	case w.Size == w.Step:
		return spanText(w.Size)
	}
	return spanText(w.Size) + "/" + spanText(w.Step)
}

// panes is how many steps a window has.
func (w Window) panes() int64 {
	if w.All {
		return 1
	}
	return int64(w.Size / w.Step)
}

// from is the window that starts with a pane.
func (w Window) from(pane int64) evalstream.Window {
	if w.All {
		return evalstream.Window{All: true}
	}
	return evalstream.Window{Start: edge(pane, w.Step), End: edge(pane+w.panes(), w.Step)}
}

// edge is the start of a pane, held within what a time can be: a window may reach
// beyond the times that records have.
func edge(pane int64, step time.Duration) evalstream.Time {
	const first, last = evalstream.NoTime + 1, evalstream.EndOfTime - 1
	switch n := int64(step); {
	case pane < int64(first)/n:
		return first
	case pane > int64(last)/n:
		return last
	}
	return evalstream.Time(pane * int64(step))
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// finest is the longest span that every pane is made of; 0 if no window needs time.
func finest(ws []Window) time.Duration {
	var g time.Duration
	for _, w := range ws {
		if w.All {
			continue
		}
		a, b := g, w.Step
		for b != 0 {
			a, b = b, a%b
		}
		g = a
	}
	return g
}
