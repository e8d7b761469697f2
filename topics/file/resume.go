package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/zeebo/xxh3"

	"evalstream"
)

// resuming is where a state has come to in each of its origins.
type resuming struct {
	places []evalstream.Place
	origin *evalstream.Origin // whose first block was seen
}

// Resume makes the source go on behind a checkpoint, nil if there is none yet. An
// input is known again by its name and its first line, and is then skipped to where
// the state has come to; a known path that begins with another line, or has become
// shorter, is exit 5. Lines of inputs that are not known follow with the next Seq.
//
// It is called before the first Read, or after it with the block that it gave, which
// is then cut; keep is false if nothing of it is left.
func (s *Source) Resume(ctx context.Context, cp *evalstream.Checkpoint, first *evalstream.Block) (keep bool, err error) {
	s.resume = new(resuming)
	next := evalstream.Seq(1)
	if cp != nil {
		s.resume.places, next = cp.Places, cp.Next
	}
	if first == nil {
		s.seq = next
		return false, nil
	}
	s.seq += next - first.First
	first.First = next
	keep, err = s.goOn(ctx, first)
	if err != nil {
		s.err = err
		_ = s.shut() // the error of the state is the one to tell
	}
	return keep, err
}

// goOn looks at the first block of each input: it names the origin by its first line,
// and skips what the state has.
func (s *Source) goOn(ctx context.Context, b *evalstream.Block) (keep bool, err error) {
	if s.resume.origin == s.origin {
		return true, nil
	}
	s.resume.origin = s.origin
	s.origin.Head = headOf(b)
	place, err := s.placeOf(s.origin)
	if err != nil || place == nil {
		return true, err
	}
	if place.Offset <= 0 {
		return false, s.changed("cannot be skipped to line %d, since the state does not know where that is", place.Line)
	}
	s.line = place.Line + 1
	if rest := b.Offset - place.Offset; rest >= 0 {
		return s.cut(b, rest, place)
	}
	s.seq = b.First
	if err := s.skip(ctx, place.Offset-b.Offset); err != nil {
		return false, err
	}
	s.offset = place.Offset
	return false, nil
}

// headOf hashes the first line of a block; of a long one the first bytes alone.
func headOf(b *evalstream.Block) string {
	line := b.Data
	if i := bytes.IndexByte(line, '\n'); i >= 0 {
		line = line[:i]
	}
	h := xxh3.Hash(line[:min(len(line), headBytes)])
	return fmt.Sprintf("%016x", h)
}

// placeOf finds an origin in the state. A path is known by its name: another first
// line means another file, of which the state must not skip anything.
func (s *Source) placeOf(o *evalstream.Origin) (*evalstream.Place, error) {
	var named *evalstream.Place
	for i := range s.resume.places {
		p := &s.resume.places[i]
		if p.Origin == *o {
			return p, nil
		}
		if p.Origin.Name == o.Name {
			named = p
		}
	}
	if named != nil && s.inputs[s.at-1].reader == nil {
		return nil, s.changed("begins with another line than when the state read %d lines of it", named.Line)
	}
	return nil, nil
}

// changed is exit 5: an input is not what the state has read.
func (s *Source) changed(format string, args ...any) error {
	return &evalstream.ExitError{
		Code: evalstream.ExitState, Err: fmt.Errorf("%s: "+format, append([]any{s.origin.Name}, args...)...),
		Hint: "give the file that was read before, give the new one another name, or name another --state DIR",
	}
}

// cut leaves the last rest bytes of a block.
func (s *Source) cut(b *evalstream.Block, rest int64, place *evalstream.Place) (bool, error) {
	if rest == 0 {
		s.seq = b.First
		return false, nil
	}
	if b.Long > 0 || rest > int64(len(b.Data)) || b.Data[int64(len(b.Data))-rest-1] != '\n' {
		return false, s.changed("line %d has grown since the state read it", place.Line)
	}
	b.Data = b.Data[int64(len(b.Data))-rest:]
	lines := int64(bytes.Count(b.Data, []byte{'\n'}))
	if b.Unterminated {
		lines++
	}
	b.At.Line, b.Lines = s.line, int(lines)
	s.line += lines
	s.seq = b.First + evalstream.Seq(lines)
	return true, nil
}

// skip passes over n bytes of the input, the last of which must end a line.
func (s *Source) skip(ctx context.Context, n int64) error {
	var last byte
	pending := s.pending.data[s.pending.off:]
	if took := min(n, int64(len(pending))); took > 0 {
		last = pending[took-1]
		s.pending.off += int(took)
		n -= took
	}
	if n > 1 {
		if err := s.seek(&n); err != nil {
			return err
		}
	}
	buf := make([]byte, min(n, maxBlock))
	for n > 0 {
		m, err := s.more(buf[:min(n, int64(len(buf)))])
		if m > 0 {
			last = buf[m-1]
			n -= int64(m)
			continue
		}
		switch {
		case err == nil:
		case errors.Is(err, errWait):
			if err := s.wait(ctx); err != nil {
				return err
			}
		case errors.Is(err, errDrained):
			return io.EOF
		case errors.Is(err, io.EOF):
			return s.changed("is %s bytes shorter than when the state read it", strconv.FormatInt(n, 10))
		default:
			return s.lost(err)
		}
	}
	if last == '\n' {
		return nil
	}
	// The last line had no newline. If it still has none, and is the last, all is read.
	for {
		m, err := s.more(buf[:1])
		switch {
		case m > 0:
			return s.changed("line %d has grown since the state read it", s.line-1)
		case err == nil:
		case errors.Is(err, errWait):
			if err := s.wait(ctx); err != nil {
				return err
			}
		case errors.Is(err, io.EOF), errors.Is(err, errDrained):
			return nil
		default:
			return s.lost(err)
		}
	}
}

// seek moves a plain file forward, but for its last byte, which is read.
func (s *Source) seek(n *int64) error {
	r, ok := s.cur.raw.(*regular)
	if !ok || !s.cur.sniffed || s.cur.next != nil || len(s.cur.head) > 0 || s.cur.eof {
		return nil
	}
	at, err := r.f.Seek(0, io.SeekCurrent)
	if err != nil {
		return s.lost(err)
	}
	info, err := r.f.Stat()
	if err != nil {
		return s.lost(err)
	}
	by := *n - 1
	if at+by >= info.Size() {
		return s.changed("is %d bytes shorter than when the state read it", at+*n-info.Size())
	}
	if _, err := r.f.Seek(by, io.SeekCurrent); err != nil {
		return s.lost(err)
	}
	r.counter.Add(by)
	*n = 1
	return nil
}
