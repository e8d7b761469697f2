package main

import (
	"context"
	"fmt"

	"evalstream/topics/kafka"
)

// A place is a position in a topic.
type place struct {
	topic     string
	partition int
	offset    int64
}

func (p place) String() string { return fmt.Sprintf("%s[%d]@%d", p.topic, p.partition, p.offset) }

// checkRuns compares the topic behind parse with what the pipe's parse makes of the
// predictions: each line once for each time that it came, byte for byte, in the
// partition of its route, and in the order that it came in from each partition.
func checkRuns(ctx context.Context, p pipe, predictions, runs *topicLog) ([]violation, error) {
	f := findings{check: "runs"}
	from := map[string][]place{}
	for n := range predictions.partitions {
		ms := predictions.data(n)
		lines := values(ms)
		_, rejects, err := p.parse(ctx, lines)
		if err != nil {
			return nil, err
		}
		for i, line := range lines {
			if _, rejected := rejects[i]; !rejected {
				from[line] = append(from[line], place{predictions.name, n, ms[i].offset})
			}
		}
	}
	came := map[string][]place{}
	for n := range runs.partitions {
		last := map[int]int64{} // of each source partition
		for i, m := range runs.data(n) {
			line := string(m.value)
			at := place{runs.name, n, m.offset}
			came[line] = append(came[line], at)
			sources := from[line]
			if len(sources) == 0 {
				f.add("%v: no prediction is %s", at, line)
				continue
			}
			o, err := parseObject(line)
			if err != nil {
				return nil, err
			}
			route := o.string("query_id")
			if o.string("kind") == "passage" {
				route = o.string("passage_id")
			}
			if want := kafka.Partition([]byte(route), partitions); int(want) != n {
				f.add("%v: message %d of the partition has route %q, which belongs in partition %d", at, i, route, want)
			}
			if len(sources) > 1 {
				continue
			}
			if s := sources[0]; s.offset < last[s.partition] {
				f.add("%v: comes from %v, after one from %s[%d]@%d", at, s, s.topic, s.partition, last[s.partition])
			} else {
				last[s.partition] = s.offset
			}
		}
	}
	for line, sources := range from {
		if got := came[line]; len(got) != len(sources) {
			f.add("want %d times, from %v, got %d times, at %v: %s", len(sources), sources, len(got), got, line)
		}
	}
	return f.found, nil
}
