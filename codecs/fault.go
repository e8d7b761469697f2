package codecs

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-json"
	simdutf8 "github.com/segmentio/asm/utf8"

	"evalstream"
)

// check finds what is wrong with the line as JSON: encoding, grammar, escapes.
func check(line []byte) *evalstream.Fault {
	if !simdutf8.Valid(line) {
		return badEncoding(line)
	}
	if !json.Valid(line) {
		return badGrammar(line)
	}
	// An object is wanted; what goes before it is blank.
	i := 0
	for line[i] <= ' ' {
		i++
	}
	if line[i] != '{' {
		return notObject(line, i)
	}
	return badSurrogate(line)
}

func badEncoding(line []byte) *evalstream.Fault {
	i := 0
	for i < len(line) {
		r, n := utf8.DecodeRune(line[i:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		i += n
	}
	return faultAt(line, i, evalstream.ClassParse, "byte "+strconv.Itoa(i+1)+" (0x"+strconv.FormatUint(uint64(line[i]), 16)+") is not UTF-8")
}

// badGrammar asks go-json again for where the line stops being JSON.
func badGrammar(line []byte) *evalstream.Fault {
	if bytes.HasPrefix(line, []byte("\ufeff")) {
		return faultAt(line, 0, evalstream.ClassParse, "a byte order mark stands inside the input; only the first line may begin with one")
	}
	first := len(line) - len(bytes.TrimLeft(line, " \t\r\n"))
	if first == len(line) {
		return faultAt(line, 0, evalstream.ClassParse, "line is blank; want one JSON object a line")
	}
	at, reason := syntaxError(line)
	if i := tooDeep(line[:at]); i >= 0 {
		return faultAt(line, i, evalstream.ClassParse, depthReason)
	}
	if at > first && json.Valid(line[:at]) {
		if line[first] != '{' {
			return notObject(line, first)
		}
		return faultAt(line, at, evalstream.ClassParse, "two values on a line; want one JSON object a line")
	}
	if line[first] != '{' {
		return notObject(line, first)
	}
	// If the line is cut short, the fault moves on with whatever follows it.
	if longer, _ := syntaxError(append(bytes.Clone(line), 0)); longer >= len(line) {
		return faultAt(line, len(line), evalstream.ClassParse, "line ends inside a value (cut short, or an object printed over several lines, which jq -c . mends)")
	}
	for _, name := range []string{"NaN", "nan", "Infinity", "inf"} {
		if bytes.HasPrefix(line[at:], []byte(name)) {
			reason = name + " is no JSON number; want a finite number"
		}
	}
	return faultAt(line, at, evalstream.ClassParse, reason)
}

// syntaxError is where the line stops being JSON, at most its length, and why.
func syntaxError(line []byte) (at int, reason string) {
	var all struct{}
	err := json.Unmarshal(line, &all)
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return 0, "line is not JSON"
	}
	return min(max(int(syntax.Offset)-1, 0), len(line)), strings.TrimPrefix(syntax.Error(), "json: ")
}

const depthReason = "nesting is deeper than 512"

// tooDeep is the first bracket that is nested too deep, -1 if there is none.
func tooDeep(line []byte) int {
	depth := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '{', '[':
			if depth++; depth > maxDepth {
				return i
			}
		case '}', ']':
			depth--
		case '"':
			for i++; i < len(line) && line[i] != '"'; i++ {
				if line[i] == '\\' {
					i++
				}
			}
		}
	}
	return -1
}

// notObject says that a line holds something else.
func notObject(line []byte, i int) *evalstream.Fault {
	reason := "want one JSON object a line, got " + typeOf(line[i:])
	switch line[i] {
	case '[':
		reason += " (jq -c '.[]' writes one element a line)"
	case '"', '}', ']':
		reason += " (if an object was printed over several lines, jq -c . mends it)"
	}
	return faultAt(line, i, evalstream.ClassParse, reason)
}

// badSurrogate finds an escape that is half of a character. The grammar has been
// checked, so an escape is whole.
func badSurrogate(line []byte) *evalstream.Fault {
	for i := 0; ; {
		n := bytes.IndexByte(line[i:], '\\')
		if n < 0 {
			return nil
		}
		i += n
		switch surrogate(line[i:]) {
		case 0:
			i += 2
		case 1:
			if surrogate(line[i+6:]) == 2 {
				i += 12
				continue
			}
			fallthrough
		case 2:
			return faultAt(line, i, evalstream.ClassParse, "escape "+string(line[i:i+6])+" is half of a surrogate pair")
		}
	}
}

// surrogate is 1 if b begins with the escape of the first half of a pair, 2 if with
// that of the second, and 0 otherwise.
func surrogate(b []byte) int {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' || b[2]|0x20 != 'd' {
		return 0
	}
	switch c := b[3] | 0x20; {
	case c == '8' || c == '9' || c == 'a' || c == 'b':
		return 1
	case c >= 'c' && c <= 'f':
		return 2
	}
	return 0
}

// faultAt is a fault at byte i of the line, which is within or at the end of a value.
func faultAt(line []byte, i int, class evalstream.Class, reason string) *evalstream.Fault {
	return &evalstream.Fault{Class: class, Column: int32(i + 1), Path: pathTo(line, i), Reason: reason}
}

// schemaFault is a fault of the value at byte i.
func schemaFault(line []byte, i int, path, reason string) *evalstream.Fault {
	return &evalstream.Fault{Class: evalstream.ClassSchema, Column: int32(i + 1), Path: path, Reason: reason}
}

// fault is a schema fault of the value at s.
func (s span) fault(line []byte, path, reason string) *evalstream.Fault {
	return schemaFault(line, int(s.from), path, reason)
}

// typeOf names the JSON type of the value that b begins with.
func typeOf(b []byte) string {
	switch c := b[0]; {
	case c == '{':
		return "object"
	case c == '[':
		return "array"
	case c == '"':
		return "string"
	case bytes.HasPrefix(b, []byte("true")), bytes.HasPrefix(b, []byte("false")):
		return "boolean"
	case bytes.HasPrefix(b, []byte("null")):
		return "null"
	case c == '-' || '0' <= c && c <= '9':
		return "number"
	}
	return quote(string(b))
}

// quote quotes what a message shows, cut at 64 bytes.
func quote(s string) string {
	if len(s) > 64 {
		cut := 64
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		return strconv.Quote(s[:cut]) + "…"
	}
	return strconv.Quote(s)
}

// have lists what there is, with the likely meaning first.
func have(name string, names []string) string {
	list := " (have " + strings.Join(names, ", ") + ")"
	if best := evalstream.Nearest(name, names); best != "" {
		return "; did you mean " + best + "?" + list
	}
	return list
}

func orList(names []string) string {
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// maxPath bounds the path of a message.
const maxPath = 256

// pathTo is the JSON Pointer of the value in which byte at of the line stands. What
// goes before it is JSON, or at least not worse than what was meant to be.
func pathTo(line []byte, at int) string {
	type level struct {
		object bool
		key    string
		n      int
	}
	var stack []level
	wantKey := false
	for i := 0; i < len(line) && i < at; i++ {
		switch c := line[i]; c {
		case '{':
			stack = append(stack, level{object: true})
			wantKey = true
		case '[':
			stack = append(stack, level{})
			wantKey = false
		case '}', ']':
			if len(stack) > 0 {
				stack = stack[:len(stack)-1]
			}
			wantKey = false
		case ',':
			if len(stack) > 0 {
				top := &stack[len(stack)-1]
				wantKey = top.object
				top.n++
				top.key = ""
			}
		case '"':
			end := i + 1
			for end < len(line) && line[end] != '"' {
				if line[end] == '\\' {
					end++
				}
				end++
			}
			if wantKey && end < at && len(stack) > 0 {
				stack[len(stack)-1].key = keyText(line[i : end+1])
				wantKey = false
			}
			i = end
		}
	}
	var b strings.Builder
	for _, l := range slices.All(stack) {
		if l.object && l.key == "" {
			break
		}
		b.WriteByte('/')
		if l.object {
			b.WriteString(escapeStep(l.key))
		} else {
			b.WriteString(strconv.Itoa(l.n))
		}
	}
	if b.Len() > maxPath {
		return ""
	}
	return b.String()
}

// keyText is the text of a key that may be no JSON string.
func keyText(raw []byte) string {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return string(bytes.Trim(raw, `"`))
	}
	return text
}
