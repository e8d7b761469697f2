package file

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"evalstream"
)

// line is what a test sees of a line.
type line struct {
	Origin string
	Line   int64
	Seq    evalstream.Seq
	Text   string // with its newline
	Long   int64
}

// readAll reads the source to its end and cuts its blocks into lines, with one block
// whose memory is used again and overwritten in between.
func readAll(t *testing.T, s *Source) ([]line, error) {
	t.Helper()
	var got []line
	var b evalstream.Block
	for {
		for i := range b.Data {
			b.Data[i] = 'x'
		}
		err := s.Read(t.Context(), &b)
		if errors.Is(err, io.EOF) {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		got = append(got, cut(t, &b)...)
	}
}

func cut(t *testing.T, b *evalstream.Block) []line {
	t.Helper()
	if len(b.Data) == 0 {
		t.Fatal("block without data")
	}
	if b.Long > 0 {
		return []line{{b.At.Origin.Name, b.At.Line, b.First, string(b.Data), b.Long}}
	}
	if b.Unterminated != (b.Data[len(b.Data)-1] != '\n') {
		t.Errorf("unterminated = %v for a block that ends with %q", b.Unterminated, b.Data[len(b.Data)-1])
	}
	var got []line
	at := b.At.Line
	seq := b.First
	for l := range bytes.Lines(b.Data) {
		got = append(got, line{b.At.Origin.Name, at, seq, string(l), 0})
		at++
		seq++
	}
	return got
}

// want is the same read by bufio, line by line.
func want(maxLine int, inputs map[string]string, names ...string) []line {
	var all []line
	seq := evalstream.Seq(1)
	for _, name := range names {
		text := strings.TrimPrefix(inputs[name], bom)
		r := bufio.NewReader(strings.NewReader(text))
		for n := int64(1); ; n++ {
			l, err := r.ReadString('\n')
			if l == "" && err != nil {
				break
			}
			row := line{name, n, seq, l, 0}
			if body := strings.TrimSuffix(l, "\n"); len(body) > maxLine {
				row.Text, row.Long = l[:min(headBytes, maxLine+1)], int64(len(body))
			}
			all = append(all, row)
			seq++
		}
	}
	return all
}

func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// text is random lines: most short, some empty, some of several blocks.
func text(rng *rand.Rand, lines, longest int) string {
	var b strings.Builder
	for i := range lines {
		n := rng.IntN(80)
		switch rng.IntN(20) {
		case 0:
			n = 0
		case 1:
			n = rng.IntN(longest)
		}
		fmt.Fprintf(&b, "%d:%s", i, strings.Repeat("y", n))
		if rng.IntN(9) == 0 {
			b.WriteByte('\r')
		}
		if i < lines-1 || rng.IntN(2) == 0 {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func TestSourceEqualsBufio(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 1))
		maxLine := []int{DefaultMaxLine, 300 << 10, 5000, 100, 3}[rng.IntN(5)]
		inputs := map[string]string{
			"a": text(rng, 1+rng.IntN(3000), 4000),
			"b": bom + text(rng, 1+rng.IntN(60), 700<<10),
			"c": "",
			"d": bom,
			"e": text(rng, 1+rng.IntN(50), 10),
		}
		names := []string{"a", "b", "c", "d", "e"}
		f := func(how string, open func(name string) Input) {
			t.Helper()
			var ins []Input
			for _, n := range names {
				ins = append(ins, open(n))
			}
			s := NewSource(ins...)
			s.MaxLine = maxLine
			got, err := readAll(t, s)
			if err != nil {
				t.Fatal(err)
			}
			if s.BOMs() != 2 {
				t.Errorf("boms = %d, want 2", s.BOMs())
			}
			for i := range got {
				got[i].Origin = filepath.Base(got[i].Origin)
			}
			want := want(maxLine, inputs, names...)
			if slices.Equal(want, got) {
				return
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("seed %d, %s, max line %d:\n%s", seed, how, maxLine, d[:min(len(d), 2000)])
			}
		}
		dir := t.TempDir()
		f("files", func(name string) Input {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte(inputs[name]), 0o600); err != nil {
				t.Fatal(err)
			}
			return Path(path)
		})
		f("reader", func(name string) Input { return Reader(name, strings.NewReader(inputs[name])) })
		f("half reader", func(name string) Input { return Reader(name, iotest.HalfReader(strings.NewReader(inputs[name]))) })
		f("gzip", func(name string) Input {
			return Reader(name, bytes.NewReader(gz(t, inputs[name])))
		})
		f("zstd in small pieces", func(name string) Input {
			return Reader(name, iotest.HalfReader(bytes.NewReader(zst(t, inputs[name]))))
		})
		if seed < 3 {
			f("one byte", func(name string) Input { return Reader(name, iotest.OneByteReader(strings.NewReader(inputs[name]))) })
		}
	}
}

func gz(t *testing.T, s string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, s); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zst(t *testing.T, s string) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, s); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestBlockSizes(t *testing.T) {
	f := func(lineBytes, wantLeast, wantMost int) {
		t.Helper()
		l := strings.Repeat("z", lineBytes-1) + "\n"
		path := write(t, "in", []byte(strings.Repeat(l, (8<<20)/lineBytes)))
		s := NewSource(Path(path))
		var b evalstream.Block
		var sizes []int
		for {
			err := s.Read(t.Context(), &b)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			sizes = append(sizes, len(b.Data))
		}
		for _, n := range sizes[1 : len(sizes)-1] {
			if n < wantLeast || n > wantMost {
				t.Fatalf("lines of %d bytes: block of %d bytes, want %d to %d", lineBytes, n, wantLeast, wantMost)
			}
		}
	}
	f(10, 32<<10-10, 32<<10)
	f(100, 100*1000, 100*1024)
	f(1800, 256<<10-1800, 256<<10)
	f(300<<10, 300<<10, 600<<10)
}

// A line over the limit costs its head, whatever its length.
func TestLongLine(t *testing.T) {
	const n = 64 << 20
	long := io.LimitReader(zeros{}, n)
	s := NewSource(Reader("r", io.MultiReader(strings.NewReader("first\n"), long, strings.NewReader("\nlast"))))
	s.MaxLine = 1 << 20
	got, err := readAll(t, s)
	if err != nil {
		t.Fatal(err)
	}
	d := cmp.Diff([]line{
		{"r", 1, 1, "first\n", 0},
		{"r", 2, 2, strings.Repeat("0", 256), n},
		{"r", 3, 3, "last", 0},
	}, got)
	if d != "" {
		t.Error(d)
	}
	if got := cap(s.pending.data); got > maxBlock {
		t.Errorf("source keeps %d bytes, want at most a block", got)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

func TestBrokenStreams(t *testing.T) {
	var lines strings.Builder
	rng := rand.New(rand.NewPCG(7, 7))
	for i := range 50_000 {
		fmt.Fprintf(&lines, "%d %x\n", i, rng.Uint64())
	}
	all := want(DefaultMaxLine, map[string]string{"": lines.String()}, "")
	f := func(name string, data []byte, wantErr string) {
		t.Helper()
		path := write(t, name, data)
		s := NewSource(Path(path), Path("never opened"))
		got, err := readAll(t, s)
		if err == nil || strings.TrimPrefix(err.Error(), path+": ") != wantErr {
			t.Errorf("%s: got error %v, want %s", name, err, wantErr)
		}
		if c := evalstream.ExitCode(err); c != evalstream.ExitLost {
			t.Errorf("%s: exit code %d, want %d", name, c, evalstream.ExitLost)
		}
		var e *evalstream.ExitError
		if errors.As(err, &e) && e.Hint != fmt.Sprintf("the lines before line %d were read; make or copy the file again", len(got)+1) {
			t.Errorf("%s: hint %q after %d lines", name, e.Hint, len(got))
		}
		if len(got) < 20_000 {
			t.Errorf("%s: got %d lines, want those before the fault", name, len(got))
		}
		for i, l := range got {
			if l.Text != all[i].Text {
				t.Fatalf("%s: line %d is %q, want %q", name, i, l.Text, all[i].Text)
			}
		}
		if err2 := s.Read(t.Context(), &evalstream.Block{}); !errors.Is(err2, err) {
			t.Errorf("%s: second error %v, want the first again", name, err2)
		}
	}
	z := gz(t, lines.String())
	f("cut.gz", z[:len(z)*2/3], "gzip stream is truncated")
	f("no trailer.gz", z[:len(z)-3], "gzip stream is truncated")
	bad := bytes.Clone(z)
	bad[len(bad)-6]++
	f("sum.gz", bad, "gzip stream is corrupt: gzip: invalid checksum")
	z = zst(t, lines.String())
	f("cut.zst", z[:len(z)*2/3], "zstd stream is truncated")
}

func TestLost(t *testing.T) {
	dir := t.TempDir()
	f := func(path, wantErr, wantHint string) {
		t.Helper()
		_, err := readAll(t, NewSource(Reader("r", strings.NewReader("a\n")), Path(path)))
		var e *evalstream.ExitError
		if !errors.As(err, &e) || e.Code != evalstream.ExitLost {
			t.Fatalf("got error %v, want exit 4", err)
		}
		if d := cmp.Diff([2]string{wantErr, wantHint}, [2]string{e.Error(), e.Hint}); d != "" {
			t.Error(d)
		}
	}
	f(dir+"/none", dir+"/none: no such file or directory", "check the path; - is standard input")
	f(dir, dir+": want a file, got a directory", "name the files in it, such as "+dir+"/*.ndjson")
	_, err := readAll(t, NewSource(Path(dir+"/none")))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is not fs.ErrNotExist", err)
	}
}

func TestProgress(t *testing.T) {
	a, b := write(t, "a", []byte("12\n45\n")), write(t, "b", []byte("7\n"))
	s := NewSource(Path(a), Path(b))
	if n, total, known := s.Progress(); n != 0 || total != 8 || !known {
		t.Errorf("progress = %d, %d, %v; want 0, 8, true", n, total, known)
	}
	if _, err := readAll(t, s); err != nil {
		t.Fatal(err)
	}
	if n, total, known := s.Progress(); n != 8 || total != 8 || !known {
		t.Errorf("progress = %d, %d, %v; want 8, 8, true", n, total, known)
	}
	if _, _, known := NewSource(Path(a), Reader("r", strings.NewReader(""))).Progress(); known {
		t.Error("total is known of a reader")
	}
}

func TestEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("cause")
	cancel(cause)
	if err := NewSource(Reader("r", strings.NewReader("a\n"))).Read(ctx, &evalstream.Block{}); !errors.Is(err, cause) {
		t.Errorf("got %v, want the cause", err)
	}
}

func FuzzBlocks(f *testing.F) {
	f.Add([]byte("a\nbb\r\n\nccc"), uint16(2), uint8(3))
	f.Add([]byte("\xef\xbb\xbfa\n"), uint16(9), uint8(1))
	f.Add([]byte("\x1f\x8b"), uint16(9), uint8(1))
	f.Add([]byte("\x28\xb5\x2f\n"), uint16(300), uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, maxLine uint16, piece uint8) {
		if format, _ := formatOf(data); format != "" {
			return
		}
		limit := max(3, int(maxLine))
		s := NewSource(Reader("r", &pieces{data: data, n: int(piece) + 1}))
		s.MaxLine = limit
		got, err := readAll(t, s)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want(limit, map[string]string{"r": string(data)}, "r"), got); d != "" {
			t.Error(d)
		}
	})
}

// pieces gives at most n bytes a Read.
type pieces struct {
	data []byte
	n    int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.data) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.data[:min(p.n, len(p.data))])
	p.data = p.data[n:]
	return n, nil
}
