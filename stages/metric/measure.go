package metric

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"evalstream"
)

// Kind says which quantity a Measure is. The definitions are those of trec_eval 9.0.8, whose names for
// them are in brackets where they differ.
type Kind uint8

// The kinds. N is the length of the list, R the number of relevant passages that are judged, r the number
// of those in the list, and c the cutoff. Unless said otherwise, a kind is 0 where its divisor is 0.
const (
	KindNone           Kind = iota
	KindSuccess             // 1 if a relevant passage stands in the first c, else 0
	KindRecall              // relevant in the first c, over R; never more than c/R
	KindPrecision           // relevant in the first c, over c even where N < c (P)
	KindMRR                 // 1 over the rank of the first relevant passage, of the first c (recip_rank)
	KindMAP                 // sum over relevant passages of precision at their rank, over R; over R at a cutoff too (map, map_cut)
	KindNDCG                // discounted gain over that of the best order of all judged; gain is the grade, discount 1/log2(rank+1) (ndcg, ndcg_cut)
	KindRPrecision          // relevant in the first R, over R (Rprec)
	KindBPref               // mean over R of 1 - min(n,R)/min(NR,R), n judged nonrelevant above, NR in all; the unjudged do not count
	KindInfAP               // average precision, estimated where part of the pool is judged; grades < 0 are pooled but unjudged (infAP)
	KindSetPrecision        // r/N (set_P)
	KindSetRecall           // r/R
	KindSetMAP              // r²/(N·R)
	KindSetRelative         // r/min(N,R) (set_relative_P)
	KindSetF                // (x+1)PQ/(Q+xP), P = r/N, Q = r/R, x the weight (set_F)
	KindRelative            // relevant in the first c, over min(c,R) (relative_P)
	KindIPrecision          // greatest precision at or after the floor(x·R + 0.9)th relevant passage, 0 if that is not in the list (iprec_at_recall)
	KindElevenPoint         // mean of KindIPrecision at 0, .1, … 1 (11pt_avg)
	KindGeometricMAP        // ln of max(map, 1e-5); the mean over queries is a geometric one (gm_map)
	KindGeometricBPref      // the same of bpref (gm_bpref)
	KindUnjudged            // unjudged in the first c, over c; trec_eval 10's unj, a short list counts as judged
	KindRBP                 // (1-p) · sum over relevant passages of p^(rank-1), p = 0.9, gain 0 or 1 (trec_eval 10's rbp for such gains)

	// Those from here on are computed for trec-eval only; ParseMeasure does not know them.

	KindRPrecisionMultiple // precision at floor(x·R + 0.9) (Rprec_mult)
	KindBinaryG            // mean over R of 1/log2(2 + nonrelevant above) (binG)
	KindG                  // gain over log2(2 + gain of the best order so far - gain so far), over the total gain
	KindNDCGRelevant       // ndcg at the rank of each passage with a gain, averaged over those judged (ndcg_rel)
	KindRNDCG              // ndcg at each rank where the gain of the best order changes, averaged (Rndcg)
	KindYAAP               // ln((1+s)/(1+R-s)), s the sum in KindMAP (yaap)
	KindRetrieved          // N (num_ret)
	KindRelevant           // R (num_rel)
	KindRelevantRetrieved  // r (num_rel_ret)
	KindNonrelevantJudged  // judged nonrelevant in the list (num_nonrel_judged_ret)
)

// Measure is a ranked-retrieval measure with its parameters: it turns a Judged list into one number. The
// zero value is no measure. Measures can be compared with ==.
type Measure struct {
	Kind Kind
	K    int     // the cutoff: ranks 1 to K count; 0 is the whole list
	X    float64 // recall level, weight of KindSetF, or multiple of R; 0 for the other kinds
	// Gains replaces the gain of some grades, and Points the recall levels of KindElevenPoint. nil is the
	// definition above. Both are for trec-eval; what they point to must not change.
	Gains  *[]Gain
	Points *[]float64
}

// Gain is what a passage of a grade is worth in place of the grade itself.
type Gain struct {
	Grade int32
	Gain  float64
}

// spelling is how evalstream writes a kind.
type spelling struct {
	kind Kind
	name string
	arg  argument
}

type argument uint8

const (
	noArgument  argument = iota
	needsCutoff          // name@K
	takesCutoff          // name or name@K
	needsLevel           // name@X, 0 ≤ X ≤ 1
	takesWeight          // name or name@X, X > 0
)

func spellings() []spelling {
	return []spelling{
		{KindSuccess, "success", needsCutoff},
		{KindRecall, "recall", needsCutoff},
		{KindPrecision, "precision", needsCutoff},
		{KindMRR, "mrr", takesCutoff},
		{KindMAP, "map", takesCutoff},
		{KindNDCG, "ndcg", takesCutoff},
		{KindRPrecision, "rprec", noArgument},
		{KindBPref, "bpref", noArgument},
		{KindInfAP, "infap", noArgument},
		{KindSetPrecision, "set_p", noArgument},
		{KindSetRecall, "set_recall", noArgument},
		{KindSetMAP, "set_map", noArgument},
		{KindSetRelative, "set_relative_p", noArgument},
		{KindSetF, "set_f", takesWeight},
		{KindRelative, "relative_p", needsCutoff},
		{KindIPrecision, "iprec", needsLevel},
		{KindElevenPoint, "11pt_avg", noArgument},
		{KindGeometricMAP, "gm_map", noArgument},
		{KindGeometricBPref, "gm_bpref", noArgument},
		{KindUnjudged, "unj", needsCutoff},
		{KindRBP, "rbp", noArgument},
	}
}

func (a argument) pattern(name string) []string {
	switch a {
	case needsCutoff:
		return []string{name + "@K"}
	case takesCutoff:
		return []string{name, name + "@K"}
	case needsLevel:
		return []string{name + "@X"}
	case takesWeight:
		return []string{name, name + "@X"}
	case noArgument:
	}
	return []string{name}
}

// MeasureNames lists what ParseMeasure reads, K standing for a cutoff of 1 or more and X for a number, in
// the order of the documentation.
func MeasureNames() []string {
	var names []string
	for _, s := range spellings() {
		names = append(names, s.arg.pattern(s.name)...)
	}
	return names
}

// ParseMeasure reads a measure's name: success@1, recall@10, precision@5 (or p@5), mrr, mrr@10, map, map@100,
// ndcg, ndcg@10, rprec, bpref, infap, set_p, set_recall, set_map, set_relative_p, set_f, set_f@2,
// relative_p@5, iprec@0.1 (or iprec_at_recall@0.1), 11pt_avg, gm_map, gm_bpref, unj@5, rbp. Case counts.
// The error names what was meant, if a name is near, and all names otherwise.
func ParseMeasure(name string) (Measure, error) {
	base, arg, given := strings.Cut(name, "@")
	switch base {
	case "p":
		base = "precision"
	case "iprec_at_recall":
		base = "iprec"
	}
	all := spellings()
	i := slices.IndexFunc(all, func(s spelling) bool { return s.name == base })
	if i < 0 {
		return Measure{}, unknownMeasure(name)
	}
	s := all[i]
	m := Measure{Kind: s.kind}
	want := strings.Join(s.arg.pattern(s.name), " or ")
	switch s.arg {
	case needsCutoff, takesCutoff:
		if !given && s.arg == takesCutoff {
			return m, nil
		}
		k, err := strconv.ParseInt(arg, 10, 32)
		if !given || err != nil || k < 1 || arg[0] == '+' {
			return Measure{}, fmt.Errorf("measure %q: want %s with K a whole number from 1 to %d", name, want, math.MaxInt32)
		}
		m.K = int(k)
	case needsLevel, takesWeight:
		if !given && s.arg == takesWeight {
			m.X = 1
			return m, nil
		}
		limit := math.MaxFloat64
		if s.arg == needsLevel {
			limit = 1
		}
		x, err := strconv.ParseFloat(arg, 64)
		if !given || err != nil || !(x >= 0 && x <= limit) {
			return Measure{}, fmt.Errorf("measure %q: want %s with X a number from 0 to %g", name, want, limit)
		}
		m.X = x
	case noArgument:
		if given {
			return Measure{}, fmt.Errorf("measure %q: want %s, which has no parameter", name, want)
		}
	}
	return m, nil
}

// unknownMeasure suggests what trec_eval's name or a slip of the pen stands for.
func unknownMeasure(name string) error {
	if first, _, several := strings.Cut(name, ","); several && first != "" {
		return fmt.Errorf("measure %q is unknown: want one name; several are several --measure, or a list in a pipeline file", name)
	}
	key := strings.ToLower(name)
	if meant, ok := map[string]string{
		"recip_rank": "mrr", "mean_reciprocal_rank": "mrr", "hit": "success@1", "hits": "success@1", "accuracy": "success@1",
	}[strings.TrimRight(key, "@_0123456789")]; ok {
		return fmt.Errorf("measure %q is unknown: did you mean %s?", name, meant)
	}
	key = strings.Replace(key, "_cut", "", 1)
	base := strings.TrimRight(key, "0123456789.")
	digits := strings.TrimLeft(key[len(base):], ".")
	base = strings.TrimRight(base, "_@")
	if base == "p" {
		base = "precision"
	}
	var names []string
	for _, s := range spellings() {
		names = append(names, s.name)
	}
	best := evalstream.Nearest(base, names)
	for _, s := range spellings() {
		switch {
		case s.name != best:
			continue
		case s.arg == needsCutoff && digits == "":
			best += "@10"
		case s.arg == needsLevel && digits == "":
			best += "@0.1"
		case s.arg != noArgument && digits != "":
			best += "@" + digits
		}
	}
	if best != "" {
		return fmt.Errorf("measure %q is unknown: did you mean %s?", name, best)
	}
	return fmt.Errorf("measure %q is unknown: want one of %s", name, strings.Join(MeasureNames(), ", "))
}

// String returns the name that ParseMeasure reads: ndcg@10. Kinds that only trec-eval computes, and
// Gains and Points, are not told apart.
func (m Measure) String() string {
	for _, s := range spellings() {
		if s.kind != m.Kind {
			continue
		}
		switch {
		case m.K > 0:
			return s.name + "@" + strconv.Itoa(m.K)
		case s.arg == needsLevel, s.arg == takesWeight && m.X != 1:
			return s.name + "@" + strconv.FormatFloat(m.X, 'g', -1, 64)
		}
		return s.name
	}
	return "measure"
}

// Depth returns how many ranks of a list the measure reads. bounded is false where the whole list counts;
// k is then 0. A list may be cut to k before it is scored, except under the tie policies that look at the
// rest of a tie (see Keep).
func (m Measure) Depth() (k int, bounded bool) {
	return m.K, m.K > 0
}

// Binary reports whether each value is 0 or 1, so that the mean is a proportion: success@k, except under
// TiesExpected.
func (m Measure) Binary() bool { return m.Kind == KindSuccess }

// Geometric reports whether the values are logarithms, from ln 1e-5 to 0, whose mean is to be read as
// exp(mean): see GeometricMean. The values of all other measures that ParseMeasure reads are in [0, 1].
func (m Measure) Geometric() bool {
	return m.Kind == KindGeometricMAP || m.Kind == KindGeometricBPref
}

// SingleGold reports whether, for a query with exactly one relevant passage and no other judgment, the value
// depends on the rank of that passage alone, so that an observation may keep the rank in place of values.
func (m Measure) SingleGold() bool {
	switch m.Kind {
	case KindSuccess, KindRecall, KindPrecision, KindMRR, KindMAP, KindNDCG, KindRPrecision, KindRelative,
		KindBPref, KindInfAP, KindIPrecision, KindElevenPoint, KindGeometricMAP, KindGeometricBPref, KindRBP, KindSetRecall,
		KindSetRelative:
		return m.Gains == nil && m.Points == nil
	default: // the length of the list counts too (set_*), or the unjudged do
		return false
	}
}

// leastGeometric keeps one query of value 0 from making the geometric mean 0.
const leastGeometric = 1e-5

// GeometricMean returns the value of gm_map or gm_bpref for n queries whose values add up to sum. Of n,
// missing queries had no list: each counts as 1e-5. n must be greater than 0.
func GeometricMean(sum float64, n, missing int) float64 {
	if missing > 0 {
		sum += float64(missing) * ln(leastGeometric)
	}
	return exp(sum / float64(n))
}
