package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"evalstream"
)

func opened(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closed(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func changes(step string, kv ...string) []evalstream.StepChanges {
	c := evalstream.StepChanges{Step: step}
	for i := 0; i < len(kv); i += 2 {
		val := []byte(kv[i+1])
		if kv[i+1] == "-" {
			val = nil
		}
		c.Changes = append(c.Changes, evalstream.Change{Key: []byte(kv[i]), Val: val})
	}
	return []evalstream.StepChanges{c}
}

func entries(t *testing.T, s *Store, step string, partition int32, from string) []string {
	t.Helper()
	var got []string
	err := s.Scan(step, partition, []byte(from), func(key, val []byte) (bool, error) {
		got = append(got, string(key)+"="+string(val))
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s := opened(t, dir)
	commit := func(p int32, next evalstream.Seq, c []evalstream.StepChanges) {
		t.Helper()
		if err := s.Commit(p, c, &evalstream.Checkpoint{Next: next, ByClass: map[evalstream.Class]int64{evalstream.ClassParse: 2}}); err != nil {
			t.Fatal(err)
		}
	}
	if cp, err := s.Checkpoint(0); cp != nil || err != nil {
		t.Fatal(cp, err)
	}
	commit(0, 5, append(changes("score", "a", "1", "b", "2", "\xff", "3"), changes("scor", "e", "x")...))
	commit(1, 6, changes("score", "a", "other"))
	commit(0, 7, changes("score", "b", "-", "c", "4", "empty", ""))
	for range 2 {
		for _, d := range []string{
			cmp.Diff([]string{"a=1", "c=4", "empty=", "\xff=3"}, entries(t, s, "score", 0, "")),
			cmp.Diff([]string{"c=4", "empty=", "\xff=3"}, entries(t, s, "score", 0, "b")),
			cmp.Diff([]string{"a=other"}, entries(t, s, "score", 1, "")),
			cmp.Diff([]string{"e=x"}, entries(t, s, "scor", 0, "")),
		} {
			if d != "" {
				t.Error(d)
			}
		}
		cp, err := s.Checkpoint(0)
		if err != nil || cp.Next != 7 || cp.ByClass[evalstream.ClassParse] != 2 {
			t.Errorf("checkpoint %+v, error %v", cp, err)
		}
		if ps, err := s.Partitions(); err != nil || cmp.Diff([]int32{0, 1}, ps) != "" {
			t.Error(ps, err)
		}
		val, found, err := s.Get([]byte("x"), "score", 0, []byte("empty"))
		if string(val) != "x" || !found || err != nil {
			t.Error(val, found, err)
		}
		if _, found, err := s.Get(nil, "score", 0, []byte("b")); found || err != nil {
			t.Error(found, err)
		}
		closed(t, s)
		s = opened(t, dir)
	}
	own := errors.New("own")
	if err := s.Scan("score", 0, nil, func([]byte, []byte) (bool, error) { return false, own }); !errors.Is(err, own) || evalstream.ExitCode(err) != evalstream.ExitInternal {
		t.Errorf("error %v", err)
	}
	closed(t, s)
}

// TestMemory holds more than the memtables do, so that it is flushed and compacted.
func TestMemory(t *testing.T) {
	s, err := OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	big := strings.Repeat("x", 1000)
	for i := range 100 {
		var kv []string
		for k := range 200 {
			kv = append(kv, fmt.Sprint(i*200+k), big)
		}
		if err := s.Commit(3, append(changes("score", kv...), changes("", "note", "of the store")...), &evalstream.Checkpoint{Next: evalstream.Seq(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Commit(3, changes("score", "7", "-"), &evalstream.Checkpoint{Next: 100}); err != nil {
		t.Fatal(err)
	}
	if n := len(entries(t, s, "score", 3, "")); n != 19_999 {
		t.Errorf("%d entries, want 19,999", n)
	}
	n := 0
	if err := s.Entries(func(_ int32, step string, _, _ []byte) error {
		n++
		if step != "score" {
			t.Errorf("entry of step %q", step)
		}
		return nil
	}); err != nil || n != 19_999 {
		t.Errorf("%d entries of all steps, want 19,999 without the note; error %v", n, err)
	}
	if val, found, err := s.Get(nil, "", 3, []byte("note")); string(val) != "of the store" || !found || err != nil {
		t.Error(val, found, err)
	}
	if cp, err := s.Checkpoint(3); err != nil || cp.Next != 100 {
		t.Errorf("checkpoint %+v, error %v", cp, err)
	}
	if err := s.Clear(); err != nil {
		t.Fatal(err)
	}
	cp, err := s.Checkpoint(3)
	if ps, err := s.Partitions(); cp != nil || err != nil || len(ps) != 0 || len(entries(t, s, "score", 3, "")) != 0 {
		t.Errorf("a cleared store has the checkpoint %+v, partitions %v, error %v", cp, ps, err)
	}
	if err != nil {
		t.Error(err)
	}
	closed(t, s)
}

func wantExit(t *testing.T, err error, code int, part string) {
	t.Helper()
	if err == nil || evalstream.ExitCode(err) != code || !strings.Contains(err.Error(), part) {
		t.Errorf("got error %v (exit %d), want %q (exit %d)", err, evalstream.ExitCode(err), part, code)
		return
	}
	if e, ok := errors.AsType[*evalstream.ExitError](err); !ok || e.Hint == "" {
		t.Errorf("%v: want a hint", err)
	}
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	_, err := Open(dir, true)
	wantExit(t, err, evalstream.ExitState, fmt.Sprintf("is in use by process %d", os.Getpid()))
	closed(t, s)
	closed(t, opened(t, dir))
}

func TestBind(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	bind := func(kv ...string) error {
		var os []evalstream.Option
		for i := 0; i < len(kv); i += 2 {
			os = append(os, evalstream.Option{Name: kv[i], Value: kv[i+1]})
		}
		return s.Bind(os)
	}
	if err := bind("by", "run"); err != nil {
		t.Fatal(err)
	}
	if err := bind("by", "ticker", "window", "1h"); err != nil {
		t.Fatalf("nothing was read yet: %v", err)
	}
	if err := s.Commit(0, nil, &evalstream.Checkpoint{}); err != nil {
		t.Fatal(err)
	}
	closed(t, s)
	s = opened(t, dir)
	if err := bind("window", "1h", "by", "ticker"); err != nil {
		t.Fatal(err)
	}
	wantExit(t, bind("by", "run", "gold", "x"), evalstream.ExitState, "by was ticker and is run; window was 1h and is not given; gold is x and was not given")
	closed(t, s)
}

func TestNoState(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, create := range []bool{true, false} {
		_, err := Open(dir, create)
		wantExit(t, err, evalstream.ExitState, "is no state, it holds mine")
	}
	if es, err := os.ReadDir(dir); err != nil || len(es) != 1 {
		t.Errorf("the directory was changed: %v, %v", es, err)
	}
	_, err := Open(t.TempDir(), false)
	wantExit(t, err, evalstream.ExitState, "holds no state")
	dir = t.TempDir()
	closed(t, opened(t, dir))
	if err := os.WriteFile(filepath.Join(dir, formatName), []byte("evalstream state 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Open(dir, true)
	wantExit(t, err, evalstream.ExitState, `want format "evalstream state 1", got "evalstream state 7"`)
}

// TestHalfMade is a process that ended before its first state was whole.
func TestHalfMade(t *testing.T) {
	dir := t.TempDir()
	closed(t, opened(t, dir))
	if err := os.Rename(filepath.Join(dir, formatName), filepath.Join(dir, makingName)); err != nil {
		t.Fatal(err)
	}
	closed(t, opened(t, dir))
	if _, err := os.Stat(filepath.Join(dir, makingName)); !os.IsNotExist(err) {
		t.Errorf("want a whole state, got %v", err)
	}
}

// TestFormatDeleted is a state whose format somebody has deleted: it is not taken for one
// that was half made, and nothing of it is lost.
func TestFormatDeleted(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	if err := s.Commit(0, nil, &evalstream.Checkpoint{Lines: 7}); err != nil {
		t.Fatal(err)
	}
	closed(t, s)
	if err := os.Remove(filepath.Join(dir, formatName)); err != nil {
		t.Fatal(err)
	}
	for _, create := range []bool{true, false} {
		_, err := Open(dir, create)
		wantExit(t, err, evalstream.ExitState, "its file format is missing")
	}
	// What the message says to do.
	if err := os.WriteFile(filepath.Join(dir, formatName), []byte(formatText), 0o600); err != nil {
		t.Fatal(err)
	}
	s = opened(t, dir)
	if cp, err := s.Checkpoint(0); err != nil || cp == nil || cp.Lines != 7 {
		t.Errorf("checkpoint %+v, %v", cp, err)
	}
	closed(t, s)
}

// small is a disk with room for so many bytes.
type small struct {
	unforced
	left *atomic.Int64
}

func (s small) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if s.left.Load() < 0 {
		return nil, &fs.PathError{Op: "open", Path: "x", Err: unix.ENOSPC}
	}
	f, err := s.unforced.Create(name, c)
	return smallFile{f, s.left}, err
}

func (s small) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := s.unforced.ReuseForWrite(from, to, c)
	return smallFile{f, s.left}, err
}

// Remove fails as well once the disk is full: what is left of Pebble in this process
// would go on cleaning up, where a process has ended.
func (s small) Remove(name string) error {
	if s.left.Load() < 0 {
		return &fs.PathError{Op: "remove", Path: name, Err: unix.ENOSPC}
	}
	return s.unforced.Remove(name)
}

type smallFile struct {
	vfs.File
	left *atomic.Int64
}

func (f smallFile) Write(p []byte) (int, error) {
	if f.left.Add(-int64(len(p))) < 0 {
		return 0, &fs.PathError{Op: "write", Path: "x", Err: unix.ENOSPC}
	}
	return f.File.Write(p)
}

// TestFullDisk fills the disk at every stage of a state's life: the commit that meets
// it is exit 4 with what to do, and what was committed before is there.
func TestFullDisk(t *testing.T) {
	big := strings.Repeat("x", 64<<10)
	for _, room := range []int64{0, 10, 500, 3000, 40_000, 1 << 20, 5 << 20, 9 << 20, 20 << 20} {
		dir := t.TempDir()
		left := new(atomic.Int64)
		left.Store(room)
		s, err := open(dir, true, small{unforced{vfs.Default}, left})
		committed := -1
		for i := 0; err == nil; i++ {
			val := fmt.Sprintf("%d%s", i, big)
			if err = s.Commit(0, changes("step", fmt.Sprint("key", i%7), val), &evalstream.Checkpoint{Next: evalstream.Seq(i)}); err == nil {
				committed = i
			}
		}
		wantExit(t, err, evalstream.ExitLost, "no space left on device")
		if s == nil {
			continue
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		// Pebble's lock ends with the process, which goes on here: a copy stands for it.
		copied := t.TempDir()
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		s, err = Open(copied, true)
		if err != nil {
			t.Errorf("room %d: %v", room, err)
			continue
		}
		cp, err := s.Checkpoint(0)
		if err != nil {
			t.Fatal(err)
		}
		next := -1
		if cp != nil {
			next = int(cp.Next)
		}
		// A commit of which the process did not hear may have taken effect.
		if next < committed || next > committed+1 {
			t.Errorf("room %d: checkpoint %d, want %d", room, next, committed)
		}
		closed(t, s)
	}
}

// TestReadOnly opens a state in a directory that cannot be written to: root can write
// anywhere, so for root the directory is on a file system that is read-only.
func TestReadOnly(t *testing.T) {
	dir := "/proc/evalstream"
	if os.Getuid() != 0 {
		dir = t.TempDir()
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Open(dir, true)
	wantExit(t, err, evalstream.ExitState, "state "+dir)
}

// TestPublished: that results were written is known to whoever opens the state again, also
// where nothing was committed.
func TestPublished(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	is := func(s *Store, want bool) {
		t.Helper()
		if got, err := s.Published(); err != nil || got != want {
			t.Errorf("want %t, got %t, %v", want, got, err)
		}
	}
	s := opened(t, dir)
	is(s, false)
	if err := s.Publish(); err != nil {
		t.Fatal(err)
	}
	closed(t, s)
	s = opened(t, dir)
	is(s, true)
	if err := s.Clear(); err != nil {
		t.Fatal(err)
	}
	is(s, false)
	closed(t, s)
}
