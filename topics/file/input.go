package file

import (
	"errors"
	"io"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Input is one place to read from.
type Input struct {
	name   string
	reader io.Reader // nil: the file of that name
}

// Path is the file of that path. A named pipe is waited for without blocking.
func Path(path string) Input { return Input{name: path} }

// Reader reads r, which is not closed, and calls it name in positions. If r is not an
// *os.File, a Read that gives less than it was asked for is taken to mean that more
// would block, and a Read that blocks sees neither the end of the context nor Drain.
func Reader(name string, r io.Reader) Input { return Input{name: name, reader: r} }

// Name is what positions call the input.
func (in Input) Name() string { return in.name }

// size is the number of bytes to read, if that is known.
func (in Input) size() (int64, bool) {
	var info os.FileInfo
	var err error
	switch r := in.reader.(type) {
	case nil:
		info, err = os.Stat(in.name)
	case *os.File:
		info, err = r.Stat()
	default:
		return 0, false
	}
	if err != nil || !info.Mode().IsRegular() {
		return 0, false
	}
	n := info.Size()
	if r, ok := in.reader.(*os.File); ok {
		if at, err := r.Seek(0, io.SeekCurrent); err == nil {
			n = max(0, n-at)
		}
	}
	return n, true
}

var errDirectory = errors.New("want a file, got a directory")

func (in Input) open(read *atomic.Int64) (*stream, error) {
	var f *os.File
	owned := false
	switch r := in.reader.(type) {
	case nil:
		// Opening a named pipe must not wait for its writer: the wait is ours, where
		// it sees the end of the context.
		var err error
		if f, err = os.OpenFile(in.name, os.O_RDONLY|unix.O_NONBLOCK, 0); err != nil {
			return nil, err
		}
		owned = true
	case *os.File:
		f = r
	default:
		return &stream{raw: &reader{r: r, counter: read}}, nil
	}
	st, err := openFile(f, owned, read)
	if err != nil && owned {
		_ = f.Close()
	}
	return st, err
}

func openFile(f *os.File, owned bool, read *atomic.Int64) (*stream, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, errDirectory
	}
	if info.Mode().IsRegular() {
		return &stream{raw: &regular{f: f, owned: owned, counter: read}}, nil
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &stream{raw: &live{regular: regular{f: f, owned: owned, counter: read}, conn: conn}}, nil
}
