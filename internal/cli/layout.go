package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"evalstream"
	"evalstream/stages"
	"evalstream/topics/kafka"
)

// layout is how a pipeline over topics is cut.
type layout struct {
	segments []cutSegment
}

// cutSegment is a segment and what is needed to run it.
type cutSegment struct {
	evalstream.Segment
	stages    []stage
	front     []string // of From: topics that no step of the pipeline writes
	remembers bool     // a step keeps state
	replays   bool     // its last step does, and none keeps it
}

// layoutOf cuts an assembled pipeline; list is what it was assembled from.
func layoutOf(p *evalstream.Pipeline, list []stage, e *ends) (*layout, error) {
	l := &layout{}
	whole := complete(list)
	for i, seg := range p.Segments(e.from, e.to) {
		c := cutSegment{Segment: seg, stages: whole[:len(seg.Steps)], front: seg.From}
		whole = whole[len(seg.Steps):]
		if i > 0 {
			c.front = seg.From[1:]
		}
		var err error
		if c.remembers, err = anyStep(seg.Pipeline, func(_ evalstream.Step, st evalstream.Stage) bool {
			_, kept := st.(evalstream.Kept)
			_, traced := st.(evalstream.Traced)
			return kept || traced
		}); err != nil {
			return nil, err
		}
		c.replays = !c.remembers && slices.ContainsFunc(seg.Steps, func(s evalstream.Step) bool { return s.Gather })
		l.segments = append(l.segments, c)
	}
	return l, nil
}

// fingerprint is a short name of the cuts: members of one pipeline must agree on it.
func (l *layout) fingerprint() string {
	h := fnv.New64a()
	for _, s := range l.segments {
		fmt.Fprintf(h, "%s %q %q;", s.Name, s.From, s.To)
	}
	return strconv.FormatUint(h.Sum64(), 16)
}

// choose says which segments run: the one that has the step, or all.
func (l *layout) choose(only string) ([]bool, error) {
	chosen := make([]bool, len(l.segments))
	var names []string
	for i, seg := range l.segments {
		chosen[i] = only == "" || slices.ContainsFunc(seg.Steps, func(s evalstream.Step) bool { return s.Name == only })
		for _, s := range seg.stages {
			if !s.auto {
				names = append(names, s.name)
			}
		}
	}
	if !slices.Contains(chosen, true) {
		return nil, evalstream.Usagef("only: no step %q%s", only, didYouMean(only, names))
	}
	return chosen, nil
}

// role is what a topic is for.
type role int

const (
	roleSource    role = iota // written by others
	roleVia                   // between two steps
	rolePartials              // between aggregate and merge
	roleChangelog             // state
	roleResults
	roleOutput // anything else of to:
	roleRejects
)

// topicRole is a topic of a pipeline.
type topicRole struct {
	name     string
	role     role
	like     string // topic that it must have as many partitions as; "": none
	position bool   // a changelog of nothing but positions
}

// topics lists all topics of the pipeline, in the order of the dataflow.
func (l *layout) topics(rejects string) []topicRole {
	var all []topicRole
	for i, s := range l.segments {
		for _, name := range s.front {
			all = append(all, topicRole{name: name, role: roleSource, like: s.From[0]})
		}
		if log := s.changelog(); log != "" {
			all = append(all, topicRole{name: log, role: roleChangelog, like: s.From[0], position: !s.remembers})
		}
		_, aggregates := s.stages[len(s.stages)-1].options.(*stages.AggregateOptions)
		_, merges := s.stages[len(s.stages)-1].options.(*stages.MergeOptions)
		switch {
		case s.To == "":
		case i+1 < len(l.segments) && aggregates:
			all = append(all, topicRole{name: s.To, role: rolePartials})
		case i+1 < len(l.segments):
			all = append(all, topicRole{name: s.To, role: roleVia})
		case aggregates || merges:
			all = append(all, topicRole{name: s.To, role: roleResults})
		default:
			all = append(all, topicRole{name: s.To, role: roleOutput})
		}
	}
	if rejects != "" {
		all = append(all, topicRole{name: rejects, role: roleRejects})
	}
	return all
}

func (s *cutSegment) changelog() string {
	return (&kafka.Segment{Segment: s.Segment, Replays: s.replays}).Changelog()
}

// config is how the broker must keep a topic. Inputs are kept for ever, for whoever is
// new reads them from their start; what is an upsert is compacted.
func (r role) config() map[string]string {
	switch r {
	case roleChangelog, rolePartials:
		// Only closed segments are compacted, and what is not has to be read at a takeover.
		return map[string]string{"cleanup.policy": "compact", "segment.bytes": "67108864"}
	case roleResults:
		return map[string]string{"cleanup.policy": "compact"}
	case roleSource, roleOutput:
		return map[string]string{"cleanup.policy": "delete", "retention.ms": "-1"}
	default:
		return map[string]string{"cleanup.policy": "delete"}
	}
}

// counts asks for the partitions of a topic, and takes standby where it is not there.
func counts(client *kafka.Client, standby int32) func(context.Context, string) (int32, error) {
	return func(ctx context.Context, name string) (int32, error) {
		n, err := client.Partitions(ctx, name)
		if standby > 0 && errors.Is(err, kafka.ErrNoTopic) {
			return standby, nil
		}
		return n, err
	}
}

func (r role) String() string {
	return cmp.Or(map[role]string{
		roleSource: "source", roleVia: "via", rolePartials: "partials", roleChangelog: "changelog",
		roleResults: "results", roleOutput: "output", roleRejects: "rejects",
	}[r], "?")
}

// text prints the cuts: what each segment reads and writes, and where its state is.
func (l *layout) text(b *strings.Builder, e *ends, implied bool) {
	roles := map[string]role{}
	for _, r := range l.topics(e.rejects) {
		roles[r.name] = r.role
	}
	named := func(topic string) string { return fmt.Sprintf("%s (%v)", topic, roles[topic]) }
	for _, s := range l.segments {
		var steps, from []string
		for _, st := range s.Steps {
			steps = append(steps, st.Name)
		}
		for _, topic := range s.From {
			from = append(from, named(topic))
		}
		hang(b, "segment "+s.Name+": ", strings.Join(steps, ", "))
		hang(b, "  reads    ", strings.Join(from, ", "))
		if s.To != "" {
			hang(b, "  writes   ", named(s.To))
		}
		switch {
		case s.remembers:
			hang(b, "  state    ", named(s.changelog()))
		case !s.replays:
			hang(b, "  position ", named(s.changelog()))
		}
	}
	if e.rejects != "" {
		hang(b, "all write ", named(e.rejects))
	}
	hang(b, "", "A segment is a consumer group of its name; partition p has the transactional id NAME.p.")
	if implied {
		hang(b, "", "merge and the partials before it are there if what aggregate reads has more than one partition.")
	}
	b.WriteByte('\n')
}
