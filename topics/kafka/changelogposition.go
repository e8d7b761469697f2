package kafka

import "context"

// OpenPosition is OpenChangelog for those who remember nothing else: the topic has their
// checkpoint under one key, and no cache is needed. It may be that of other options and
// of other partitions, so these are not compared.
func (c *Client) OpenPosition(ctx context.Context, opt ChangelogOptions) (*Changelog, error) {
	l := &Changelog{opt: opt}
	var err error
	if l.limit, err = c.limit(ctx, opt.Topic); err != nil {
		return nil, c.explain(opt.Topic, err)
	}
	if _, err := l.span(ctx, c); err != nil {
		return nil, err
	}
	if err := l.settled(ctx, c); err != nil {
		return nil, err
	}
	last, err := l.newest(ctx, c)
	if err != nil {
		return nil, err
	}
	e, err := l.entry(&last)
	if err == nil && last.Key != nil {
		err = l.sound(e, last.Offset)
	}
	if err != nil {
		return nil, err
	}
	l.loaded = e.Checkpoint
	return l, l.adopt(e.ID)
}
