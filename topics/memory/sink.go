package memory

import (
	"context"
	"slices"

	"evalstream"
)

// Sink keeps the line of each record that it is given.
type Sink struct {
	appendLine func(dst []byte, r *evalstream.Record) []byte
	lines      []string
	visible    int
	flushes    int
}

// NewSink keeps what appendLine makes of each record: bodies die after Write. Records
// of which it makes nothing are left out.
func NewSink(appendLine func(dst []byte, r *evalstream.Record) []byte) *Sink {
	return &Sink{appendLine: appendLine}
}

// Write keeps a line for each record.
func (s *Sink) Write(_ context.Context, recs []evalstream.Record) error {
	for i := range recs {
		if l := s.appendLine(nil, &recs[i]); len(l) > 0 {
			s.lines = append(s.lines, string(l))
		}
	}
	return nil
}

// Flush makes what was written visible to Lines.
func (s *Sink) Flush(context.Context) error {
	s.visible = len(s.lines)
	s.flushes++
	return nil
}

// Lines is what was written and flushed, in order; the slice is the caller's. It must
// not be called while the job runs.
func (s *Sink) Lines() []string { return slices.Clone(s.lines[:s.visible]) }

// Flushes is how often Flush was called.
func (s *Sink) Flushes() int { return s.flushes }
