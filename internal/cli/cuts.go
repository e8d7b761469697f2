package cli

import (
	"context"
	"slices"

	"evalstream"
	"evalstream/stages"
)

// defaultEvery is the rhythm of results from topics.
const defaultEvery = "1s"

// cutUp completes the steps of a pipeline that reads topics: what aggregates publishes each
// second, and what several partitions have aggregated is put together behind a cut.
func cutUp(ctx context.Context, list []stage, spec *evalstream.Spec, e *ends, partitions func(context.Context, string) (int32, error)) ([]stage, error) {
	for _, s := range list {
		if err := checkStage(spec.Name, s); err != nil {
			return nil, err
		}
	}
	if err := e.checkVias(list); err != nil {
		return nil, err
	}
	var out []stage
	var partials int32 // partitions that the last aggregate reads
	input := e.from[0] // of the segment
	for i, s := range list {
		given := slices.ContainsFunc(spec.Stages[i].Options, func(o evalstream.Option) bool { return o.Name == "every" })
		switch o := s.options.(type) {
		case *stages.AggregateOptions:
			if !given {
				o.Every = defaultEvery
			}
			n, err := partitions(ctx, input)
			if err != nil {
				return nil, err
			}
			partials = n
			merged := i+1 < len(list) && list[i+1].verb == "merge"
			if n > 1 && s.via == "" {
				s.via = spec.Name + ".partials"
			}
			if n > 1 && !merged {
				via := s
				merge := stage{verb: "merge", name: "merge", partials: n, options: &stages.MergeOptions{AggregateOptions: stages.AggregateOptions{Every: o.Every}}}
				if i+1 == len(list) {
					out = append(out, via, merge)
					continue
				}
				return nil, evalstream.Usagef("%s: want merge behind it, for its input %s has %d partitions", s.name, input, n)
			}
		case *stages.MergeOptions:
			if !given {
				o.Every = defaultEvery
			}
			s.partials = partials
		}
		if s.via != "" {
			input = s.via
		}
		out = append(out, s)
	}
	return out, nil
}

// checkVias refuses topics that are written or read twice.
func (e *ends) checkVias(list []stage) error {
	used := map[string]string{}
	for _, name := range e.from {
		used[name] = "from:"
	}
	if e.to != "" {
		used[e.to] = "to:"
	}
	if e.rejects != "" {
		used[e.rejects] = "rejects:"
	}
	take := func(what, name string) error {
		if other := used[name]; other != "" {
			return evalstream.Usagef("%s: topic %s is that of %s too; name another", what, name, other)
		}
		used[name] = what
		return nil
	}
	foreign := false // what has parse says what it is may not be read as something else
	for i, s := range list {
		if o, ok := s.options.(*stages.ParseOptions); ok {
			foreign = o.As != "" || len(o.Map) > 0
		}
		if o, ok := s.options.(*stages.ScoreOptions); ok {
			if name, ok := topicOf(o.Gold); ok {
				if err := checkTopic(s.name+": gold", name); err != nil {
					return err
				}
				if err := take(s.name+": gold:", name); err != nil {
					return err
				}
				if foreign {
					return evalstream.Usagef("%s: gold: topic:%s would be read as parse says; cut between the two: via: TOPIC at parse", s.name, name)
				}
			}
		}
		if s.via == "" {
			continue
		}
		foreign = false
		if i+1 == len(list) {
			return evalstream.Usagef("%s: via: %s: want a step behind it, got none; name the topic in to:", s.name, s.via)
		}
		if err := take(s.name+": via:", s.via); err != nil {
			return err
		}
	}
	return nil
}
