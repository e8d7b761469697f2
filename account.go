package evalstream

import "slices"

// account takes what the stateless stages have done since the last call: they run
// ahead of the lane, which counts it when the block's turn comes.
func (w *worker) account(l *lane) {
	w.tallied = w.tallied[:0]
	w.counted = w.counted[:0]
	for i := range w.chain {
		s := &w.chain[i]
		if s.remote != nil { // one instance serves all workers
			w.tallied = append(w.tallied, Tally{Step: s.step.Name, Kind: "record", Received: s.called, Passed: s.called - s.failed, Rejected: s.failed})
			s.called, s.failed = 0, 0
			continue
		}
		w.accountOf(&w.before, s.step.Name, s.stage)
		w.countOf(s.step.Name, s.stage)
	}
	if l != nil && w.digesters[l] != nil {
		if w.digestedBefore[l] == nil {
			w.digestedBefore[l] = new([]Tally)
		}
		w.accountOf(w.digestedBefore[l], l.chain[0].step.Name, w.digesters[l])
	}
	for i, at := range w.r.traced {
		w.traces[i] = w.chain[at].stage.(Traced).Trace(w.traces[i][:0])
	}
}

func (w *worker) accountOf(before *[]Tally, step string, of any) {
	t, ok := of.(Tallied)
	if !ok {
		return
	}
	for _, now := range t.Tallies() {
		now.Step = step
		was := addTally(before, Tally{Step: step, Kind: now.Kind})
		w.tallied = append(w.tallied, now.less(*was))
		*was = now
	}
}

// countOf takes what a stage has counted since the last call.
func (w *worker) countOf(step string, of any) {
	c, ok := of.(Counted)
	if !ok {
		return
	}
	for _, now := range c.Counters() {
		now.Step = step
		was := addCounter(&w.countedBefore, Counter{Step: step, Name: now.Name})
		w.counted = append(w.counted, Counter{Step: step, Name: now.Name, N: now.N - was.N})
		*was = now
	}
}

// take adds what a worker's stateless stages have done.
func (k *kept) take(w *worker) {
	for _, t := range w.tallied {
		addTally(&k.front, t)
	}
	for _, c := range w.counted {
		addCounter(&k.counters, c)
	}
}

// addCounter adds a counter to that of its step and name, which it returns.
func addCounter(counters *[]Counter, c Counter) *Counter {
	i := slices.IndexFunc(*counters, func(have Counter) bool { return have.Step == c.Step && have.Name == c.Name })
	if i < 0 {
		*counters = append(*counters, c)
		return &(*counters)[len(*counters)-1]
	}
	(*counters)[i].N += c.N
	return &(*counters)[i]
}

// addTally adds a row to those of its step and kind, which it returns.
func addTally(rows *[]Tally, t Tally) *Tally {
	i := slices.IndexFunc(*rows, func(have Tally) bool { return have.Step == t.Step && have.Kind == t.Kind })
	if i < 0 {
		*rows = append(*rows, t)
		return &(*rows)[len(*rows)-1]
	}
	(*rows)[i].add(t)
	return &(*rows)[i]
}

func (t *Tally) add(o Tally) {
	t.Received += o.Received
	t.Passed += o.Passed
	t.Held += o.Held
	t.Replaced += o.Replaced
	t.Rejected += o.Rejected
	t.Late += o.Late
	for k := range t.Of {
		t.Of[k] += o.Of[k]
	}
}

func (t Tally) less(o Tally) Tally {
	t.Received -= o.Received
	t.Passed -= o.Passed
	t.Held -= o.Held
	t.Replaced -= o.Replaced
	t.Rejected -= o.Rejected
	t.Late -= o.Late
	for k := range t.Of {
		t.Of[k] -= o.Of[k]
	}
	return t
}

// front is what a stateless step, or the stateless half of a stateful one, has done in
// the blocks that were applied.
func (l *lane) front(step string, back bool) []Tally {
	if l.kept == nil {
		return nil
	}
	var rows []Tally
	for _, t := range l.kept.front {
		if t.Step == step && (t.Received > 0 || !back) {
			rows = append(rows, t)
		}
	}
	return rows
}
