package file

import (
	"context"
	"io"
	"iter"
	"slices"

	"evalstream"
)

// RecordSource is a source of records that were decoded elsewhere, as partition 0:
// formats in which a record is not a line.
type RecordSource struct {
	next func() (evalstream.Record, error, bool)
	stop func()
	err  error
	// fault is the error that ended the records, told after those before it.
	fault error
	// Size is how many records a block holds; 0 is 1,024.
	Size int
}

// NewRecordSource reads records until they end or come with an error, which is
// returned after the records before it. A record's Seq is greater than that of the
// one before; Seq and Pos are set, and nothing of a record is changed after it was
// yielded.
func NewRecordSource(records iter.Seq2[evalstream.Record, error]) *RecordSource {
	next, stop := iter.Pull2(records)
	return &RecordSource{next: next, stop: stop}
}

// Records is a RecordSource over recs.
func Records(recs []evalstream.Record) *RecordSource {
	return NewRecordSource(func(yield func(evalstream.Record, error) bool) {
		for r := range slices.Values(recs) {
			if !yield(r, nil) {
				return
			}
		}
	})
}

// Read gives the next block. After the end or an error every Read returns it again.
func (s *RecordSource) Read(ctx context.Context, b *evalstream.Block) error {
	if s.err != nil {
		return s.err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	size := s.Size
	if size <= 0 {
		size = 1024
	}
	var recs []evalstream.Record
	for s.fault == nil && len(recs) < size {
		r, err, ok := s.next()
		switch {
		case !ok:
			s.fault = io.EOF
		case err != nil:
			s.fault = err
		default:
			if recs == nil {
				recs = make([]evalstream.Record, 0, size)
			}
			recs = append(recs, r)
		}
	}
	if len(recs) == 0 {
		s.err = s.fault
		s.stop()
		return s.err
	}
	b.Data, b.Records, b.Partition, b.Long, b.Unterminated = nil, recs, 0, 0, false
	b.First, b.At = recs[0].Seq, recs[0].Pos
	return nil
}

// Close ends the iteration. A source that was read to its end is closed.
func (s *RecordSource) Close() error {
	s.stop()
	if s.err == nil {
		s.err = io.EOF
	}
	return nil
}
