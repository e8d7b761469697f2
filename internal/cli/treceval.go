package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"evalstream/codecs"
	"evalstream/stages/metric"
)

// Exit codes of trec_eval.
const (
	trecDone      = 0
	trecUsage     = 1 // bad option or measure
	trecFile      = 2 // unreadable or malformed file, bad parameter of a measure
	trecQuery     = 4 // a query cannot be scored: a document stands twice in its list or its judgments
	trecNoQueries = 7 // no query has both
)

func trecHelp() string {
	var measures strings.Builder
	wrap(&measures, "Measures: "+strings.Join(slices.DeleteFunc(trecNickname("all_trec"), func(name string) bool {
		return name == "utility" || name == "relstring"
	}), " ")+" yaap.", helpWidth)
	return `usage: evalstream trec-eval [-q] [-c] [-J] [-n] [-m MEASURE]... [-l LEVEL]
                            [-M DEPTH] QRELS RUN

Score a TREC run file against a TREC qrels file, and print what trec_eval 9.0.8
prints. RUN or QRELS may be - for standard input.

  -q          print the values of each query before the summary
  -c          average over all judged queries; those not in the run count as 0
  -J          drop documents without a judgment from the run first
  -n          print no summary
  -m MEASURE  a measure, with parameters as in P.5,10 or ndcg.1=3,2=9, or a set
              of them: official (the default), set, all_trec; may be repeated
  -l LEVEL    the least grade that is relevant (1)
  -M DEPTH    look at this many documents of each query

` + measures.String() + `
Not computed: utility, relstring, z-scores (-Z), preferences and judgment groups
(-R).

Exit code: 0 done, 1 bad option or measure, 2 unreadable or malformed file, 4 a
document twice in a list or in the judgments of a query, 7 no query has both.

Example:
  evalstream trec-eval -q -m recip_rank -m success.1,5 \
    testdata/tatqa/tatqa_dev.qrels testdata/tatqa/tatqa_dev.bm25.run
`
}

// TrecEval is the command trec-eval: it reads args as trec_eval 9.0.8 does, and writes the same bytes to stdout
// and returns the same exit code. What it says on stderr is its own. Values are summed as doubles in bytewise
// order of the query ids. Time is linear in the input but for sorting; both files are held in memory.
//
// Not reproduced is what depends on memory that trec_eval does not clear: gains set for grades below 0, in a
// query that has only such grades.
func TrecEval(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	complain := func(err error, code int) int {
		fmt.Fprintf(stderr, "evalstream trec-eval: %v\n", err)
		if code == trecUsage {
			fmt.Fprintln(stderr, "hint: evalstream trec-eval -h")
		}
		return code
	}
	job, err := parseTrecArgs(args)
	switch {
	case err != nil:
		return complain(err, trecUsage)
	case job.help:
		_, _ = io.WriteString(stdout, trecHelp())
		return trecDone
	case job.version:
		fmt.Fprintln(stderr, "evalstream trec-eval, with the output of trec_eval 9.0.8")
		return trecDone
	}
	if job.format != nil {
		return complain(job.format, trecFile)
	}
	qrels, err := readTrecFile(job.qrels, stdin, codecs.ReadTrecEvalQrels)
	if err != nil {
		return complain(err, trecFile)
	}
	run, err := readTrecFile(job.run, stdin, codecs.ReadTrecEvalRun)
	if err != nil {
		return complain(err, trecFile)
	}
	columns, err := job.choice.columns(stderr)
	if err != nil {
		return complain(err, trecFile)
	}
	if len(columns) == 0 {
		return complain(errors.New("no measure is left to compute"), trecUsage)
	}
	out := bufio.NewWriterSize(stdout, 64<<10)
	e := newTrecEvaluation(job, columns, out)
	code, err := e.evaluate(qrels, run)
	if err != nil {
		complain(err, code)
	}
	if err := out.Flush(); err != nil && !errors.Is(err, syscall.EPIPE) {
		return complain(fmt.Errorf("standard output: %w", err), trecQuery)
	}
	return code
}

func readTrecFile[T any](name string, stdin io.Reader, read func(io.Reader) (T, error)) (T, error) {
	var none T
	r := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return none, err
		}
		defer f.Close()
		r = f
	}
	v, err := read(r)
	if err != nil {
		return none, fmt.Errorf("%s: %w", name, err)
	}
	return v, nil
}

// trecEvaluation holds what is reused from query to query.
type trecEvaluation struct {
	job     trecJob
	columns []trecColumn
	out     *bufio.Writer
	ranks   bool // some column looks at the lists; else they are not even checked

	graded  bool // a query with a grade of 0 or more was scored
	sums    []float64
	values  []float64
	judged  metric.Judged
	gold    metric.Gold
	grades  []int32
	items   []metric.Item
	scratch []metric.Item
	byID    []trecRank
	line    []byte
}

// trecRank is where a document stands in a list.
type trecRank struct {
	id   string
	rank int
}

func newTrecEvaluation(job trecJob, columns []trecColumn, out *bufio.Writer) *trecEvaluation {
	e := &trecEvaluation{job: job, columns: columns, out: out, sums: make([]float64, len(columns)), values: make([]float64, len(columns))}
	e.ranks = slices.ContainsFunc(columns, func(c trecColumn) bool {
		return c.summary != trecRunID && c.summary != trecQueries
	})
	return e
}

func (e *trecEvaluation) evaluate(qrels codecs.TrecEvalQrels, run codecs.TrecEvalRun) (code int, err error) {
	queries := 0
	judged := qrels.Queries
	for _, list := range run.Lists {
		for len(judged) > 0 && judged[0].Query < list.Query {
			judged = judged[1:]
		}
		if len(judged) == 0 || judged[0].Query != list.Query {
			continue
		}
		if err := e.score(judged[0].Judgments, list.Docs); err != nil {
			return trecQuery, fmt.Errorf("query %q: %w", list.Query, err)
		}
		for i, col := range e.columns {
			e.sums[i] += e.values[i]
			if e.job.perQuery && (col.summary == trecMean || col.summary == trecSum || col.summary == trecSumOfGold) {
				e.print(col, list.Query, e.values[i])
			}
		}
		queries++
	}
	if queries == 0 {
		return trecNoQueries, errors.New("no query has both a list and judgments")
	}
	if !e.job.noSummary {
		e.summarize(qrels, run.RunID, queries)
	}
	return trecDone, nil
}

// score computes e.values for one query.
func (e *trecEvaluation) score(judgments []codecs.TrecEvalJudgment, docs []codecs.TrecEvalDoc) error {
	if !e.ranks {
		return nil
	}
	if i := slices.IndexFunc(e.columns, func(c trecColumn) bool { return c.summary == trecImpossible }); i >= 0 {
		return fmt.Errorf("measure %q needs another format than qrels", e.columns[i].name)
	}
	e.rank(docs)
	if err := e.join(judgments); err != nil {
		return err
	}
	e.gold.Reset(e.grades, e.job.level)
	if len(e.gold.Grades) == 0 && !e.graded {
		return errors.New("all its grades are below 0, and trec_eval stops at such a query unless another was scored before")
	}
	e.graded = true
	e.judged.Reset(&e.gold)
	if e.job.judgedOnly {
		e.items = slices.DeleteFunc(e.items, func(it metric.Item) bool { return it.Rel < 0 })
	}
	e.judged.Take(e.items, metric.TiesTrec)
	for i, col := range e.columns {
		e.values[i] = col.measure.TrecScore(&e.judged)
	}
	return nil
}

// rank makes e.items the first documents of a list, in trec_eval's order.
func (e *trecEvaluation) rank(docs []codecs.TrecEvalDoc) {
	e.items = e.items[:0]
	nan := false
	for _, d := range docs {
		e.items = append(e.items, metric.Item{ID: d.ID, Score: float64(d.Score), Rel: metric.NotPooled})
		nan = nan || math.IsNaN(float64(d.Score))
	}
	if nan { // the order then depends on the order before, and trec_eval has it by id
		slices.SortStableFunc(e.items, func(a, b metric.Item) int { return strings.Compare(a.ID, b.ID) })
	}
	e.scratch = metric.TiesTrec.Sort(e.items, e.scratch)
	if len(e.items) > e.job.depth {
		e.items = e.items[:e.job.depth]
	}
}

// join gives e.items and e.grades the grades of the judgments, which it sorts.
func (e *trecEvaluation) join(judgments []codecs.TrecEvalJudgment) error {
	e.byID = e.byID[:0]
	for i, it := range e.items {
		e.byID = append(e.byID, trecRank{it.ID, i})
	}
	slices.SortFunc(e.byID, func(a, b trecRank) int { return strings.Compare(a.id, b.id) })
	for i := 1; i < len(e.byID); i++ {
		if e.byID[i].id == e.byID[i-1].id {
			return fmt.Errorf("document %q is twice in the run: remove one", e.byID[i].id)
		}
	}
	slices.SortStableFunc(judgments, func(a, b codecs.TrecEvalJudgment) int { return strings.Compare(a.ID, b.ID) })
	e.grades = e.grades[:0]
	at := 0
	for i, jd := range judgments {
		if i > 0 && jd.ID == judgments[i-1].ID {
			return fmt.Errorf("document %q is judged twice: remove one", jd.ID)
		}
		if jd.Grade >= math.MaxInt32 {
			return fmt.Errorf("document %q: want a grade below %d, got %d", jd.ID, math.MaxInt32, jd.Grade)
		}
		grade := metric.Unjudged
		if jd.Grade >= 0 {
			grade = int32(jd.Grade)
		}
		e.grades = append(e.grades, grade)
		for at < len(e.byID) && e.byID[at].id < jd.ID {
			at++
		}
		if at < len(e.byID) && e.byID[at].id == jd.ID {
			e.items[e.byID[at].rank].Rel = grade
		}
	}
	return nil
}

func (e *trecEvaluation) summarize(qrels codecs.TrecEvalQrels, runID string, queries int) {
	n := queries
	if e.job.complete {
		n = len(qrels.Queries)
	}
	for i, col := range e.columns {
		v := e.sums[i]
		switch col.summary {
		case trecMean:
			v /= float64(n)
		case trecGeometric:
			v = metric.GeometricMean(v, n, n-queries)
		case trecQueries:
			v = float64(n)
		case trecSumOfGold:
			if e.job.complete {
				v = float64(positiveGrades(qrels)) // whatever -l says, as in trec_eval
			}
		case trecRunID:
			fmt.Fprintf(e.out, "%-22s\tall\t%s\n", col.name, runID)
			continue
		case trecSum, trecImpossible, trecLeftOut:
		}
		e.print(col, "all", v)
	}
}

func positiveGrades(qrels codecs.TrecEvalQrels) int {
	n := 0
	for _, q := range qrels.Queries {
		for _, jd := range q.Judgments {
			if jd.Grade > 0 {
				n++
			}
		}
	}
	return n
}

// print writes a line as C's printf does with "%-22s\t%s\t%6.4f\n", or "%ld" for a count.
func (e *trecEvaluation) print(col trecColumn, query string, v float64) {
	line := append(e.line[:0], col.name...)
	for len(line) < 22 {
		line = append(line, ' ')
	}
	line = append(line, '\t')
	line = append(line, query...)
	line = append(line, '\t')
	switch {
	case col.summary == trecSum || col.summary == trecSumOfGold || col.summary == trecQueries:
		line = strconv.AppendInt(line, int64(v), 10)
	case math.IsNaN(v):
		line = append(line, "  -nan"...) // what 0/0 is on the machines that trec_eval's outputs are from
	case math.IsInf(v, 1):
		line = append(line, "   inf"...)
	case math.IsInf(v, -1):
		line = append(line, "  -inf"...)
	default:
		line = strconv.AppendFloat(line, v, 'f', 4, 64)
	}
	e.line = append(line, '\n')
	_, _ = e.out.Write(e.line) // a failed write shows in Flush
}
