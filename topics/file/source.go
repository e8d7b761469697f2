package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync/atomic"

	"evalstream"
)

const (
	// DefaultMaxLine is the longest line that is delivered whole, in bytes.
	DefaultMaxLine = 16 << 20

	maxBlock   = 256 << 10
	minBlock   = 32 << 10
	blockLines = 1024 // lines that a block aims at
	headBytes  = 256  // what is kept of a line over the limit
)

const bom = "\xef\xbb\xbf"

// Source reads the lines of its inputs, one input after the other, as partition 0.
// The first line has Seq 1 and Seq goes on over all inputs; lines count from 1 in
// each. A block never spans two inputs. Memory is the caller's block, which grows
// to the longest line, and one block of its own.
//
// After an error every Read returns it again.
type Source struct {
	// MaxLine is the longest line, in bytes without its newline, that is delivered
	// whole; a longer one is given by its length and its first 256 bytes. It is read
	// at the first Read; 0 is DefaultMaxLine.
	MaxLine int

	inputs  []Input
	at      int // index of the next input
	cur     *stream
	origin  *evalstream.Origin
	pending pushback
	end     error // why cur has no more bytes
	fresh   bool  // nothing of cur has been looked at
	seq     evalstream.Seq
	line    int64
	size    int // of the next block
	err     error

	resume *resuming // nil: no state is kept
	offset int64     // of the bytes of cur that were delivered

	total   int64
	known   bool
	read    atomic.Int64
	boms    atomic.Int64
	drained atomic.Bool
}

// NewSource reads inputs in the order given. Files are opened when their turn comes,
// one at a time.
func NewSource(inputs ...Input) *Source {
	s := &Source{inputs: inputs, seq: 1, size: minBlock, known: true}
	for _, in := range inputs {
		n, ok := in.size()
		s.total += n
		s.known = s.known && ok
	}
	return s
}

// Drain makes Read return io.EOF at the next line boundary: whole lines that were
// read are still delivered, a line that has only begun is not. It may be called at
// any time and is seen within 50 ms.
func (s *Source) Drain() { s.drained.Store(true) }

// BOMs is how many inputs so far began with a UTF-8 byte order mark, which is skipped.
func (s *Source) BOMs() int { return int(s.boms.Load()) }

// Progress is how many bytes of the inputs have been read, as they lie on disk, and
// how many there were at the start; known is false if an input is not a regular file.
func (s *Source) Progress() (readBytes, totalBytes int64, known bool) {
	return s.read.Load(), s.total, s.known
}

// Close closes the input that is open. A source that was read to its end is closed.
func (s *Source) Close() error {
	if s.err == nil {
		s.err = fs.ErrClosed
	}
	return s.shut()
}

func (s *Source) shut() error {
	if s.cur == nil {
		return nil
	}
	err := s.cur.close()
	s.cur = nil
	return err
}

// Read fills b with the next block. A file that is missing, unreadable, or a broken
// compressed stream is exit 4, after the lines before it were delivered.
func (s *Source) Read(ctx context.Context, b *evalstream.Block) error {
	if s.err != nil {
		return s.err
	}
	for {
		err := s.next(ctx, b)
		keep := true
		if err == nil && s.resume != nil {
			keep, err = s.goOn(ctx, b)
		}
		if err != nil {
			s.err = err
			// The first error is the one to tell.
			_ = s.shut()
			return err
		}
		if keep {
			return nil
		}
	}
}

func (s *Source) next(ctx context.Context, b *evalstream.Block) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if s.cur == nil {
			if err := s.open(); err != nil {
				return err
			}
		}
		ok, err := s.fill(ctx, b)
		if ok || err != nil {
			return err
		}
		if err := s.shut(); err != nil {
			return s.lost(err)
		}
	}
}

func (s *Source) open() error {
	if s.at == len(s.inputs) || s.drained.Load() {
		return io.EOF
	}
	in := s.inputs[s.at]
	s.at++
	s.origin = &evalstream.Origin{Name: in.name}
	cur, err := in.open(&s.read)
	if err != nil {
		return s.lost(err)
	}
	s.cur, s.line, s.end, s.fresh, s.offset = cur, 1, nil, true, 0
	return nil
}

// fill reads into b until it is full, or more would block and there is a whole line.
// It returns false at the end of the input.
//
// The block is never larger than MaxLine and a newline, so no line in it is too long.
func (s *Source) fill(ctx context.Context, b *evalstream.Block) (bool, error) {
	limit := s.MaxLine + 1
	if s.MaxLine <= 0 {
		limit = DefaultMaxLine + 1
	}
	want := min(s.size, limit)
	if cap(b.Buf) < want || cap(b.Buf) < minBlock {
		b.Buf = make([]byte, maxBlock)
	}
	buf := b.Buf[:cap(b.Buf)]
	n, whole := 0, 0 // bytes in buf, and how many of them are whole lines
	for n < want || whole == 0 {
		if n == limit {
			return s.long(ctx, b, buf, limit)
		}
		if n == want {
			want = min(2*want, limit)
			if want > len(buf) {
				buf = append(make([]byte, 0, want), buf[:n]...)[:want]
				b.Buf = buf
			}
		}
		m, err := s.more(buf[n:want])
		from := n
		n += m
		if s.fresh && n > 0 && (n >= len(bom) || bom[:n] != string(buf[:n])) {
			s.fresh = false
			if bytes.HasPrefix(buf[:n], []byte(bom)) {
				n = copy(buf, buf[len(bom):n])
				from = 0
				s.offset = int64(len(bom))
				s.boms.Add(1)
			}
		}
		if i := bytes.LastIndexByte(buf[from:n], '\n'); i >= 0 {
			whole = from + i + 1
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF):
			if n == limit && whole == 0 {
				return s.long(ctx, b, buf, limit)
			}
			whole = n
		case whole > 0: // the error, if it is one, comes again
		case errors.Is(err, errWait):
			if err := s.wait(ctx); err != nil {
				return false, err
			}
			continue
		case errors.Is(err, errDrained):
			return false, io.EOF
		default:
			return false, s.lost(err)
		}
		break
	}
	if whole == 0 {
		return false, nil
	}
	s.pending.back(buf[whole:n])
	s.deliver(b, buf[:whole])
	return true, nil
}

// deliver hands over data, which is whole lines.
func (s *Source) deliver(b *evalstream.Block, data []byte) {
	lines := int64(bytes.Count(data, []byte{'\n'}))
	b.Unterminated = data[len(data)-1] != '\n'
	if b.Unterminated {
		lines++
	}
	s.stamp(b, data, lines, int64(len(data)))
	// About blockLines lines, by the length of those in this block.
	s.size = min(maxBlock, max(minBlock, int(int64(len(data))*blockLines/lines)))
}

func (s *Source) stamp(b *evalstream.Block, data []byte, lines, length int64) {
	b.Data, b.Records, b.Long, b.Lines, b.Partition = data, nil, 0, int(lines), 0
	b.First = s.seq
	b.At = evalstream.Pos{Origin: s.origin, Line: s.line}
	s.seq += evalstream.Seq(lines)
	s.line += lines
	s.offset += length
	b.Offset = s.offset
}

// long reads the rest of a line of which buf holds the first n bytes, and delivers
// its head.
func (s *Source) long(ctx context.Context, b *evalstream.Block, buf []byte, n int) (bool, error) {
	length := int64(n)
	head := buf[:min(n, headBytes)]
	rest := buf[len(head):minBlock]
	for {
		m, err := s.more(rest)
		if i := bytes.IndexByte(rest[:m], '\n'); i >= 0 {
			s.pending.back(rest[i+1 : m])
			s.stamp(b, head, 1, length+int64(i)+1)
			b.Long, b.Unterminated = length+int64(i), false
			return true, nil
		}
		length += int64(m)
		switch {
		case err == nil:
		case errors.Is(err, errWait):
			if err := s.wait(ctx); err != nil {
				return false, err
			}
		case errors.Is(err, io.EOF):
			s.stamp(b, head, 1, length)
			b.Long, b.Unterminated = length, true
			return true, nil
		case errors.Is(err, errDrained):
			return false, io.EOF
		default:
			return false, s.lost(err)
		}
	}
}

// more reads what was pushed back, then the input. Its end comes again each time.
func (s *Source) more(p []byte) (int, error) {
	if n := s.pending.take(p); n > 0 {
		return n, nil
	}
	if s.end != nil {
		return 0, s.end
	}
	if s.drained.Load() {
		return 0, errDrained
	}
	n, err := s.cur.read(p)
	if err != nil && !errors.Is(err, errWait) {
		s.end = err
	}
	return n, err
}

// wait returns when the input has more, or the source is drained.
func (s *Source) wait(ctx context.Context) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if s.drained.Load() {
			return nil
		}
		ready, err := s.cur.wait(waitMillis)
		if err != nil {
			return s.lost(err)
		}
		if ready {
			return nil
		}
	}
}

// lost is exit 4: the input, what is wrong with it, and what to do.
func (s *Source) lost(err error) error {
	var hint string
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err // the path is in front already
	}
	var broken *streamError
	switch {
	case errors.As(err, &broken):
		hint = fmt.Sprintf("the lines before line %d were read; make or copy the file again", s.line)
	case errors.Is(err, fs.ErrNotExist):
		hint = "check the path; - is standard input"
	case errors.Is(err, fs.ErrPermission):
		hint = "give this user the right to read it"
	case errors.Is(err, errDirectory):
		hint = "name the files in it, such as " + s.origin.Name + "/*.ndjson"
	}
	return &evalstream.ExitError{Code: evalstream.ExitLost, Err: fmt.Errorf("%s: %w", s.origin.Name, err), Hint: hint}
}

// pushback is bytes that were read too far. A block is filled from it before
// anything else, so what a block gives back either still lies here in front of what
// is left, or nothing is left.
type pushback struct {
	data []byte
	off  int
}

func (q *pushback) take(p []byte) int {
	n := copy(p, q.data[q.off:])
	q.off += n
	return n
}

func (q *pushback) back(p []byte) {
	if q.off < len(q.data) {
		q.off -= len(p)
		return
	}
	q.data = append(q.data[:0], p...)
	q.off = 0
}
