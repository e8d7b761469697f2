package kafka

import (
	"context"
	"errors"

	"evalstream/topics"
)

// CheckChangelog refuses a changelog that is not that of these options, as OpenChangelog
// does (exit 5), but reads its last checkpoint alone: nothing is taken over and no cache
// is needed, so it can be asked before anything begins. OpenChangelog asks again.
func (c *Client) CheckChangelog(ctx context.Context, opt ChangelogOptions) error {
	l := &Changelog{opt: opt}
	if err := l.counted(ctx, c); err != nil {
		return err
	}
	last, err := l.newest(ctx, c)
	if err != nil || last.Key == nil {
		return err
	}
	e, err := l.entry(&last)
	if err != nil {
		return err
	}
	return l.fits(e, last.Offset)
}

// newest is the last checkpoint that is in effect; no key: there is none. A commit ends
// with one, so only ends of transactions, and those that were aborted, are behind it.
func (l *Changelog) newest(ctx context.Context, c *Client) (last topics.Message, err error) {
	first, end, err := c.bounds(ctx, l.tp())
	if err != nil {
		return last, c.explain(l.tp().String(), err)
	}
	for back := int64(16); ; back *= 16 {
		from, behind := max(first, end-back), int64(0)
		err = c.scan(ctx, l.tp(), from, end, ReadOptions{}, func(b Batch) error {
			for i := range b.Messages {
				switch m := &b.Messages[i]; {
				case m.Offset >= end:
				case string(m.Key) == checkpointName:
					last, behind = *m, 0
				default:
					behind++
				}
			}
			return nil
		})
		switch {
		case err != nil:
			return last, err
		case behind > 0 && (last.Key != nil || from == first):
			return last, l.unfinished(behind)
		case last.Key != nil || from == first:
			return last, nil
		}
	}
}

// Check refuses to run on a state that was made with other options (exit 5). Segments
// that run together are all asked before the first of them begins: one without a state
// would publish before another finds that its own does not fit. Those of Before are asked
// too, as far as they have run and this user may look. Where members with other cuts are at
// work, that is what is said (exit 2). Drain ends it.
func (s *Segment) Check(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s.mu.Lock()
	s.stop = stop
	s.mu.Unlock()
	for _, before := range s.Before {
		if err := s.asked(ctx, before); err != nil && denied(err) == "" && !errors.Is(err, ErrNoTopic) {
			return err
		}
	}
	return s.asked(ctx, s)
}

// asked says if the state of one does not fit.
func (s *Segment) asked(ctx context.Context, one *Segment) error {
	if !one.Remembers || s.draining.Load() {
		return nil
	}
	var err error
	if one != s { // it may not be there yet
		_, err = one.Client.Partitions(ctx, one.Changelog())
	}
	if err == nil {
		err = one.fits(ctx)
	}
	if err == nil || s.draining.Load() && errors.Is(err, context.Canceled) {
		return nil
	}
	g, failed := one.Client.DescribeGroup(ctx, one.Group())
	if failed == nil && g.protocol != "" && g.protocol != (laidOut{layout: s.Layout}).ProtocolName() {
		return anotherLayout(one.Group())
	}
	return err
}

// fits looks at all partitions of the changelog.
func (s *Segment) fits(ctx context.Context) error {
	n, err := s.Client.Partitions(ctx, s.From[0])
	for p := int32(0); err == nil && p < n; p++ {
		err = s.Client.CheckChangelog(ctx, ChangelogOptions{Topic: s.Changelog(), Partition: p, Partitions: n, Options: s.Options})
	}
	return err
}
