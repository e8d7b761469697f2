package cli

import (
	"context"
	"strings"
	"unicode/utf8"

	"evalstream"
)

const keptRejects = 10

// Rejects is the sink of a job's rejects: it keeps the first ten as messages for the
// summary and hands all of them on.
type Rejects struct {
	// Excerpt adds to a message the line around the fault with a mark under it; for
	// terminals.
	Excerpt bool
	// Width is how many columns an excerpt may take; 0 is 80.
	Width int

	// Tell gets each of the first ten messages at once, so that whoever watches a
	// stream that goes on for hours sees what is wrong with it; nil keeps them for the
	// summary.
	Tell func(message string)
	// All says where all of them are; "" if they are nowhere.
	All string

	next  evalstream.Sink
	first []string
	kept  int
	total int64
	// muted counts and does not hand on: what the file behind has already.
	muted bool
	base  int64 // length that is never cut
}

// NewRejects hands rejects on to next, which may be nil.
func NewRejects(next evalstream.Sink) *Rejects { return &Rejects{next: next} }

// Write keeps the first messages.
func (s *Rejects) Write(ctx context.Context, recs []evalstream.Record) error {
	for i := range recs {
		r, ok := recs[i].Body.(*evalstream.Rejected)
		if !ok {
			continue
		}
		s.total++
		if s.kept++; s.kept > keptRejects {
			continue
		}
		if s.Tell != nil {
			s.Tell(s.message(r))
		} else {
			s.first = append(s.first, s.message(r))
		}
	}
	if s.next == nil || s.muted {
		return nil
	}
	return s.next.Write(ctx, recs)
}

// sink is s, which can be cut back if the sink behind can.
func (s *Rejects) sink() evalstream.Sink {
	if _, ok := s.next.(evalstream.ResumableSink); ok {
		return s
	}
	return struct{ evalstream.Sink }{s}
}

// Flush flushes the sink behind.
func (s *Rejects) Flush(ctx context.Context) error {
	if s.next == nil {
		return nil
	}
	return s.next.Flush(ctx)
}

// Length is that of the sink behind, 0 if it has none.
func (s *Rejects) Length() (int64, error) {
	if r, ok := s.next.(evalstream.ResumableSink); ok {
		return r.Length()
	}
	return 0, nil
}

// CutBack cuts the sink behind, if it can be.
func (s *Rejects) CutBack(n int64) error {
	if r, ok := s.next.(evalstream.ResumableSink); ok {
		return r.CutBack(max(n, s.base))
	}
	return nil
}

func (s *Rejects) message(r *evalstream.Rejected) string {
	m := r.At.String() + ": " + printable(r.Reason)
	if s.Excerpt && r.At.Column > 0 && int(r.At.Column) <= len(r.Line)+1 {
		m += "\n" + excerpt(r.Line, int(r.At.Column)-1, s.Width)
	}
	return m
}

// excerpt is the part of line around byte at, and a mark under it.
func excerpt(line []byte, at, width int) string {
	if width <= 0 {
		width = defaultWidth
	}
	const indent = "  "
	room := max(8, width-len(indent)-2)
	from := boundary(line, max(0, at-room/2))
	before := printable(strings.ToValidUTF8(string(line[from:at]), "\ufffd"))
	if from > 0 {
		before = "…" + before
	}
	// The text before the mark can only grow when it is made printable.
	for cells(before) > room/2+1 {
		_, n := utf8.DecodeRuneInString(strings.TrimPrefix(before, "…"))
		before = "…" + strings.TrimPrefix(before, "…")[n:]
	}
	after := printable(strings.ToValidUTF8(string(line[at:min(len(line), at+4*room)]), "\ufffd"))
	return indent + before + cut(after, room-cells(before)) + "\n" + indent + strings.Repeat(" ", cells(before)) + "^"
}

// boundary moves at to the start of the rune that it is in.
func boundary(line []byte, at int) int {
	for at > 0 && at < len(line) && !utf8.RuneStart(line[at]) {
		at--
	}
	return at
}
