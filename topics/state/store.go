package state

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"

	"evalstream"
)

const (
	memTableBytes = 8 << 20
	cacheBytes    = 32 << 20
)

// Store is an [evalstream.Store] in a directory, which it holds alone until Close, or
// in memory. That of a directory takes about 64 MiB of memory.
type Store struct {
	dir    string   // for people
	lock   *os.File // nil in memory
	db     *pebble.DB
	write  *pebble.WriteOptions
	failed chan struct{} // closed when Pebble cannot go on

	mu    sync.Mutex
	cause error
}

// Open opens the state in dir. The directory is made if create is set and it is not
// there; without create a directory that holds no state is refused.
func Open(dir string, create bool) (*Store, error) { return open(dir, create, unforced{vfs.Default}) }

func open(dir string, create bool, fs vfs.FS) (*Store, error) {
	if create {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, refused(dir, err)
		}
	}
	// Before the lock, so that a directory of something else is left as it is.
	there, err := format(dir)
	if err != nil {
		return nil, err
	}
	if !there && !create {
		return nil, &evalstream.ExitError{Code: evalstream.ExitState, Err: fmt.Errorf("state %s: holds no state", dir), Hint: "name a directory that was given to --state"}
	}
	s := &Store{dir: dir, write: pebble.Sync, failed: make(chan struct{})}
	if s.lock, err = lock(dir); err != nil {
		return nil, err
	}
	if there, err = format(dir); err == nil && !there {
		// A database without a format was being made when its process ended.
		if err = making(dir); err == nil {
			err = refused(dir, os.RemoveAll(filepath.Join(dir, dbName)))
		}
	}
	if err == nil {
		err = s.open(filepath.Join(dir, dbName), &pebble.Options{
			FS: fs, MemTableSize: memTableBytes, ErrorIfNotExists: there, ErrorIfExists: !there,
		}, cacheBytes)
	}
	if err == nil && !there {
		err = mark(dir)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) open(name string, o *pebble.Options, cacheBytes int64) error {
	cache := pebble.NewCache(cacheBytes)
	defer cache.Unref()
	o.Cache, o.Logger, o.FormatMajorVersion = cache, logger{s}, pebble.FormatNewest
	o.EventListener = &pebble.EventListener{
		BackgroundError: s.background,
		DataCorruption:  func(info pebble.DataCorruptionInfo) { s.fail(damaged(s.dir, info.Details)) },
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	var db *pebble.DB
	err := s.guard(func() (err error) {
		db, err = pebble.Open(name, o)
		return err
	})
	if err == nil {
		s.db = db
	}
	return err
}

// Close ends the use of the state.
func (s *Store) Close() error {
	var err error
	select {
	case <-s.failed: // Pebble stands still; the process is about to end
	default:
		if s.db != nil {
			err = s.guard(s.db.Close)
		}
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}

// Clear takes everything out.
func (s *Store) Clear() error {
	return s.guard(func() error { return s.db.DeleteRange([]byte{0}, []byte{0xff}, s.write) })
}

// Bind says which options the state is made with. They are noted as long as nothing was
// committed; after that, others are refused, with what differs.
func (s *Store) Bind(options []evalstream.Option) error {
	val, found, err := s.value([]byte{optionsKey})
	if err != nil {
		return err
	}
	ps, err := s.Partitions()
	if err != nil {
		return err
	}
	if !found || len(ps) == 0 {
		data, err := json.Marshal(options)
		if err != nil {
			return err
		}
		return s.guard(func() error { return s.db.Set([]byte{optionsKey}, data, s.write) })
	}
	had, err := s.options(val)
	if err != nil {
		return err
	}
	if diff := evalstream.OptionsDiffer(had, options); diff != "" {
		return &evalstream.ExitError{
			Code: evalstream.ExitState, Err: fmt.Errorf("state %s: was made with other options: %s", s.dir, diff),
			Hint: "name another --state DIR for these options; evalstream state export " + s.dir + " prints what this one holds",
		}
	}
	return nil
}

// Options are those that the state was made with.
func (s *Store) Options() ([]evalstream.Option, error) {
	val, _, err := s.value([]byte{optionsKey})
	if err != nil || len(val) == 0 {
		return nil, err
	}
	return s.options(val)
}

func (s *Store) options(val []byte) ([]evalstream.Option, error) {
	var options []evalstream.Option
	if err := json.Unmarshal(val, &options); err != nil {
		return nil, damaged(s.dir, err)
	}
	return options, nil
}

// Publish notes that results are about to be written for others to read.
func (s *Store) Publish() error {
	return s.guard(func() error { return s.db.Set([]byte{publishedKey}, nil, s.write) })
}

// Published says that results may have been written since the state was made.
func (s *Store) Published() (bool, error) {
	_, found, err := s.value([]byte{publishedKey})
	return found, err
}

// The first bytes of the keys. An entry's key goes on with partition, step and the
// step's own key.
const (
	optionsKey    = 'o'
	checkpointKey = 'c'
	entryKey      = 'e'
	publishedKey  = 'p'
)

func appendEntryKey(dst []byte, partition int32, step string) []byte {
	dst = binary.BigEndian.AppendUint32(append(dst, entryKey), uint32(partition))
	return append(binary.AppendUvarint(dst, uint64(len(step))), step...)
}

func checkpointOf(partition int32) []byte {
	return binary.BigEndian.AppendUint32([]byte{checkpointKey}, uint32(partition))
}

// Partitions lists those that have a checkpoint.
func (s *Store) Partitions() ([]int32, error) {
	var ps []int32
	err := s.scan([]byte{checkpointKey}, []byte{checkpointKey}, func(key, _ []byte) (bool, error) {
		if len(key) != 5 {
			return false, fmt.Errorf("checkpoint %x has no partition", key)
		}
		ps = append(ps, int32(binary.BigEndian.Uint32(key[1:])))
		return true, nil
	})
	return ps, err
}

// Checkpoint is the last one of a partition.
func (s *Store) Checkpoint(partition int32) (*evalstream.Checkpoint, error) {
	val, found, err := s.value(checkpointOf(partition))
	if err != nil || !found {
		return nil, err
	}
	cp := new(evalstream.Checkpoint)
	if err := json.Unmarshal(val, cp); err != nil {
		return nil, damaged(s.dir, err)
	}
	return cp, nil
}

// Scan calls f for the entries of a step.
func (s *Store) Scan(step string, partition int32, from []byte, f func(key, val []byte) (bool, error)) error {
	prefix := appendEntryKey(nil, partition, step)
	n := len(prefix)
	return s.scan(prefix, append(prefix, from...), func(key, val []byte) (bool, error) { return f(key[n:], val) })
}

// Entries calls f for the entries of all steps, by partition and step. Those of the
// step "" are left out: they are notes about the store itself.
func (s *Store) Entries(f func(partition int32, step string, key, val []byte) error) error {
	return s.scan([]byte{entryKey}, []byte{entryKey}, func(key, val []byte) (bool, error) {
		if len(key) < 6 {
			return false, fmt.Errorf("entry %x has no step", key)
		}
		partition := int32(binary.BigEndian.Uint32(key[1:]))
		n, w := binary.Uvarint(key[5:])
		rest := key[5+max(0, w):]
		if w <= 0 || n > uint64(len(rest)) {
			return false, fmt.Errorf("entry %x has no step", key)
		}
		if n == 0 {
			return true, nil
		}
		err := f(partition, string(rest[:n]), rest[n:], val)
		return err == nil, err
	})
}

// errOwn is an error of the caller's own, to be told apart from Pebble's.
type errOwn struct{ err error }

func (e *errOwn) Error() string { return e.err.Error() }

func (s *Store) scan(prefix, from []byte, f func(key, val []byte) (bool, error)) error {
	err := s.guard(func() (err error) {
		it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
		if err != nil {
			return err
		}
		defer func() {
			if closeErr := it.Close(); err == nil {
				err = closeErr
			}
		}()
		for ok := it.SeekGE(from); ok; ok = it.Next() {
			val, err := it.ValueAndErr()
			if err != nil {
				return err
			}
			more, err := f(it.Key(), val)
			if err != nil {
				return &errOwn{err}
			}
			if !more {
				return nil
			}
		}
		return it.Error()
	})
	if own, ok := errors.AsType[*errOwn](err); ok {
		return own.err
	}
	return err
}

// after is the least key behind all that begin with prefix.
func after(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

// Get appends the value of an entry to dst.
func (s *Store) Get(dst []byte, step string, partition int32, key []byte) ([]byte, bool, error) {
	val, found, err := s.value(append(appendEntryKey(nil, partition, step), key...))
	return append(dst, val...), found, err
}

func (s *Store) value(key []byte) (val []byte, found bool, err error) {
	err = s.guard(func() error {
		v, closer, err := s.db.Get(key)
		if errors.Is(err, pebble.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		val, found = bytes.Clone(v), true
		return closer.Close()
	})
	return val, found, err
}

// Commit writes changes and checkpoint as one.
func (s *Store) Commit(partition int32, changes []evalstream.StepChanges, cp *evalstream.Checkpoint) error {
	point, err := json.Marshal(cp)
	if err != nil {
		return err
	}
	return s.guard(func() error {
		b := s.db.NewBatch()
		defer func() { _ = b.Close() }()
		var key []byte
		for _, c := range changes {
			key = appendEntryKey(key[:0], partition, c.Step)
			n := len(key)
			for _, e := range c.Changes {
				key = append(key[:n], e.Key...)
				var err error
				if e.Val == nil {
					err = b.Delete(key, nil)
				} else {
					err = b.Set(key, e.Val, nil)
				}
				if err != nil {
					return err
				}
			}
		}
		if err := b.Set(checkpointOf(partition), point, nil); err != nil {
			return err
		}
		return b.Commit(s.write)
	})
}

// guard runs f, which may find Pebble unable to go on: its fatal errors come from any
// goroutine and leave no way back, so f is left behind where it stands. The process
// ends with the error.
func (s *Store) guard(f func() error) error {
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("%v", p)
			}
		}()
		done <- f()
	}()
	select {
	case err := <-done:
		return s.classify(err)
	case <-s.failed:
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.cause
	}
}

func (s *Store) classify(err error) error {
	if err == nil {
		return nil
	}
	if _, own := errors.AsType[*errOwn](err); own {
		return err
	}
	if _, known := errors.AsType[*evalstream.ExitError](err); known {
		return err
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, os.ErrPermission) || errors.Is(err, unix.EROFS) {
		return refused(s.dir, err)
	}
	return damaged(s.dir, err)
}

func damaged(dir string, err error) error {
	return evalstream.Damaged(fmt.Errorf("state %s: %w", dir, err))
}

// fail notes the first error that Pebble cannot go on with.
func (s *Store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil {
		s.cause = s.classify(err)
		close(s.failed)
	}
}

// background is an error of a flush or compaction. Pebble would try for ever.
func (s *Store) background(err error) {
	if !errors.Is(err, pebble.ErrCancelledCompaction) {
		s.fail(err)
	}
}

// logger hears Pebble's fatal errors.
type logger struct{ s *Store }

func (logger) Infof(string, ...any)  {}
func (logger) Errorf(string, ...any) {}

// Fatalf must not return, and must not end the process, which has to say what
// happened: the goroutine stays here until the process has ended.
func (l logger) Fatalf(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	for _, a := range args {
		if cause, ok := a.(error); ok {
			err = cause
		}
	}
	l.s.fail(err)
	select {}
}
