package file

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// stream is an open input, decompressed if it is compressed.
type stream struct {
	raw     raw
	head    []byte // read to see the format, and not yet handed on
	sniffed bool
	eof     bool                         // seen while sniffing
	next    func() ([]byte, error, bool) // of the decompressor; nil if there is none
	stop    func()
	chunk   []byte // what is left of the last one
}

// streamError is a compressed stream that cannot be read to its end.
type streamError struct {
	format string
	err    error
}

func (e *streamError) Error() string {
	if errors.Is(e.err, io.ErrUnexpectedEOF) {
		return e.format + " stream is truncated"
	}
	return fmt.Sprintf("%s stream is corrupt: %v", e.format, e.err)
}

func (e *streamError) Unwrap() error { return e.err }

func (st *stream) read(p []byte) (int, error) {
	if !st.sniffed {
		if err := st.sniff(); err != nil {
			return 0, err
		}
	}
	if st.next == nil {
		if len(st.head) > 0 {
			n := copy(p, st.head)
			st.head = st.head[n:]
			return n, nil
		}
		if st.eof {
			return 0, io.EOF
		}
		return st.raw.read(p)
	}
	for len(st.chunk) == 0 {
		chunk, err, ok := st.next()
		if !ok {
			return 0, io.EOF
		}
		if err != nil {
			return 0, err
		}
		st.chunk = chunk
	}
	n := copy(p, st.chunk)
	st.chunk = st.chunk[n:]
	return n, nil
}

func (st *stream) wait(millis int) (bool, error) { return st.raw.wait(millis) }

func (st *stream) close() error {
	if st.stop != nil {
		st.stop()
	}
	return st.raw.close()
}

// sniff reads until the first bytes tell the format. No magic number has a newline
// in it, so a line is never held up.
func (st *stream) sniff() error {
	const size = 4096
	for {
		buf := append(make([]byte, 0, size), st.head...)
		n, err := st.raw.read(buf[len(buf):size])
		st.head = buf[:len(buf)+n]
		format, undecided := formatOf(st.head)
		if errors.Is(err, io.EOF) {
			undecided, st.eof = false, true
		} else if err != nil && (undecided || n == 0) {
			return err
		}
		if undecided {
			continue
		}
		st.sniffed = true
		if format != "" {
			st.next, st.stop = iter.Pull2(decompress(format, st.head, st.raw))
			st.head = nil
		}
		return nil
	}
}

// formatOf names the compression that head begins; undecided says that more bytes
// are needed to tell.
func formatOf(head []byte) (format string, undecided bool) {
	for _, m := range [...]struct{ magic, format string }{
		{"\x1f\x8b", "gzip"},
		{"\x28\xb5\x2f\xfd", "zstd"},
	} {
		if bytes.HasPrefix(head, []byte(m.magic)) {
			return m.format, false
		}
		undecided = undecided || len(head) < len(m.magic) && m.magic[:len(head)] == string(head)
	}
	return "", undecided
}

// decompress yields what the stream holds, errWait whenever raw has nothing yet, and
// the error that it ends with. The decompressor can then stand in the middle of a
// read while the lines before it are already being worked on.
func decompress(format string, head []byte, r raw) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		in := &feed{head: head, raw: r, yield: yield}
		dec, err := newDecoder(format, bufio.NewReaderSize(in, 64<<10))
		if err == nil {
			defer func() { _ = dec.Close() }()
			buf := make([]byte, 64<<10)
			for err == nil {
				var n int
				n, err = dec.Read(buf)
				if n > 0 && !in.stopped && !yield(buf[:n], nil) {
					return
				}
			}
		}
		switch {
		case in.stopped:
		case in.failed != nil:
			yield(nil, in.failed)
		case !errors.Is(err, io.EOF):
			yield(nil, &streamError{format: format, err: err})
		}
	}
}

func newDecoder(format string, r io.Reader) (io.ReadCloser, error) {
	if format == "gzip" {
		return gzip.NewReader(r)
	}
	// One goroutine: the reader yields from within. 128 MiB is the zstd program's
	// own limit.
	d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(128<<20))
	if err != nil {
		return nil, err
	}
	return d.IOReadCloser(), nil
}

// feed is what the decompressor reads.
type feed struct {
	head    []byte
	raw     raw
	yield   func([]byte, error) bool
	stopped bool
	failed  error // of raw, other than its end
}

var errStopped = errors.New("stopped")

func (f *feed) Read(p []byte) (int, error) {
	if len(f.head) > 0 {
		n := copy(p, f.head)
		f.head = f.head[n:]
		return n, nil
	}
	for !f.stopped {
		n, err := f.raw.read(p)
		if errors.Is(err, errWait) {
			f.stopped = !f.yield(nil, errWait)
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			f.failed = err
		}
		return n, err
	}
	return 0, errStopped
}
