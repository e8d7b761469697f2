package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"evalstream"
)

// reading is a source that is read to its end by a goroutine of its own.
type reading struct {
	texts chan string // the data of each block
	err   error       // once texts is closed
}

func start(ctx context.Context, s *Source) *reading {
	r := &reading{texts: make(chan string)}
	go func() {
		defer close(r.texts)
		var b evalstream.Block
		for {
			if r.err = s.Read(ctx, &b); r.err != nil {
				return
			}
			r.texts <- string(b.Data)
		}
	}()
	return r
}

// next is the next block, which must come soon: 50 ms is the promise, and the rest
// is for a machine that does other things.
func (r *reading) next(t *testing.T) string {
	t.Helper()
	limit := 2 * time.Second
	select {
	case s := <-r.texts:
		return s
	case <-time.After(limit):
		t.Fatalf("no block after %v", limit)
		return ""
	}
}

func (r *reading) end(t *testing.T, want error) {
	t.Helper()
	if s := r.next(t); s != "" {
		t.Errorf("got block %q, want the end", s)
	}
	if !errors.Is(r.err, want) {
		t.Errorf("got error %v, want %v", r.err, want)
	}
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(); _ = w.Close() })
	return r, w
}

func put(t *testing.T, w io.Writer, s string) {
	t.Helper()
	if _, err := io.WriteString(w, s); err != nil {
		t.Fatal(err)
	}
}

// Each line comes out of a pipe before the next one goes in.
func TestLivePipe(t *testing.T) {
	f := func(name string, open func() (Input, io.WriteCloser)) {
		t.Helper()
		in, w := open()
		r := start(t.Context(), NewSource(in))
		for _, c := range []struct{ in, want string }{
			{"{\"a\":1}\n", "{\"a\":1}\n"},
			{"\n", "\n"},
			{"(\n", "(\n"}, // the first byte of zstd
			{"two\nlines\n", "two\nlines\n"},
			{"half", ""},
			{" and the rest\nand ", "half and the rest\n"},
			{"more\n", "and more\n"},
		} {
			put(t, w, c.in)
			if c.want == "" {
				continue
			}
			if got := r.next(t); got != c.want {
				t.Errorf("%s: after %q got block %q, want %q", name, c.in, got, c.want)
			}
		}
		put(t, w, "unterminated")
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if got := r.next(t); got != "unterminated" {
			t.Errorf("%s: at the end got block %q", name, got)
		}
		r.end(t, io.EOF)
	}
	f("pipe", func() (Input, io.WriteCloser) {
		r, w := pipe(t)
		return Reader("pipe", r), w
	})
	f("named pipe", func() (Input, io.WriteCloser) {
		path := filepath.Join(t.TempDir(), "fifo")
		if err := unix.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		w, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		return Path(path), w
	})
	f("gzip", func() (Input, io.WriteCloser) {
		r, w := pipe(t)
		return Reader("pipe", r), flushing{gzip.NewWriter(w), w}
	})
	f("zstd", func() (Input, io.WriteCloser) {
		r, w := pipe(t)
		z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		return Reader("pipe", r), flushing{z, w}
	})
}

// flushing is a compressor that flushes each write.
type flushing struct {
	z interface {
		io.WriteCloser
		Flush() error
	}
	w io.Closer
}

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.z.Write(p)
	if err != nil {
		return n, err
	}
	return n, f.z.Flush()
}

func (f flushing) Close() error { return errors.Join(f.z.Close(), f.w.Close()) }

// A named pipe without a writer is waited for, not taken as empty.
func TestNamedPipeBeforeItsWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	s := NewSource(Path(path))
	r := start(t.Context(), s)
	w, err := os.OpenFile(path, os.O_WRONLY, 0) // returns when the source has opened it
	if err != nil {
		t.Fatal(err)
	}
	put(t, w, "a\n")
	if got := r.next(t); got != "a\n" {
		t.Errorf("got %q", got)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r.end(t, io.EOF)
}

func TestDrain(t *testing.T) {
	r, w := pipe(t)
	s := NewSource(Reader("pipe", r), Path("never opened"))
	rd := start(t.Context(), s)
	put(t, w, "one\ntw")
	if got := rd.next(t); got != "one\n" {
		t.Errorf("got %q", got)
	}
	s.Drain()
	rd.end(t, io.EOF)
	if err := s.Read(t.Context(), &evalstream.Block{}); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v, want io.EOF", err)
	}
}

// Lines that were read are delivered after Drain.
func TestDrainKeepsWholeLines(t *testing.T) {
	var s *Source
	asked := 0
	s = NewSource(Reader("r", readFunc(func(p []byte) (int, error) {
		asked++
		s.Drain()
		return copy(p, "one\ntwo\nthr"), nil
	})))
	got, err := readAll(t, s)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]line{{"r", 1, 1, "one\n", 0}, {"r", 2, 2, "two\n", 0}}, got); d != "" {
		t.Error(d)
	}
	if asked != 1 {
		t.Errorf("input was read %d times, want 1", asked)
	}
}

type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func TestContextEndsABlockedRead(t *testing.T) {
	f := func(in string) {
		t.Helper()
		r, w := pipe(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		s := NewSource(Reader("pipe", r))
		s.MaxLine = 10
		rd := start(ctx, s)
		put(t, w, in)
		cause := errors.New("cause")
		cancel(cause)
		rd.end(t, cause)
	}
	f("")
	f("half")
	f("half of a long line")
	f("\x1f\x8b")
	f("\x28\xb5\x2f")
}

func TestCloseWhileOpen(t *testing.T) {
	r, w := pipe(t)
	s := NewSource(Reader("pipe", r))
	z := gzip.NewWriter(w)
	put(t, z, "a\n")
	if err := z.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := s.Read(t.Context(), &evalstream.Block{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Read(t.Context(), &evalstream.Block{}); err == nil {
		t.Error("want an error after Close, got none")
	}
}

// A job over pipes writes a line's output before the next line comes, whatever the
// number of workers.
func TestLiveJob(t *testing.T) {
	p, err := evalstream.New("test", evalstream.Step{Name: "pass", New: func() (evalstream.Stage, error) { return passing{}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	for workers := 1; workers <= 4; workers++ {
		in, w := pipe(t)
		out, sinkW := pipe(t)
		job := evalstream.Job{
			Pipeline: p, Source: NewSource(Reader("in", in)), Workers: workers,
			Sink: NewSink("out", sinkW, raws),
		}
		done := make(chan error, 1)
		go func() {
			sum, err := job.Run(t.Context())
			if err == nil && sum.Lines != 21 {
				err = fmt.Errorf("%d lines, want 21", sum.Lines)
			}
			done <- err
		}()
		slowest := time.Duration(0)
		for i := range 20 {
			line := fmt.Sprintf("line %d\n", i)
			from := time.Now()
			put(t, w, line)
			if err := out.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(line))
			if _, err := io.ReadFull(out, got); err != nil || string(got) != line {
				t.Fatalf("%d workers: got %q, error %v; want %q", workers, got, err, line)
			}
			slowest = max(slowest, time.Since(from))
		}
		t.Logf("%d workers: slowest line %v", workers, slowest)
		put(t, w, "\n")
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

type passing struct{}

func (passing) Process(_ context.Context, in []evalstream.Record, out *evalstream.Out) error {
	for _, r := range in {
		out.Emit(r)
	}
	return nil
}
