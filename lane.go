package evalstream

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// lane is the owner of one partition: its stateful stages and whose turn it is.
type lane struct {
	r         *runner
	partition int32
	mu        sync.Mutex
	turn      *sync.Cond
	next      int64 // index of the block whose turn it is
	chain     []link
	ticker    Ticker
	every     Every
	toTick    int64 // records until the next tick
	newest    Time
	watermark Time
	mark      atomic.Int64 // newest less MaxOutOfOrder, for the gathering steps to see
	active    atomic.Int64 // wall time of the last block
	through   []Through
	block     *Block   // being applied
	source    []Record // the records that were read from it, by Seq
	scratch   []Record
	dirty     bool // something came since the last tick
	nextSeq   Seq  // of the first line that has not been applied
	reach     *Reach
	said      Mark // the last mark
	kept      *kept
}

type link struct {
	step   Step
	stage  Stage
	remote *remote // shared by all workers; nil if the stage is not a Remote
	out    Out
	// called and failed are records of a remote step since the worker accounted for them.
	called, failed int64
}

func (r *runner) newLane(partition int32, steps []Step) (*lane, error) {
	l := &lane{r: r, partition: partition, newest: NoTime, watermark: NoTime}
	l.mark.Store(int64(NoTime))
	l.turn = sync.NewCond(&l.mu)
	for _, s := range steps {
		st, err := s.New()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		if _, ok := st.(Remote); ok {
			return nil, Usagef("%s: want it before the first step that remembers units, got it after", s.Name)
		}
		l.chain = append(l.chain, link{step: s, stage: st})
		if t, ok := st.(Ticker); ok {
			l.ticker, l.every = t, t.Every()
			l.toTick = l.every.Records
		}
	}
	return l, l.keep()
}

// reached notes that the whole block has been applied.
func (l *lane) reached() {
	l.active.Store(time.Now().UnixNano())
	b := l.block
	if l.r.job.Marked {
		return // its origins are topics between steps
	}
	if b.Data == nil {
		for i := range b.Records { // they may be of several origins
			if i+1 == len(b.Records) || b.Records[i+1].Pos.Origin != b.Records[i].Pos.Origin {
				l.pass(b.Records[i].Pos)
			}
		}
		return
	}
	l.pass(Pos{Origin: b.At.Origin, Line: b.At.Line + int64(b.lines) - 1})
}

// pass notes how far an origin has been applied. Results keep the list that they were
// stamped with, so it is never changed in place.
func (l *lane) pass(p Pos) {
	if p.Origin != nil {
		l.setThrough(Through{Origin: p.Origin, Line: p.Line})
	}
}

// same says that two origins are one, perhaps opened by another process.
func same(a, b *Origin) bool { return a == b || a != nil && b != nil && *a == *b }

// enter runs records through the stateful stages, stopping for each tick by count.
func (l *lane) enter(ctx context.Context, in []Record) error {
	for len(in) > 0 {
		n := l.room(len(in))
		for i := range in[:n] {
			l.see(in[i].Time)
		}
		if err := l.run(ctx, 0, in[:n]); err != nil {
			return err
		}
		if err := l.count(ctx, n, func() Pos { return in[n-1].Pos }); err != nil {
			return err
		}
		in = in[n:]
	}
	return nil
}

// applyAll is enter for observations.
func (l *lane) applyAll(ctx context.Context, obs []Observation) error {
	s := &l.chain[0]
	d := s.stage.(Digested)
	for len(obs) > 0 {
		n := l.room(len(obs))
		for i := range obs[:n] {
			l.see(obs[i].Time)
		}
		s.out.Reset()
		if err := d.Apply(ctx, obs[:n], &s.out); err != nil {
			return err
		}
		if err := l.deliver(ctx, 0); err != nil {
			return err
		}
		if err := l.count(ctx, n, func() Pos { return l.find(obs[n-1].Seq).Pos }); err != nil {
			return err
		}
		obs = obs[n:]
	}
	return nil
}

// see notes that time has come as far as t.
func (l *lane) see(t Time) {
	if t > l.newest && !l.r.job.Marked {
		l.newest = t
		l.mark.Store(int64(t - Time(l.r.job.MaxOutOfOrder)))
	}
}

func (l *lane) room(n int) int {
	l.dirty = true
	if l.every.Records > 0 && l.toTick < int64(n) {
		return int(l.toTick)
	}
	return n
}

// count ticks if n more records make one due; at is where the last of them was read.
func (l *lane) count(ctx context.Context, n int, at func() Pos) error {
	if l.every.Records == 0 {
		return nil
	}
	if l.toTick -= int64(n); l.toTick > 0 {
		return nil
	}
	l.toTick = l.every.Records
	l.pass(at())
	return l.tick(ctx)
}

// run puts records through the chain from link i on.
func (l *lane) run(ctx context.Context, i int, in []Record) error {
	if len(in) == 0 {
		return nil
	}
	if i == len(l.chain) {
		return l.emit(ctx, in)
	}
	s := &l.chain[i]
	s.out.Reset()
	if err := s.stage.Process(ctx, in, &s.out); err != nil {
		return fmt.Errorf("%s: %w", s.step.Name, err)
	}
	tell(l.r.job.Hooks.Took, s.step.Name, in)
	return l.deliver(ctx, i)
}

// deliver passes on what link i has made.
func (l *lane) deliver(ctx context.Context, i int) error {
	s := &l.chain[i]
	tell(l.r.job.Hooks.Made, s.step.Name, s.out.Records)
	if len(s.out.Rejects) > 0 {
		rs := make([]stepReject, len(s.out.Rejects))
		for k, r := range s.out.Rejects {
			rs[k] = stepReject{step: s.step.Name, Reject: r}
		}
		if err := l.reject(ctx, rs); err != nil {
			return err
		}
	}
	return l.run(ctx, i+1, s.out.Records)
}

// tick moves event time as far as it has come, then lets the ticker publish.
func (l *lane) tick(ctx context.Context) error {
	ticked, err := l.tickOwn(ctx)
	if !ticked || err != nil {
		return err
	}
	return l.tickGather(ctx)
}

// tickOwn is tick without what gathers; false if nothing is due.
func (l *lane) tickOwn(ctx context.Context) (ticked bool, err error) {
	if !l.dirty || l.ticker == nil && l.r.gatherL == nil {
		return false, nil
	}
	l.dirty = false
	wm := Time(l.mark.Load())
	if l == l.r.gatherL {
		wm = l.r.watermark(time.Now())
	}
	if wm > l.watermark {
		if err := l.advance(ctx, wm); err != nil {
			return false, err
		}
	}
	for i := range l.chain {
		t, ok := l.chain[i].stage.(Ticker)
		if !ok {
			continue
		}
		l.chain[i].out.Reset()
		if err := t.Tick(ctx, &l.chain[i].out); err != nil {
			return false, err
		}
		if err := l.deliver(ctx, i); err != nil {
			return false, err
		}
	}
	if l.kept != nil {
		l.kept.ended = false // the state is that of before the end, so this may have taken back what the end said
	}
	l.unsaved()
	return true, nil
}

func (l *lane) advance(ctx context.Context, wm Time) error {
	if wm != EndOfTime { // that is no time that a later job could go on from
		l.watermark = wm
	}
	for i := range l.chain {
		t, ok := l.chain[i].stage.(Timed)
		if !ok {
			continue
		}
		for {
			l.chain[i].out.Reset()
			if err := t.Advance(ctx, wm, &l.chain[i].out); err != nil {
				return err
			}
			if err := l.deliver(ctx, i); err != nil {
				return err
			}
			if wm != EndOfTime || len(l.chain[i].out.Records) == 0 {
				break
			}
		}
	}
	return nil
}

// tickGather publishes what the partitions together have; the caller holds its
// own lane.
func (l *lane) tickGather(ctx context.Context) error {
	g := l.r.gatherL
	if g == nil || g == l {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.follow(l)
	_, err := g.tickOwn(ctx)
	return err
}

// follow notes how far a lane has come whose records the gathering step has.
func (l *lane) follow(from *lane) {
	for _, t := range from.through {
		l.setThrough(t)
	}
	l.dirty = true
}

func (l *lane) setThrough(t Through) {
	l.through = slices.Clone(l.through)
	for i := range l.through {
		if same(l.through[i].Origin, t.Origin) {
			l.through[i].Line = t.Line
			return
		}
	}
	l.through = append(l.through, t)
}

// emit hands records to the gathering step or to the sink.
func (l *lane) emit(ctx context.Context, recs []Record) error {
	l.stamp(recs)
	if g := l.r.gatherL; g != nil && g != l {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.source = l.source // for what it rejects
		defer func() { g.source = nil }()
		return g.run(ctx, 0, recs)
	}
	if l.r.replaying {
		return nil
	}
	l.r.sinkMu.Lock()
	defer l.r.sinkMu.Unlock()
	return l.r.job.Sink.Write(ctx, recs)
}

// stamp sets what only the runner knows.
func (l *lane) stamp(recs []Record) {
	for i := range recs {
		switch b := recs[i].Body.(type) {
		case *Result:
			b.Through = l.through
		case *Partial:
			if b.Partitions > 0 {
				break // it was named by whoever cut the input
			}
			b.Step, b.Partition = l.chain[len(l.chain)-1].step.Name, l.partition
			b.Partitions = max(1, l.r.job.Partitions)
		}
	}
}

// reject writes rejects in the order of their lines.
func (l *lane) reject(ctx context.Context, rs []stepReject) error {
	if len(rs) == 0 || l.r.replaying {
		return nil
	}
	slices.SortStableFunc(rs, func(a, b stepReject) int { return int(a.Seq - b.Seq) })
	if l.r.job.FailFast {
		rs = rs[:1]
	}
	recs := l.scratch[:0]
	for _, r := range rs {
		src := l.find(r.Seq)
		if l.block != nil && l.block.Unterminated && r.Fault.Class == ClassParse && r.Seq == l.block.First+Seq(l.block.lines)-1 {
			r.Fault.Reason = "truncated last line: " + r.Fault.Reason
		}
		if r.Unit != "" {
			src = Record{Seq: r.Seq, Pos: Pos{Origin: &Origin{Name: r.Unit}}}
		}
		at := src.Pos
		at.Column = r.Fault.Column
		recs = append(recs, Record{
			Body: &Rejected{At: at, Stage: r.step, Class: r.Fault.Class, Reason: r.Fault.Error(), Line: src.Raw},
			Pos:  at, Seq: r.Seq, Time: NoTime,
		})
	}
	l.scratch = recs[:0]
	l.r.sinkMu.Lock()
	defer l.r.sinkMu.Unlock()
	l.r.rejects += int64(len(rs))
	for _, r := range rs {
		l.r.byClass[r.Fault.Class]++
		if h := l.r.job.Hooks.Rejected; h != nil {
			h(r.step, r.Fault.Class)
		}
	}
	if k := l.kept; k != nil {
		k.rejects += int64(len(rs))
		for _, r := range rs {
			k.byClass[r.Fault.Class]++
		}
	}
	if l.r.job.Rejects != nil {
		if err := l.r.job.Rejects.Write(ctx, recs); err != nil {
			return err
		}
	}
	if l.r.job.FailFast {
		return &ExitError{Code: ExitRejects, Err: ErrStopped}
	}
	return nil
}

// find is the record that was read with seq. Stages reject only what they were
// given in this turn, so it is there.
func (l *lane) find(seq Seq) Record {
	i := sort.Search(len(l.source), func(i int) bool { return l.source[i].Seq >= seq })
	if i < len(l.source) && l.source[i].Seq == seq {
		return l.source[i]
	}
	return Record{Seq: seq}
}

// count is how many lines or records the block has.
func (b *Block) count() int {
	if b.Data == nil {
		return len(b.Records)
	}
	if b.Long > 0 {
		return 1
	}
	if b.Lines > 0 {
		return b.Lines
	}
	n := bytes.Count(b.Data, []byte{'\n'})
	if len(b.Data) > 0 && b.Data[len(b.Data)-1] != '\n' {
		n++
	}
	return n
}

// skip cuts away the lines up to and with last.
func (b *Block) skip(last Seq) {
	if b.Data == nil {
		i := sort.Search(len(b.Records), func(i int) bool { return b.Records[i].Seq > last })
		b.Records = b.Records[i:]
		if len(b.Records) > 0 {
			b.First = b.Records[0].Seq
		}
		return
	}
	if b.Long > 0 {
		b.Data, b.Long = b.Data[:0], 0
		return
	}
	b.Lines = 0
	for b.First <= last && len(b.Data) > 0 {
		n := bytes.IndexByte(b.Data, '\n')
		if n < 0 {
			n = len(b.Data) - 1
		}
		b.Data = b.Data[n+1:]
		b.First++
		b.At.Line++
	}
}

func longReason(n int64) string {
	return "line of " + strconv.FormatInt(n, 10) + " bytes is over the limit; raise --max-line"
}
