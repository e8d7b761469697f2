package evalstream

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Pipeline is steps in order. The steps before the first stateful one run on all
// workers at once; from there on there is one instance a partition; a step that
// gathers has one instance for all partitions.
type Pipeline struct {
	Name  string
	Steps []Step
}

// Step is a named stage.
type Step struct {
	Name string
	// New makes an instance: one a worker for stateless stages, one a partition for
	// stateful ones. Instances share nothing that is written after New, but what the
	// stage documents.
	New func() (Stage, error)
	// Gather makes one instance for all partitions.
	Gather bool
	// Via is the topic that the step writes to and the next one reads from, so that the
	// two can run apart; "": they run in one process.
	Via string
	// Segment names the segment that begins with this step; "": it is named after the step.
	Segment string
	// Side are topics that are read together with what comes from the step before.
	Side []string
	// Doc says in one line what the step will do, for plan.
	Doc string
}

// New checks the steps: at least one, each with a name of its own, gathering steps last.
func New(name string, steps ...Step) (*Pipeline, error) {
	if len(steps) == 0 {
		return nil, errors.New("pipeline: want at least one step, got none")
	}
	seen := make(map[string]bool, len(steps))
	gather := false
	for i, s := range steps {
		switch {
		case s.Name == "":
			return nil, fmt.Errorf("pipeline: step %d: want a name, got none", i+1)
		case seen[s.Name]:
			return nil, fmt.Errorf("pipeline: step %q: want a name of its own, got it twice; rename one with as: NAME", s.Name)
		case s.New == nil:
			return nil, fmt.Errorf("pipeline: step %q: want a New function, got none", s.Name)
		case s.Via != "" && i+1 == len(steps):
			return nil, fmt.Errorf("pipeline: step %q: want a step behind via: %s, got none; name the topic in the field to", s.Name, s.Via)
		case gather && !s.Gather:
			return nil, fmt.Errorf("pipeline: step %q: want it before the gathering steps, got it after", s.Name)
		}
		seen[s.Name] = true
		gather = s.Gather
	}
	return &Pipeline{Name: name, Steps: steps}, nil
}

// Segment is the steps between two cuts: what one process does with one partition. They
// are fused, and whoever owns a partition of a segment owns the state of all its steps.
type Segment struct {
	*Pipeline          // named <pipeline>.<first step>
	From      []string // topics whose partitions of one number are read together
	To        string   // topic; "" if it is not one
}

// Segments cuts a pipeline of topics at its vias. Names of steps are unique in the whole
// pipeline, so a segment is named after its first one.
func (p *Pipeline) Segments(from []string, to string) []Segment {
	var all []Segment
	s := Segment{Pipeline: &Pipeline{}, From: slices.Clone(from)}
	for _, step := range p.Steps {
		if len(s.Steps) == 0 {
			s.Name = p.Name + "." + cmp.Or(step.Segment, step.Name)
		}
		s.Steps = append(s.Steps, step)
		s.From = append(s.From, step.Side...)
		if step.Via != "" {
			s.To = step.Via
			all = append(all, s)
			s = Segment{Pipeline: &Pipeline{}, From: []string{step.Via}}
		}
	}
	s.To = to
	return append(all, s)
}

// Plan prints the steps, a line each.
func (p *Pipeline) Plan(w io.Writer) error {
	for i, s := range p.Steps {
		if _, err := fmt.Fprintf(w, "%d  %-16s %s\n", i+1, s.Name, s.Doc); err != nil {
			return err
		}
	}
	return nil
}
