package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"evalstream"
)

// ErrClosedPipe says that the reader of the output has gone: nothing is wrong, and
// there is nobody left to write for.
var ErrClosedPipe = errors.New("reader has closed the pipe")

const writeBytes = 64 << 10

// Sink writes records as lines. Each write to the destination is whole lines, at most
// 64 KiB unless one line is longer; it happens when that much is there and on Flush.
//
// An error is returned again by every later call. It is [ErrClosedPipe] if the reader
// has gone, and exit 4 otherwise.
type Sink struct {
	// Append appends a record's line, without its newline, or nothing to leave it out.
	Append func(dst []byte, r *evalstream.Record) []byte

	name string
	w    io.Writer
	buf  []byte
	err  error
}

// NewSink writes to w, which messages call name. w is not closed.
func NewSink(name string, w io.Writer, appendLine func(dst []byte, r *evalstream.Record) []byte) *Sink {
	return &Sink{Append: appendLine, name: name, w: w}
}

// Write buffers a line for each record.
func (s *Sink) Write(_ context.Context, recs []evalstream.Record) error {
	for i := range recs {
		from := len(s.buf)
		s.buf = s.Append(s.buf, &recs[i])
		if len(s.buf) == from {
			continue
		}
		s.buf = append(s.buf, '\n')
		if len(s.buf) <= writeBytes {
			continue
		}
		if from == 0 {
			from = len(s.buf)
		}
		if err := s.write(from); err != nil {
			return err
		}
	}
	return s.err
}

// Flush writes what is buffered.
func (s *Sink) Flush(context.Context) error { return s.write(len(s.buf)) }

// write writes the first n bytes, which are whole lines.
func (s *Sink) write(n int) error {
	if s.err != nil || n == 0 {
		return s.err
	}
	_, err := s.w.Write(s.buf[:n])
	s.buf = s.buf[:copy(s.buf, s.buf[n:])]
	switch {
	case err == nil:
	case errors.Is(err, syscall.EPIPE), errors.Is(err, io.ErrClosedPipe):
		s.err = fmt.Errorf("%s: %w", s.name, ErrClosedPipe)
	default:
		s.err = s.lost(err)
	}
	return s.err
}

func (s *Sink) lost(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	hint := "what was written before is whole lines"
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		hint = "make room on the disk and run again"
	}
	return &evalstream.ExitError{Code: evalstream.ExitLost, Err: fmt.Errorf("%s: %w", s.name, err), Hint: hint}
}

// Resumable is a Sink to a regular file that can go back to where it was.
type Resumable struct {
	*Sink
	f *os.File
}

// NewResumable writes to f, which is not closed.
func NewResumable(name string, f *os.File, appendLine func(dst []byte, r *evalstream.Record) []byte) *Resumable {
	return &Resumable{Sink: NewSink(name, f, appendLine), f: f}
}

// Length is how many bytes were written and flushed.
func (s *Resumable) Length() (int64, error) {
	n, err := s.f.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, s.lost(err)
	}
	return n, nil
}

// CutBack drops what lies behind the first n bytes. A file that is shorter is not the
// one that was written before: exit 5.
func (s *Resumable) CutBack(n int64) error {
	info, err := s.f.Stat()
	if err != nil {
		return s.lost(err)
	}
	if info.Size() < n {
		return &evalstream.ExitError{
			Code: evalstream.ExitState, Err: fmt.Errorf("%s: want the %d bytes that the state has written, got %d", s.name, n, info.Size()),
			Hint: "name the file that was written before, or another --state DIR",
		}
	}
	if err := s.f.Truncate(n); err != nil {
		return s.lost(err)
	}
	if _, err := s.f.Seek(n, io.SeekStart); err != nil {
		return s.lost(err)
	}
	return nil
}
