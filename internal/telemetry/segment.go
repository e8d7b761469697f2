package telemetry

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"evalstream"
)

// Segment is the series of the steps between two cuts, as far as they run here.
type Segment struct {
	e     *Exporter
	label label
	front string // its first step, if it reads the inputs of the pipeline; else ""
	look  func() []Partition
	marks map[int32]evalstream.Time
	shown []string // gauges of the last page, which may be gone by the next

	transactions *metrics.PrometheusHistogram
	messages     *metrics.Counter
	rebalances   *metrics.Counter
	loads        *metrics.PrometheusHistogram
	loaded       *metrics.Counter
}

// Partition is what is told of a partition that is owned here.
type Partition struct {
	Partition int32
	Lag       map[string]int64 // offsets still to be read, by topic
	InFlight  int64            // messages whose transaction has not been committed
}

// Segment adds the series of a segment. front is its first step if it reads the inputs of
// the pipeline, and "" behind a cut. look is asked when a page is made.
func (e *Exporter) Segment(name, front string, look func() []Partition) *Segment {
	l := label{"segment", name}
	seconds := []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	s := &Segment{
		e: e, label: l, front: front, look: look, marks: map[int32]evalstream.Time{},
		transactions: e.set.NewPrometheusHistogramExt(series("evalstream_transaction_duration_seconds", l), seconds),
		messages:     e.set.NewCounter(series("evalstream_transaction_messages_total", l)),
		rebalances:   e.set.NewCounter(series("evalstream_rebalances_total", l)),
		loads:        e.set.NewPrometheusHistogramExt(series("evalstream_load_duration_seconds", l), append(seconds, 30, 60, 300)),
		loaded:       e.set.NewCounter(series("evalstream_load_entries_total", l)),
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.segments = append(e.segments, s)
	return s
}

// Hooks are for the jobs of the segment.
func (s *Segment) Hooks() evalstream.Hooks {
	h := s.e.Hooks()
	h.Block = func(p evalstream.Progress) {
		if p.Watermark == evalstream.NoTime {
			return
		}
		s.e.mu.Lock()
		defer s.e.mu.Unlock()
		s.marks[p.Partition] = p.Watermark
	}
	took := h.Took
	h.Took = func(step, kind string, n int) {
		if step == s.front {
			s.e.lines.Add(n)
		}
		took(step, kind, n)
	}
	return h
}

// Transaction counts one that was committed.
func (s *Segment) Transaction(d time.Duration, messages int) {
	s.transactions.Update(d.Seconds())
	s.messages.Add(messages)
}

// Generation counts a generation of the group.
func (s *Segment) Generation() { s.rebalances.Inc() }

// Loaded counts a partition whose state was loaded.
func (s *Segment) Loaded(d time.Duration, entries int64) {
	s.loads.Update(d.Seconds())
	s.loaded.AddInt64(entries)
}

// LetGo forgets a partition that is not owned here any more.
func (s *Segment) LetGo(partition int32) {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	delete(s.marks, partition)
}

// refresh sets what is known when a page is made alone; room is how many partitions may
// have series of their own yet. The caller holds the lock.
func (s *Segment) refresh(room int) int {
	now := map[string]float64{}
	owned := s.look()
	var flight int64
	for _, p := range owned {
		flight += p.InFlight
		number := strconv.Itoa(int(p.Partition))
		if room -= len(p.Lag); room < 0 {
			number = otherGroup
		}
		for topic, n := range p.Lag {
			now[series("evalstream_source_lag_records", s.label, label{"topic", strings.Clone(topic)}, label{"partition", number})] += float64(n)
		}
	}
	now[series("evalstream_partitions_owned", s.label)] = float64(len(owned))
	now[series("evalstream_in_flight_messages", s.label)] = float64(flight)
	if len(s.marks) > 0 {
		least := slices.Min(slices.Collect(maps.Values(s.marks)))
		now[series("evalstream_watermark_timestamp_seconds", s.label)] = float64(least) / float64(time.Second)
	}
	for _, name := range s.shown {
		if _, ok := now[name]; !ok {
			s.e.set.UnregisterMetric(name)
		}
	}
	s.shown = slices.Collect(maps.Keys(now))
	for name, v := range now {
		s.e.set.GetOrCreateGauge(name, nil).Set(v)
	}
	return room
}
