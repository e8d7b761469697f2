package stages

import (
	"strings"
	"unsafe"
)

// asString is b as a string that shares its memory.
func asString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// names numbers strings that repeat, from 1 on; 0 is "".
type names struct {
	ids    map[string]uint32
	list   []string
	recent [1 << recentBits]uint32 // numbers by place: most strings are one of a few
}

// anyVersion is the number of no prompt version: an answer to every version.
const anyVersion = 0

func (n *names) id(s string) uint32 {
	if s == "" {
		return 0
	}
	recent := &n.recent[place(unsafe.Slice(unsafe.StringData(s), len(s)))]
	if id := *recent; id != 0 && n.list[id-1] == s {
		return id
	}
	if id, ok := n.ids[s]; ok {
		*recent = id
		return id
	}
	if n.ids == nil {
		n.ids = make(map[string]uint32)
	}
	s = strings.Clone(s)
	n.list = append(n.list, s)
	id := uint32(len(n.list))
	n.ids[s], *recent = id, id
	return id
}

func (n *names) of(id uint32) string {
	if id == 0 {
		return ""
	}
	return n.list[id-1]
}

// lent is memory that is handed out until reset, without moving.
type lent[T any] struct {
	pages [][]T
	page  int // in use
}

const lentPage = 256

func (l *lent[T]) reset() {
	for i := range l.pages {
		l.pages[i] = l.pages[i][:0]
	}
	l.page = 0
}

// take is n zero values.
func (l *lent[T]) take(n int) []T {
	v := l.room(n)
	clear(v)
	return v
}

// room is take, but the values are whatever they were.
func (l *lent[T]) room(n int) []T {
	for ; ; l.page++ {
		if l.page == len(l.pages) {
			l.pages = append(l.pages, make([]T, 0, max(n, lentPage)))
		}
		p := l.pages[l.page]
		if from := len(p); from+n <= cap(p) {
			p = p[:from+n]
			l.pages[l.page] = p
			return p[from:len(p):len(p)]
		}
	}
}

func (l *lent[T]) one() *T { return &l.take(1)[0] }

func (l *lent[T]) copy(v *T) *T {
	p := &l.room(1)[0]
	*p = *v
	return p
}
