package state

import (
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// unforced is a file system whose logs are not forced to the disk: what was written
// survives the process without that, and forcing costs milliseconds a commit.
type unforced struct{ vfs.FS }

func isLog(name string) bool { return filepath.Ext(name) == ".log" }

func (u unforced) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return wrap(name)(u.FS.Create(name, c))
}

func (u unforced) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return wrap(to)(u.FS.ReuseForWrite(from, to, c))
}

func (u unforced) Unwrap() vfs.FS { return u.FS }

func wrap(name string) func(vfs.File, error) (vfs.File, error) {
	return func(f vfs.File, err error) (vfs.File, error) {
		if err != nil || !isLog(name) {
			return f, err
		}
		return logFile{f}, nil
	}
}

type logFile struct{ vfs.File }

func (logFile) Sync() error                { return nil }
func (logFile) SyncData() error            { return nil }
func (logFile) SyncTo(int64) (bool, error) { return false, nil }
