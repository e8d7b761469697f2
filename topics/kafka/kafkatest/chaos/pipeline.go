package main

import (
	"fmt"
	"strings"
)

// steps are the segments of the pipeline in order, each a process of its own.
func steps() []string { return []string{"parse", "score", "aggregate", "merge"} }

// A flow is the pipeline under test and its topics.
type flow struct {
	name    string // of the pipeline, and the prefix of its topics
	brokers []string
	apart   bool // gold comes in a topic of its own, and not among the predictions
}

func (f flow) topic(of string) string { return f.name + "." + of }

// sources are the topics that the input is written to.
func (f flow) sources() []string {
	if f.apart {
		return []string{f.topic("predictions"), f.topic("qrels")}
	}
	return []string{f.topic("predictions")}
}

// topics are all that the flow writes, and its sources.
func (f flow) topics() []string {
	all := f.sources()
	for _, of := range []string{"runs", "scored", "partials", "results", "rejects"} {
		all = append(all, f.topic(of))
	}
	return all
}

// changelogs are what the program keeps for itself.
func (f flow) changelogs() []string {
	return []string{f.topic("parse.changelog"), f.topic("score.changelog"), f.topic("aggregate.changelog")}
}

// The options of the steps, as flags and as fields.
func measures() []string  { return []string{"success@1", "mrr@10"} }
func groupings() []string { return []string{"run", "run,ticker"} }
func windows() []string   { return []string{"all", "1h"} }

func quoted(values []string) string { return `["` + strings.Join(values, `", "`) + `"]` }

// yaml is the pipeline over topics.
func (f flow) yaml() string {
	gold := ""
	if f.apart {
		gold = "gold: topic:" + f.topic("qrels") + ", "
	}
	return fmt.Sprintf(`name: %s
brokers: [%s]
from: topic:%s
stages:
  - parse: {}
    via: %s
  - score: {%smeasure: %s}
    via: %s
  - aggregate: {by: %s, window: %s, every: 200ms}
    via: %s
  - merge: {}
to: topic:%s
rejects: topic:%s
max_line: %d
`, f.name, strings.Join(f.brokers, ", "), f.topic("predictions"), f.topic("runs"), gold, quoted(measures()), f.topic("scored"),
		quoted(groupings()), quoted(windows()), f.topic("partials"), f.topic("results"), f.topic("rejects"), maxLine)
}

// pipe is the same computation from stdin to stdout in one process.
func pipeYAML() string {
	return fmt.Sprintf("stages:\n  - score: {measure: %s}\n  - aggregate: {by: %s, window: %s}\nmax_line: %d\n",
		quoted(measures()), quoted(groupings()), quoted(windows()), maxLine)
}
