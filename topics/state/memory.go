package state

import (
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	ownMemTableBytes = 2 << 20
	ownCacheBytes    = 1 << 20 // of what is in memory anyway, but compressed
)

// OpenMemory makes an empty store that ends with Close. It takes about 5 MiB of memory
// and what is put into it, compressed: it is made once a partition.
func OpenMemory() (*Store, error) {
	s := &Store{dir: "in memory", write: pebble.NoSync, failed: make(chan struct{})}
	err := s.open(dbName, &pebble.Options{FS: vfs.NewMem(), MemTableSize: ownMemTableBytes, DisableWAL: true}, ownCacheBytes)
	if err != nil {
		return nil, err
	}
	return s, nil
}
