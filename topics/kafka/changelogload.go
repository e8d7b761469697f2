package kafka

import (
	"bytes"
	"context"
	"encoding/json"

	"evalstream"
	"evalstream/topics"
)

// A commit of the cache while loading holds about so much.
const (
	loadEntries = 10_000
	loadBytes   = 4 << 20
)

// load reads the changelog from an offset on; first is where it begins.
func (l *Changelog) load(ctx context.Context, c *Client, first, from, end int64) error {
	ld := &loader{l: l, at: map[string]int{}}
	if ld.point = l.loaded; ld.point == nil {
		ld.point = &evalstream.Checkpoint{}
	}
	err := c.scan(ctx, l.tp(), from, end, ReadOptions{MaxBytes: loadBytes}, func(b Batch) error {
		for i := range b.Messages {
			if b.Messages[i].Offset >= end {
				break
			}
			if err := ld.take(&b.Messages[i]); err != nil {
				return err
			}
		}
		if l.opt.Progress != nil {
			l.opt.Progress(ld.read)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if ld.behind > 0 {
		return l.unfinished(ld.behind)
	}
	if ld.last.Key == nil && !l.resumes() {
		l.note.Millis = l.asked
		return l.adopt("")
	}
	e, err := l.entry(&ld.last)
	if err != nil {
		return err
	}
	if l.resumes() && e.ID != l.note.ID {
		if err := l.clear(ctx, c, "the topic was deleted and made again"); err != nil {
			return err
		}
		return l.load(ctx, c, first, first, end)
	}
	if err := l.fits(e, ld.last.Offset); err != nil {
		return err
	}
	if err := l.adopt(e.ID); err != nil {
		return err
	}
	l.loaded, l.note.Next, l.note.Millis = e.Checkpoint, ld.last.Offset+1, l.asked
	return l.commit(ld.changes, e.Checkpoint)
}

// unfinished says that the last checkpoint does not stand for all that is in front of the
// end: whoever writes entries commits a checkpoint with them.
func (l *Changelog) unfinished(behind int64) error {
	return l.unfit("%d entries without a checkpoint behind them: something else writes to this topic", behind)
}

// entry reads a checkpoint; one without a key is that of nothing.
func (l *Changelog) entry(m *topics.Message) (*checkpointEntry, error) {
	e := new(checkpointEntry)
	if m.Key == nil {
		return e, nil
	}
	if err := json.Unmarshal(m.Value, e); err != nil {
		return nil, l.unfit("checkpoint at offset %d cannot be read: %w", m.Offset, err)
	}
	return e, nil
}

// fits says if a checkpoint cannot be gone on with.
func (l *Changelog) fits(e *checkpointEntry, at int64) error {
	switch err := l.sound(e, at); {
	case err != nil:
		return err
	case e.Partitions != l.opt.Partitions:
		return l.unfit("state was made with %d partitions, there are %d: keys would be elsewhere", e.Partitions, l.opt.Partitions)
	case l.differs(&e.origin) != "":
		return l.unfit("state was made with other options: %s", l.differs(&e.origin))
	}
	return nil
}

// sound says if a checkpoint is not one of ours.
func (l *Changelog) sound(e *checkpointEntry, at int64) error {
	switch {
	case e.Format < 1 || e.Format > changelogFormat:
		return l.unfit("want format 1 to %d, got %d: another version of evalstream has written it", changelogFormat, e.Format)
	case e.Checkpoint == nil || e.ID == "":
		return l.unfit("checkpoint at offset %d is not whole", at)
	}
	return nil
}

// loader takes messages of a changelog into the cache. What it commits on the way does
// not move the cache's position: what is put there again does no harm, and a cache
// without a position is not used.
type loader struct {
	l       *Changelog
	point   *evalstream.Checkpoint // that the cache has
	changes []evalstream.StepChanges
	at      map[string]int // of a step in changes
	entries int
	bytes   int
	read    int64
	behind  int64          // entries behind last
	last    topics.Message // the last checkpoint; no key: there was none
}

func (ld *loader) take(m *topics.Message) error {
	ld.read++
	if string(m.Key) == checkpointName {
		ld.last, ld.behind = *m, 0
		return nil
	}
	step, key, ok := bytes.Cut(m.Key, []byte{0})
	if !ok || len(step) == 0 {
		return ld.l.unfit("message at offset %d has the key %.100q, which is no entry's: something else writes to this topic", m.Offset, m.Key)
	}
	i, ok := ld.at[string(step)]
	if !ok {
		i = len(ld.changes)
		ld.at[string(step)] = i
		ld.changes = append(ld.changes, evalstream.StepChanges{Step: string(step)})
	}
	ld.changes[i].Changes = append(ld.changes[i].Changes, evalstream.Change{Key: key, Val: m.Value})
	ld.behind++
	ld.entries++
	ld.bytes += len(m.Key) + len(m.Value)
	if ld.entries < loadEntries && ld.bytes < loadBytes {
		return nil
	}
	if err := ld.l.opt.Cache.Commit(ld.l.opt.Partition, ld.changes, ld.point); err != nil {
		return err
	}
	for i := range ld.changes {
		clear(ld.changes[i].Changes)
		ld.changes[i].Changes = ld.changes[i].Changes[:0]
	}
	ld.entries, ld.bytes = 0, 0
	return nil
}
