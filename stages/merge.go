package stages

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"evalstream"
)

// NewMerge makes merge: it puts the partials of all partitions together and
// publishes results. It keeps the last partial of each key, so a repeat changes
// nothing. Groupings and windows come from the partials; a.By says only which of
// them name a relation. It publishes nothing before every partition has spoken.
func NewMerge(a Aggregation) (func() (evalstream.Stage, error), error) {
	if err := a.Check(); err != nil {
		return nil, err
	}
	return func() (evalstream.Stage, error) {
		m := &merge{book: newBook(a), expected: a.Partitions, last: map[string]*spoken{}, judgedBy: map[string]int64{}, settledBy: map[string]evalstream.Time{}, heard: map[int32]bool{}}
		return m, m.expect(a.Expect)
	}, nil
}

type merge struct {
	*book
	last      map[string]*spoken         // by key of the partial
	judgedBy  map[string]int64           // by step and partition
	settledBy map[string]evalstream.Time // by step and partition
	freedLast int64                      // partials of windows that were let go
	heard     map[int32]bool
	expected  int32
	received  int64
	replaced  int64
	rejected  int64
	others    int64 // records that are no partials
	reviews   int64 // passed
	key       []byte
}

// spoken is the last partial of a key: of one cell of a sheet, or of none.
type spoken struct {
	sheet *sheet
	cell  *cell
}

// Load is for the contract: merge has no changelog, it reads its input from the start.
func (*merge) Load(_, _ []byte) error { return nil }

// Every is the rhythm of publishing.
func (m *merge) Every() evalstream.Every { return m.options.Every }

// Process takes partials; the last of each key stands.
func (m *merge) Process(_ context.Context, in []evalstream.Record, out *evalstream.Out) error {
	for i := range in {
		p, ok := in[i].Body.(*evalstream.Partial)
		if _, review := in[i].Body.(*evalstream.Review); review {
			m.reviews++
			out.Emit(in[i])
			continue
		}
		if !ok {
			m.others++
			out.RejectRecord(&in[i], evalstream.Fault{Class: evalstream.ClassStage, Reason: "merge: want partial, got " + in[i].Body.Kind()})
			continue
		}
		m.received++
		if f := m.take(p); f != nil {
			m.rejected++
			out.RejectRecord(&in[i], *f)
		}
		if m.mixed != nil {
			return m.mixed
		}
	}
	return nil
}

func (m *merge) take(p *evalstream.Partial) *evalstream.Fault {
	switch {
	case p.Partition < 0 || p.Partition >= max(1, p.Partitions):
		return &evalstream.Fault{Class: evalstream.ClassSchema, Path: "/partition", Reason: fmt.Sprintf("want a number below %d, the number of partitions, got %d", p.Partitions, p.Partition)}
	case m.options.Partitions > 0 && p.Partitions != m.expected:
		return &evalstream.Fault{Class: evalstream.ClassStage, Path: "/partitions", Reason: fmt.Sprintf("want partials of %d partitions, as the input of aggregate has, got one of %d; something else writes here", m.expected, p.Partitions)}
	case m.expected > 0 && p.Partitions != m.expected:
		return &evalstream.Fault{Class: evalstream.ClassStage, Path: "/partitions", Reason: fmt.Sprintf("want partials of %d partitions, as the first said, got one of %d", m.expected, p.Partitions)}
	}
	m.expected = p.Partitions
	m.heard[p.Partition] = true
	source := fmt.Sprintf("%s/%d", p.Step, p.Partition)
	m.key = p.AppendKey(m.key[:0])
	old := m.last[string(m.key)]
	m.judged += p.Judged - m.judgedBy[source]
	m.judgedBy[source] = p.Judged
	m.positions = m.positions || p.Positions
	if p.Family == judgedFamily {
		if old != nil {
			m.replaced++
		}
		m.last[string(m.key)] = new(spoken)
		if s, ok := m.settledBy[source]; !ok || p.Settled > s {
			m.settledBy[source] = p.Settled
		}
		return nil
	}
	family := familyOf(p.Family)
	if family < 0 {
		return &evalstream.Fault{Class: evalstream.ClassSchema, Path: "/family", Reason: fmt.Sprintf("want one of %v, got %q", familyNames(), p.Family)}
	}
	if p.Settings != nil || m.family < 0 {
		names := p.Cell.Measures
		if names == nil && m.family == family {
			names = m.names
		}
		if family != retrieval || names != nil {
			if f := m.begin(family, names, p.Settings); f != nil {
				return f
			}
		}
	}
	s, f := m.sheet(p)
	if f != nil {
		return f
	}
	if !s.window.All && s.window.from(p.Pane).End <= m.freed {
		m.replaced++ // a repeat: its partition has said that nothing can change
		return nil
	}
	c, err := m.unpack(&p.Cell)
	if err != nil {
		return &evalstream.Fault{Class: evalstream.ClassSchema, Path: "/accumulator", Reason: err.Error()}
	}
	var group []byte
	for _, by := range p.By {
		group = append(append(group, by.Value...), fieldEnd)
	}
	total := s.cell(s.groups.id(group, nil), p.Pane)
	if old != nil {
		m.replaced++
		total.merge(old.cell, -1)
	}
	total.merge(c, 1)
	// A partition that has seen a scored unit says what the metrics are, also where none is left.
	m.scored = m.scored || c.n > 0 || p.Settings != nil || len(p.Cell.Measures) > 0
	c.group, c.pane = total.group, total.pane
	m.last[string(m.key)] = &spoken{s, c}
	return nil
}

// sheet is the sheet of a partial's grouping and window, which it makes if it is new.
func (m *merge) sheet(p *evalstream.Partial) (*sheet, *evalstream.Fault) {
	names := make([]string, len(p.By))
	for i, by := range p.By {
		names[i] = by.Name
	}
	k := slices.IndexFunc(m.layouts, func(l layout) bool { return slices.Equal(l.names, names) })
	if k < 0 {
		return nil, &evalstream.Fault{Class: evalstream.ClassStage, Path: "/by", Reason: fmt.Sprintf("want one of the groupings of --by, got %v; give merge the --by of aggregate", names)}
	}
	for i := range m.sheets {
		if s := &m.sheets[i]; s.layout == k && s.window.String() == p.Window {
			return s, nil
		}
	}
	return nil, &evalstream.Fault{Class: evalstream.ClassStage, Path: "/window", Reason: fmt.Sprintf("want one of the windows of --window, got %q; give merge the --window of aggregate", p.Window)}
}

// Advance publishes at the end of the input; until then event time closes windows.
func (m *merge) Advance(_ context.Context, watermark evalstream.Time, out *evalstream.Out) error {
	m.watermark = watermark
	if watermark != evalstream.EndOfTime || m.ended {
		return nil
	}
	m.ended = true
	if len(m.heard) < int(m.expected) {
		return &evalstream.ExitError{
			Code: evalstream.ExitNotEnough, Err: fmt.Errorf("partials of %d of %d partitions came; nothing is final without the others", len(m.heard), m.expected),
			Hint: "give merge the output of every aggregate --partition I/N",
		}
	}
	return m.publish(out, true)
}

// Tick publishes what was touched, once every partition has spoken.
func (m *merge) Tick(_ context.Context, out *evalstream.Out) error {
	if len(m.heard) < int(m.expected) {
		return nil
	}
	m.settled = m.settledByAll()
	if err := m.publish(out, false); err != nil || !m.scored {
		return err
	}
	freed := m.freed
	m.free(func(int, *cell) {})
	if m.freed > freed {
		maps.DeleteFunc(m.last, func(_ string, l *spoken) bool {
			old := l.sheet != nil && !l.sheet.window.All && l.sheet.window.from(l.cell.pane).End <= m.freed
			if old {
				m.freedLast++
			}
			return old
		})
	}
	return nil
}

// settledByAll is the time by which windows end that no partition will speak of again.
func (m *merge) settledByAll() evalstream.Time {
	all := evalstream.EndOfTime
	for _, t := range m.settledBy {
		all = min(all, t)
	}
	if len(m.settledBy) == 0 || all == evalstream.EndOfTime {
		return evalstream.NoTime
	}
	return all
}

// Notes says what is wrong with the panel.
func (m *merge) Notes() []string { return m.panelNotes() }

// Tallies accounts for partials.
func (m *merge) Tallies() []evalstream.Tally {
	return kinds([]evalstream.Tally{
		{Received: m.received, Held: int64(len(m.last)) + m.freedLast, Replaced: m.replaced, Rejected: m.rejected},
		{Received: m.reviews, Passed: m.reviews},
		{Received: m.others, Rejected: m.others},
	}, "partial", "review", otherKinds)
}
