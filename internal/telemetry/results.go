package telemetry

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"evalstream"
)

// MaxSeries is how many results have series of their own, of each family.
const MaxSeries = 2000

// otherGroup stands for the results that have none.
const otherGroup = "__other__"

// results are the series of results, newest values only.
type results struct {
	set     *metrics.Set
	max     int
	dropped *metrics.Counter
	own     map[string]*shown    // by labels
	over    map[string]*pooled   // results without series of their own, by metric and window
	times   map[string]windowing // of a window's length, by labels
}

// shown is a result that has series.
type shown struct {
	labels []label
	has    [shownFamilies]bool
}

// windowing is the window of a length that is shown.
type windowing struct {
	start, end evalstream.Time
	closed     bool
}

// past says that a result of another window is not to be shown in place of w's: it is older,
// or has begun while w, which overlaps it, is not complete. Of hopping windows the one that
// has begun last holds the records of a step alone.
func (w windowing) past(r *evalstream.Result) bool {
	return r.Window.Start < w.start || r.Window.Start > w.start && r.Window.Start < w.end && !w.closed
}

// pooled is what the results without series add up to.
type pooled struct {
	key    string
	labels []label
	parts  map[string]part
	sum    part
	odd    int // parts that are no ratio
	shown  *shown
}

type part struct {
	num   evalstream.Nano
	den   int64
	n     int64
	ratio bool
	value float64 // shown if it is the only part
	has   bool
}

// set replaces the part of a result, or takes it out.
func (p *pooled) set(key string, now part, there bool) {
	p.add(p.parts[key], -1)
	if !there {
		delete(p.parts, key)
		return
	}
	p.parts[key] = now
	p.add(now, 1)
}

func (p *pooled) add(x part, sign int64) {
	p.sum.num += evalstream.Nano(sign) * x.num
	p.sum.den += sign * x.den
	p.sum.n += sign * x.n
	if !x.ratio && x != (part{}) {
		p.odd += int(sign)
	}
}

const (
	value = iota
	low
	high
	units
	begun // of windows that are cut by time
	shownFamilies
)

func resultFamilies() [shownFamilies]string {
	return [shownFamilies]string{"evalstream_result", "evalstream_result_low", "evalstream_result_high", "evalstream_result_n", "evalstream_result_window_start_timestamp_seconds"}
}

// take shows a result in place of the one before of the same metric, group and length of
// window, unless that one is of a window to be shown first. A withdrawn result is shown no
// more, an undefined one with its n alone.
func (s *results) take(r *evalstream.Result) {
	labels := make([]label, 0, 2+len(r.By))
	labels = append(labels, label{"metric", strings.Clone(r.Metric)}, label{"window", windowText(r.Window)})
	for _, by := range r.By {
		labels = append(labels, label{strings.Clone(by.Name), strings.Clone(literalText(by.Value))})
	}
	key := series("", labels...)
	if w, ok := s.times[key]; ok && !r.Window.All && (w.past(r) || r.Undefined == "withdrawn" && r.Window.Start != w.start) {
		return
	}
	if r.Undefined == "withdrawn" {
		s.forget(key)
		return
	}
	have := s.own[key]
	other := len(labels) > 2 && !slices.ContainsFunc(labels[2:], func(l label) bool { return l.value != otherGroup })
	if have == nil && len(s.own) < s.max && !other {
		s.unpool(key, labels)
		have = &shown{labels: labels}
		s.own[key] = have
	}
	if !r.Window.All && (have != nil || len(s.times) < 2*s.max) {
		s.times[key] = windowing{r.Window.Start, r.Window.End, r.Closed}
	}
	if have == nil {
		s.pool(key, labels, r)
		return
	}
	values := [shownFamilies]float64{value: r.Value, units: float64(r.N), begun: time.Duration(r.Window.Start).Seconds()}
	has := [shownFamilies]bool{value: r.Undefined == "" && finite(r.Value), units: true, begun: !r.Window.All}
	if iv, ok := intervalOf(r); ok && has[value] && finite(iv.Low) && finite(iv.High) {
		values[low], values[high], has[low], has[high] = iv.Low, iv.High, true, true
	}
	s.show(have, values, has)
}

func (s *results) show(have *shown, values [shownFamilies]float64, has [shownFamilies]bool) {
	for i, family := range resultFamilies() {
		name := series(family, have.labels...)
		switch {
		case has[i]:
			s.set.GetOrCreateGauge(name, nil).Set(values[i])
		case have.has[i]:
			s.set.UnregisterMetric(name)
		}
	}
	have.has = has
}

func (s *results) forget(key string) {
	delete(s.times, key)
	if have := s.own[key]; have != nil {
		s.show(have, [shownFamilies]float64{}, [shownFamilies]bool{})
		delete(s.own, key)
		return
	}
	for _, p := range s.over {
		if _, ok := p.parts[key]; ok {
			p.set(key, part{}, false)
			s.tell(p)
		}
	}
}

// pool adds a result to those that have no series of their own: n adds up, and so do
// the parts of a ratio. Other values do not, and are not shown.
func (s *results) pool(key string, labels []label, r *evalstream.Result) {
	p := s.pooled(labels)
	if _, ok := p.parts[key]; !ok && key != p.key {
		s.dropped.Inc()
	}
	defined := r.Undefined == "" && finite(r.Value)
	p.set(key, part{num: r.Num, den: r.Den, n: r.N, ratio: r.Ratio && defined, value: r.Value, has: defined}, true)
	s.tell(p)
}

// pooled is the group of those that a result with these labels is with.
func (s *results) pooled(labels []label) *pooled {
	others := append([]label{}, labels[:2]...)
	for _, l := range labels[2:] {
		others = append(others, label{l.name, otherGroup})
	}
	key := series("", others...)
	p := s.over[key]
	if p == nil {
		p = &pooled{key: key, labels: others, parts: map[string]part{}, shown: &shown{labels: others}}
		s.over[key] = p
	}
	return p
}

// unpool takes a result out that gets series of its own.
func (s *results) unpool(key string, labels []label) {
	if len(s.over) == 0 {
		return
	}
	p := s.pooled(labels)
	if _, ok := p.parts[key]; ok {
		p.set(key, part{}, false)
		s.tell(p)
	}
}

func (s *results) tell(p *pooled) {
	there := len(p.parts) > 0
	has := [shownFamilies]bool{value: there && p.odd == 0 && p.sum.den > 0, units: there}
	values := [shownFamilies]float64{units: float64(p.sum.n)}
	if has[value] {
		values[value] = p.sum.num.Float() / float64(p.sum.den)
	}
	if len(p.parts) == 1 {
		for _, only := range p.parts {
			values[value], has[value] = only.value, only.has
		}
	}
	s.show(p.shown, values, has)
}

// intervalOf is the interval that people are shown: wilson if there is one, else the first.
func intervalOf(r *evalstream.Result) (evalstream.Interval, bool) {
	for _, iv := range r.Intervals {
		if iv.Method == "wilson" {
			return iv, true
		}
	}
	if len(r.Intervals) == 0 {
		return evalstream.Interval{}, false
	}
	return r.Intervals[0], true
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// windowText is a window's length: its start is the time of the sample.
func windowText(w evalstream.Window) string {
	if w.All {
		return "all"
	}
	d := time.Duration(w.End - w.Start).String()
	if rest, ok := strings.CutSuffix(d, "m0s"); ok {
		d = rest + "m"
	}
	if rest, ok := strings.CutSuffix(d, "h0m"); ok {
		d = rest + "h"
	}
	return d
}
