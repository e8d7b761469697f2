package cli

import (
	"slices"
	"strings"

	"evalstream"
	"evalstream/stages"
)

// checkOrder refuses a stage that gets nothing it can read from those before it. Lines may
// be of any kind, and most stages let pass what they do not read; but score, aggregate
// and merge let nothing pass, so behind them comes what they write and nothing else.
func checkOrder(list []stage) error {
	var flow []string // kinds; nil: any
	last := ""
	for i, s := range list {
		v, ok := verbOf(s.verb)
		if !ok {
			continue // assemble says so
		}
		if s.verb == "parse" {
			if i > 0 && list[i-1].via == "" {
				return evalstream.Usagef("step %q: parse reads lines: want it in front or behind a via:, got it after step %q", s.name, last)
			}
			continue
		}
		reads := strings.Split(v.In, ", ")
		if flow != nil && !slices.ContainsFunc(reads, func(kind string) bool { return slices.Contains(flow, kind) }) {
			return evalstream.Usagef("step %q: %s reads %s: want it before step %q, which leaves %s alone", s.name, s.verb, v.In, last, strings.Join(flow, ", "))
		}
		if s.verb == "score" || s.verb == "aggregate" || s.verb == "merge" {
			flow = strings.Split(v.Out, ", ")
		}
		last = s.name
	}
	return nil
}

func verbOf(name string) (stages.Verb, bool) {
	all := stages.All()
	i := slices.IndexFunc(all, func(v stages.Verb) bool { return v.Name == name })
	if i < 0 {
		return stages.Verb{}, false
	}
	return all[i], true
}
