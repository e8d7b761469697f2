package file

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/zeebo/xxh3"
	"golang.org/x/sys/unix"

	"evalstream"
)

// ResultLog is an evalstream.ResultLog in one file that only grows. An answer that Put
// has returned for survives the end of the process, kill -9 included, but not that of
// the machine. Memory: about 40 bytes an answer; the answers stay in the file.
//
// The file is the magic line and entries: the length of the answer (4 bytes, little
// endian), the key (16), the answer, and the xxh3 of all of it (8). An entry that is
// not whole at the end of the file is the one that was being written when the process
// died: it is cut off.
type ResultLog struct {
	path string
	f    *os.File

	mu    sync.RWMutex
	at    map[evalstream.LogKey]entryAt
	end   int64
	buf   []byte
	fault error // of a write: what follows it would not be found again
}

type entryAt struct {
	offset int64 // of the answer
	size   uint32
}

const (
	logMagic  = "evalstream results 1\n"
	entryHead = 4 + 16
	entryTail = 8
	maxAnswer = 64 << 20
)

// OpenResultLog opens a log, and makes it if it is not there. One process has it at a
// time. The errors of a log that is in use, damaged, or another file are exit 5.
func OpenResultLog(path string) (*ResultLog, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, evalstream.Lost(fmt.Errorf("log: %w", err))
	}
	l := &ResultLog{path: path, f: f, at: map[evalstream.LogKey]entryAt{}}
	if err := l.load(); err != nil {
		_ = f.Close()
		return nil, err
	}
	return l, nil
}

func (l *ResultLog) state(hint, format string, args ...any) error {
	return &evalstream.ExitError{Code: evalstream.ExitState, Err: fmt.Errorf("log %s: %w", l.path, fmt.Errorf(format, args...)), Hint: hint}
}

func (l *ResultLog) load() error {
	if err := unix.Flock(int(l.f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return l.state("wait for it to end, or give this one a log of its own", "another process has it open")
		}
		return l.state("", "%w", err)
	}
	r := bufio.NewReaderSize(l.f, 256<<10)
	magic := make([]byte, len(logMagic))
	n, err := io.ReadFull(r, magic)
	switch {
	case string(magic[:n]) != logMagic[:n]:
		return l.state("name another file, or delete this one", "want a log of results, got something else")
	case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return l.state("", "%w", err)
	case n < len(logMagic):
		if _, err := l.f.WriteAt([]byte(logMagic), 0); err != nil {
			return evalstream.Lost(fmt.Errorf("log: %w", err))
		}
		l.end = int64(len(logMagic))
		return nil
	}
	l.end = int64(len(logMagic))
	for {
		err := l.next(r)
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			if err := l.f.Truncate(l.end); err != nil {
				return evalstream.Lost(fmt.Errorf("log: %w", err))
			}
			return nil
		}
		return err
	}
}

// next reads one entry.
func (l *ResultLog) next(r io.Reader) error {
	var head [entryHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	size := binary.LittleEndian.Uint32(head[:])
	damaged := func() error {
		return l.state("what stands before that can be kept: cut the file to that length; or delete it, and everything is asked again", "damaged at byte %d", l.end)
	}
	if size > maxAnswer {
		return damaged()
	}
	l.buf = append(l.buf[:0], head[:]...)
	l.buf = append(l.buf, make([]byte, int(size)+entryTail)...)
	if _, err := io.ReadFull(r, l.buf[entryHead:]); err != nil {
		return err
	}
	body := l.buf[:entryHead+int(size)]
	if binary.LittleEndian.Uint64(l.buf[len(body):]) != xxh3.Hash(body) {
		return damaged()
	}
	var key evalstream.LogKey
	copy(key[:], head[4:])
	l.at[key] = entryAt{offset: l.end + entryHead, size: size}
	l.end += int64(len(l.buf))
	return nil
}

// Len is the number of answers.
func (l *ResultLog) Len() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.at)
}

// Get reads an answer from the file.
func (l *ResultLog) Get(key evalstream.LogKey) (answer []byte, ok bool, err error) {
	l.mu.RLock()
	at, ok := l.at[key]
	l.mu.RUnlock()
	if !ok {
		return nil, false, nil
	}
	answer = make([]byte, at.size)
	if _, err := l.f.ReadAt(answer, at.offset); err != nil {
		return nil, false, l.state("", "%w", err)
	}
	return answer, true, nil
}

// Put appends an answer.
func (l *ResultLog) Put(key evalstream.LogKey, answer []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.at[key]; ok {
		return nil
	}
	if l.fault != nil {
		return l.fault
	}
	if len(answer) > maxAnswer {
		return l.state("", "answer of %d bytes is over the limit of %d", len(answer), maxAnswer)
	}
	l.buf = binary.LittleEndian.AppendUint32(l.buf[:0], uint32(len(answer)))
	l.buf = append(append(l.buf, key[:]...), answer...)
	l.buf = binary.LittleEndian.AppendUint64(l.buf, xxh3.Hash(l.buf))
	if _, err := l.f.WriteAt(l.buf, l.end); err != nil {
		l.fault = evalstream.Lost(fmt.Errorf("log: %w", err))
		return l.fault
	}
	l.at[key] = entryAt{offset: l.end + entryHead, size: uint32(len(answer))}
	l.end += int64(len(l.buf))
	return nil
}

// Close gives the file back.
func (l *ResultLog) Close() error { return l.f.Close() }
