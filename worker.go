package evalstream

import (
	"bytes"
	"context"
	"errors"
	"runtime"
)

// worker owns one instance of each stateless stage and one block.
type worker struct {
	r         *runner
	chain     []link
	digesters map[*lane]Digester // of the first stateful step, if it can be split
	block     Block
	lines     []Record
	obs       []Observation
	digested  Out
	rejects   []stepReject
	blank     int64   // lines of the block
	before    []Tally // of the stateless stages, when account was called last
	// digestedBefore is that of the digesters, by lane.
	digestedBefore map[*lane]*[]Tally
	tallied        []Tally // by the block
	// counted and countedBefore are the same of counters.
	counted, countedBefore []Counter
	traces                 [][]byte // of the block, by place in traced
}

// stepReject is a reject of one step, waiting for its turn.
type stepReject struct {
	step string
	Reject
}

func (r *runner) newWorker() (*worker, error) {
	w := &worker{r: r, digesters: map[*lane]Digester{}, digestedBefore: map[*lane]*[]Tally{}}
	for i, s := range r.front {
		if rm := r.remotes[i]; rm != nil {
			w.chain = append(w.chain, link{step: s, stage: rm.stage, remote: rm})
			continue
		}
		st, err := s.New()
		if err != nil {
			return nil, err
		}
		if p, ok := st.(Placed); ok && r.job.Mine != nil {
			mine := r.job.Mine
			if len(r.workers) > 0 { // one instance speaks for the job
				mine = func([]byte) bool { return false }
			}
			p.Place(mine)
		}
		w.chain = append(w.chain, link{step: s, stage: st})
	}
	w.traces = make([][]byte, len(r.traced))
	if r.job.Store != nil {
		w.account(nil)
	}
	return w, nil
}

// work takes blocks until there are no more.
func (w *worker) work(ctx context.Context) error {
	for {
		err := w.r.read(ctx, &w.block)
		if isEOF(err) {
			return nil
		}
		if errors.Is(err, ErrPaused) {
			w.r.paused.Store(true)
			return nil
		}
		if err != nil {
			return err
		}
		if err := w.process(ctx); err != nil {
			return err
		}
		if err := w.r.done(ctx); err != nil {
			return err
		}
		// The worker that waits for this turn goes on here at once; else it would wait for
		// a processor while this one reads on, and nobody would use the lane.
		runtime.Gosched()
	}
}

// process runs one block through the stateless stages, waits for its turn, and
// runs what came of it through the stateful ones.
func (w *worker) process(ctx context.Context) error {
	l, err := w.r.lane(w.block.Partition)
	if err != nil {
		return err
	}
	w.rejects = w.rejects[:0]
	recs, err := w.front(ctx, 0, w.cut())
	if err != nil {
		return err
	}
	obs, split, err := w.digest(l, recs)
	if err != nil {
		return err
	}
	if l.kept != nil {
		w.account(l)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.next != w.block.Index {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		l.turn.Wait()
	}
	l.block, l.source = &w.block, w.lines
	l.begin()
	if err := l.reject(ctx, w.rejects); err != nil {
		return err
	}
	if split {
		tell(w.r.job.Hooks.Made, l.chain[0].step.Name, w.digested.Records)
		if err := l.run(ctx, 1, w.digested.Records); err != nil {
			return err
		}
		err = l.applyAll(ctx, obs)
	} else {
		err = l.enter(ctx, recs)
	}
	if err != nil {
		return err
	}
	l.reached()
	if err := l.arrive(ctx, w.block.Reach); err != nil {
		return err
	}
	if err := l.applied(ctx, w); err != nil {
		return err
	}
	if h := w.r.job.Hooks.Block; h != nil {
		w.r.sinkMu.Lock()
		rejects := w.r.rejects
		w.r.sinkMu.Unlock()
		h(Progress{Partition: l.partition, Lines: w.r.lines.Load(), Rejects: rejects, Watermark: Time(l.mark.Load())})
	}
	l.next++
	l.turn.Broadcast()
	return nil
}

// front runs records through the stateless stages from step i on.
func (w *worker) front(ctx context.Context, i int, recs []Record) ([]Record, error) {
	for ; i < len(w.chain); i++ {
		if len(recs) == 0 {
			return nil, nil
		}
		s := &w.chain[i]
		s.out.Reset()
		var err error
		if s.remote != nil {
			err = s.remote.process(ctx, recs, &s.out)
		} else {
			err = s.stage.Process(ctx, recs, &s.out)
		}
		if err != nil {
			return nil, err
		}
		tell(w.r.job.Hooks.Took, s.step.Name, recs)
		tell(w.r.job.Hooks.Made, s.step.Name, s.out.Records)
		w.setAside(s.step.Name, s.out.Rejects)
		s.called, s.failed = s.called+int64(len(recs)), s.failed+int64(len(s.out.Rejects))
		recs = s.out.Records
	}
	return recs, nil
}

func (w *worker) setAside(step string, rs []Reject) {
	for _, r := range rs {
		w.rejects = append(w.rejects, stepReject{step: step, Reject: r})
	}
}

// digest does the stateless half of the first stateful step, if it has one.
func (w *worker) digest(l *lane, recs []Record) (obs []Observation, split bool, err error) {
	if len(l.chain) == 0 {
		return nil, false, nil
	}
	d, ok := l.chain[0].stage.(Digested)
	if !ok {
		return nil, false, nil
	}
	digester := w.digesters[l]
	if digester == nil {
		digester = d.Digester()
		w.digesters[l] = digester
	}
	w.digested.Reset()
	w.obs = digester.Digest(recs, w.obs[:0], &w.digested)
	tell(w.r.job.Hooks.Took, l.chain[0].step.Name, recs)
	w.setAside(l.chain[0].step.Name, w.digested.Rejects)
	return w.obs, true, nil
}

// end tells the worker's stages that the input has ended.
func (w *worker) end(ctx context.Context, l *lane) error {
	for i := range w.chain {
		t, ok := w.chain[i].stage.(Timed)
		if !ok {
			continue
		}
		for {
			s := &w.chain[i]
			s.out.Reset()
			if err := t.Advance(ctx, EndOfTime, &s.out); err != nil {
				return err
			}
			if len(s.out.Records) == 0 {
				break
			}
			tell(w.r.job.Hooks.Made, s.step.Name, s.out.Records)
			recs, err := w.front(ctx, i+1, s.out.Records)
			if err != nil {
				return err
			}
			l.mu.Lock()
			l.block, l.source = nil, nil
			err = l.enter(ctx, recs)
			l.mu.Unlock()
			if err != nil {
				return err
			}
		}
	}
	if l.kept != nil {
		w.account(l)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.kept.take(w)
	}
	return nil
}

// cut makes one record a line. Blank lines are counted and left out; a line that
// is too long is rejected here.
func (w *worker) cut() []Record {
	b := &w.block
	w.blank = 0
	if b.Data == nil {
		w.lines = append(w.lines[:0], b.Records...)
		return w.lines
	}
	w.lines = w.lines[:0]
	if b.Long > 0 {
		w.lines = append(w.lines, Record{Raw: b.Data, Pos: b.At, Seq: b.First, Time: NoTime})
		w.setAside("source", []Reject{{Seq: b.First, Fault: Fault{Class: ClassTooLarge, Reason: longReason(b.Long)}}})
		return nil
	}
	seq, pos := b.First, b.At
	blank := int64(0)
	for data := b.Data; len(data) > 0; {
		line := data
		if n := bytes.IndexByte(data, '\n'); n >= 0 {
			line, data = data[:n], data[n+1:]
		} else {
			data = nil
		}
		if n := len(line); n > 0 && line[n-1] == '\r' {
			line = line[:n-1]
		}
		if len(line) > 0 && (line[0] > ' ' || len(bytes.TrimSpace(line)) > 0) {
			w.lines = append(w.lines, Record{Raw: line, Pos: pos, Seq: seq, Time: NoTime})
		} else {
			blank++
		}
		seq++
		pos.Line++
	}
	w.blank = blank
	w.r.blank.Add(blank)
	return w.lines
}
