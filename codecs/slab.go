package codecs

import (
	"slices"
	"unsafe"
)

// slab hands out pieces of memory that all die together, so that a block of lines
// costs no allocation once the slab has grown to its size.
type slab[T any] struct {
	chunks [][]T // all but those after cur are in use
	cur    int
}

// copy hands out a copy of v.
func (s *slab[T]) copy(v []T) []T {
	if len(v) == 0 {
		return nil
	}
	for {
		if s.cur == len(s.chunks) {
			s.chunks = append(s.chunks, make([]T, 0, max(chunk[T](), len(v))))
		}
		c := s.chunks[s.cur]
		if n := len(c); n+len(v) <= cap(c) {
			c = append(c, v...)
			s.chunks[s.cur] = c
			return slices.Clip(c[n:])
		}
		s.cur++
	}
}

// one hands out a zero T.
func (s *slab[T]) one() *T {
	for {
		if s.cur == len(s.chunks) {
			s.chunks = append(s.chunks, make([]T, 0, chunk[T]()))
		}
		c := s.chunks[s.cur]
		if n := len(c); n < cap(c) {
			c = c[:n+1]
			s.chunks[s.cur] = c
			clear(c[n:])
			return &c[n]
		}
		s.cur++
	}
}

// chunk is how many T make 64 KiB.
func chunk[T any]() int {
	var one T
	return max(1, (64<<10)/int(unsafe.Sizeof(one)))
}

// reset takes everything back.
func (s *slab[T]) reset() {
	for i := range s.chunks {
		s.chunks[i] = s.chunks[i][:0]
	}
	s.cur = 0
}

// view is b as a string that shares its memory.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
