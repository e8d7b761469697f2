package main

import (
	"context"
	"fmt"
)

// checkPartials compares the last partial of each key with what the pipe's aggregate
// makes of each partition of the scores, those of cells that have emptied too. How many
// units are judged is told to every partition of the topic.
func checkPartials(ctx context.Context, p pipe, scored, partials *topicLog) ([]violation, error) {
	f := findings{check: "partials"}
	const toAll = "judged" // the family of what every partition is told
	want, got := map[string]string{}, map[string]string{}
	take := func(into map[string]string, o object, at int) {
		delete(o, "step") // a filter has no name
		switch {
		case o.string("family") != toAll:
			into[o.of("partition", "family", "by", "window", "pane")] = o.text()
		case !o.zero("judged"):
			into[fmt.Sprintf("judged of %s in %d", o.of("partition"), at)] = o.of("judged")
		}
	}
	for n := range scored.partitions {
		lines, _, err := p.aggregate(ctx, values(scored.data(n)), n)
		if err != nil {
			return nil, err
		}
		for _, line := range lines { // the last of each key stays
			o, err := parseObject(line)
			if err != nil {
				return nil, err
			}
			take(want, o, n)
			if o.string("family") == toAll || o.zero("judged") {
				continue
			}
			for at := range partials.partitions {
				want[fmt.Sprintf("judged of %s in %d", o.of("partition"), at)] = o.of("judged")
			}
		}
	}
	where := map[string]int{}
	for n := range partials.partitions {
		for key, m := range partials.latest(n) {
			o, err := parseObject(string(m.value))
			if err != nil {
				return nil, err
			}
			if other, ok := where[key]; ok && o.string("family") != toAll {
				f.add("key %q is in partitions %d and %d", key, other, n)
			}
			where[key] = n
			take(got, o, n)
		}
	}
	f.compare("partial", want, got)
	return f.found, nil
}

// checkResults compares the last result of each key with that of the pipe on all
// records, without what depends on how it came about.
func checkResults(ctx context.Context, p pipe, sources []*topicLog, results *topicLog) ([]violation, error) {
	f := findings{check: "results"}
	take := func(into map[string]string, line string) error {
		o, err := parseObject(line)
		if err != nil {
			return err
		}
		for _, field := range []string{"through", "revision", "closed"} {
			delete(o, field)
		}
		key := o.of("metric", "by", "window")
		if into[key] = o.text(); o.string("undefined") == "withdrawn" {
			delete(into, key) // a pipe's way to say tombstone
		}
		return nil
	}
	var lines []string
	for _, s := range sources {
		for n := range s.partitions {
			lines = append(lines, values(s.data(n))...)
		}
	}
	out, err := p.results(ctx, lines)
	if err != nil {
		return nil, err
	}
	want, got := map[string]string{}, map[string]string{}
	for _, line := range out {
		if err := take(want, line); err != nil {
			return nil, err
		}
	}
	for n := range results.partitions {
		for _, m := range results.latest(n) {
			if err := take(got, string(m.value)); err != nil {
				return nil, err
			}
		}
	}
	f.compare("result", want, got)
	return f.found, nil
}
