package state

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"evalstream"
)

const (
	lockName   = "lock"
	formatName = "format"
	makingName = "format.new" // stands while the database is made, and becomes the format
	dbName     = "db"
	// formatText is what the file of that name holds; its number is raised when what is
	// in the directory changes its meaning.
	formatText = "evalstream state 1\n"
)

// lock takes the directory for this process; it ends with the process at the latest.
func lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, refused(dir, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder := "another process"
		if data, readErr := io.ReadAll(io.LimitReader(f, 20)); readErr == nil {
			if pid, convErr := strconv.Atoi(strings.TrimSpace(string(data))); convErr == nil {
				holder = fmt.Sprintf("process %d", pid)
			}
		}
		_ = f.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, refused(dir, err)
		}
		return nil, &evalstream.ExitError{
			Code: evalstream.ExitState, Err: fmt.Errorf("state %s: is in use by %s", dir, holder),
			Hint: "wait until it has ended, or name another --state DIR",
		}
	}
	// The number is for people; the lock itself does not need it.
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return f, nil
}

// format says whether the directory holds a state; one that holds anything else is
// refused. Nothing is changed.
func format(dir string) (there bool, err error) {
	data, err := os.ReadFile(filepath.Join(dir, formatName))
	if err == nil {
		if string(data) == formatText {
			return true, nil
		}
		return false, &evalstream.ExitError{
			Code: evalstream.ExitState, Err: fmt.Errorf("state %s: want format %q, got %q", dir, strings.TrimSpace(formatText), strings.TrimSpace(string(data[:min(len(data), 40)]))),
			Hint: "it was written by another version of evalstream or is damaged; name another --state DIR",
		}
	}
	if !errors.Is(err, os.ErrNotExist) {
		return false, refused(dir, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, refused(dir, err)
	}
	has := map[string]bool{}
	for _, e := range entries {
		name := e.Name()
		has[name] = true
		if name != lockName && name != dbName && name != makingName && name != formatName {
			return false, &evalstream.ExitError{
				Code: evalstream.ExitState, Err: fmt.Errorf("state %s: is no state, it holds %s", dir, name),
				Hint: "name an empty directory or a new one",
			}
		}
	}
	// A process that was killed while it made the database has left makingName.
	if has[dbName] && !has[makingName] && !has[formatName] {
		return false, &evalstream.ExitError{
			Code: evalstream.ExitState, Err: fmt.Errorf("state %s: its file %s is missing, beside a database that may hold a state", dir, formatName),
			Hint: fmt.Sprintf("if it was deleted by mistake, write it again: echo '%s' >%s; or name another --state DIR", strings.TrimSpace(formatText), filepath.Join(dir, formatName)),
		}
	}
	return false, nil
}

// making says that a database is about to be made in the directory.
func making(dir string) error {
	return refused(dir, os.WriteFile(filepath.Join(dir, makingName), []byte(formatText), 0o644))
}

// mark says that the directory holds a whole state from now on.
func mark(dir string) error {
	return refused(dir, os.Rename(filepath.Join(dir, makingName), filepath.Join(dir, formatName)))
}

// refused is an error of the file system: exit 4 for a full disk, else 5.
func refused(dir string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return &evalstream.ExitError{
			Code: evalstream.ExitLost, Err: fmt.Errorf("state %s: %w", dir, err),
			Hint: "make room on the disk and run the same command again; it goes on where it was",
		}
	case errors.Is(err, os.ErrPermission), errors.Is(err, unix.EROFS):
		return &evalstream.ExitError{
			Code: evalstream.ExitState, Err: fmt.Errorf("state %s: %w", dir, err),
			Hint: "give this user the right to write there, or name another --state DIR",
		}
	}
	return &evalstream.ExitError{
		Code: evalstream.ExitState, Err: fmt.Errorf("state %s: %w", dir, err), Hint: "name another --state DIR",
	}
}
