package file

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"evalstream"
)

func raws(dst []byte, r *evalstream.Record) []byte { return append(dst, r.Raw...) }

func recs(lines ...string) []evalstream.Record {
	var rs []evalstream.Record
	for i, l := range lines {
		rs = append(rs, evalstream.Record{Raw: []byte(l), Seq: evalstream.Seq(i + 1)})
	}
	return rs
}

// writes remembers the length of each write, and fails if a line was cut.
type writes struct {
	t    *testing.T
	lens []int
	all  strings.Builder
}

func (w *writes) Write(p []byte) (int, error) {
	if len(p) == 0 || p[len(p)-1] != '\n' {
		w.t.Errorf("write of %d bytes does not end with a line", len(p))
	}
	w.lens = append(w.lens, len(p))
	return w.all.Write(p)
}

func TestSink(t *testing.T) {
	w := &writes{t: t}
	s := NewSink("out", w, raws)
	ctx := t.Context()
	write := func(lines ...string) {
		t.Helper()
		if err := s.Write(ctx, recs(lines...)); err != nil {
			t.Fatal(err)
		}
	}
	flush := func() {
		t.Helper()
		if err := s.Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
	flush()
	k40, k100 := strings.Repeat("a", 40<<10), strings.Repeat("b", 100<<10)
	write("one", "", "two")
	flush()
	write(k40)
	write(k40, k100, "c")
	flush()
	flush()
	want := []int{8, 40<<10 + 1, 40<<10 + 1, 100<<10 + 1, 2}
	if d := cmp.Diff(want, w.lens); d != "" {
		t.Error(d)
	}
	if got := w.all.String(); got != "one\ntwo\n"+k40+"\n"+k40+"\n"+k100+"\nc\n" {
		t.Errorf("wrote %d bytes, not the lines in order", len(got))
	}
}

func TestSinkFaults(t *testing.T) {
	f := func(err error, wantCode int, wantText, wantHint string) {
		t.Helper()
		s := NewSink("out", writeFunc(func([]byte) (int, error) { return 0, err }), raws)
		if err := s.Write(t.Context(), recs("a")); err != nil {
			t.Errorf("error before anything was written: %v", err)
		}
		got := s.Flush(t.Context())
		if got == nil || got.Error() != wantText || errors.Is(got, ErrClosedPipe) != (wantCode == evalstream.ExitInternal) {
			t.Errorf("got error %v, want %s", got, wantText)
		}
		if c := evalstream.ExitCode(got); c != wantCode {
			t.Errorf("%v: code %d, want %d", got, c, wantCode)
		}
		var e *evalstream.ExitError
		if errors.As(got, &e) && e.Hint != wantHint {
			t.Errorf("hint %q, want %q", e.Hint, wantHint)
		}
		if again := s.Write(t.Context(), recs("b")); !errors.Is(again, got) {
			t.Errorf("second error %v, want the first again", again)
		}
	}
	f(&os.PathError{Op: "write", Path: "x", Err: syscall.EPIPE}, evalstream.ExitInternal, "out: reader has closed the pipe", "")
	f(io.ErrClosedPipe, evalstream.ExitInternal, "out: reader has closed the pipe", "")
	f(&os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, evalstream.ExitLost, "out: no space left on device", "make room on the disk and run again")
	f(syscall.EIO, evalstream.ExitLost, "out: input/output error", "what was written before is whole lines")
}

type writeFunc func(p []byte) (int, error)

func (f writeFunc) Write(p []byte) (int, error) { return f(p) }

func TestRecordSource(t *testing.T) {
	f := func(size int, fault error, wantSizes ...int) {
		t.Helper()
		in := recs("a", "b", "c", "d", "e")
		s := NewRecordSource(func(yield func(evalstream.Record, error) bool) {
			for _, r := range in {
				if !yield(r, nil) {
					return
				}
			}
			if fault != nil {
				yield(evalstream.Record{}, fault)
			}
		})
		s.Size = size
		var sizes []int
		var got []evalstream.Record
		var err error
		for {
			var b evalstream.Block
			if err = s.Read(t.Context(), &b); err != nil {
				break
			}
			if b.First != b.Records[0].Seq {
				t.Errorf("first = %d, want %d", b.First, b.Records[0].Seq)
			}
			sizes = append(sizes, len(b.Records))
			got = append(got, b.Records...)
		}
		if fault == nil {
			fault = io.EOF
		}
		if !errors.Is(err, fault) || !errors.Is(s.Read(t.Context(), &evalstream.Block{}), fault) {
			t.Errorf("got error %v, want %v", err, fault)
		}
		if d := cmp.Diff(wantSizes, sizes); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(in, got); d != "" {
			t.Error(d)
		}
	}
	f(2, nil, 2, 2, 1)
	f(5, nil, 5)
	f(0, nil, 5)
	f(3, errors.New("fault"), 3, 2)

	s := Records(recs("a", "b"))
	var b evalstream.Block
	if err := s.Read(t.Context(), &b); err != nil || len(b.Records) != 2 {
		t.Errorf("got %d records, error %v", len(b.Records), err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Records(recs("a")).Read(ctx, &b); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}
