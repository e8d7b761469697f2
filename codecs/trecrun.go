package codecs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/zeebo/xxh3"

	"evalstream"
)

// TRECRuns reads a TREC run file, "query Q0 passage rank score run" a line, into
// records with a [evalstream.Run] body, one a (query, run). Top is in the order of the
// lines, not of rank, which is not read: order is a matter of the score.
//
// Record and body belong to the caller for good.
type TRECRuns struct {
	lines  *lineReader
	gather bool
	groups []*trecGroup // those not handed out yet, in the order of their first lines
	index  map[string]*trecGroup
	last   *trecGroup
	known  map[xxh3.Uint128]struct{} // handed out
	seq    evalstream.Seq
	read   bool // to the end
	key    []byte
	text   slab[byte]
	ids    idSet
	held   *evalstream.Rejected // a line that belongs to no list
}

// trecGroup is the list of one query and run.
type trecGroup struct {
	rec   evalstream.Record
	run   evalstream.Run
	lines []int64 // of the hits
	fault *evalstream.Rejected
	key   xxh3.Uint128
}

// NewTRECRuns reads runs from r. With gather the file is read whole before the first
// record, and lists may be spread over it; its ids are then held in memory. Without, a
// list is the lines that follow each other, and a (query, run) that comes back later is
// set aside.
func NewTRECRuns(r io.Reader, origin *evalstream.Origin, gather bool) *TRECRuns {
	return &TRECRuns{lines: newLineReader(r, origin), gather: gather, index: map[string]*trecGroup{}, known: map[xxh3.Uint128]struct{}{}}
}

// All yields the records in the order of their first lines; Pos is the first line, and
// Seq counts the records from 0. A bad line comes before the list that it stands in. A record that is set aside has an [evalstream.Rejected] body with
// the position and bytes of the line at fault: a line that is no run line, or a list
// with a passage twice or a score that is not a finite number, which is set aside whole.
// An error is about the stream and ends it. All is called once.
func (t *TRECRuns) All() iter.Seq2[evalstream.Record, error] {
	return func(yield func(evalstream.Record, error) bool) {
		for {
			rec, err := t.next()
			if errors.Is(err, io.EOF) || !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

func (t *TRECRuns) next() (evalstream.Record, error) {
	for {
		if t.held != nil {
			rec := setAside(t.held, t.seq)
			t.held = nil
			t.seq++
			return rec, nil
		}
		if len(t.groups) > 0 && (t.read || !t.gather && t.groups[0] != t.last) {
			g := t.groups[0]
			t.groups = t.groups[1:]
			return t.hand(g), nil
		}
		if t.read {
			return evalstream.Record{}, io.EOF
		}
		err := t.line()
		if t.read = errors.Is(err, io.EOF); err != nil && !t.read {
			return evalstream.Record{}, err
		}
	}
}

// setAside is the record of a reject.
func setAside(r *evalstream.Rejected, seq evalstream.Seq) evalstream.Record {
	return evalstream.Record{Body: r, Raw: r.Line, Pos: r.At, Seq: seq, Time: evalstream.NoTime}
}

// hand ends a list.
func (t *TRECRuns) hand(g *trecGroup) evalstream.Record {
	seq := t.seq
	t.seq++
	if !t.gather {
		t.known[g.key] = struct{}{}
	}
	if g.fault == nil {
		if i := t.ids.repeated(g.run.Top); i >= 0 {
			at := g.rec.Pos
			at.Line = g.lines[i]
			g.fault = &evalstream.Rejected{At: at, Class: evalstream.ClassSchema, Reason: fmt.Sprintf(
				"passage %s stands twice in the list of query %s, run %s", quote(g.run.Top[i].ID), quote(g.run.QueryID), quote(g.run.Run))}
		}
	}
	if g.fault != nil {
		return setAside(g.fault, seq)
	}
	g.rec.Body, g.rec.Seq = &g.run, seq
	return g.rec
}

// line takes in one line; io.EOF after the last.
func (t *TRECRuns) line() error {
	line, long, err := t.lines.next()
	if err != nil {
		return err
	}
	if f := t.take(line, long); f != nil {
		at := t.lines.at
		at.Column = f.Column
		t.held = &evalstream.Rejected{At: at, Class: f.Class, Reason: f.Reason, Line: bytes.Clone(line)}
	}
	return nil
}

// take adds the line to its list; a fault means that it has none.
func (t *TRECRuns) take(line []byte, long int64) *evalstream.Fault {
	if long > 0 {
		return &evalstream.Fault{Class: evalstream.ClassTooLarge, Reason: tooLong(long, t.lines.limit)}
	}
	var f [6]trecField
	if fault := splitTREC(line, f[:], "query Q0 passage rank score run"); fault != nil {
		return fault
	}
	query, run := f[0].of(line), f[5].of(line)
	g := t.last
	if g == nil || g.run.QueryID != string(query) || g.run.Run != string(run) {
		if g = t.group(query, run); g == nil {
			return &evalstream.Fault{Class: evalstream.ClassSchema, Reason: fmt.Sprintf(
				"query %s of run %s comes back after other lines; sort the file by query and run", quote(string(query)), quote(string(run)))}
		}
	}
	t.last = g
	score, ok := trecScore(f[4].of(line))
	if !ok && g.fault == nil {
		at := t.lines.at
		at.Column = int32(f[4].from + 1)
		g.fault = &evalstream.Rejected{
			At: at, Class: evalstream.ClassParse,
			Reason: "want finite score, got " + quote(string(f[4].of(line))), Line: bytes.Clone(line),
		}
	}
	g.run.Top = append(g.run.Top, evalstream.Hit{ID: view(t.text.copy(f[2].of(line))), Score: score})
	g.lines = append(g.lines, t.lines.at.Line)
	return nil
}

// group is the list of a query and run; nil if it was handed out.
func (t *TRECRuns) group(query, run []byte) *trecGroup {
	t.key = append(append(append(t.key[:0], query...), ' '), run...)
	hash := xxh3.Hash128(t.key)
	if t.gather {
		if g := t.index[string(t.key)]; g != nil {
			return g
		}
	} else if _, ok := t.known[hash]; ok || t.last != nil && t.last.key == hash {
		return nil
	}
	g := &trecGroup{key: hash, rec: evalstream.Record{Pos: t.lines.at, Time: evalstream.NoTime}}
	g.run.QueryID, g.run.Run = string(query), string(run)
	if t.gather {
		t.index[string(t.key)] = g
	}
	t.groups = append(t.groups, g)
	return g
}

// TRECQrels reads a TREC qrels file, "query iteration passage grade" a line, into
// records with a [evalstream.Qrel] body. The iteration is not read.
type TRECQrels struct {
	lines *lineReader
	known map[xxh3.Uint128]struct{}
	key   []byte
	text  slab[byte]
	query string
}

// NewTRECQrels reads judgments from r. Each (query, passage) is remembered by a
// 128-bit hash.
func NewTRECQrels(r io.Reader, origin *evalstream.Origin) *TRECQrels {
	return &TRECQrels{lines: newLineReader(r, origin), known: map[xxh3.Uint128]struct{}{}}
}

// All yields the records in the order of the lines; Seq counts from 0. A record that is
// set aside has an [evalstream.Rejected] body: a bad line, or a (query, passage) that was
// there before. An error is about the stream and ends it. All is called once.
func (t *TRECQrels) All() iter.Seq2[evalstream.Record, error] {
	return func(yield func(evalstream.Record, error) bool) {
		for seq := evalstream.Seq(0); ; seq++ {
			line, long, err := t.lines.next()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					yield(evalstream.Record{}, err)
				}
				return
			}
			rec := evalstream.Record{Pos: t.lines.at, Seq: seq, Time: evalstream.NoTime}
			if b, f := t.parse(line, long); f != nil {
				rec.Pos.Column = f.Column
				rec = setAside(&evalstream.Rejected{At: rec.Pos, Class: f.Class, Reason: f.Reason, Line: bytes.Clone(line)}, seq)
			} else {
				rec.Body = b
			}
			if !yield(rec, nil) {
				return
			}
		}
	}
}

func (t *TRECQrels) parse(line []byte, long int64) (*evalstream.Qrel, *evalstream.Fault) {
	if long > 0 {
		return nil, &evalstream.Fault{Class: evalstream.ClassTooLarge, Reason: tooLong(long, t.lines.limit)}
	}
	var f [4]trecField
	if fault := splitTREC(line, f[:], "query iteration passage grade"); fault != nil {
		return nil, fault
	}
	query, passage := f[0].of(line), f[2].of(line)
	grade, err := strconv.ParseInt(string(f[3].of(line)), 10, 32)
	if err != nil {
		return nil, &evalstream.Fault{
			Class: evalstream.ClassParse, Column: int32(f[3].from + 1),
			Reason: "want integer grade, got " + quote(string(f[3].of(line))),
		}
	}
	t.key = append(append(append(t.key[:0], query...), ' '), passage...)
	hash := xxh3.Hash128(t.key)
	if _, ok := t.known[hash]; ok {
		return nil, &evalstream.Fault{Class: evalstream.ClassSchema, Column: int32(f[2].from + 1), Reason: fmt.Sprintf(
			"passage %s is judged twice for query %s; want one line each", quote(string(passage)), quote(string(query)))}
	}
	t.known[hash] = struct{}{}
	if t.query != string(query) {
		t.query = string(query)
	}
	return &evalstream.Qrel{QueryID: t.query, PassageID: view(t.text.copy(passage)), Grade: int32(grade)}, nil
}

// trecField is a field of a TREC line.
type trecField struct{ from, to int }

func (f trecField) of(line []byte) []byte { return line[f.from:f.to] }

// splitTREC finds the fields of a line, which blanks and tabs set apart.
func splitTREC(line []byte, fields []trecField, want string) *evalstream.Fault {
	if !utf8.Valid(line) {
		f := badEncoding(line)
		f.Path = ""
		return f
	}
	n := 0
	for i := 0; i < len(line); {
		if line[i] == ' ' || line[i] == '\t' {
			i++
			continue
		}
		from := i
		for i < len(line) && line[i] != ' ' && line[i] != '\t' {
			i++
		}
		if n < len(fields) {
			fields[n] = trecField{from, i}
		}
		n++
	}
	if n != len(fields) {
		return &evalstream.Fault{Class: evalstream.ClassParse, Reason: fmt.Sprintf("want %d fields (%s), got %d", len(fields), want, n)}
	}
	return nil
}

// trecScore reads a finite decimal.
func trecScore(raw []byte) (float64, bool) {
	if strings.Trim(view(raw), "0123456789+-.eE") != "" {
		return 0, false
	}
	v, err := strconv.ParseFloat(view(raw), 64)
	return v, err == nil && !math.IsInf(v, 0)
}

func tooLong(length int64, limit int) string {
	return fmt.Sprintf("line of %d bytes is over the limit of %d; raise --max-line", length, limit)
}
