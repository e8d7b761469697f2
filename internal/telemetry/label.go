package telemetry

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxLabel is how many bytes of a value a label shows, before escaping.
const maxLabel = 128

// label is one label of a series; both are as they come, not yet escaped.
type label struct{ name, value string }

// series is a name with labels as Prometheus reads it. Labels with an empty value are
// left out, which is what Prometheus takes them for. It is the one place where text
// becomes a label, since the library panics on what it cannot read.
func series(family string, labels ...label) string {
	seen := make(map[string]bool, len(labels))
	written := make([]label, 0, len(labels))
	for _, l := range labels {
		name := labelName(l.name)
		for seen[name] {
			name += "_"
		}
		seen[name] = true
		if l.value != "" {
			written = append(written, label{name, labelValue(l.value)})
		}
	}
	if len(written) == 0 {
		return family
	}
	slices.SortFunc(written, func(a, b label) int { return strings.Compare(a.name, b.name) })
	b := []byte(family)
	for i, l := range written {
		sep := byte(',')
		if i == 0 {
			sep = '{'
		}
		b = append(append(append(b, sep), l.name...), `="`...)
		for _, c := range []byte(l.value) {
			switch c {
			case '\\', '"':
				b = append(b, '\\', c)
			case '\n':
				b = append(b, `\n`...)
			default:
				b = append(b, c)
			}
		}
		b = append(b, '"')
	}
	return string(append(b, '}'))
}

// labelName makes a label name of a field's: letters, digits and underscores, with no
// digit first and not two underscores, and neither le nor quantile, which Prometheus
// keeps for itself.
func labelName(field string) string {
	name := strings.Map(func(r rune) rune {
		if r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, field)
	if name == "" || '0' <= name[0] && name[0] <= '9' || strings.HasPrefix(name, "__") || name == "le" || name == "quantile" {
		name = "field_" + name
	}
	return name
}

// labelValue is text that every reader of the format takes: valid UTF-8 without control
// characters other than the newline, of at most maxLabel bytes. What had to be changed
// ends in a hash of the whole, so that values that differ stay apart.
func labelValue(s string) string {
	changed := !utf8.ValidString(s)
	out := strings.ToValidUTF8(s, "\ufffd")
	out = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' {
			changed = true
			return '\ufffd'
		}
		return r
	}, out)
	if len(out) <= maxLabel && !changed {
		return out
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(s)) // a hash takes everything
	tail := fmt.Sprintf("~%016x", h.Sum64())
	if n := maxLabel - len(tail); len(out) > n {
		for !utf8.RuneStart(out[n]) {
			n--
		}
		out = out[:n]
	}
	return out + tail
}

// literalText is a JSON literal as a label: strings without their quotes, unless what is
// left would read as another literal. Null and absent are nothing.
func literalText(literal string) string {
	if literal == "null" || literal == "" || literal[0] != '"' {
		return strings.TrimPrefix(literal, "null")
	}
	var s string
	if json.Unmarshal([]byte(literal), &s) != nil || s == "" || s[0] == '"' || json.Valid([]byte(s)) {
		return literal
	}
	return s
}
