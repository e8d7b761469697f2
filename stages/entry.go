package stages

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/zeebo/xxh3"

	"evalstream"
)

// entry reads what the append functions of encoding/binary and appendText wrote. The
// first fault stays in err, and everything read after it is zero.
type entry struct {
	data []byte
	err  error
}

var errShort = errors.New("entry is cut short")

func (e *entry) uvarint() uint64 {
	if e.err != nil {
		return 0
	}
	v, n := binary.Uvarint(e.data)
	if n <= 0 {
		e.err = errShort
		return 0
	}
	e.data = e.data[n:]
	return v
}

func (e *entry) varint() int64 {
	if e.err != nil {
		return 0
	}
	v, n := binary.Varint(e.data)
	if n <= 0 {
		e.err = errShort
		return 0
	}
	e.data = e.data[n:]
	return v
}

func (e *entry) bytes(n uint64) []byte {
	if e.err == nil && n > uint64(len(e.data)) {
		e.err = errShort
	}
	if e.err != nil {
		return nil
	}
	b := e.data[:n]
	e.data = e.data[n:]
	return b
}

func (e *entry) text() string { return string(e.bytes(e.uvarint())) }

func (e *entry) flag() bool { return e.uvarint() != 0 }

// count is a number of things that take at least a byte each.
func (e *entry) count() int {
	n := e.uvarint()
	if e.err == nil && n > uint64(len(e.data)) {
		e.err = errShort
	}
	if e.err != nil {
		return 0
	}
	return int(n)
}

// version reads and checks the version that an entry begins with.
func (e *entry) version(want uint64) {
	if v := e.uvarint(); e.err == nil && v != want {
		e.err = &evalstream.ExitError{
			Code: evalstream.ExitState, Err: fmt.Errorf("want version %d of an entry, got %d", want, v),
			Hint: "the state was written by another version of evalstream; go on with that one, or name another --state DIR",
		}
	}
}

// end says that nothing is left.
func (e *entry) end() error {
	if e.err == nil && len(e.data) > 0 {
		e.err = fmt.Errorf("entry has %d bytes too much", len(e.data))
	}
	return e.err
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendFlag(dst []byte, b bool) []byte {
	if b {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func appendSlices(dst []byte, ss []evalstream.Slice) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(ss)))
	for i := range ss {
		dst = appendText(appendText(dst, ss[i].Name), ss[i].Value)
	}
	return dst
}

func (e *entry) slices() []evalstream.Slice {
	n := e.count()
	if n == 0 {
		return nil
	}
	ss := make([]evalstream.Slice, n)
	for i := range ss {
		ss[i] = evalstream.Slice{Name: e.text(), Value: e.text()}
	}
	return ss
}

func appendTally(dst []byte, t *evalstream.Tally) []byte {
	for _, n := range [...]int64{t.Received, t.Passed, t.Held, t.Replaced, t.Rejected, t.Late} {
		dst = binary.AppendVarint(dst, n)
	}
	for _, n := range t.Of {
		dst = binary.AppendVarint(dst, n)
	}
	return dst
}

func (e *entry) tally(t *evalstream.Tally) {
	for _, n := range [...]*int64{&t.Received, &t.Passed, &t.Held, &t.Replaced, &t.Rejected, &t.Late} {
		*n = e.varint()
	}
	for i := range t.Of {
		t.Of[i] = e.varint()
	}
}

// appendCounts appends counts by name, in the order of their names.
func appendCounts(dst []byte, ns map[string]int64) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(ns)))
	for _, name := range slices.Sorted(maps.Keys(ns)) {
		dst = binary.AppendVarint(appendText(dst, name), ns[name])
	}
	return dst
}

func (e *entry) counts() map[string]int64 {
	var ns map[string]int64
	for range e.count() {
		if ns == nil {
			ns = map[string]int64{}
		}
		name := e.text()
		ns[name] = e.varint()
	}
	return ns
}

// ledger is a sum over a set of entries that does not depend on their order. It is
// saved beside them, so that a missing or changed entry is found when they are read.
type ledger struct {
	entries int64
	sum     uint64
}

func sumOf(key, val []byte) uint64 { return xxh3.HashSeed(val, xxh3.Hash(key)) }

func (l *ledger) put(sum uint64) { l.entries++; l.sum += sum }

func (l *ledger) take(sum uint64) { l.entries--; l.sum -= sum }

func (l *ledger) append(dst []byte) []byte {
	dst = binary.AppendVarint(dst, l.entries)
	return binary.LittleEndian.AppendUint64(dst, l.sum)
}

func (l *ledger) read(e *entry) {
	l.entries = e.varint()
	if b := e.bytes(8); b != nil {
		l.sum = binary.LittleEndian.Uint64(b)
	}
}

// check compares what was read with what was saved.
func (l *ledger) check(what string, saved ledger) error {
	switch {
	case l.entries != saved.entries:
		return fmt.Errorf("want %d %s, got %d", saved.entries, what, l.entries)
	case l.sum != saved.sum:
		return fmt.Errorf("%d %s are not those that were saved", l.entries, what)
	}
	return nil
}
