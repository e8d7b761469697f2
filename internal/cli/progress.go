package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"evalstream"
)

const (
	redrawEvery = 250 * time.Millisecond
	plainEvery  = 30 * time.Second
	rateOver    = 5 * time.Second
)

// Style is how progress is shown.
type Style int

// The styles of progress.
const (
	StyleNone  Style = iota // -q
	StylePlain              // a line of key=value every 30 s
	StyleLine               // one line, redrawn in place at most 4 times a second
)

// StyleOf picks the style: nothing if quiet, a redrawn line on a terminal that can,
// plain lines elsewhere. getenv is os.Getenv. Neither style uses colors or escape
// codes, so NO_COLOR needs no case of its own.
func StyleOf(quiet, terminal bool, getenv func(string) string) Style {
	switch {
	case quiet:
		return StyleNone
	case terminal && getenv("TERM") != "dumb":
		return StyleLine
	}
	return StylePlain
}

// Snapshot is what a progress line shows beside the counts of the runner.
type Snapshot struct {
	ReadBytes, TotalBytes int64
	Known                 bool   // TotalBytes is the end, so there is a share and an ETA
	Headline              string // a metric's present value, such as "success@1 0.231 ± 0.021, n 1,668"; "" for none
}

// Progress shows how far a job has come. It writes from a goroutine of its own, which
// ends with Stop; until then, others write whole lines to the same terminal through
// Write, which keeps them apart from the line that is redrawn.
type Progress struct {
	w        io.Writer
	style    Style
	width    int
	snapshot func() Snapshot

	lines   atomic.Int64
	rejects atomic.Int64

	waiting sync.Mutex                  // guards calls
	calls   map[string]evalstream.Calls // of remote steps, by name

	stop chan struct{}
	done chan struct{}
	once sync.Once

	samples []sample // of the last rateOver

	mu    sync.Mutex // guards w and what stands on it
	drawn int        // columns of the line that stands on the terminal
	last  string
}

type sample struct {
	at           time.Time
	lines, bytes int64
}

// NewProgress starts to show progress on w, in lines of fewer than width columns (0
// is 80). snapshot is called at each redraw, from another goroutine, and may be nil.
func NewProgress(w io.Writer, style Style, width int, snapshot func() Snapshot) *Progress {
	if width <= 0 {
		width = defaultWidth
	}
	if snapshot == nil {
		snapshot = func() Snapshot { return Snapshot{} }
	}
	p := &Progress{w: w, style: style, width: width, snapshot: snapshot, calls: map[string]evalstream.Calls{}, stop: make(chan struct{}), done: make(chan struct{})}
	if style == StyleNone {
		close(p.done)
		return p
	}
	p.samples = []sample{{at: time.Now()}}
	go p.show()
	return p
}

// Hooks are for the job that is shown.
func (p *Progress) Hooks() evalstream.Hooks {
	return evalstream.Hooks{
		Block: func(at evalstream.Progress) {
			// Blocks of several partitions may report out of order; counts only grow.
			grow(&p.lines, at.Lines)
			grow(&p.rejects, at.Rejects)
		},
		Calls: func(step string, now evalstream.Calls) {
			p.waiting.Lock()
			defer p.waiting.Unlock()
			p.calls[step] = now
		},
	}
}

// remote is the step that has most records to wait for; "" if none waits.
func (p *Progress) remote() (step string, now evalstream.Calls) {
	p.waiting.Lock()
	defer p.waiting.Unlock()
	for _, name := range slices.Sorted(maps.Keys(p.calls)) {
		if c := p.calls[name]; c.Records-c.Settled > now.Records-now.Settled {
			step, now = name, c
		}
	}
	return step, now
}

func grow(v *atomic.Int64, n int64) {
	for {
		have := v.Load()
		if n <= have || v.CompareAndSwap(have, n) {
			return
		}
	}
}

// Stop clears the line and returns when nothing will be written any more. It may be
// called again.
func (p *Progress) Stop() {
	p.once.Do(func() { close(p.stop) })
	<-p.done
}

func (p *Progress) show() {
	defer close(p.done)
	every := redrawEvery
	if p.style == StylePlain {
		every = plainEvery
	}
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-p.stop:
			p.draw("")
			return
		case now := <-t.C:
			p.step(now)
		}
	}
}

// step shows the state at now. What cannot be written is not shown: progress must
// not end a job.
func (p *Progress) step(now time.Time) {
	s := p.snapshot()
	n := sample{at: now, lines: p.lines.Load(), bytes: s.ReadBytes}
	first := p.samples[0]
	p.samples = append(p.samples, n)
	for len(p.samples) > 2 && now.Sub(p.samples[1].at) >= rateOver {
		p.samples = p.samples[1:]
	}
	st := state{Snapshot: s, lines: n.lines, rejects: p.rejects.Load()}
	st.step, st.calls = p.remote()
	if st.step != "" && s.ReadBytes >= s.TotalBytes {
		st.Known = false // all is read: how far that is says nothing of what is waited for
	}
	if d := now.Sub(first.at).Seconds(); d > 0 {
		st.rate = float64(n.lines-first.lines) / d
		if bytes := float64(n.bytes - first.bytes); st.Known && bytes > 0 && s.TotalBytes >= s.ReadBytes {
			st.eta, st.hasETA = time.Duration(float64(s.TotalBytes-s.ReadBytes)/bytes*d*float64(time.Second)).Round(time.Second), true
		}
	}
	text := st.line(p.width - 1)
	if p.style == StylePlain {
		text = st.plain()
	}
	p.draw(text)
}

// Write writes whole lines above the line that stands.
func (p *Progress) Write(lines []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replace("")
	return p.w.Write(lines)
}

func (p *Progress) draw(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.style {
	case StyleLine:
		p.replace(cut(text, p.width-1))
	case StylePlain:
		if text != "" {
			fmt.Fprintln(p.w, text)
		}
	}
}

// replace puts text in place of the line that stands. The cursor never comes to the
// last column, where terminals wrap.
func (p *Progress) replace(text string) {
	if text == p.last {
		return
	}
	n := cells(text)
	line := "\r" + text
	if n < p.drawn {
		line += strings.Repeat(" ", p.drawn-n) + line
	}
	p.last, p.drawn = text, n
	_, _ = io.WriteString(p.w, line)
}

// state is what one progress line says.
type state struct {
	Snapshot
	lines, rejects int64
	rate           float64
	eta            time.Duration
	hasETA         bool
	step           string // a remote one that is waited for; "" if there is none
	calls          evalstream.Calls
}

// waits says what is waited for: "embed: 96 of 400 answered, 4 calls in flight, 2 to be tried again".
func (s state) waits() string {
	if s.step == "" {
		return ""
	}
	text := fmt.Sprintf("%s: %s of %s answered, %s in flight", s.step, count(s.calls.Settled), count(s.calls.Records), plural(int64(s.calls.InFlight), "call"))
	if s.calls.Resting > 0 {
		text += fmt.Sprintf(", %s to be tried again", count(int64(s.calls.Resting)))
	}
	return text
}

func (s state) share() (percent float64, ok bool) {
	if !s.Known || s.TotalBytes <= 0 {
		return 0, false
	}
	return 100 * float64(s.ReadBytes) / float64(s.TotalBytes), true
}

// line is what fits into width columns: the metric, then how it goes. Where there is
// too little room the least telling parts are left out first.
func (s state) line(width int) string {
	type part struct {
		text string
		keep int // the greater, the longer it stays
	}
	parts := []part{{printable(s.Headline), 5}, {plural(s.lines, "line"), 0}, {count(int64(s.rate)) + "/s", 3}}
	if p, ok := s.share(); ok {
		parts = append(parts, part{fmt.Sprintf("%.0f%%", p), 1})
	}
	if s.hasETA {
		parts = append(parts, part{"ETA " + clock(s.eta), 2})
	}
	if text := s.waits(); text != "" {
		parts = append(parts, part{text, 3})
	}
	if s.rejects > 0 {
		parts = append(parts, part{plural(s.rejects, "reject"), 4})
	}
	for {
		var texts []string
		least := -1
		for i, p := range parts {
			if p.text == "" {
				continue
			}
			texts = append(texts, p.text)
			if least < 0 || p.keep < parts[least].keep {
				least = i
			}
		}
		text := strings.Join(texts, "  ")
		if len(texts) < 2 || cells(text) <= width {
			return text
		}
		parts[least].text = ""
	}
}

func (s state) plain() string {
	line := fmt.Sprintf("progress lines=%d rejects=%d rate=%.0f", s.lines, s.rejects, s.rate)
	if s.ReadBytes > 0 {
		line += fmt.Sprintf(" bytes=%d", s.ReadBytes)
	}
	if p, ok := s.share(); ok {
		line += fmt.Sprintf(" percent=%.1f", p)
	}
	if s.hasETA {
		line += fmt.Sprintf(" eta=%s", s.eta)
	}
	if s.step != "" {
		line += fmt.Sprintf(" waits_for=%s settled=%d records=%d in_flight=%d resting=%d retries=%d", s.step, s.calls.Settled, s.calls.Records, s.calls.InFlight, s.calls.Resting, s.calls.Retries)
	}
	if s.Headline != "" {
		line += fmt.Sprintf(" now=%q", s.Headline)
	}
	return line
}

// clock is a span as m:ss or h:mm:ss.
func clock(d time.Duration) string {
	s := int64(d / time.Second)
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
