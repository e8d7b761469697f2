package ranking

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
)

// DefaultPattern is what a token is, in the lower-cased text.
const DefaultPattern = "[a-z0-9]+"

// Variant says what BM25 is here: a passage d scores, for a query, the sum over the
// query's tokens t (a token that comes twice counts twice) of
//
//	idf(t) · tf·(k1+1) / (tf + k1·(1 − b + b·|d|/avg|d|))
//
// with idf(t) = ln(1 + (N − df + .5)/(df + .5)) over N passages of which df have t.
type Variant struct {
	K1 float64
	B  float64
	// PlainIDF is idf without the 1 +, and 0 where that would be negative.
	PlainIDF bool
	// PlainTF leaves out the factor (k1+1): scores shrink, the order stays.
	PlainTF bool
	Pattern string // regular expression of a token
}

// DefaultVariant is k1 0.9, b 0.4, the idf and tf of the formula, tokens [a-z0-9]+.
func DefaultVariant() Variant { return Variant{K1: .9, B: .4, Pattern: DefaultPattern} }

// Check refuses what is not BM25.
func (v Variant) Check() error {
	if !(v.K1 >= 0) || math.IsInf(v.K1, 0) {
		return fmt.Errorf("k1: want 0 or more, got %v", v.K1)
	}
	if !(v.B >= 0 && v.B <= 1) {
		return fmt.Errorf("b: want 0 to 1, got %v", v.B)
	}
	if _, err := regexp.Compile(v.Pattern); err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	if v.Pattern == "" {
		return fmt.Errorf("tokens: want a regular expression such as %s, got none", DefaultPattern)
	}
	return nil
}

// String names all of it, for people and digests.
func (v Variant) String() string {
	idf, tf := "ln(1+(N-df+.5)/(df+.5))", "(k1+1)"
	if v.PlainIDF {
		idf = "max(0,ln((N-df+.5)/(df+.5)))"
	}
	if v.PlainTF {
		tf = "1"
	}
	return fmt.Sprintf("bm25 k1=%v b=%v idf=%s tf_factor=%s tokens=%s of the lower-cased text", v.K1, v.B, idf, tf, v.Pattern)
}

// Words is passages by their words: about 8 bytes a different word of a passage.
type Words struct {
	variant  Variant
	pattern  *regexp.Regexp // nil for the default one
	terms    map[string]int32
	postings [][]posting // by term
	lengths  []int32     // by passage, in tokens
	total    int64
	counts   map[int32]int32 // of the passage being added
}

type posting struct {
	passage int32
	tf      int32
}

// NewWords makes an empty index; v has been checked.
func NewWords(v Variant) *Words {
	w := &Words{variant: v, terms: map[string]int32{}, counts: map[int32]int32{}}
	if v.Pattern != DefaultPattern {
		w.pattern = regexp.MustCompile(v.Pattern)
	}
	return w
}

// Len is the number of passages.
func (w *Words) Len() int { return len(w.lengths) }

// Add appends a passage: the one of number Len() before the call.
func (w *Words) Add(text string) {
	p := int32(len(w.lengths))
	n := int32(0)
	clear(w.counts)
	w.tokens(text, func(token string) {
		t, ok := w.terms[token]
		if !ok {
			t = int32(len(w.postings))
			w.terms[strings.Clone(token)] = t
			w.postings = append(w.postings, nil)
		}
		w.counts[t]++
		n++
	})
	for t, tf := range w.counts {
		w.postings[t] = append(w.postings[t], posting{p, tf})
	}
	w.lengths = append(w.lengths, n)
	w.total += int64(n)
}

// Reorder puts the passages in a new order: place i gets the one that was at order[i].
func (w *Words) Reorder(order []int32) {
	place := make([]int32, len(order))
	lengths := make([]int32, len(order))
	for i, from := range order {
		place[from] = int32(i)
		lengths[i] = w.lengths[from]
	}
	w.lengths = lengths
	for _, ps := range w.postings {
		for i := range ps {
			ps[i].passage = place[ps[i].passage]
		}
		slices.SortFunc(ps, func(a, b posting) int { return int(a.passage - b.passage) })
	}
}

// tokens calls f for each token of text, in order. A token lives during the call.
func (w *Words) tokens(text string, f func(token string)) {
	text = strings.ToLower(text)
	if w.pattern != nil {
		for _, at := range w.pattern.FindAllStringIndex(text, -1) {
			if at[0] < at[1] {
				f(text[at[0]:at[1]])
			}
		}
		return
	}
	for i := 0; i < len(text); {
		if !isWord(text[i]) {
			i++
			continue
		}
		from := i
		for i < len(text) && isWord(text[i]) {
			i++
		}
		f(text[from:i])
	}
}

func isWord(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }

// Lookup is one goroutine's room for searching: 8 bytes a passage.
type Lookup struct {
	scores  []float64
	touched []int32
	best    best[float64]
}

// Best is the best n passages that have a token of the query, equal scores by
// passage. The hits are valid until the next call with l.
func (w *Words) Best(l *Lookup, query string, n int) []Hit[float64] {
	if len(l.scores) < len(w.lengths) {
		l.scores = make([]float64, len(w.lengths))
	}
	passages := float64(len(w.lengths))
	average := float64(w.total) / passages
	k1, b := w.variant.K1, w.variant.B
	factor := k1 + 1
	if w.variant.PlainTF {
		factor = 1
	}
	w.tokens(query, func(token string) {
		t, ok := w.terms[token]
		if !ok {
			return
		}
		df := float64(len(w.postings[t]))
		ratio := (passages - df + .5) / (df + .5)
		idf := math.Log(1 + ratio)
		if w.variant.PlainIDF {
			idf = max(0, math.Log(ratio))
		}
		for _, p := range w.postings[t] {
			if l.scores[p.passage] == 0 {
				l.touched = append(l.touched, p.passage)
			}
			tf := float64(p.tf)
			l.scores[p.passage] += float64(idf*tf*factor) / (tf + float64(k1*(1-b+float64(b*float64(w.lengths[p.passage])/average))))
		}
	})
	l.best.reset(n)
	for _, p := range l.touched {
		if s := l.scores[p]; s > 0 { // a passage touched again while its score was 0 counts once
			l.best.add(Hit[float64]{p, s})
		}
		l.scores[p] = 0
	}
	l.touched = l.touched[:0]
	return l.best.sorted()
}
