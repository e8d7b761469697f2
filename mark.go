package evalstream

import (
	"context"
	"slices"
	"time"
)

// startMarks lets every partition say how far it has come, at once and then by the
// clock; the function it returns waits for the end of that.
func (r *runner) startMarks(ctx context.Context) (stop func()) {
	every := r.job.MarkEvery
	if every <= 0 {
		return func() {}
	}
	if err := r.markAll(ctx); err != nil {
		r.fail(err)
		return func() {}
	}
	return r.repeat(ctx, every, r.markAll)
}

func (r *runner) markAll(ctx context.Context) error {
	for _, l := range r.sorted() {
		l.mu.Lock()
		err := l.say(ctx, false)
		l.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// say writes a mark if there is news; the caller holds the lane.
func (l *lane) say(ctx context.Context, ended bool) error {
	m := l.position(time.Now())
	m.Ended = ended
	if m.same(&l.said) {
		return nil
	}
	l.said = m
	l.unsaved()
	l.r.sinkMu.Lock()
	defer l.r.sinkMu.Unlock()
	return l.r.job.Sink.Write(ctx, []Record{{Body: &m, Time: NoTime}})
}

// position is how far the lane has come.
func (l *lane) position(now time.Time) Mark {
	steps := l.r.job.Pipeline.Steps
	m := Mark{
		Step: steps[len(steps)-1].Name, Partition: l.partition, Partitions: max(1, l.r.job.Partitions),
		Watermark: Time(l.mark.Load()), Idle: l.idle(now),
	}
	if l.reach != nil {
		m.Through = l.reach.Through
	}
	return m
}

// idle reports whether nothing has come for the idle timeout; behind a cut, whether all
// partitions of the step before say so.
func (l *lane) idle(now time.Time) bool {
	if l.r.job.Marked {
		return l.reach != nil && len(l.reach.Marks) > 0 && !slices.ContainsFunc(l.reach.Marks, func(m Mark) bool { return !m.Idle })
	}
	return l.r.inFlight.Load() == 0 && l.quiet(now)
}

// quiet reports whether the partition has given nothing for the idle timeout, and held
// nothing at the end of it.
func (l *lane) quiet(now time.Time) bool {
	timeout := l.r.job.IdleTimeout
	if timeout <= 0 {
		return false
	}
	if s, ok := l.r.job.Source.(LiveSource); ok {
		if now = s.CaughtUp(l.partition); now.IsZero() {
			return false
		}
	}
	return now.UnixNano()-l.active.Load() >= int64(timeout)
}

func (m *Mark) same(o *Mark) bool {
	return m.Step == o.Step && m.Watermark == o.Watermark && m.Idle == o.Idle && m.Ended == o.Ended && slices.Equal(m.Through, o.Through)
}

// arrive takes in how far the source has come with a block that has been applied.
func (l *lane) arrive(ctx context.Context, reach *Reach) error {
	if reach == nil {
		return nil
	}
	l.reach = reach
	if !l.r.job.Marked {
		return nil
	}
	if len(reach.Through) > 0 {
		l.follows(reach.Through)
	}
	if reach.Watermark <= l.watermark {
		return nil
	}
	l.mark.Store(int64(reach.Watermark))
	return l.advance(ctx, reach.Watermark)
}

// follows makes results say how far the topics at the front of the pipeline have come.
func (l *lane) follows(through []Cursor) {
	all := make([]Through, 0, len(through))
	for i := range through {
		if through[i].Next > 0 {
			all = append(all, Through{Origin: &through[i].Origin, Line: through[i].Next - 1})
		}
	}
	l.through = all
}
