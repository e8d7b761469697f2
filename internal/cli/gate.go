package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"evalstream"
)

// rule is one --fail-if: a metric, which of its results are meant, and what must not hold.
type rule struct {
	text   string
	metric string
	where  []condition
	of     string // value, low, high or n
	op     string
	limit  float64

	matched, held, lacking int
	said                   []string // what held or lacked, the first few
}

// condition is a field with the value that it must have. The field window is all, a
// window's length, or its start.
type condition struct{ field, value string }

const (
	ruleForm  = "METRIC.value < NUMBER, METRIC{run=a}.low < NUMBER"
	keptRules = 5 // messages of a rule
)

// parseRule reads METRIC[{field=value,…}].(value|low|high|n) OP NUMBER.
func parseRule(text string) (*rule, error) {
	r := &rule{text: strings.TrimSpace(text)}
	at := strings.LastIndexAny(r.text, "<>=!")
	if at < 0 {
		return nil, fmt.Errorf("want a rule such as %s, got %q", ruleForm, text)
	}
	from := at
	if from > 0 && strings.ContainsRune("<>=!", rune(r.text[from-1])) {
		from--
	}
	r.op = r.text[from : at+1]
	if !slices.Contains([]string{"<", "<=", ">", ">=", "==", "!="}, r.op) {
		return nil, fmt.Errorf("want one of < <= > >= == !=, got %q in %q", r.op, text)
	}
	number := strings.TrimSpace(r.text[at+1:])
	var err error
	if r.limit, err = strconv.ParseFloat(number, 64); err != nil || math.IsNaN(r.limit) || math.IsInf(r.limit, 0) {
		return nil, fmt.Errorf("want a number behind %s, got %q in %q", r.op, number, text)
	}
	left := strings.TrimSpace(r.text[:from])
	dot := strings.LastIndexByte(left, '.')
	sides := []string{"value", "low", "high", "n"}
	if dot < 0 || strings.ContainsRune(left[dot:], '}') {
		return nil, fmt.Errorf("want .value, .low, .high or .n behind the metric, as in %s, got %q", ruleForm, text)
	}
	if r.of = left[dot+1:]; !slices.Contains(sides, r.of) {
		return nil, fmt.Errorf("want .value, .low, .high or .n, got .%s in %q%s", r.of, text, didYouMean(r.of, sides))
	}
	r.metric = strings.TrimSpace(left[:dot])
	if name, fields, ok := strings.Cut(r.metric, "{"); ok {
		fields, closed := strings.CutSuffix(fields, "}")
		if !closed {
			return nil, fmt.Errorf("want } behind the fields, got %q", text)
		}
		r.metric = strings.TrimSpace(name)
		if r.where, err = parseConditions(fields); err != nil {
			return nil, fmt.Errorf("%w in %q", err, text)
		}
	}
	if r.metric == "" {
		return nil, fmt.Errorf("want a metric in front, as in %s, got %q", ruleForm, text)
	}
	return r, nil
}

// parseConditions reads field=value between commas; a value in quotes may hold commas.
func parseConditions(text string) ([]condition, error) {
	var where []condition
	for rest := strings.TrimSpace(text); rest != ""; {
		field, after, ok := strings.Cut(rest, "=")
		if field = strings.TrimSpace(field); !ok || field == "" {
			return nil, fmt.Errorf("want field=value between commas, got %q", rest)
		}
		after = strings.TrimSpace(after)
		var value string
		if quoted, err := strconv.QuotedPrefix(after); err == nil {
			value, rest = quoted, strings.TrimSpace(after[len(quoted):])
			if rest != "" && rest[0] != ',' {
				return nil, fmt.Errorf("want a comma behind %s", quoted)
			}
			rest = strings.TrimPrefix(rest, ",")
		} else {
			value, rest, _ = strings.Cut(after, ",")
		}
		where = append(where, condition{field, strings.TrimSpace(value)})
		rest = strings.TrimSpace(rest)
	}
	return where, nil
}

// matches says that r is one of the results that are meant.
func (u *rule) matches(r *evalstream.Result) bool {
	if r.Metric != u.metric {
		return false
	}
	for _, c := range u.where {
		i := slices.IndexFunc(r.By, func(s evalstream.Slice) bool { return s.Name == c.field })
		switch {
		case i >= 0:
			if lit := r.By[i].Value; c.value != lit && c.value != shown(lit) && (c.value != "null" || lit != "") {
				return false
			}
		case c.field == "window":
			if !slices.Contains(windowNames(r.Window), plainText(c.value)) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// windowNames is how a window may be spelled in a rule.
func windowNames(w evalstream.Window) []string {
	if w.All {
		return []string{"all"}
	}
	return []string{Duration(w.End - w.Start).text(), w.Start.String(), w.String()}
}

// take judges a final result.
func (u *rule) take(r *evalstream.Result) {
	if !u.matches(r) {
		return
	}
	u.matched++
	v, lacks := u.read(r)
	switch {
	case lacks != "":
		u.lacking++
		u.say(fmt.Sprintf("%s: not enough data: %s", resultName(r), lacks))
	case u.holds(v):
		u.held++
		text := fixed(v, rowDecimals(r))
		if u.of == "n" {
			text = strconv.FormatFloat(v, 'f', -1, 64)
		}
		if !u.holdsText(text) {
			text = strconv.FormatFloat(v, 'g', -1, 64)
		}
		s := fmt.Sprintf("%s: %s is %s", resultName(r), u.of, text)
		if u.of != "n" {
			s += ", n " + count(r.N)
		}
		u.say(s)
	}
}

// holdsText says that the rule holds for the number as it is shown, so that rounding
// does not make the message look wrong.
func (u *rule) holdsText(text string) bool {
	v, err := strconv.ParseFloat(text, 64)
	return err == nil && u.holds(v)
}

func (u *rule) say(text string) {
	if len(u.said) < keptRules {
		u.said = append(u.said, text)
	}
}

// read is the number that the rule is about, or why there is none.
func (u *rule) read(r *evalstream.Result) (v float64, lacks string) {
	switch {
	case r.N == 0:
		return 0, "n is 0"
	case u.of == "n":
		return float64(r.N), ""
	case r.Undefined != "":
		return 0, "undefined (" + r.Undefined + ")"
	case u.of == "value":
		return r.Value, ""
	}
	iv, ok := shownInterval(r)
	switch {
	case !ok:
		why := r.NoInterval
		if why == "" {
			why = "none was read"
		}
		return 0, "no interval (" + why + ")"
	case u.of == "low":
		return iv.Low, ""
	}
	return iv.High, ""
}

func (u *rule) holds(v float64) bool {
	switch u.op {
	case "<":
		return v < u.limit
	case "<=":
		return v <= u.limit
	case ">":
		return v > u.limit
	case ">=":
		return v >= u.limit
	case "==":
		return v == u.limit
	}
	return v != u.limit
}

// resultName is a result's metric, group and window in words.
func resultName(r *evalstream.Result) string {
	words := []string{printable(r.Metric)}
	for _, by := range r.By {
		words = append(words, printable(by.Name)+"="+shown(by.Value))
	}
	if !r.Window.All {
		words = append(words, r.Window.String())
	}
	return strings.Join(words, " ")
}

// gates are the rules of a command. They see every result and judge the final ones.
// Result may be called by several jobs at once.
type gates struct {
	mu      sync.Mutex
	rules   []*rule
	metrics []string // seen
	groups  []string // seen of metrics that rules name, the first few
	// latest is what was last published of the results that rules mean and that are not
	// final, by name.
	latest map[string]*evalstream.Result
}

// Result judges r if it is final, and else remembers it.
func (g *gates) Result(r *evalstream.Result) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !r.Final {
		g.remember(r)
		return
	}
	delete(g.latest, resultName(r))
	if !slices.Contains(g.metrics, r.Metric) {
		g.metrics = append(g.metrics, strings.Clone(r.Metric))
	}
	for _, u := range g.rules {
		u.take(r)
		if u.metric == r.Metric && len(g.groups) < keptRules {
			if name := resultName(r); !slices.Contains(g.groups, name) {
				g.groups = append(g.groups, name)
			}
		}
	}
}

func (g *gates) remember(r *evalstream.Result) {
	if r.Undefined == "withdrawn" {
		delete(g.latest, resultName(r))
		return
	}
	if !slices.ContainsFunc(g.rules, func(u *rule) bool { return u.matches(r) }) {
		return
	}
	if g.latest == nil {
		g.latest = map[string]*evalstream.Result{}
	}
	kept := *r
	kept.Metric, kept.By = strings.Clone(r.Metric), slices.Clone(r.By)
	for i, s := range kept.By {
		kept.By[i] = evalstream.Slice{Name: strings.Clone(s.Name), Value: strings.Clone(s.Value)}
	}
	kept.Through, kept.Intervals = nil, slices.Clone(r.Intervals)
	g.latest[resultName(&kept)] = &kept
}

// soFar tells how each rule stands after a signal, by the results of what had been read:
// the exit code is the signal's.
func (g *gates) soFar(w io.Writer, verb string) {
	for _, name := range slices.Sorted(maps.Keys(g.latest)) {
		r := *g.latest[name]
		r.Final = true
		g.Result(&r)
	}
	for _, u := range g.rules {
		if u.matched > 0 && u.held+u.lacking == 0 {
			fmt.Fprintf(w, "evalstream %s: --fail-if '%s': does not hold of what was read\n", verb, u.text)
		}
	}
	_ = g.judge(w, verb) // it tells the others; the code is the signal's
}

// judge tells which rules held or could not be judged. The error stands for exit code 10
// if one held, and 11 if one could not be judged.
func (g *gates) judge(w io.Writer, verb string) error {
	code := 0
	for _, u := range g.rules {
		say := func(text string) { fmt.Fprintf(w, "evalstream %s: --fail-if '%s': %s\n", verb, u.text, text) }
		switch {
		case u.held > 0:
			code = evalstream.ExitGate
		case u.lacking > 0 || u.matched == 0:
			if code == 0 {
				code = evalstream.ExitNotEnough
			}
		}
		if u.matched == 0 {
			say("not enough data: " + g.unmatched(u))
			continue
		}
		for _, s := range u.said {
			say(s)
		}
		if more := u.held + u.lacking - len(u.said); more > 0 {
			say(fmt.Sprintf("and %s", plural(int64(more), "more result")))
		}
	}
	if code != 0 {
		return &saidError{code}
	}
	return nil
}

// unmatched says why no result is the one that a rule means.
func (g *gates) unmatched(u *rule) string {
	switch {
	case len(g.metrics) == 0:
		return "there are no results"
	case !slices.Contains(g.metrics, u.metric):
		return fmt.Sprintf("no result of metric %q%s", u.metric, didYouMean(u.metric, g.metrics))
	}
	return "no result of that group, only of " + strings.Join(g.groups, "; ")
}

// errNoResults says that a command has rules and publishes nothing that they could be about.
var errNoResults = errors.New("fail-if: want a command that publishes results, such as aggregate, merge, eval or a pipeline with one of them")

// shownInterval is the interval that people are shown: wilson if there is one, else the first.
func shownInterval(r *evalstream.Result) (evalstream.Interval, bool) {
	i := slices.IndexFunc(r.Intervals, func(iv evalstream.Interval) bool { return iv.Method == "wilson" })
	if i < 0 && len(r.Intervals) > 0 {
		i = 0
	}
	if i < 0 {
		return evalstream.Interval{}, false
	}
	return r.Intervals[i], true
}

func rowDecimals(r *evalstream.Result) int {
	w := row{}
	w.interval, w.hasInterval = shownInterval(r)
	return w.decimals()
}
