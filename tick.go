package evalstream

import (
	"context"
	"time"
)

// startTicks publishes on the clock if a stage asks for it; the function it
// returns waits for the end of that.
func (r *runner) startTicks(ctx context.Context) (stop func()) {
	interval := r.interval()
	if interval <= 0 {
		return func() {}
	}
	return r.repeat(ctx, interval, r.tickAll)
}

// repeat acts by the clock until that fails, which ends the job; the function it
// returns waits for the end of that.
func (r *runner) repeat(ctx context.Context, interval time.Duration, act func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(interval)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				if err := act(ctx); err != nil {
					r.fail(err)
					return
				}
			}
		}
	}()
	return func() { cancel(); <-done }
}

func (r *runner) interval() time.Duration {
	if r.gatherL != nil && r.gatherL.every.Interval > 0 {
		return r.gatherL.every.Interval
	}
	for _, s := range r.back {
		if st, err := s.New(); err == nil {
			if t, ok := st.(Ticker); ok && t.Every().Interval > 0 {
				return t.Every().Interval
			}
		}
	}
	return 0
}

// tickAll ticks every lane, and then once what gathers from them: a result is never
// published with a part of the partitions alone because they were read back one by one.
func (r *runner) tickAll(ctx context.Context) error {
	g := r.gatherL
	for _, l := range r.sorted() {
		l.mu.Lock()
		l.begin()
		ticked, err := l.tickOwn(ctx)
		if err == nil {
			l.end()
		}
		if ticked && g != nil {
			g.mu.Lock()
			g.follow(l)
			g.mu.Unlock()
		}
		l.mu.Unlock()
		if err != nil {
			return err
		}
	}
	if g != nil {
		g.mu.Lock()
		ticked, err := g.tickOwn(ctx)
		g.mu.Unlock()
		if err != nil {
			return err
		}
		if ls := r.sorted(); ticked && len(ls) > 0 {
			ls[0].mu.Lock()
			ls[0].unsaved() // what gathers keeps nothing, but has published
			ls[0].mu.Unlock()
		}
	}
	return r.flush(ctx)
}

// watermark is the least of the partitions', without those that are idle. There is
// none before every partition has spoken or been idle for long enough.
func (r *runner) watermark(now time.Time) Time {
	idle := r.job.IdleTimeout
	lanes := r.sorted()
	if len(lanes) < len(r.owned()) && (idle <= 0 || now.Sub(r.started) < idle) {
		return NoTime
	}
	least, awake := EndOfTime, false
	for _, l := range lanes {
		if l.quiet(now) {
			continue
		}
		least, awake = min(least, Time(l.mark.Load())), true
	}
	if !awake {
		return NoTime
	}
	return least
}
