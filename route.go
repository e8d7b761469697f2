package evalstream

import (
	"encoding/binary"
	"strconv"
	"unicode/utf8"
)

// AppendString appends s as a JSON string in the shortest escaping: quotes,
// backslashes and control characters are escaped, nothing else is. Invalid UTF-8
// becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		if i+8 <= len(s) && unescaped(binary.LittleEndian.Uint64([]byte(s[i:i+8]))) {
			i += 8
			continue
		}
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(dst, s[from:i]...)
				dst = append(dst, "\ufffd"...)
				from = i + 1
			}
			i += n
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[from:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		from = i
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}

// unescaped reports whether each of eight bytes is ASCII that stands in a JSON string as
// it is. It may be false where a control character is near.
func unescaped(w uint64) bool {
	const one, high = 0x0101010101010101, 0x8080808080808080
	quote, backslash := w^'"'*one, w^'\\'*one
	return (w|(w-' '*one)|(quote-one)|(backslash-one))&high == 0
}

// appendArray appends the fields as a compact JSON array of strings.
func appendArray(dst []byte, fields ...string) []byte {
	dst = append(dst, '[')
	for i, f := range fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendString(dst, f)
	}
	return append(dst, ']')
}

// AppendRoute is the query id.
func (b *Run) AppendRoute(dst []byte) []byte { return append(dst, b.QueryID...) }

// AppendKey is [query_id, run].
func (b *Run) AppendKey(dst []byte) []byte { return appendArray(dst, b.QueryID, b.Run) }

// AppendRoute is the query id.
func (b *Qrel) AppendRoute(dst []byte) []byte { return append(dst, b.QueryID...) }

// AppendKey is [query_id, passage_id, source].
func (b *Qrel) AppendKey(dst []byte) []byte {
	return appendArray(dst, b.QueryID, b.PassageID, b.Source)
}

// AppendRoute is [dataset, seed, k, episode].
func (b *Prediction) AppendRoute(dst []byte) []byte {
	return appendArray(dst, b.Dataset, b.Seed, b.K, b.Episode)
}

// AppendUnit is [dataset, seed, k, episode, query]: the unit without its run.
func (b *Prediction) AppendUnit(dst []byte) []byte {
	return appendArray(dst, b.Dataset, b.Seed, b.K, b.Episode, b.Query)
}

// AppendKey is [dataset, seed, k, episode, query, run].
func (b *Prediction) AppendKey(dst []byte) []byte {
	return appendArray(dst, b.Dataset, b.Seed, b.K, b.Episode, b.Query, b.Run)
}

// AppendRoute is the unit.
func (b *Rating) AppendRoute(dst []byte) []byte { return append(dst, b.Unit...) }

// AppendKey is [unit, coder].
func (b *Rating) AppendKey(dst []byte) []byte { return appendArray(dst, b.Unit, b.Coder) }

// AppendRoute is the unit. (The unit of a prediction is an array that begins with
// its episode's route; a keyed exchange of scores therefore goes by unit.)
func (b *Score) AppendRoute(dst []byte) []byte { return append(dst, b.Unit...) }

// AppendKey is [unit, run].
func (b *Score) AppendKey(dst []byte) []byte { return appendArray(dst, b.Unit, b.Run) }

// AppendRoute is the grouping's field names and the window, so that one owner reads
// all groups of a grouping.
func (b *Partial) AppendRoute(dst []byte) []byte {
	return append(appendNames(dst, b.By, b.Window), ']')
}

// AppendKey adds step, partition, the values and the pane to the route. The family is
// not in it: a cell does not know its own before a unit is scored.
func (b *Partial) AppendKey(dst []byte) []byte {
	dst = appendNames(dst, b.By, b.Window)
	for _, s := range b.By {
		dst = AppendString(append(dst, ','), s.Value)
	}
	dst = AppendString(append(dst, ','), strconv.FormatInt(b.Pane, 10))
	dst = AppendString(append(dst, ','), b.Step)
	dst = AppendString(append(dst, ','), strconv.Itoa(int(b.Partition)))
	return append(dst, ']')
}

// AppendRoute is the grouping's field names and the window's start.
func (b *Result) AppendRoute(dst []byte) []byte {
	return append(appendNames(dst, b.By, b.Window.String()), ']')
}

// AppendKey adds the metric and the values to the route.
func (b *Result) AppendKey(dst []byte) []byte {
	dst = appendNames(dst, b.By, b.Window.String())
	dst = AppendString(append(dst, ','), b.Metric)
	for _, s := range b.By {
		dst = AppendString(append(dst, ','), s.Value)
	}
	return append(dst, ']')
}

func appendNames(dst []byte, by []Slice, window string) []byte {
	dst = append(dst, '[')
	for _, s := range by {
		dst = append(AppendString(dst, s.Name), ',')
	}
	return AppendString(dst, window)
}

// String is "all" or start/end in RFC 3339.
func (w Window) String() string {
	if w.All {
		return "all"
	}
	return w.Start.String() + "/" + w.End.String()
}

// AppendRoute is the step: a mark goes to all partitions.
func (b *Mark) AppendRoute(dst []byte) []byte { return append(dst, b.Step...) }

// AppendKey is ["mark", step, partition].
func (b *Mark) AppendKey(dst []byte) []byte {
	return appendArray(dst, b.Kind(), b.Step, strconv.Itoa(int(b.Partition)))
}

// AppendRoute is the stage.
func (b *Rejected) AppendRoute(dst []byte) []byte { return append(dst, b.Stage...) }

// AppendKey is [position, stage].
func (b *Rejected) AppendKey(dst []byte) []byte { return appendArray(dst, b.At.String(), b.Stage) }
