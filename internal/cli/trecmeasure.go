package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"evalstream/codecs"
	"evalstream/stages/metric"
)

// trecMeasure is one of trec_eval's measures: what it prints, and how the values of queries become a summary.
type trecMeasure struct {
	name     string
	kind     metric.Kind
	param    trecParam
	defaults []float64
	summary  trecSummary
}

// trecParam says what stands behind the dot of -m name.parameters.
type trecParam uint8

const (
	trecNone    trecParam = iota // read over
	trecCutoffs                  // whole numbers, one value each
	trecLevels                   // numbers, one value each
	trecWeight                   // numbers, of which the first counts
	trecPoints                   // numbers that go into one value
	trecGains                    // grade=gain pairs
)

type trecSummary uint8

const (
	trecMean       trecSummary = iota
	trecGeometric              // and no line for a query
	trecSum                    // a count
	trecSumOfGold              // a count; with -c, of the grades above 0 in the qrels
	trecQueries                // the number of queries, and no line for one
	trecRunID                  // the name of the run, and no line for a query
	trecImpossible             // needs another format than qrels: trec_eval fails on the first query
	trecLeftOut                // trec_eval prints it, we do not
)

// trecTable lists trec_eval's measures in the order in which it prints them.
func trecTable() []trecMeasure {
	cutoffs := []float64{5, 10, 15, 20, 30, 100, 200, 500, 1000}
	recalls := []float64{0, .1, .2, .3, .4, .5, .6, .7, .8, .9, 1}
	multiples := []float64{.2, .4, .6, .8, 1, 1.2, 1.4, 1.6, 1.8, 2}
	table := []trecMeasure{
		{name: "runid", summary: trecRunID},
		{name: "num_q", summary: trecQueries},
		{name: "num_ret", kind: metric.KindRetrieved, summary: trecSum},
		{name: "num_rel", kind: metric.KindRelevant, summary: trecSumOfGold},
		{name: "num_rel_ret", kind: metric.KindRelevantRetrieved, summary: trecSum},
		{name: "map", kind: metric.KindMAP},
		{name: "gm_map", kind: metric.KindGeometricMAP, summary: trecGeometric},
		{name: "Rprec", kind: metric.KindRPrecision},
		{name: "bpref", kind: metric.KindBPref},
		{name: "recip_rank", kind: metric.KindMRR},
		{name: "iprec_at_recall", kind: metric.KindIPrecision, param: trecLevels, defaults: recalls},
		{name: "P", kind: metric.KindPrecision, param: trecCutoffs, defaults: cutoffs},
		{name: "relstring", summary: trecLeftOut},
		{name: "recall", kind: metric.KindRecall, param: trecCutoffs, defaults: cutoffs},
		{name: "infAP", kind: metric.KindInfAP},
		{name: "gm_bpref", kind: metric.KindGeometricBPref, summary: trecGeometric},
		{name: "Rprec_mult", kind: metric.KindRPrecisionMultiple, param: trecLevels, defaults: multiples},
		{name: "utility", summary: trecLeftOut},
		{name: "11pt_avg", kind: metric.KindElevenPoint, param: trecPoints},
		{name: "binG", kind: metric.KindBinaryG},
		{name: "G", kind: metric.KindG, param: trecGains},
		{name: "ndcg", kind: metric.KindNDCG, param: trecGains},
		{name: "ndcg_rel", kind: metric.KindNDCGRelevant, param: trecGains},
		{name: "Rndcg", kind: metric.KindRNDCG, param: trecGains},
		{name: "ndcg_cut", kind: metric.KindNDCG, param: trecCutoffs, defaults: cutoffs},
		{name: "map_cut", kind: metric.KindMAP, param: trecCutoffs, defaults: cutoffs},
		{name: "relative_P", kind: metric.KindRelative, param: trecCutoffs, defaults: cutoffs},
		{name: "success", kind: metric.KindSuccess, param: trecCutoffs, defaults: []float64{1, 5, 10}},
		{name: "set_P", kind: metric.KindSetPrecision},
		{name: "set_relative_P", kind: metric.KindSetRelative},
		{name: "set_recall", kind: metric.KindSetRecall},
		{name: "set_map", kind: metric.KindSetMAP},
		{name: "set_F", kind: metric.KindSetF, param: trecWeight, defaults: []float64{1}},
		{name: "num_nonrel_judged_ret", kind: metric.KindNonrelevantJudged, summary: trecSum},
	}
	for _, name := range append(trecPreferences(), "map_avgjg", "P_avgjg", "Rprec_mult_avgjg") {
		table = append(table, trecMeasure{name: name, summary: trecImpossible})
	}
	return append(table, trecMeasure{name: "yaap", kind: metric.KindYAAP})
}

func trecPreferences() []string {
	return []string{
		"prefs_num_prefs_poss", "prefs_num_prefs_ful", "prefs_num_prefs_ful_ret", "prefs_simp", "prefs_pair", "prefs_avgjg",
		"prefs_avgjg_Rnonrel", "prefs_simp_ret", "prefs_pair_ret", "prefs_avgjg_ret", "prefs_avgjg_Rnonrel_ret", "prefs_simp_imp",
		"prefs_pair_imp", "prefs_avgjg_imp",
	}
}

// trecNickname returns the measures that a name stands for, itself if it is no nickname.
func trecNickname(name string) []string {
	always := []string{"runid", "num_q"}
	counts := append(always, "num_ret", "num_rel", "num_rel_ret")
	switch name {
	case "official":
		return append(counts, "map", "gm_map", "Rprec", "bpref", "recip_rank", "iprec_at_recall", "P")
	case "set":
		return append(counts, "utility", "set_P", "set_recall", "set_relative_P", "set_map", "set_F")
	case "all_trec":
		var all []string
		for _, m := range trecTable() {
			if m.summary != trecImpossible && m.name != "yaap" {
				all = append(all, m.name)
			}
		}
		return all
	case "prefs":
		return append(always, trecPreferences()[:6]...)
	case "all_prefs":
		return append(always, trecPreferences()...)
	case "qrels_jg":
		return append(always, "map_avgjg", "P_avgjg", "Rprec_mult_avgjg")
	}
	return []string{name}
}

// trecColumn is one value that is printed.
type trecColumn struct {
	name    string
	measure metric.Measure
	summary trecSummary
}

// trecChoice gathers what -m asked for.
type trecChoice struct {
	table  []trecMeasure
	marked map[string]bool
	params map[string]string // of the first -m with parameters for a name
}

func newTrecChoice() *trecChoice {
	return &trecChoice{table: trecTable(), marked: make(map[string]bool), params: make(map[string]string)}
}

// mark takes the argument of one -m.
func (c *trecChoice) mark(arg string) error {
	name, params, given := strings.Cut(arg, ".")
	if given && params == "" {
		return fmt.Errorf("measure %q: want parameters behind the dot", arg)
	}
	for _, n := range trecNickname(name) {
		if !slices.ContainsFunc(c.table, func(m trecMeasure) bool { return m.name == n }) {
			return fmt.Errorf("illegal measure %q: want one of official, set, all_trec, %s", name, strings.Join(trecNickname("all_trec"), ", "))
		}
		c.marked[n] = true
	}
	if _, ok := c.params[name]; given && !ok {
		c.params[name] = params
	}
	return nil
}

// columns returns the values to print, in order, and says on stderr what is left out of them.
func (c *trecChoice) columns(stderr io.Writer) ([]trecColumn, error) {
	var columns []trecColumn
	var leftOut []string
	for _, m := range c.table {
		switch {
		case !c.marked[m.name]:
		case m.summary == trecLeftOut:
			leftOut = append(leftOut, m.name)
		default:
			more, err := m.columns(c.params[m.name])
			if err != nil {
				return nil, fmt.Errorf("measure %q: %w", m.name+"."+c.params[m.name], err)
			}
			columns = append(columns, more...)
		}
	}
	if len(leftOut) > 0 {
		fmt.Fprintf(stderr, "evalstream trec-eval: %s: not computed here, lines left out\n", strings.Join(leftOut, ", "))
	}
	return columns, nil
}

func (m trecMeasure) columns(params string) ([]trecColumn, error) {
	if params == "" || m.param == trecNone {
		if len(m.defaults) == 0 {
			return []trecColumn{{m.name, metric.Measure{Kind: m.kind}, m.summary}}, nil
		}
		return m.each(m.defaults, params), nil
	}
	numbers := make([]float64, 0, 8)
	for p := range strings.SplitSeq(params, ",") {
		if m.param == trecCutoffs {
			numbers = append(numbers, float64(codecs.LenientInt(p)))
		} else {
			numbers = append(numbers, codecs.LenientFloat(p))
		}
	}
	named := metric.Measure{Kind: m.kind}
	switch m.param {
	case trecCutoffs, trecLevels:
		slices.SortFunc(numbers, cmp.Compare[float64])
		if m.param == trecCutoffs && numbers[0] <= 0 {
			return nil, fmt.Errorf("want cutoffs above 0, got %v", numbers[0])
		}
		for i := 1; i < len(numbers); i++ {
			if numbers[i] == numbers[i-1] {
				return nil, fmt.Errorf("want each parameter once, got %v twice", numbers[i])
			}
		}
		return m.each(numbers, params), nil
	case trecWeight:
		return m.each(numbers[:1], params), nil
	case trecPoints:
		named.Points = &numbers
	case trecGains:
		var gains []metric.Gain
		for p := range strings.SplitSeq(params, ",") {
			grade, gain, ok := strings.Cut(p, "=")
			if !ok || strings.Contains(gain, "=") {
				return nil, fmt.Errorf("want grade=gain, got %q", p)
			}
			gains = append(gains, metric.Gain{Grade: clampGrade(codecs.LenientInt(grade)), Gain: codecs.LenientFloat(gain)})
		}
		named.Gains = &gains
	case trecNone:
	}
	return []trecColumn{{m.name + "_" + params, named, m.summary}}, nil
}

// each makes one column of each parameter.
func (m trecMeasure) each(numbers []float64, params string) []trecColumn {
	var columns []trecColumn
	for _, x := range numbers {
		col := trecColumn{measure: metric.Measure{Kind: m.kind, X: x}, summary: m.summary}
		switch m.param {
		case trecCutoffs:
			col.measure = metric.Measure{Kind: m.kind, K: int(x)}
			col.name = m.name + "_" + strconv.Itoa(int(x))
		case trecWeight:
			col.name = m.name
			if params != "" {
				col.name += "_" + params
			}
		default:
			number := strconv.FormatFloat(x, 'f', 2, 64)
			col.name = m.name + "_" + number[:min(len(number), 8)] // the room that trec_eval has for it
		}
		columns = append(columns, col)
	}
	return columns
}
