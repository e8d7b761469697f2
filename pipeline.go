package evalstream

import (
	"errors"
	"fmt"
	"io"
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
		case gather && !s.Gather:
			return nil, fmt.Errorf("pipeline: step %q: want it before the gathering steps, got it after", s.Name)
		}
		seen[s.Name] = true
		gather = s.Gather
	}
	return &Pipeline{Name: name, Steps: steps}, nil
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
