package evalstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// commitBytes and commitEvery bound what a kill makes a job do again.
const (
	commitBytes = 4 << 20
	commitEvery = 100 * time.Millisecond
)

// kept is what a lane keeps in the store beside the state of its stages. A job
// without a store has none.
type kept struct {
	front     []Tally    // of the stateless steps, of the blocks that were applied
	counters  []Counter  // of the same
	followers []*tracing // of the stateless steps that leave a trace
	places    []Place
	lines     int64
	blank     int64
	rejects   int64
	byClass   map[Class]int64
	ended     bool  // the checkpoint that was found is that of the end, and nothing was published since
	unsaved   bool  // something was applied since the last commit
	bytes     int64 // that were applied since
	applying  bool  // a block is half applied, or failed so: nothing to commit
	changes   []StepChanges
	failed    error // of a commit: stages take its changes for saved, so none may follow
}

// tracing is a stateless step that leaves a trace, and what keeps it.
type tracing struct {
	step     string
	follower Follower
	out      Out
}

// restore reads the state of every partition that has one.
func (r *runner) restore() error {
	if r.job.Store == nil {
		return nil
	}
	if len(r.back) == 0 && len(r.gather) > 0 && r.job.Replay == nil {
		return Usagef("state: %s keeps none of its own; give it all of its input each time", r.gather[0].Name)
	}
	if r.resumes() && r.job.Partitions > 1 {
		return Usagef("state: a file of rejects or results cannot be cut back for several partitions; leave it out")
	}
	partitions, err := r.job.Store.Partitions()
	if err != nil {
		return err
	}
	if len(partitions) == 0 {
		return r.cutBack(&Checkpoint{})
	}
	for _, p := range partitions {
		if _, err := r.lane(p); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) resumes() bool {
	_, sink := r.job.Sink.(ResumableSink)
	_, rejects := r.job.Rejects.(ResumableSink)
	return sink || rejects
}

// keep makes a new lane go on from its checkpoint.
func (l *lane) keep() error {
	r := l.r
	store := r.job.Store
	if store == nil || l.partition < 0 {
		return nil
	}
	l.kept = &kept{byClass: map[Class]int64{}}
	cp, err := store.Checkpoint(l.partition)
	if err != nil {
		return err
	}
	for i := range l.chain {
		s := &l.chain[i]
		k, ok := s.stage.(Kept)
		if _, stateful := s.stage.(Stateful); stateful && !ok {
			return Usagef("state: step %s cannot keep its state; leave --state out", s.step.Name)
		}
		if !ok {
			continue
		}
		if err := l.load(s.step.Name, k); err != nil {
			return err
		}
	}
	for _, i := range r.traced {
		s := r.front[i]
		st, err := s.New()
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		f := st.(Traced).Follower()
		if err := l.load(s.Name, f); err != nil {
			return err
		}
		l.kept.followers = append(l.kept.followers, &tracing{step: s.Name, follower: f})
	}
	if cp == nil {
		return nil
	}
	k := l.kept
	k.front, k.counters, k.places = slices.Clone(cp.Front), slices.Clone(cp.Counters), slices.Clone(cp.Places)
	k.lines, k.blank, k.rejects = cp.Lines, cp.Blank, cp.Rejects
	maps.Copy(k.byClass, cp.ByClass)
	l.newest, l.watermark = cp.Newest, cp.Watermark
	if l.newest != NoTime {
		l.mark.Store(int64(l.newest - Time(r.job.MaxOutOfOrder)))
	}
	if cp.ToTick > 0 && cp.ToTick <= l.every.Records {
		l.toTick = cp.ToTick
	}
	l.reach, k.ended = cp.Reach, cp.Ended
	if r.job.Marked && l.reach != nil && l.reach.Watermark > l.watermark {
		l.watermark = l.reach.Watermark
	}
	if r.job.Marked {
		l.mark.Store(int64(l.watermark))
	}
	l.dirty = true                // everything is published once more
	for _, at := range k.places { // a copy each: results keep the pointer
		l.through = append(l.through, Through{Origin: &at.Origin, Line: at.Line})
	}
	r.last[l.partition], l.nextSeq = cp.Next-1, cp.Next
	r.lines.Add(cp.Lines)
	r.blank.Add(cp.Blank)
	r.rejects += cp.Rejects
	for class, n := range cp.ByClass {
		r.byClass[class] += n
	}
	return r.cutBack(cp)
}

func (r *runner) cutBack(cp *Checkpoint) error {
	if s, ok := r.job.Sink.(ResumableSink); ok {
		if err := s.CutBack(cp.Output); err != nil {
			return err
		}
	}
	if s, ok := r.job.Rejects.(ResumableSink); ok {
		return s.CutBack(cp.RejectsOutput)
	}
	return nil
}

// load gives a stage what it has put.
func (l *lane) load(step string, k Keeper) error {
	store := l.r.job.Store
	k.Keep(Shelf{
		Memory: l.r.job.StateMemory,
		Get: func(dst, key []byte) ([]byte, bool, error) {
			return store.Get(dst, step, l.partition, key)
		},
		Scan: func(from []byte, f func(key, val []byte) (bool, error)) error {
			return store.Scan(step, l.partition, from, f)
		},
	})
	err := store.Scan(step, l.partition, nil, func(key, val []byte) (bool, error) {
		err := k.Load(key, val)
		return err == nil, err
	})
	if err == nil {
		err = k.Loaded()
	}
	return damaged(step, err)
}

// damaged says that a step cannot read its state.
func damaged(step string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("state of %s: %w", step, err)
	if _, known := errors.AsType[*ExitError](err); known {
		return err
	}
	return Damaged(err)
}

// startCommits commits what is left over by the clock; the function it returns waits
// for the end of that.
func (r *runner) startCommits(ctx context.Context) (stop func()) {
	if r.job.Store == nil {
		return func() {}
	}
	every := r.job.CommitEvery
	if every <= 0 {
		every = commitEvery
	}
	return r.repeat(ctx, every, r.commitAll)
}

func (r *runner) commitAll(ctx context.Context) error {
	for _, l := range r.sorted() {
		l.mu.Lock()
		err := l.commit(ctx)
		l.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// applied notes that the worker's block is in the state, and commits if much is not
// in the store yet.
func (l *lane) applied(ctx context.Context, w *worker) error {
	k := l.kept
	if k == nil {
		return nil
	}
	b := &w.block
	switch {
	case b.lines == 0:
	case b.Data == nil:
		l.nextSeq = b.Records[len(b.Records)-1].Seq + 1
	default:
		l.nextSeq = b.First + Seq(b.lines)
	}
	k.lines += int64(b.lines)
	k.blank += w.blank
	k.place(b)
	k.take(w)
	for i, t := range k.followers {
		if err := t.follower.Follow(w.traces[i]); err != nil {
			return fmt.Errorf("%s: %w", t.step, err)
		}
	}
	k.unsaved, k.applying = true, false
	limit := l.r.job.CommitBytes
	if limit <= 0 {
		limit = commitBytes
	}
	k.bytes += int64(len(b.Data)) + int64(len(b.Records))<<8
	if p, ok := l.r.job.Store.(Prompt); k.bytes < limit && (!ok || !p.Ready(l.partition)) {
		return nil
	}
	return l.commit(ctx)
}

// place notes how far the block goes in its origin; records may be of several.
func (k *kept) place(b *Block) {
	if b.Data != nil {
		k.reach(b.At.Origin, Place{Line: b.At.Line + int64(b.lines) - 1, Offset: b.Offset})
		return
	}
	for from := 0; from < len(b.Records); {
		o, to := b.Records[from].Pos.Origin, from+1
		for to < len(b.Records) && b.Records[to].Pos.Origin == o {
			to++
		}
		k.reach(o, Place{Line: b.Records[to-1].Pos.Line, Records: int64(to - from)})
		from = to
	}
}

func (k *kept) reach(o *Origin, at Place) {
	if o == nil {
		return
	}
	at.Origin = *o
	for i := range k.places {
		if k.places[i].Origin == at.Origin {
			at.Records += k.places[i].Records
			k.places[i] = at
			return
		}
	}
	k.places = append(k.places, at)
}

// commit writes what has changed since the last commit, with the position; the caller
// holds the lane. What was made of the input so far is written first: a record that
// the state has seen never comes again.
func (l *lane) commit(ctx context.Context) error {
	k := l.kept
	if k == nil || !k.unsaved || k.applying || l.r.replaying {
		return nil
	}
	if k.failed == nil {
		k.failed = l.commitOnce(ctx)
	}
	return k.failed
}

func (l *lane) commitOnce(ctx context.Context) error {
	k := l.kept
	k.unsaved, k.bytes = false, 0
	if err := l.r.flush(ctx); err != nil {
		return err
	}
	cp := l.checkpoint()
	if err := l.r.lengths(cp); err != nil {
		return err
	}
	k.changes = k.changes[:0]
	for i := range l.chain {
		s := &l.chain[i]
		if st, ok := s.stage.(Kept); ok {
			s.out.Reset()
			if err := st.Save(&s.out); err != nil {
				return damaged(s.step.Name, err)
			}
			k.changes = append(k.changes, StepChanges{s.step.Name, s.out.Changes})
		}
	}
	for _, t := range k.followers {
		t.out.Reset()
		if err := t.follower.Save(&t.out); err != nil {
			return damaged(t.step, err)
		}
		k.changes = append(k.changes, StepChanges{t.step, t.out.Changes})
	}
	if err := l.r.job.Store.Commit(l.partition, k.changes, cp); err != nil {
		return err
	}
	for i := range l.chain {
		if st, ok := l.chain[i].stage.(Kept); ok {
			if err := st.Saved(); err != nil {
				return damaged(l.chain[i].step.Name, err)
			}
		}
	}
	for _, t := range k.followers {
		if err := t.follower.Saved(); err != nil {
			return damaged(t.step, err)
		}
	}
	return nil
}

// checkpoint is a copy: a store may write it while the lane goes on.
func (l *lane) checkpoint() *Checkpoint {
	k := l.kept
	return &Checkpoint{
		Next: l.nextSeq, Places: slices.Clone(k.places), Reach: l.reach, Ended: k.ended && !l.r.fresh.Load(), Newest: l.newest, Watermark: l.watermark, ToTick: l.toTick,
		Lines: k.lines, Blank: k.blank, Rejects: k.rejects, ByClass: maps.Clone(k.byClass), Front: slices.Clone(k.front), Counters: slices.Clone(k.counters),
	}
}

// unsaved notes that something was made that the store has not seen.
func (l *lane) unsaved() {
	if l.kept != nil {
		l.kept.unsaved = true
	}
}

// forget drops the counts of what was replayed.
func (k *kept) forget() {
	*k = kept{byClass: map[Class]int64{}, followers: k.followers, places: k.places}
}

// endedBefore reports whether nothing has come and nothing was published since the end was
// said and committed.
func (r *runner) endedBefore() bool {
	if r.job.Store == nil || r.fresh.Load() {
		return false
	}
	for _, l := range r.sorted() {
		if l.kept == nil || !l.kept.ended {
			return false
		}
	}
	return true
}

// commitEnd commits what was made at the end of the input, where output goes through the
// store. The state stays what it was before the end was said, so that the job can go on
// with more input.
func (r *runner) commitEnd(ctx context.Context) error {
	store, ok := r.job.Store.(Ending)
	if !ok {
		return nil
	}
	for _, l := range r.sorted() {
		l.mu.Lock()
		var err error
		if r.job.MarkEvery > 0 {
			err = l.say(ctx, true)
		}
		cp := l.checkpoint()
		l.mu.Unlock()
		cp.Ended = true
		if err == nil {
			err = store.End(l.partition, cp)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lengths notes how long the sinks are.
func (r *runner) lengths(cp *Checkpoint) (err error) {
	r.sinkMu.Lock()
	defer r.sinkMu.Unlock()
	if s, ok := r.job.Sink.(ResumableSink); ok {
		if cp.Output, err = s.Length(); err != nil {
			return err
		}
	}
	if s, ok := r.job.Rejects.(ResumableSink); ok {
		cp.RejectsOutput, err = s.Length()
	}
	return err
}

// begin and end enclose what changes the state in several steps.
func (l *lane) begin() {
	if l.kept != nil {
		l.kept.applying = true
	}
}

func (l *lane) end() {
	if l.kept != nil {
		l.kept.applying = false
	}
}
