package stages

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"evalstream"
	"evalstream/stages/ranking"
)

// RankOptions are the options of rank.
type RankOptions struct {
	Passages string // an edge
	Method   string
	Top      int
	Name     string // of the runs; "": the method
	K1, B    float64
	IDF      string
	TF       string
	Tokens   string
}

// Declare adds the flags.
func (o *RankOptions) Declare(fs *flag.FlagSet) {
	v := ranking.DefaultVariant()
	fs.StringVar(&o.Passages, "passages", o.Passages, "`EDGE` of the passages {passage_id, text, vector?}, read whole before the first query (required)")
	fs.StringVar(&o.Method, "method", RankVector, "`METHOD` vector (exact inner products of what embed made) or bm25 (words)")
	fs.IntVar(&o.Top, "top", 10, "passages a query, `N`")
	fs.StringVar(&o.Name, "name", "", "`NAME` of the runs (default: the method)")
	fs.Float64Var(&o.K1, "k1", v.K1, "BM25: saturation of a word's count, `NUMBER`")
	fs.Float64Var(&o.B, "b", v.B, "BM25: weight of the length, `NUMBER` from 0 to 1")
	fs.StringVar(&o.IDF, "idf", "plus1", "BM25: `FORM` plus1, ln(1+(N-df+.5)/(df+.5)), or plain, without the 1+ and never below 0")
	fs.StringVar(&o.TF, "tf-factor", "k1+1", "BM25: `FACTOR` of a word's count, k1+1 or 1")
	fs.StringVar(&o.Tokens, "tokens", v.Pattern, "BM25: regular `EXPRESSION` of a token in the lower-cased text")
}

// Variant reads the options of BM25.
func (o *RankOptions) Variant() (ranking.Variant, error) {
	v := ranking.Variant{K1: o.K1, B: o.B, Pattern: o.Tokens}
	switch o.IDF {
	case "plus1":
	case "plain":
		v.PlainIDF = true
	default:
		return v, evalstream.NoChoice("idf", o.IDF, "plus1", "plain")
	}
	switch o.TF {
	case "k1+1":
	case "1":
		v.PlainTF = true
	default:
		return v, evalstream.NoChoice("tf-factor", o.TF, "k1+1", "1")
	}
	return v, v.Check()
}

// Check refuses what cannot be done.
func (o *RankOptions) Check() error {
	switch {
	case o.Method != RankVector && o.Method != RankBM25:
		return evalstream.NoChoice("method", o.Method, RankVector, RankBM25)
	case o.Top < 1:
		return fmt.Errorf("top: want 1 or more, got %d", o.Top)
	case o.Passages == "":
		return errors.New("passages: want an edge, as in --passages passages.ndjson, got none")
	}
	_, err := o.Variant()
	return err
}

// String says how queries are ranked, in full.
func (o *RankOptions) String() string {
	how := "inner product of vectors, every passage"
	if v, err := o.Variant(); err == nil && o.Method == RankBM25 {
		how = v.String()
	}
	return fmt.Sprintf("%s; the best %d, equal scores by passage id", how, o.Top)
}

// NewRank makes rank over sealed passages: each query becomes the run of one system.
func NewRank(o RankOptions, passages *Passages) (func() (evalstream.Stage, error), error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if o.Name == "" {
		o.Name = o.Method
	}
	return func() (evalstream.Stage, error) { return &rank{options: o, passages: passages}, nil }, nil
}

// rank emits from slabs that live until its next Process call.
type rank struct {
	options  RankOptions
	passages *Passages

	search  ranking.Search
	lookup  ranking.Lookup
	queries [][]float32
	runs    []evalstream.Run
	hits    []evalstream.Hit

	received, passed, rejected int64
}

// Process ranks all queries of the batch in one walk over the passages.
func (r *rank) Process(_ context.Context, in []evalstream.Record, out *evalstream.Out) error {
	r.received += int64(len(in))
	r.queries, r.runs, r.hits = r.queries[:0], r.runs[:0], r.hits[:0]
	if need := len(in); cap(r.runs) < need {
		r.runs = make([]evalstream.Run, 0, need)
	}
	if need := len(in) * min(r.options.Top, r.passages.Len()); cap(r.hits) < need {
		r.hits = make([]evalstream.Hit, 0, need)
	}
	for i := range in {
		q, ok := in[i].Body.(*evalstream.Query)
		if !ok {
			r.reject(&in[i], "", "rank: want query, got "+in[i].Body.Kind(), out)
			continue
		}
		if r.options.Method == RankVector {
			if f, err := r.check(q); err != nil {
				return err
			} else if f != "" {
				r.reject(&in[i], "/vector", f, out)
				continue
			}
			r.queries = append(r.queries, q.Vector.Values)
		}
		r.runs = append(r.runs, evalstream.Run{QueryID: q.QueryID, Run: r.options.Name, Slices: q.Slices})
		out.Emit(evalstream.Record{Body: &r.runs[len(r.runs)-1], Time: in[i].Time, Pos: in[i].Pos, Seq: in[i].Seq})
		if r.options.Method == RankBM25 {
			from := len(r.hits)
			for _, h := range r.passages.words.Best(&r.lookup, q.Text, r.options.Top) {
				r.hits = append(r.hits, evalstream.Hit{ID: r.passages.names[h.Passage], Score: h.Score})
			}
			r.runs[len(r.runs)-1].Top = r.hits[from:]
		}
	}
	r.passed += int64(len(r.runs))
	if len(r.queries) == 0 || r.passages.vectors == nil {
		return nil
	}
	r.passages.vectors.Best(&r.search, r.queries, r.options.Top, func(q int, hits []ranking.Hit[float32]) {
		from := len(r.hits)
		for _, h := range hits {
			r.hits = append(r.hits, evalstream.Hit{ID: r.passages.names[h.Passage], Score: float64(h.Score)})
		}
		r.runs[q].Top = r.hits[from:]
	})
	return nil
}

func (r *rank) reject(rec *evalstream.Record, path, reason string, out *evalstream.Out) {
	r.rejected++
	out.Reject(rec.Seq, evalstream.Fault{Class: evalstream.ClassStage, Path: path, Reason: reason})
}

// check says why a query cannot be compared with the passages; an error means that
// none can.
func (r *rank) check(q *evalstream.Query) (fault string, err error) {
	v := r.passages.vectors
	switch {
	case len(q.Vector.Values) == 0:
		return "query has no vector; put embed before rank, or rank by --method bm25", nil
	case v == nil:
		return "", nil
	case q.Vector.Fingerprint != r.passages.fingerprint:
		return "", mixed("passages", r.passages.fingerprint, fmt.Sprintf("query %q", q.QueryID), q.Vector.Fingerprint)
	case len(q.Vector.Values) != v.Dims():
		return fmt.Sprintf("want %d dimensions as the passages have, got %d", v.Dims(), len(q.Vector.Values)), nil
	}
	return "", nil
}

// Tallies counts queries.
func (r *rank) Tallies() []evalstream.Tally {
	return []evalstream.Tally{{Kind: "query", Received: r.received, Passed: r.passed, Rejected: r.rejected}}
}
