package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"evalstream"
)

// owner is a partition that is owned here. Its source and store are nil until what is
// remembered is there, and the source when the job has ended.
type owner struct {
	loaded atomic.Bool
	src    *segmentSource
	store  *segmentStore
}

// standing is how a segment stands in its group.
type standing struct {
	member bool
	since  time.Time // of a change
	over   bool      // Run has ended
}

// Owned is a partition that is owned here, at one moment.
type Owned struct {
	Partition int32
	// Loaded says that what is remembered is there and the input is being read.
	Loaded bool
	// Lag is how many offsets of each topic were not read yet when its leader last
	// answered; ends of transactions take offsets too. Empty before Loaded.
	Lag map[string]int64
	// InFlight is how many messages were made and have not been committed yet.
	InFlight int64
}

// Owned lists the partitions that are owned here, by number.
func (s *Segment) Owned() []Owned {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Owned
	for _, p := range slices.Sorted(maps.Keys(s.live)) {
		o := s.live[p]
		one := Owned{Partition: p, Loaded: o.loaded.Load(), Lag: map[string]int64{}}
		if o.src != nil {
			for topic, f := range o.src.fetched {
				one.Lag[topic] = max(0, f.end.Load()-o.src.read[topic].Load())
			}
		}
		if o.store != nil {
			one.InFlight, _ = o.store.underWay()
		}
		all = append(all, one)
	}
	return all
}

// Marks are the newest marks of the partitions of the step before, by number, as they
// came to a partition that is read here; a zero one has not come. Nil if none has.
func (s *Segment) Marks() []evalstream.Mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range slices.Sorted(maps.Keys(s.live)) {
		if o := s.live[p]; o.src != nil {
			if heard := o.src.heard.Load(); heard != nil {
				return *heard
			}
		}
	}
	return nil
}

// Awaits reports whether a partition that is read here has come to the ends of FrontEnds, as
// far as it reads them itself, and waits for the step before to say that it has too; and which
// of that step's partitions have not. None are named before one has said anything.
func (s *Segment) Awaits() (partitions []int32, waiting bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range slices.Sorted(maps.Keys(s.live)) {
		o := s.live[p]
		if o.src == nil || !o.loaded.Load() || !o.src.frontRead() {
			continue
		}
		var marks []evalstream.Mark
		if heard := o.src.heard.Load(); heard != nil {
			marks = *heard
		}
		if missing, ended := s.unfinished(marks); !ended {
			return missing, true
		}
	}
	return nil, false
}

// Over reports whether Run has ended.
func (s *Segment) Over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.standing.over
}

// Health is how a segment stands, in words for people.
type Health struct {
	// Stuck is what has not moved for longer than Config.Patience, so that a new start is
	// better than waiting; empty if all is well.
	Stuck []string
	// Unready is what is missing until the segment does its work; empty: nothing.
	Unready []string
}

// patienceWithJobs is how many times Config.Patience a job may work on one batch: it is
// no other's fault if it does, and the batch may be a heavy one.
const patienceWithJobs = 5

// Health looks at the segment as it is at a moment. Nothing is wrong with one that has
// ended. A member without partitions is ready.
func (s *Segment) Health(now time.Time) Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	var h Health
	patience := s.Client.conf.patience()
	switch {
	case s.standing.over:
		return h
	case s.draining.Load():
		h.Unready = append(h.Unready, s.Name+": is being stopped")
	case !s.standing.member:
		h.Unready = append(h.Unready, s.Name+": is not in its group yet")
		if d := now.Sub(s.standing.since); !s.standing.since.IsZero() && d > patience+defaultRebalance {
			h.Stuck = append(h.Stuck, fmt.Sprintf("%s: has not been in its group for %v", s.Name, d.Round(time.Second)))
		}
	}
	for _, p := range slices.Sorted(maps.Keys(s.live)) {
		o := s.live[p]
		if !o.loaded.Load() {
			h.Unready = append(h.Unready, fmt.Sprintf("%s[%d]: is being loaded", s.Name, p))
		} else if o.src != nil {
			h.Stuck = append(h.Stuck, s.stalled(p, o, now, patience)...)
		}
	}
	return h
}

// stalled says what of a partition does not move.
func (s *Segment) stalled(p int32, o *owner, now time.Time, patience time.Duration) []string {
	var stuck []string
	if _, since := o.store.underWay(); !since.IsZero() && now.Sub(since) > patience {
		stuck = append(stuck, fmt.Sprintf("%s[%d]: nothing could be committed for %v", s.Name, p, now.Sub(since).Round(time.Second)))
	}
	for _, topic := range slices.Sorted(maps.Keys(o.src.fetched)) {
		f := o.src.fetched[topic]
		at := TopicPartition{topic, p}
		if waiting := f.waiting.Load(); waiting != 0 {
			if d := now.Sub(time.Unix(0, waiting)); d > patienceWithJobs*patience && !s.Waits {
				stuck = append(stuck, fmt.Sprintf("%s: job has taken nothing of %v for %v", s.Name, at, d.Round(time.Second)))
			}
		} else if d := now.Sub(time.Unix(0, f.answered.Load())); d > patience {
			stuck = append(stuck, fmt.Sprintf("%s: nothing could be fetched of %v for %v", s.Name, at, d.Round(time.Second)))
		}
	}
	return stuck
}

func (s *Segment) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live, s.standing = map[int32]*owner{}, standing{since: time.Now()}
}

func (s *Segment) over() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.standing.over = true
}

func (s *Segment) generation(_ Member, owned []TopicPartition, over bool) {
	if h := s.Hooks.Generation; h != nil && !over {
		h(len(owned) / len(s.From))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.standing.member, s.standing.since = !over, time.Now()
}

func (s *Segment) takes(p int32) *owner {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := new(owner)
	s.live[p] = o
	return o
}

func (s *Segment) lets(p int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, p)
	if s.draining.Load() && len(s.live) == 0 {
		s.stop(context.Canceled) // a partition that was lost on the way is not asked for again
	}
}
