package codecs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
)

// TrecEvalRun is a TREC run file as trec_eval 9.0.8 reads it, which takes almost anything: see ReadTrecEvalRun.
type TrecEvalRun struct {
	RunID string // the sixth field of the last line; lines before may have others
	Lists []TrecEvalList
}

// TrecEvalList is what a run retrieved for one query, in file order. A document may be there twice.
type TrecEvalList struct {
	Query string
	Docs  []TrecEvalDoc
}

// TrecEvalDoc is a line of a run. The score is a float32, as in trec_eval before version 10, and may be NaN.
type TrecEvalDoc struct {
	ID    string
	Score float32
}

// TrecEvalQrels is a TREC qrels file as trec_eval 9.0.8 reads it.
type TrecEvalQrels struct {
	Queries []TrecEvalJudged
}

// TrecEvalJudged is one query's judgments, in file order. A document may be there twice.
type TrecEvalJudged struct {
	Query     string
	Judgments []TrecEvalJudgment
}

// TrecEvalJudgment is a line of a qrels file.
type TrecEvalJudgment struct {
	ID    string
	Grade int64 // below 0: in the pool, but without a judgment
}

// ReadTrecEvalRun reads lines `query Q0 document rank score run`, separated by any white space of C's isspace.
// Blank lines, carriage returns, text behind the sixth field and a missing last newline do not matter; the
// second and fourth field are not read; the score is what LenientFloat makes of it. A line of fewer fields is
// an error that names it, and so is an input of no bytes. Lists come back in bytewise order of their query,
// wherever their lines stand. Time is linear in the input, but for sorting the queries; the whole text is kept.
func ReadTrecEvalRun(r io.Reader) (TrecEvalRun, error) {
	text, err := readText(r)
	if err != nil {
		return TrecEvalRun{}, err
	}
	var run TrecEvalRun
	var g grouped[TrecEvalDoc]
	for line := 1; text != ""; line++ {
		var fields [6]string
		var n int
		n, text = splitLine(text, fields[:])
		if n == 0 {
			continue
		}
		if n < len(fields) {
			return TrecEvalRun{}, fmt.Errorf("line %d: want 6 fields (query Q0 document rank score run), got %d", line, n)
		}
		g.add(fields[0], TrecEvalDoc{ID: fields[2], Score: float32(LenientFloat(fields[4]))})
		run.RunID = fields[5]
	}
	g.each(func(query string, docs []TrecEvalDoc) {
		run.Lists = append(run.Lists, TrecEvalList{query, docs})
	})
	return run, nil
}

// ReadTrecEvalQrels reads lines `query iteration document grade`, separated as in ReadTrecEvalRun. The second
// field is not read, and the grade is what LenientInt makes of the fourth: 1.9 is 1. A line of more or fewer
// fields, even a blank one, is an error that names it, and so is an input of no bytes. Queries come back in
// bytewise order.
func ReadTrecEvalQrels(r io.Reader) (TrecEvalQrels, error) {
	text, err := readText(r)
	if err != nil {
		return TrecEvalQrels{}, err
	}
	var qrels TrecEvalQrels
	var g grouped[TrecEvalJudgment]
	for line := 1; text != ""; line++ {
		var fields [5]string
		var n int
		n, text = splitLine(text, fields[:])
		if n != 4 {
			more := ""
			if n == 5 {
				more = " or more"
			}
			return TrecEvalQrels{}, fmt.Errorf("line %d: want 4 fields (query iteration document grade), got %d%s", line, n, more)
		}
		g.add(fields[0], TrecEvalJudgment{ID: fields[2], Grade: LenientInt(fields[3])})
	}
	g.each(func(query string, judgments []TrecEvalJudgment) {
		qrels.Queries = append(qrels.Queries, TrecEvalJudged{query, judgments})
	})
	return qrels, nil
}

func readText(r io.Reader) (string, error) {
	var b strings.Builder
	if f, ok := r.(fs.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			b.Grow(int(info.Size()))
		}
	}
	if _, err := io.Copy(&b, r); err != nil {
		return "", err
	}
	if b.Len() == 0 {
		return "", errors.New("want at least one line, got an empty file")
	}
	return b.String(), nil
}

// splitLine puts the first fields of the first line into fields, and returns how many there were room for and
// the text behind the line.
func splitLine(text string, fields []string) (n int, rest string) {
	line := text
	if before, after, ok := strings.Cut(text, "\n"); ok {
		line, rest = before, after
	}
	for n < len(fields) {
		i := 0
		for i < len(line) && isSpace(line[i]) {
			i++
		}
		start := i
		for i < len(line) && !isSpace(line[i]) {
			i++
		}
		if start == i {
			break
		}
		fields[n] = line[start:i]
		n++
		line = line[i:]
	}
	return n, rest
}

// grouped gathers values by query. It counts first and then moves, so that all groups share one allocation.
type grouped[T any] struct {
	index   map[string]int32
	queries []string
	sizes   []int
	of      []int32 // the query of each value
	values  []T
}

func (g *grouped[T]) add(query string, v T) {
	var q int32
	if n := len(g.of); n > 0 && g.queries[g.of[n-1]] == query {
		q = g.of[n-1]
	} else if known, ok := g.index[query]; ok {
		q = known
	} else {
		if g.index == nil {
			g.index = make(map[string]int32)
		}
		q = int32(len(g.queries))
		g.index[query] = q
		g.queries = append(g.queries, query)
		g.sizes = append(g.sizes, 0)
	}
	g.sizes[q]++
	g.of = append(g.of, q)
	g.values = append(g.values, v)
}

// each visits the queries in bytewise order, the values of each in the order they came.
func (g *grouped[T]) each(visit func(query string, values []T)) {
	ends := make([]int, len(g.sizes))
	end := 0
	for q, n := range g.sizes {
		ends[q] = end
		end += n
	}
	moved := make([]T, len(g.values))
	for i, q := range g.of {
		moved[ends[q]] = g.values[i]
		ends[q]++
	}
	order := make([]int32, len(g.queries))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return strings.Compare(g.queries[a], g.queries[b]) })
	for _, q := range order {
		visit(g.queries[q], moved[ends[q]-g.sizes[q]:ends[q]:ends[q]])
	}
}
