package file

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// waitMillis bounds a wait, so that the end of the context and Drain are seen.
const waitMillis = 50

var (
	errWait    = errors.New("nothing to read yet")
	errDrained = errors.New("drained")
)

// raw is the bytes of an input as they lie there.
type raw interface {
	// read is io.Reader's Read, but gives errWait where that would block.
	read(p []byte) (int, error)
	// wait returns when read has something to say or after about that many milliseconds.
	wait(millis int) (ready bool, err error)
	close() error
}

// regular is a file that never makes its reader wait.
type regular struct {
	f       *os.File
	owned   bool
	counter *atomic.Int64
}

func (r *regular) read(p []byte) (int, error) {
	n, err := r.f.Read(p)
	r.counter.Add(int64(n))
	return n, err
}

func (*regular) wait(int) (bool, error) { return true, nil }

func (r *regular) close() error {
	if !r.owned {
		return nil
	}
	return r.f.Close()
}

// live is a pipe, terminal or socket. It is read only after poll has said that
// there is something: before its first writer has come a named pipe reads as ended.
type live struct {
	regular
	conn syscall.RawConn
}

func (l *live) read(p []byte) (int, error) {
	ready, err := l.wait(0)
	if err != nil {
		return 0, err
	}
	if !ready {
		return 0, errWait
	}
	return l.regular.read(p)
}

func (l *live) wait(millis int) (bool, error) {
	var n int
	var err error
	cerr := l.conn.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err = unix.Poll(fds, millis)
	})
	if cerr != nil {
		return false, cerr
	}
	if errors.Is(err, unix.EINTR) {
		return false, nil
	}
	return n > 0, err
}

// reader is an input of which only Read is known.
type reader struct {
	r       io.Reader
	counter *atomic.Int64
	short   bool // the last Read gave less than it was asked for
	empty   int  // Reads in a row that gave nothing
}

func (r *reader) read(p []byte) (int, error) {
	if r.short {
		r.short = false
		return 0, errWait
	}
	n, err := r.r.Read(p)
	r.counter.Add(int64(n))
	r.short = n < len(p)
	if r.empty++; n > 0 {
		r.empty = 0
	}
	if err == nil && r.empty > 100 {
		err = io.ErrNoProgress
	}
	return n, err
}

func (*reader) wait(int) (bool, error) { return true, nil }

func (*reader) close() error { return nil }
