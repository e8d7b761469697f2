package metric

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
)

// Histogram counts units by pattern, a pattern being how often each literal was given to one unit; who gave it is not kept, for alpha does not need it.
// It is all that alpha, at any level, and its interval are read from. It adds, takes back and merges; units that are split over two histograms are two units.
// The zero value is empty and ready. It is not for concurrent use.
type Histogram struct {
	units map[string]int64
	key   []byte
}

// Add counts one unit by its ratings, one literal for each coder that rated it, which it may reorder. A unit without ratings is not counted.
func (h *Histogram) Add(ratings []string) { h.change(ratings, 1) }

// Remove takes back what Add counted for the same ratings, in any order.
func (h *Histogram) Remove(ratings []string) { h.change(ratings, -1) }

func (h *Histogram) change(ratings []string, units int64) {
	if len(ratings) == 0 {
		return
	}
	h.key = AppendPattern(h.key[:0], ratings)
	if n := h.units[string(h.key)] + units; n != 0 && n != units {
		h.units[string(h.key)] = n
		return
	}
	h.AddPattern(string(h.key), units)
}

// AddPattern counts units, which may be negative, of a pattern that [AppendPattern] wrote.
func (h *Histogram) AddPattern(pattern string, units int64) {
	if h.units == nil {
		h.units = make(map[string]int64)
	}
	if n := h.units[pattern] + units; n != 0 {
		h.units[pattern] = n
	} else {
		delete(h.units, pattern)
	}
}

// Merge adds all units of o.
func (h *Histogram) Merge(o *Histogram) {
	for pattern, units := range o.units {
		h.AddPattern(pattern, units)
	}
}

// Subtract takes all units of o back.
func (h *Histogram) Subtract(o *Histogram) {
	for pattern, units := range o.units {
		h.AddPattern(pattern, -units)
	}
}

// Units returns the number of units, those with a single rating included.
func (h *Histogram) Units() int64 {
	var n int64
	for _, units := range h.units {
		n += units
	}
	return n
}

// All returns the patterns in the form of [AppendPattern] and their units, by pattern ascending.
func (h *Histogram) All() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		for _, pattern := range slices.Sorted(maps.Keys(h.units)) {
			if !yield(pattern, h.units[pattern]) {
				return
			}
		}
	}
}

// Literals returns the distinct literals, ascending bytewise. It fails on a pattern that AppendPattern did not write.
func (h *Histogram) Literals() ([]string, error) {
	seen := make(map[string]bool)
	for pattern := range h.units {
		err := eachLiteral(pattern, func(literal string, _ int32) error {
			seen[literal] = true
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

// Counts returns the histogram in terms of d, by pattern ascending; literals that are one value of d are counted together. It fails on a literal that d does not have.
func (h *Histogram) Counts(d Domain) ([]PatternCount, error) {
	counts := make([]PatternCount, 0, len(h.units))
	for pattern, units := range h.All() {
		p := PatternCount{Units: units}
		err := eachLiteral(pattern, func(literal string, count int32) error {
			v, ok := d.Index(literal)
			if !ok {
				return fmt.Errorf("value %s is not in the domain", quoted(literal))
			}
			at, found := slices.BinarySearch(p.Values, v)
			if found {
				p.Counts[at] += count
				return nil
			}
			p.Values = slices.Insert(p.Values, at, v)
			p.Counts = slices.Insert(p.Counts, at, count)
			return nil
		})
		if err != nil {
			return nil, err
		}
		counts = append(counts, p)
	}
	return counts, nil
}

// Agreement reads alpha at a level; order is [OrderDomain]'s, and so are the errors.
func (h *Histogram) Agreement(level Level, order []string) (Agreement, error) {
	literals, err := h.Literals()
	if err != nil {
		return Agreement{}, err
	}
	d, err := OrderDomain(level, literals, order)
	if err != nil {
		return Agreement{}, err
	}
	counts, err := h.Counts(d)
	if err != nil {
		return Agreement{}, err
	}
	return Alpha(d, counts), nil
}

// AppendPattern appends the pattern of one unit's ratings, which it sorts: for each literal, ascending bytewise, its length in bytes, a colon, the literal, an asterisk, how often it is there, and a semicolon.
// Ratings 3, 4, 4 give "1:3*1;1:4*2;". It is valid UTF-8 if the literals are.
func AppendPattern(dst []byte, ratings []string) []byte {
	slices.Sort(ratings)
	for i := 0; i < len(ratings); {
		start := i
		for i < len(ratings) && ratings[i] == ratings[start] {
			i++
		}
		dst = appendCount(dst, ratings[start], i-start)
	}
	return dst
}

func appendCount(dst []byte, literal string, count int) []byte {
	dst = strconv.AppendInt(dst, int64(len(literal)), 10)
	dst = append(dst, ':')
	dst = append(dst, literal...)
	dst = append(dst, '*')
	dst = strconv.AppendInt(dst, int64(count), 10)
	return append(dst, ';')
}

// eachLiteral calls f for each literal of a pattern and its count.
func eachLiteral(pattern string, f func(literal string, count int32) error) error {
	bad := func() error {
		return fmt.Errorf("pattern %s: want length:literal*count; for each literal", quoted(pattern))
	}
	for rest := []byte(pattern); len(rest) > 0; {
		length, after, ok := bytes.Cut(rest, []byte(":"))
		size, err := strconv.Atoi(string(length))
		if !ok || err != nil || size < 0 || size >= len(after) || after[size] != '*' {
			return bad()
		}
		count, next, ok := bytes.Cut(after[size+1:], []byte(";"))
		times, err := strconv.ParseInt(string(count), 10, 32)
		if !ok || err != nil || times < 1 {
			return bad()
		}
		if err := f(string(after[:size]), int32(times)); err != nil {
			return err
		}
		rest = next
	}
	return nil
}
