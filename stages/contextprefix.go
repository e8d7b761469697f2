package stages

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"evalstream"
)

// ContextOptions are the options of context-prefix.
type ContextOptions struct {
	Template  string
	Missing   string
	MaxTokens int
}

// Declare adds the flags.
func (o *ContextOptions) Declare(fs *flag.FlagSet) {
	fs.StringVar(&o.Template, "template", "{company} ({ticker}), {event} {date}", "`TEMPLATE` of the line, with fields in braces; {{ and }} are braces")
	fs.StringVar(&o.Missing, "missing-field", "skip", "a field that is absent, null or empty: `RULE` skip (leave out the template's word that it stands in), keep (as empty text) or reject (the record)")
	fs.IntVar(&o.MaxTokens, "max-tokens", 512, "longest text, the line included: `N` tokens, a run of letters and digits or one other character that is not a space; the body is cut, never the line; 0: no limit")
}

// Fields lists the fields of the template, each once.
func (o *ContextOptions) Fields() ([]string, error) {
	words, err := parseTemplate(o.Template)
	var names []string
	seen := map[string]bool{}
	for _, w := range words {
		for _, p := range w.pieces {
			if p.field && !seen[p.text] {
				seen[p.text] = true
				names = append(names, p.text)
			}
		}
	}
	return names, err
}

// templateWord is a piece of the template between spaces.
type templateWord struct {
	space  string // before it
	pieces []templatePiece
	marks  bool // has neither a field nor a letter or digit
}

type templatePiece struct {
	text  string
	field bool
}

// parseTemplate cuts a template into words. Braces may not be nested.
func parseTemplate(s string) ([]templateWord, error) {
	var words []templateWord
	var w templateWord
	literal := func(t string) {
		if n := len(w.pieces); n > 0 && !w.pieces[n-1].field {
			w.pieces[n-1].text += t
			return
		}
		w.pieces = append(w.pieces, templatePiece{text: t})
	}
	end := func() {
		if len(w.pieces) == 0 {
			return
		}
		w.marks = true
		for _, p := range w.pieces {
			if p.field || strings.ContainsFunc(p.text, isTokenRune) {
				w.marks = false
			}
		}
		words = append(words, w)
		w = templateWord{}
	}
	fields := 0
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case strings.HasPrefix(s[i:], "{{"), strings.HasPrefix(s[i:], "}}"):
			literal(s[i : i+1])
			i += 2
		case c == '{':
			n := strings.IndexAny(s[i+1:], "{}")
			if n < 0 || s[i+1+n] != '}' {
				return nil, fmt.Errorf("template: want } after %q", s[i:])
			}
			name := strings.TrimSpace(s[i+1 : i+1+n])
			if name == "" {
				return nil, fmt.Errorf("template: want a field's name in {} at byte %d, got none", i+1)
			}
			w.pieces = append(w.pieces, templatePiece{text: name, field: true})
			fields++
			i += n + 2
		case c == '}':
			return nil, fmt.Errorf("template: } at byte %d has no {; write }} for a brace", i+1)
		case c == '\n' || c == '\r':
			return nil, fmt.Errorf("template: want one line, got a line break at byte %d", i+1)
		case c == ' ':
			end()
			w.space += " "
			i++
		default:
			literal(s[i : i+1])
			i++
		}
	}
	end()
	if fields == 0 {
		return nil, fmt.Errorf("template: want a field such as {company}, got none in %q", s)
	}
	return words, nil
}

// NewContextPrefix makes context-prefix: the line that the template gives is written
// to a passage's context field and, with a line break, before its text. splice sets
// the fields in the record's line; with nil the line is dropped, and the record goes
// on as its body alone. Other kinds pass.
//
// With skip a word of the template (what stands between spaces) is left out if a field
// in it is missing; a word of punctuation alone stays only between two words that
// stay, and the line does not end with , ; : or a dash. A passage whose line is empty
// keeps its text.
func NewContextPrefix(o ContextOptions, splice evalstream.Splice) (func() (evalstream.Stage, error), error) {
	words, err := parseTemplate(o.Template)
	if err != nil {
		return nil, err
	}
	if o.Missing != "skip" && o.Missing != "keep" && o.Missing != "reject" {
		return nil, evalstream.NoChoice("missing-field", o.Missing, "skip", "keep", "reject")
	}
	if o.MaxTokens < 0 {
		return nil, fmt.Errorf("max-tokens: want 0 or more, got %d", o.MaxTokens)
	}
	return func() (evalstream.Stage, error) {
		return &contextPrefix{options: o, words: words, splice: splice}, nil
	}, nil
}

// contextPrefix emits from slabs that live until its next Process call.
type contextPrefix struct {
	options ContextOptions
	words   []templateWord
	splice  evalstream.Splice

	passages []evalstream.Passage
	lines    []byte
	line     []byte

	received, passed, rejected          int64
	cut, cutTokens, bare, without, over int64
}

// Process writes the line of each passage.
func (c *contextPrefix) Process(_ context.Context, in []evalstream.Record, out *evalstream.Out) error {
	c.received += int64(len(in))
	if cap(c.passages) < len(in) {
		c.passages = make([]evalstream.Passage, 0, len(in))
	}
	c.passages, c.lines = c.passages[:0], c.lines[:0]
	for i := range in {
		b, ok := in[i].Body.(*evalstream.Passage)
		if !ok {
			out.Emit(in[i])
			c.passed++
			continue
		}
		if b.Context != "" {
			c.reject(&in[i], out, "/context", "passage has a context line already")
			continue
		}
		missing := c.render(b)
		if missing != "" && c.options.Missing == "reject" {
			c.reject(&in[i], out, "/"+missing, "template needs it, got none")
			continue
		}
		c.emit(&in[i], b, out)
	}
	return nil
}

func (c *contextPrefix) reject(rec *evalstream.Record, out *evalstream.Out, path, reason string) {
	c.rejected++
	out.Reject(rec.Seq, evalstream.Fault{Class: evalstream.ClassStage, Path: path, Reason: reason})
}

// render fills c.line, and names the first field that is missing.
func (c *contextPrefix) render(b *evalstream.Passage) (missing string) {
	c.line = c.line[:0]
	skip := c.options.Missing == "skip"
	var held []byte // punctuation that waits for a word behind it
	for _, w := range c.words {
		from := len(held)
		held = append(held, w.space...)
		whole := true
		for _, p := range w.pieces {
			if !p.field {
				held = append(held, p.text...)
				continue
			}
			v := strings.TrimSpace(passageField(b, p.text))
			if v == "" {
				whole = false
				if missing == "" {
					missing = p.text
				}
			}
			held = appendOneLine(held, v)
		}
		switch {
		case skip && !whole:
			held = held[:from]
		case skip && w.marks:
			if len(c.line) == 0 || from > 0 {
				held = held[:from]
			}
		default:
			if len(c.line) == 0 && skip {
				held = held[len(w.space):]
			}
			c.line = append(c.line, held...)
			held = held[:0]
		}
	}
	if skip {
		c.line = []byte(strings.TrimRight(string(c.line), " ,;:-–—|"))
	}
	return missing
}

// passageField is a field's text; "" if the passage does not have it.
func passageField(b *evalstream.Passage, name string) string {
	switch name {
	case "passage_id":
		return b.PassageID
	case "doc_id":
		return b.DocID
	case "company":
		return b.Company
	case "ticker":
		return b.Ticker
	case "event":
		return b.Event
	case "date":
		return b.Date
	}
	for _, s := range b.Slices {
		if s.Name == name {
			return ratingText(s.Value)
		}
	}
	return ""
}

// appendOneLine appends s with each run of white space as one space.
func appendOneLine(dst []byte, s string) []byte {
	space := false
	for _, r := range s {
		if unicode.IsSpace(r) {
			space = true
			continue
		}
		if space && len(dst) > 0 && dst[len(dst)-1] != ' ' {
			dst = append(dst, ' ')
		}
		space = false
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}

func (c *contextPrefix) emit(rec *evalstream.Record, b *evalstream.Passage, out *evalstream.Out) {
	c.passages = append(c.passages, *b)
	p := &c.passages[len(c.passages)-1]
	body, spent := b.Text, 0
	if len(c.line) == 0 {
		c.without++
	} else {
		p.Context = string(c.line)
		spent = countTokens(p.Context)
	}
	if limit := c.options.MaxTokens; limit > 0 {
		if spent > limit {
			c.over++
		}
		kept, cut := cutTokens(body, max(0, limit-spent))
		if cut > 0 {
			c.cut++
			c.cutTokens += int64(cut)
			if kept == "" {
				c.bare++
			}
		}
		body = kept
	}
	if p.Text = body; p.Context != "" {
		p.Text = p.Context + "\n" + body
	}
	next := *rec
	next.Body = p
	if rec.Raw == nil || c.splice == nil {
		next.Raw = nil
	} else {
		fields := []evalstream.Field{{Name: "text", Value: evalstream.AppendString(nil, p.Text)}}
		if p.Context != "" {
			fields = append(fields, evalstream.Field{Name: "context", Value: evalstream.AppendString(nil, p.Context)})
		}
		from := len(c.lines)
		c.lines = c.splice(c.lines, rec.Raw, fields)
		next.Raw = c.lines[from:len(c.lines):len(c.lines)]
	}
	out.Emit(next)
	c.passed++
}

func isTokenRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) }

// nextToken is the next token of s from i on; from = len(s) if there is none.
func nextToken(s string, i int) (from, to int) {
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case unicode.IsSpace(r):
			i += n
			continue
		case !isTokenRune(r):
			return i, i + n
		}
		from = i
		for i < len(s) {
			r, n := utf8.DecodeRuneInString(s[i:])
			if !isTokenRune(r) {
				break
			}
			i += n
		}
		return from, i
	}
	return len(s), len(s)
}

func countTokens(s string) int {
	n := 0
	for from, to := nextToken(s, 0); from < len(s); from, to = nextToken(s, to) {
		n++
	}
	return n
}

// cutTokens is the beginning of s with at most limit tokens, and how many were cut. A
// text that is not cut is whole, white space included.
func cutTokens(s string, limit int) (kept string, cut int) {
	n, end := 0, 0
	for from, to := nextToken(s, 0); from < len(s); from, to = nextToken(s, to) {
		if n++; n <= limit {
			end = to
		}
	}
	if n <= limit {
		return s, 0
	}
	return s[:end], n - limit
}

// Tallies counts records.
func (c *contextPrefix) Tallies() []evalstream.Tally {
	return []evalstream.Tally{{Kind: "record", Received: c.received, Passed: c.passed, Rejected: c.rejected}}
}

// Counters say what was cut.
func (c *contextPrefix) Counters() []evalstream.Counter {
	return []evalstream.Counter{
		{Name: "passages cut", N: c.cut},
		{Name: "tokens cut", N: c.cutTokens},
		{Name: "passages with nothing left but their context line", N: c.bare},
		{Name: "context lines over the budget alone", N: c.over},
		{Name: "passages without a context line", N: c.without},
	}
}
