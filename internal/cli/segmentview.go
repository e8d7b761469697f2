package cli

import (
	"time"

	"evalstream"
	"evalstream/internal/telemetry"
	"evalstream/topics/kafka"
)

// viewOf lets a segment tell an exporter what it does; the hooks are for its jobs.
func viewOf(e *telemetry.Exporter, s *kafka.Segment) evalstream.Hooks {
	front := ""
	if !s.Marked() {
		front = s.Steps[0].Name
	}
	t := e.Segment(s.Name, front, func() []telemetry.Partition {
		var all []telemetry.Partition
		for _, o := range s.Owned() {
			all = append(all, telemetry.Partition{Partition: o.Partition, Lag: o.Lag, InFlight: o.InFlight})
		}
		return all
	})
	s.Hooks.Took = t.Transaction
	s.Hooks.Generation = func(int) { t.Generation() }
	s.Hooks.Loaded = func(_ int32, took time.Duration, entries int64) { t.Loaded(took, entries) }
	s.Hooks.Owned = func(p int32, owned bool) {
		if !owned {
			t.LetGo(p)
		}
	}
	return t.Hooks()
}

// health is that of all segments.
func (f *flow) health() telemetry.Health {
	ask := func(of func(kafka.Health) []string) func() []string {
		return func() []string {
			var all []string
			now := time.Now()
			for _, s := range f.segments {
				all = append(all, of(s.Health(now))...)
			}
			return all
		}
	}
	return telemetry.Health{
		Live:  ask(func(h kafka.Health) []string { return h.Stuck }),
		Ready: ask(func(h kafka.Health) []string { return h.Unready }),
	}
}
