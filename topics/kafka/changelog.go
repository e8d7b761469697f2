package kafka

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"evalstream"
	"evalstream/topics"
)

// ChangelogOptions say which changelog, and what it must be that of.
type ChangelogOptions struct {
	Topic                 string
	Partition, Partitions int32
	// Options decide what the state is: a changelog made with others is refused.
	Options []evalstream.Option
	// Codec is that of the transactor that will write.
	Codec Codec
	// Cache is what the changelog is loaded into: a store that holds this partition
	// alone. What it has already is not loaded again where that is safe; else Clear
	// must empty it. Clear may be nil for a store that is new.
	Cache evalstream.Store
	Clear func() error
	// Progress is told now and then how many messages were read so far. It may be nil.
	Progress func(records int64)
}

// Changelog is the state of one partition as a partition of a compacted topic: the last
// message of a key is an entry's value, a tombstone its deletion. The key is the step's
// name, a zero byte, and the entry's own key. Each commit ends with a message under
// [checkpointName], so that what lies behind the last of these is not in effect.
//
// The cache holds the same. Its position is that behind the last checkpoint it has, so
// that the checkpoint itself is read again the next time, and tells whether the topic
// is still the one that the cache was made from.
//
// Append may be called while Apply is; each belongs to one goroutine.
type Changelog struct {
	opt    ChangelogOptions
	limit  int    // max.message.bytes of the topic
	head   []byte // of a checkpoint's value
	note   note
	asked  int64 // when the topic's end was asked for, in milliseconds
	loaded *evalstream.Checkpoint
}

// checkpointName is the key of checkpoints. No step's entry has it, since a step has a
// name.
const checkpointName = "\x00checkpoint"

// changelogFormat is raised when the same bytes begin to mean something else.
// 1 had longer cursors, and is read.
const changelogFormat = 2

// origin says where a state comes from. It is in front of each checkpoint.
type origin struct {
	Format int `json:"format"`
	// ID tells a topic from one of the same name that was there before.
	ID         string   `json:"id"`
	Partitions int32    `json:"partitions"`
	Options    []option `json:"options"`
}

type option struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type checkpointEntry struct {
	origin
	Checkpoint *evalstream.Checkpoint `json:"checkpoint"`
}

// note is what the cache knows of itself. It is an entry of the step "".
type note struct {
	origin
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// Next is the position: everything before it is in the cache.
	Next int64 `json:"next"`
	// Millis is when nothing was there yet behind Next.
	Millis int64 `json:"millis"`
}

const noteKey = "changelog"

// OpenChangelog loads a partition of a changelog into the cache, up to the end it has
// then: the partition must have been taken over, and belong to the caller until it
// closes the cache. A changelog of other options, or of another number of partitions,
// is exit 5.
func (c *Client) OpenChangelog(ctx context.Context, opt ChangelogOptions) (*Changelog, error) {
	l := &Changelog{opt: opt}
	err := l.counted(ctx, c)
	if err != nil {
		return nil, err
	}
	if l.limit, err = c.limit(ctx, opt.Topic); err != nil {
		return nil, c.explain(opt.Topic, err)
	}
	span, err := l.span(ctx, c)
	if err != nil {
		return nil, err
	}
	now := time.Now() // before the end is asked for: later tombstones live longer
	l.asked = now.UnixMilli()
	if err := l.settled(ctx, c); err != nil {
		return nil, err
	}
	first, end, err := c.bounds(ctx, l.tp())
	if err != nil {
		return nil, c.explain(l.tp().String(), err)
	}
	why, err := l.recall()
	if err == nil && why == "" && l.resumes() {
		why = l.note.stale(first, end, now, span)
	}
	if err == nil && why != "" {
		err = l.clear(ctx, c, why)
	}
	if err != nil {
		return nil, err
	}
	from := first
	if l.resumes() {
		from = l.note.again()
	}
	if err := l.load(ctx, c, first, from, end); err != nil {
		return nil, err
	}
	return l, nil
}

// settled waits for a transaction of a former owner that is being committed: its end can
// be seen in the group's offsets before it is in the topic.
func (l *Changelog) settled(ctx context.Context, c *Client) error {
	return c.explain(l.tp().String(), c.closed(ctx, l.tp()))
}

// counted compares the topic's partitions with those of its inputs.
func (l *Changelog) counted(ctx context.Context, c *Client) error {
	n, err := c.recount(ctx, l.opt.Topic)
	if err == nil && n != l.opt.Partitions {
		err = l.unfit("topic has %d partitions, its inputs have %d", n, l.opt.Partitions)
	}
	return err
}

// span is how long the topic remembers deletions; 0 if that cannot be known. A topic
// that forgets entries by age is no changelog.
func (l *Changelog) span(ctx context.Context, c *Client) (time.Duration, error) {
	const policy, retention = "cleanup.policy", "delete.retention.ms"
	values, err := c.topicConfig(ctx, l.opt.Topic, policy, retention)
	if denied(err) != "" {
		return 0, nil
	}
	if err != nil {
		return 0, c.explain(l.opt.Topic, err)
	}
	if p, ok := values[policy]; ok && p != "compact" {
		return 0, &evalstream.ExitError{
			Code: evalstream.ExitState, Err: fmt.Errorf("%s: want %s=compact, got %s: the state would be forgotten by age", l.opt.Topic, policy, p),
			Hint: "set it with kafka-configs --alter",
		}
	}
	ms, _ := atoi(values[retention])
	return time.Duration(ms) * time.Millisecond, nil
}

// recall reads what the cache says of itself, and says why it is not that of this
// changelog; "" if it is, or is empty.
func (l *Changelog) recall() (why string, err error) {
	cp, err := l.opt.Cache.Checkpoint(l.opt.Partition)
	if err != nil || cp == nil {
		return "", err
	}
	data, found, err := l.opt.Cache.Get(nil, "", l.opt.Partition, []byte(noteKey))
	if err != nil {
		return "", err
	}
	if !found {
		return "it says nothing of a changelog", nil
	}
	if err := json.Unmarshal(data, &l.note); err != nil {
		return "its note cannot be read", nil //nolint:nilerr // the cache is made again
	}
	l.loaded = cp
	n := &l.note
	if n.Format != changelogFormat || n.Topic != l.opt.Topic || n.Partition != l.opt.Partition || n.Partitions != l.opt.Partitions || n.ID == "" || n.Next < 0 {
		return fmt.Sprintf("it is that of %s[%d] of %d partitions", n.Topic, n.Partition, n.Partitions), nil
	}
	return l.differs(&n.origin), nil
}

// resumes says that the cache can be gone on with.
func (l *Changelog) resumes() bool { return l.note.ID != "" }

// again is the offset of the checkpoint before the position.
func (n *note) again() int64 { return max(0, n.Next-1) }

// stale says why the cache cannot be read on from its position; "" if it can.
func (n *note) stale(first, end int64, now time.Time, span time.Duration) string {
	age := now.Sub(time.UnixMilli(n.Millis))
	switch {
	case n.again() < first || n.Next > end:
		return fmt.Sprintf("its position is %d, and the topic has %d to %d", n.Next, first, end)
	case age < 0 || age > span/2:
		return fmt.Sprintf("it is %v old, and the topic forgets deletions after %v", age.Round(time.Second), span)
	}
	return ""
}

func (l *Changelog) clear(ctx context.Context, c *Client, why string) error {
	if l.opt.Clear == nil {
		return l.unfit("the cache is of no use: %s", why)
	}
	c.conf.log().WarnContext(ctx, "the cache of the state is made again", "changelog", l.tp().String(), "because", why)
	l.note, l.loaded = note{}, nil
	return l.opt.Clear()
}

// Checkpoint is the last one that was loaded; nil if nothing was ever committed.
func (l *Changelog) Checkpoint() *evalstream.Checkpoint { return l.loaded }

// Append appends the messages of one commit, in memory of their own. A *TooLargeError
// in an exit 4 says that the topic cannot take one of them.
func (l *Changelog) Append(dst []Output, changes []evalstream.StepChanges, cp *evalstream.Checkpoint) ([]Output, error) {
	point, err := json.Marshal(cp)
	if err != nil {
		return dst, err
	}
	size := len(checkpointName) + len(l.head) + len(point) + 1
	for i := range changes {
		for k := range changes[i].Changes {
			e := &changes[i].Changes[k]
			size += len(changes[i].Step) + 1 + len(e.Key) + len(e.Val)
		}
	}
	arena := make([]byte, 0, size)
	kept := func(parts ...[]byte) []byte {
		from := len(arena)
		for _, p := range parts {
			arena = append(arena, p...)
		}
		return arena[from:len(arena):len(arena)]
	}
	add := func(m topics.Message) error {
		if err := within(l.opt.Topic, l.limit, &m, l.opt.Codec); err != nil {
			return &evalstream.ExitError{
				Code: evalstream.ExitLost, Err: fmt.Errorf("entry %.100q: %w", m.Key, err),
				Hint: "raise max.message.bytes of " + l.opt.Topic + " and run it again; nothing was lost",
			}
		}
		dst = append(dst, Output{To: l.tp(), Message: m})
		return nil
	}
	zero := []byte{0}
	for i := range changes {
		step := []byte(changes[i].Step)
		for k := range changes[i].Changes {
			e := &changes[i].Changes[k]
			m := topics.Message{Key: kept(step, zero, e.Key)}
			if e.Val != nil {
				m.Value = kept(e.Val)
			}
			if err := add(m); err != nil {
				return dst, err
			}
		}
	}
	return dst, add(topics.Message{Key: kept([]byte(checkpointName)), Value: kept(l.head, point, []byte{'}'})})
}

// Apply takes a commit into the cache once it has taken effect. end is what Unit.Done
// gave for the partition; 0 where it gave nothing: the cache is then read on from
// further back the next time.
func (l *Changelog) Apply(changes []evalstream.StepChanges, cp *evalstream.Checkpoint, end int64) error {
	if end > l.note.Next {
		l.note.Next, l.note.Millis = end, time.Now().UnixMilli()
	}
	return l.commit(changes, cp)
}

// commit takes changes into the cache, and the note with them.
func (l *Changelog) commit(changes []evalstream.StepChanges, cp *evalstream.Checkpoint) error {
	data, err := json.Marshal(&l.note)
	if err != nil {
		return err
	}
	own := evalstream.StepChanges{Changes: []evalstream.Change{{Key: []byte(noteKey), Val: data}}}
	return l.opt.Cache.Commit(l.opt.Partition, append(slices.Clip(changes), own), cp)
}

func (l *Changelog) tp() TopicPartition { return TopicPartition{l.opt.Topic, l.opt.Partition} }

// adopt gives everything that is written from now on the topic's id; "" is a new one.
func (l *Changelog) adopt(id string) error {
	if id == "" {
		id = rand.Text()
	}
	o := origin{Format: changelogFormat, ID: id, Partitions: l.opt.Partitions, Options: []option{}}
	for _, opt := range l.opt.Options {
		o.Options = append(o.Options, option{opt.Name, opt.Value})
	}
	l.note.origin, l.note.Topic, l.note.Partition = o, l.opt.Topic, l.opt.Partition
	data, err := json.Marshal(&o)
	if err != nil {
		return err
	}
	l.head = append(bytes.TrimSuffix(data, []byte{'}'}), `,"checkpoint":`...)
	return nil
}

// differs says how the options of o are not those that are wanted.
func (l *Changelog) differs(o *origin) string {
	were := make([]evalstream.Option, len(o.Options))
	for i, had := range o.Options {
		were[i] = evalstream.Option{Name: had.Name, Value: had.Value}
	}
	return evalstream.OptionsDiffer(were, l.opt.Options)
}

// unfit says that a changelog cannot be that of this pipeline (exit 5).
func (l *Changelog) unfit(format string, args ...any) error {
	return &evalstream.ExitError{
		Code: evalstream.ExitState, Err: fmt.Errorf(l.tp().String()+": "+format, args...),
		Hint: "stop all members and run evalstream topics reset PIPELINE.yaml, which reads the inputs from their start; or give the pipeline another name",
	}
}
