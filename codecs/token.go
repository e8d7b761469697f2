package codecs

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	simdutf8 "github.com/segmentio/asm/utf8"
)

// Eight bytes are looked at together: each constant has one byte eight times.
const (
	eachOne   = 0x0101010101010101
	eachHigh  = 0x8080808080808080
	eachBlank = ' ' * eachOne
	eachQuote = '"' * eachOne
)

// clean reports whether the line is UTF-8 without control characters that ends with a
// brace. It may be called on anything.
func clean(line []byte) bool {
	if len(line) < 2 || line[len(line)-1] != '}' {
		return false
	}
	var control, all uint64
	i := 0
	for ; i+32 <= len(line); i += 32 {
		b := line[i : i+32 : i+32]
		w0, w1 := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
		w2, w3 := binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])
		// The first byte below a blank borrows from its high bit; later ones do not matter.
		control |= (w0-eachBlank)&^w0 | (w1-eachBlank)&^w1 | (w2-eachBlank)&^w2 | (w3-eachBlank)&^w3
		all |= w0 | w1 | w2 | w3
	}
	for ; i+8 <= len(line); i += 8 {
		w := binary.LittleEndian.Uint64(line[i:])
		control |= (w - eachBlank) &^ w
		all |= w
	}
	if i < len(line) {
		// The last eight bytes overlap those before, or there are fewer in all.
		var w uint64
		if len(line) >= 8 {
			w = binary.LittleEndian.Uint64(line[len(line)-8:])
		} else {
			w = eachBlank
			for _, c := range line {
				w = w<<8 | uint64(c)
			}
		}
		control |= (w - eachBlank) &^ w
		all |= w
	}
	return control&eachHigh == 0 && (all&eachHigh == 0 || simdutf8.Valid(line))
}

// quoted is the end of the string at i, -1 if it is not certain to be one. Control
// characters and encoding are not looked at.
func (s *scanner) quoted(i int) int {
	line := s.line
	j := i + 1
	var found uint64
	if j+16 <= len(line) { // most keys and ids are short
		w := binary.LittleEndian.Uint64(line[j:]) ^ eachQuote
		if found = (w - eachOne) &^ w & eachHigh; found == 0 {
			j += 8
			w = binary.LittleEndian.Uint64(line[j:]) ^ eachQuote
			if found = (w - eachOne) &^ w & eachHigh; found == 0 {
				j += 8
			}
		}
	}
	if found != 0 {
		j += bits.TrailingZeros64(found) / 8
	} else {
		n := bytes.IndexByte(line[j:], '"')
		if n < 0 {
			return -1
		}
		j += n
	}
	if j > s.escape {
		return s.escaped(i+1, j)
	}
	return j + 1
}

// escaped is quoted for a string that begins at i and has a quote at j, and an escape
// before it, unless the last escape seen stands before the string.
func (s *scanner) escaped(i, j int) int {
	line := s.line
	if s.escape < i {
		s.escape = next(line, i, '\\')
	}
	for s.escape < j {
		n := escape(line[s.escape:])
		if n < 0 {
			return -1
		}
		i = s.escape + n
		s.escape = next(line, i, '\\')
		if i > j {
			if j = next(line, i, '"'); j == len(line) {
				return -1
			}
		}
	}
	return j + 1
}

// next is where c stands next at i or after it, the length of the line if nowhere.
func next(line []byte, i int, c byte) int {
	if n := bytes.IndexByte(line[i:], c); n >= 0 {
		return i + n
	}
	return len(line)
}

// escape is the length of the escape that b begins with, both halves if it is a
// surrogate pair; -1 if it is none, or half of a pair.
func escape(b []byte) int {
	if len(b) < 2 {
		return -1
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
	default:
		return -1
	}
	if !fourHex(b) {
		return -1
	}
	switch surrogate(b) {
	case 0:
		return 6
	case 1:
		if surrogate(b[6:]) == 2 && fourHex(b[6:]) {
			return 12
		}
	}
	return -1
}

// fourHex reports whether four hex digits stand after the first two bytes of b.
func fourHex(b []byte) bool {
	if len(b) < 6 {
		return false
	}
	for _, c := range b[2:6] {
		if c-'0' > 9 && c|0x20-'a' > 5 {
			return false
		}
	}
	return true
}

// number is the end of the number at i, -1 if there is none. The line ends with
// something else than a digit.
func number(line []byte, i int) int {
	if line[i] == '-' {
		i++
	}
	switch c := line[i]; {
	case c == '0':
		i++
	case c-'1' <= 8:
		i = digits(line, i)
	default:
		return -1
	}
	if line[i] == '.' {
		from := i + 1
		if i = digits(line, from); i == from {
			return -1
		}
	}
	if line[i]|0x20 == 'e' {
		from := i + 1
		if c := line[from]; c == '+' || c == '-' {
			from++
		}
		if i = digits(line, from); i == from {
			return -1
		}
	}
	return i
}

// digits is the end of the digits from i on.
func digits(line []byte, i int) int {
	for i < len(line) && line[i]-'0' <= 9 {
		i++
	}
	return i
}

// word is the end of the true, false or null at i, -1 if there is none.
func word(line []byte, i int) int {
	for _, w := range [...]string{"true", "false", "null"} {
		if bytes.HasPrefix(line[i:], []byte(w)) {
			return i + len(w)
		}
	}
	return -1
}

// scalar is the end of the value at i, which is no object and no array.
func (s *scanner) scalar(i int) int {
	switch c := s.line[i]; {
	case c == '"':
		return s.quoted(i)
	case c == '-' || c-'0' <= 9:
		return number(s.line, i)
	}
	return word(s.line, i)
}

// decimal is scalar, and the value if it is a number of at most 15 digits without
// exponent. Digits and power of ten are then exact floats, so their quotient is the
// nearest one (Clinger 1990, the fast path of "How to read floating point numbers
// accurately").
func (s *scanner) decimal(from int) (end int, v float64, exact bool) {
	line, i := s.line, from
	if line[i] == '-' {
		i++
	}
	whole, n := i, int64(0)
	for ; line[i]-'0' <= 9; i++ {
		n = n*10 + int64(line[i]-'0')
	}
	point, scale, count := i, int64(1), i-whole
	if line[i] == '.' {
		for i++; line[i]-'0' <= 9; i++ {
			n = n*10 + int64(line[i]-'0')
			scale *= 10
		}
		count = i - whole - 1
	}
	switch {
	case line[i]|0x20 == 'e', count > 15, // not exact
		point == whole, line[whole] == '0' && point > whole+1, i == point+1: // not sure
		return s.scalar(from), 0, false
	}
	v = float64(n) / float64(scale)
	if whole > from {
		v = -v
	}
	return i, v, true
}
