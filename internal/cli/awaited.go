package cli

import (
	"fmt"
	"slices"
	"time"

	"evalstream/topics/kafka"
)

const (
	// awaitedFor is how long a segment may wait for the end of the step before it until
	// people are told, and awaitedAgain until they are told again.
	awaitedFor   = 5 * time.Second
	awaitedAgain = time.Minute
)

// awaited watches for how long a segment that has read everything waits for the step before
// it to say that it has ended too.
type awaited struct {
	segment string
	step    string // before it
	command string // that runs that step
	atWork  func() bool
	waits   func() (partitions []int32, waiting bool)

	since, told time.Time // zero: not
}

// awaits watches the segments of this process that end where the step before them has.
func (f *flow) awaits(file string, cuts *layout) []*awaited {
	var all []*awaited
	byName := map[string]*kafka.Segment{}
	for _, s := range f.segments {
		byName[s.Name] = s
	}
	for i, cut := range cuts.segments {
		s := byName[cut.Name]
		if s == nil || s.FrontEnds == nil || !s.Marked() {
			continue
		}
		before := &cuts.segments[i-1]
		step := before.stages[slices.IndexFunc(before.stages, func(st stage) bool { return !st.auto })].name
		earlier := byName[before.Name]
		all = append(all, &awaited{
			segment: s.Name, step: step, command: "evalstream run --until-end --only " + step + " " + file,
			atWork: func() bool { return earlier != nil && !earlier.Over() }, waits: s.Awaits,
		})
	}
	return all
}

// look returns what is to be told now.
func (a *awaited) look(now time.Time) string {
	partitions, waiting := a.waits()
	if !waiting || a.atWork() {
		a.since, a.told = time.Time{}, time.Time{}
		return ""
	}
	if a.since.IsZero() {
		a.since = now
	}
	if now.Sub(a.since) < awaitedFor || !a.told.IsZero() && now.Sub(a.told) < awaitedAgain {
		return ""
	}
	a.told = now
	who := "the end of " + a.step + ", which has said nothing of it yet"
	if len(partitions) > 0 {
		who = partitionsText(partitions) + " of " + a.step + " to come to the end"
	}
	return fmt.Sprintf("note: %s: waits for %s; if nobody runs it: %s", a.segment, who, a.command)
}
