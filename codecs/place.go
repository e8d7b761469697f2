package codecs

import (
	"bytes"
	"encoding/binary"
	"slices"

	"evalstream"
)

const (
	// maxDepth is how deep objects and arrays may be nested.
	maxDepth = 512
	// maxMembers is how many keys of a place are known by number.
	maxMembers = 64
	// maxName is the longest key that is remembered, in bytes.
	maxName = 256
	// maxPlaces bounds the memory that foreign keys can take in a decoder.
	maxPlaces = 1024
)

// place is what is known of the values at one place of the lines: which keys objects
// had there, in the order in which they came first, and what to do with each.
//
// The order in which keys came last is the guess at the next object's. While the guess
// holds, a key costs one comparison, and an object whose keys are known has no key
// twice if no number of a key comes twice.
type place struct {
	members  []member
	first    int  // the guess at the first member
	slices   bool // scalars of keys seen for the first time are fields to group by
	list     bool // the elements are the entries of the ranked list
	elements *place
	planned  []element
}

// member is one key of the objects at a place.
type member struct {
	spelling
	name  string
	then  int // the guess at the member that follows
	seen  bool
	slice bool  // its scalars are fields to group by
	note  int32 // which planned value it is, -1 for none
	below *place
}

// spelling is a key as it stands, with quotes, colon and blanks. Most are short, and
// compared by their first and their last eight bytes.
type spelling struct {
	raw        string
	head, mask uint64 // the first eight bytes, and which of these are the key's
	tail       uint64 // the last eight bytes, if there are as many
}

func spell(raw string) spelling {
	s := spelling{raw: raw, mask: ^uint64(0)}
	if n := len(raw); n < 8 {
		s.mask >>= 8 * (8 - n)
	} else {
		s.tail = binary.LittleEndian.Uint64([]byte(raw[n-8:]))
	}
	var head [8]byte
	copy(head[:], raw)
	s.head = binary.LittleEndian.Uint64(head[:])
	return s
}

// begins reports whether line begins with the key.
func (s *spelling) begins(line []byte) bool {
	n := len(s.raw)
	if n > 16 || len(line) < 16 {
		return bytes.HasPrefix(line, []byte(s.raw))
	}
	return binary.LittleEndian.Uint64(line)&s.mask == s.head && (n <= 8 || binary.LittleEndian.Uint64(line[n-8:]) == s.tail)
}

// element is a planned array element.
type element struct {
	index int
	note  int32 // -1 for none
	below *place
}

// member is the member of that name, made if it is new.
func (p *place) member(name string) *member {
	for i := range p.members {
		if p.members[i].name == name {
			return &p.members[i]
		}
	}
	raw := append(evalstream.AppendString(nil, name), ':')
	p.members = append(p.members, member{spelling: spell(string(raw)), name: name, note: -1})
	return &p.members[len(p.members)-1]
}

// entry is the place of the elements of arrays.
func (p *place) entry() *place {
	if p.elements == nil {
		p.elements = &place{}
	}
	return p.elements
}

// descend is the place that steps lead to.
func (p *place) descend(steps []string) *place {
	for _, s := range steps {
		m := p.member(s)
		if m.below == nil {
			m.below = &place{}
		}
		if i, ok := index(s); ok {
			p.element(i).below = m.below
		}
		p = m.below
	}
	return p
}

func (p *place) element(i int) *element {
	for j := range p.planned {
		if p.planned[j].index == i {
			return &p.planned[j]
		}
	}
	p.planned = append(p.planned, element{index: i, note: -1})
	return &p.planned[len(p.planned)-1]
}

// plan notes the value that steps lead to under number at.
func (p *place) plan(steps []string, at int32) {
	last := len(steps) - 1
	p = p.descend(steps[:last])
	p.member(steps[last]).note = at
	if i, ok := index(steps[last]); ok {
		p.element(i).note = at
	}
}

// crowded reports whether a place has more members than numbers.
func (p *place) crowded() bool {
	if p == nil {
		return false
	}
	return len(p.members) > maxMembers || p.elements.crowded() ||
		slices.ContainsFunc(p.members, func(m member) bool { return m.below.crowded() })
}
