package codecs

import (
	"bytes"
	"strings"

	"github.com/goccy/go-json"

	"evalstream"
)

// span is a piece of the line; from is 0 for an absent value.
type span struct{ from, to int32 }

func (s span) absent() bool { return s.from == 0 }

// entrySpan is an entry of the ranked list.
type entrySpan struct {
	whole, id, score span
	value            float64 // of the score, if exact
	exact            bool
}

// ownSpan is where an entry has id and score under their own names.
type ownSpan struct{ id, score span }

// sliceSpan is a field to group by.
type sliceSpan struct {
	name  string
	value span
}

// extraKey is a key that its place does not know by number.
type extraKey struct {
	object int // where the object starts
	name   string
}

// scanner walks over a line. It is certain of what it accepts if the line is clean; on
// a line that is known to be JSON it stops at repeated keys and at depth only, and says
// which in fault.
//
// A clean line ends with a brace, where no blanks, digits or string go on, so only the
// object that takes this brace can end where the line does: whoever holds a value looks
// for that, and nothing else asks for the length.
type scanner struct {
	line     []byte
	first    int // where the first backslash is, the length of the line if nowhere
	escape   int // where the next one is, or one that was passed
	notes    []span
	entries  []entrySpan
	owns     []ownSpan // of the entries, if they are read from elsewhere
	slices   []sliceSpan
	id       int32 // notes of an entry, -1 if there is no list
	score    int32
	number   float64 // of the last score, if exact
	exact    bool
	ownID    int32
	ownScore int32
	places   int // made so far for keys that nobody asked for
	extra    map[extraKey]struct{}
	fault    *evalstream.Fault
}

// begin goes to a line.
func (s *scanner) begin(line []byte) {
	s.line, s.first = line, next(line, 0, '\\')
}

// walk notes what r plans. It is the end of the object, -1 if the line is not certain
// to begin with one.
func (s *scanner) walk(r *reader) int {
	s.fault, s.escape = nil, s.first
	for len(s.notes) < r.sources {
		s.notes = append(s.notes, span{})
	}
	s.notes = s.notes[:r.sources]
	clear(s.notes)
	s.entries, s.owns, s.slices = s.entries[:0], s.owns[:0], s.slices[:0]
	s.id, s.score, s.ownID, s.ownScore = r.id, r.score, r.ownID, r.ownScore
	if len(s.extra) > 0 {
		s.forget()
	}
	i := s.space(0)
	if s.line[i] != '{' {
		return -1
	}
	return s.object(i, r.root, 1)
}

// forget drops the keys of the last line; a large map costs as much to clear as it
// has room, so it is not kept.
func (s *scanner) forget() {
	if len(s.extra) > 1024 {
		s.extra = nil
		return
	}
	clear(s.extra)
}

func (s *scanner) space(i int) int {
	for i < len(s.line) && s.line[i] <= ' ' {
		i++
	}
	return i
}

// value is the end of the value at i, -1 if it is not certain to be one.
func (s *scanner) value(i int, p *place, depth int) int {
	switch s.line[i] {
	case '{':
		return s.object(i, p, depth+1)
	case '[':
		return s.array(i, p, depth+1)
	}
	return s.scalar(i)
}

// text is the end of the string at i.
func (s *scanner) text(i int) int {
	for j := i + 1; ; {
		n := bytes.IndexByte(s.line[j:], '"')
		if n < 0 {
			panic("BUG: a string does not end")
		}
		j += n
		// A quote ends the string unless an odd number of backslashes stands before it.
		k := j
		for s.line[k-1] == '\\' {
			k--
		}
		if (j-k)%2 == 0 {
			return j + 1
		}
		j++
	}
}

// literal is the end of the number, true, false or null at i.
func (s *scanner) literal(i int) int {
	for ; i < len(s.line); i++ {
		if c := s.line[i]; c <= ' ' || c == ',' || c == '}' || c == ']' {
			break
		}
	}
	return i
}

func (s *scanner) object(start int, p *place, depth int) int {
	if depth > maxDepth {
		return s.tooDeep(start)
	}
	line := s.line
	i := s.space(start + 1)
	if line[i] == '}' {
		return i + 1
	}
	var (
		m      *member
		guess  *int // where the number of the next member is guessed
		seen   uint64
		number int
	)
	if p != nil {
		guess = &p.first
	}
	for {
		key := i
		if guess != nil && *guess < len(p.members) && p.members[*guess].begins(line[i:]) {
			number = *guess
			m = &p.members[number]
			i += len(m.raw)
		} else {
			if number, i = s.key(start, i, p); i < 0 {
				return -1
			}
			m = nil
			if number >= 0 {
				m = &p.members[number]
				if guess != nil {
					*guess = number
				}
			}
		}
		if m != nil {
			if seen&(1<<number) != 0 {
				return s.repeated(key, m.name)
			}
			seen |= 1 << number
			guess = &m.then
		}
		for line[i] <= ' ' {
			i++
		}
		from := i
		switch line[i] {
		case '"':
			i = s.quoted(i)
		case '{', '[':
			var below *place
			if m != nil {
				if m.below == nil {
					m.below = s.place()
				}
				below = m.below
			}
			// The walk below may make m's place grow, but not the place that holds m.
			i = s.value(i, below, depth)
		default:
			if m != nil && m.note >= 0 && m.note == s.score {
				i, s.number, s.exact = s.decimal(i)
			} else {
				i = s.scalar(i)
			}
		}
		if i < 0 || i == len(line) {
			return -1
		}
		if m != nil {
			if m.note >= 0 {
				s.notes[m.note] = span{int32(from), int32(i)}
			}
			if m.slice {
				s.slices = append(s.slices, sliceSpan{m.name, span{int32(from), int32(i)}})
			}
		} else if p != nil && p.slices {
			s.slices = append(s.slices, sliceSpan{s.name(key), span{int32(from), int32(i)}})
		}
		for line[i] <= ' ' {
			i++
		}
		switch line[i] {
		case ',':
		case '}':
			return i + 1
		default:
			return -1
		}
		for i++; line[i] <= ' '; i++ {
		}
	}
}

// key finds the member of the key at i, and where its value begins. The number is -1
// if the place cannot know the key. End is -1 if it is not certain to be a key, or if
// the place cannot know it and the object has it twice.
func (s *scanner) key(object, i int, p *place) (number, end int) {
	if s.line[i] != '"' {
		return -1, -1
	}
	if end = s.quoted(i); end < 0 {
		return -1, -1
	}
	if end = s.space(end); s.line[end] != ':' {
		return -1, -1
	}
	end = s.space(end + 1)
	name := s.name(i)
	if p != nil {
		for k := range p.members {
			m := &p.members[k]
			if m.name == name {
				if !m.seen {
					m.spelling, m.seen = spell(string(s.line[i:end])), true
				}
				return k, end
			}
		}
		if len(p.members) < maxMembers && s.places < maxPlaces && len(name) <= maxName {
			s.places++
			p.members = append(p.members, member{
				spelling: spell(string(s.line[i:end])), name: strings.Clone(name), seen: true, slice: p.slices, note: -1,
			})
			return len(p.members) - 1, end
		}
	}
	k := extraKey{object, name}
	if _, ok := s.extra[k]; ok {
		s.repeated(i, name)
		return -1, -1
	}
	if s.extra == nil {
		s.extra = map[extraKey]struct{}{}
	}
	s.extra[k] = struct{}{}
	return -1, end
}

// name is the key at i without its escapes. It points into the line if it has none.
func (s *scanner) name(i int) string {
	raw := s.line[i:s.text(i)]
	if bytes.IndexByte(raw, '\\') < 0 {
		return view(raw[1 : len(raw)-1])
	}
	return unescape(raw)
}

// unescape is the text of a JSON string.
func unescape(raw []byte) string {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		panic("BUG: go-json takes back what it accepted: " + err.Error())
	}
	return text
}

// place makes room for keys that nobody asked for, while there is room.
func (s *scanner) place() *place {
	if s.places >= maxPlaces {
		return nil
	}
	s.places++
	return &place{}
}

func (s *scanner) array(start int, p *place, depth int) int {
	if depth > maxDepth {
		return s.tooDeep(start)
	}
	i := s.space(start + 1)
	if s.line[i] == ']' {
		return i + 1
	}
	var below *place
	if p != nil {
		if p.elements == nil {
			p.elements = s.place()
		}
		below = p.elements
	}
	for n := 0; ; n++ {
		switch {
		case p != nil && p.list:
			i = s.entry(i, below, depth)
		case p != nil && len(p.planned) > 0:
			i = s.plannedElement(i, n, p, below, depth)
		default:
			i = s.value(i, below, depth)
		}
		if i < 0 || i == len(s.line) {
			return -1
		}
		switch i = s.space(i); s.line[i] {
		case ',':
			i = s.space(i + 1)
		case ']':
			return i + 1
		default:
			return -1
		}
	}
}

// entry walks over one entry of the ranked list.
func (s *scanner) entry(i int, p *place, depth int) int {
	s.notes[s.id], s.notes[s.score], s.exact = span{}, span{}, false
	mapped := s.ownID != s.id || s.ownScore != s.score
	if mapped {
		s.notes[s.ownID], s.notes[s.ownScore] = span{}, span{}
	}
	end := s.value(i, p, depth)
	if end < 0 {
		return -1
	}
	s.entries = append(s.entries, entrySpan{whole: span{int32(i), int32(end)}, id: s.notes[s.id], score: s.notes[s.score], value: s.number, exact: s.exact})
	if mapped {
		s.owns = append(s.owns, ownSpan{s.notes[s.ownID], s.notes[s.ownScore]})
	}
	return end
}

// plannedElement walks over element n of an array that a JSON Pointer leads into.
func (s *scanner) plannedElement(i, n int, p, below *place, depth int) int {
	note := int32(-1)
	for _, e := range p.planned {
		if e.index == n {
			note = e.note
			if e.below != nil {
				below = e.below
			}
		}
	}
	end := s.value(i, below, depth)
	if end >= 0 && note >= 0 {
		s.notes[note] = span{int32(i), int32(end)}
	}
	return end
}

func (s *scanner) tooDeep(i int) int {
	s.fault = faultAt(s.line, i, evalstream.ClassParse, depthReason)
	return -1
}

func (s *scanner) repeated(key int, name string) int {
	s.fault = faultAt(s.line, key, evalstream.ClassParse, "key "+quote(name)+" stands twice in one object")
	return -1
}
