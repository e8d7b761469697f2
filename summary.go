package evalstream

import (
	"maps"
	"slices"
)

// Summary is what a job did.
type Summary struct {
	Lines    int64 // lines read, blank ones included
	Blank    int64
	Rejects  int64
	ByClass  map[Class]int64
	Tallies  []Tally   // in the order of the steps, then by kind
	Counters []Counter // in the order of the steps
	Notes    []string  // what people should look at, as step: text
}

// Unbalanced lists the tallies in which a record vanished; it is empty unless the
// program is wrong.
func (s Summary) Unbalanced() []Tally {
	var bad []Tally
	for _, t := range s.Tallies {
		if !t.Balanced() {
			bad = append(bad, t)
		}
	}
	return bad
}

func (r *runner) summary() Summary {
	r.sinkMu.Lock()
	defer r.sinkMu.Unlock()
	s := Summary{Lines: r.lines.Load(), Blank: r.blank.Load(), Rejects: r.rejects, ByClass: r.byClass}
	add := func(step string, st any) {
		if c, ok := st.(Counted); ok {
			s.count(step, c.Counters())
		}
		if n, ok := st.(Noted); ok {
			for _, text := range n.Notes() {
				if note := step + ": " + text; !slices.Contains(s.Notes, note) {
					s.Notes = append(s.Notes, note)
				}
			}
		}
		t, ok := st.(Tallied)
		if !ok {
			return
		}
		for _, row := range t.Tallies() {
			row.Step = step
			s.add(row)
		}
	}
	for i, step := range r.front {
		if rm := r.remotes[i]; rm != nil && r.job.Store == nil {
			add(step.Name, rm)
			continue
		} else if rm != nil {
			s.count(step.Name, rm.Counters()) // they are of this process
		}
		for _, w := range r.workers {
			if r.job.Store == nil {
				add(step.Name, w.chain[i].stage)
			}
		}
		for _, l := range r.sorted() {
			for _, row := range l.front(step.Name, false) {
				s.add(row)
			}
			if l.kept != nil {
				s.countOf(step.Name, l.kept.counters)
			}
		}
	}
	for i, step := range r.back {
		for _, l := range r.sorted() {
			add(step.Name, l.chain[i].stage)
			for _, row := range l.front(step.Name, true) {
				s.add(row)
			}
		}
	}
	for i, step := range r.gather {
		add(step.Name, r.gatherL.chain[i].stage)
	}
	return s
}

func (s *Summary) count(step string, counters []Counter) {
	for _, c := range counters {
		c.Step = step
		i := slices.IndexFunc(s.Counters, func(o Counter) bool { return o.Step == step && o.Name == c.Name })
		if i < 0 {
			s.Counters = append(s.Counters, c)
			continue
		}
		s.Counters[i].N += c.N
	}
}

// countOf adds the counters of one step.
func (s *Summary) countOf(step string, counters []Counter) {
	for _, c := range counters {
		if c.Step == step {
			s.count(step, []Counter{c})
		}
	}
}

func (s *Summary) add(row Tally) { addTally(&s.Tallies, row) }

// Add adds what another job did, row by row and counter by counter.
func (s *Summary) Add(o Summary) {
	s.Lines, s.Blank, s.Rejects = s.Lines+o.Lines, s.Blank+o.Blank, s.Rejects+o.Rejects
	by := maps.Clone(s.ByClass)
	if by == nil {
		by = map[Class]int64{}
	}
	for class, n := range o.ByClass {
		by[class] += n
	}
	s.ByClass = by
	for _, row := range o.Tallies {
		s.add(row)
	}
	for _, c := range o.Counters {
		s.count(c.Step, []Counter{c})
	}
	for _, n := range o.Notes {
		if !slices.Contains(s.Notes, n) {
			s.Notes = append(s.Notes, n)
		}
	}
}
