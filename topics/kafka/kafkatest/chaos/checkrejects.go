package main

import (
	"context"
	"encoding/json"
	"fmt"
)

// checkRejects compares the rejects with those of the pipe: each bad line has one, with
// its position, its class and the reason.
func checkRejects(ctx context.Context, p pipe, f flow, logs map[string]*topicLog) ([]violation, error) {
	want := map[string]string{}
	expect := func(of *topicLog, run func(context.Context, []string) ([]string, map[int]reject, error)) error {
		for n := range of.partitions {
			ms := of.data(n)
			_, rejects, err := run(ctx, values(ms))
			if err != nil {
				return err
			}
			for i, r := range rejects {
				want[place{of.name, n, ms[i].offset}.String()] = r.text()
			}
		}
		return nil
	}
	for _, source := range f.sources() {
		if err := expect(logs[source], p.parse); err != nil {
			return nil, err
		}
	}
	if err := expect(logs[f.topic("runs")], p.score); err != nil {
		return nil, err
	}
	found := findings{check: "rejects"}
	got := map[string]string{}
	rejects := logs[f.topic("rejects")]
	for n := range rejects.partitions {
		for _, m := range rejects.data(n) {
			var r reject
			if err := json.Unmarshal(m.value, &r); err != nil {
				return nil, fmt.Errorf("%v: %w", place{rejects.name, n, m.offset}, err)
			}
			if _, ok := got[r.Pos]; ok {
				found.add("%v: %s is there already", place{rejects.name, n, m.offset}, r.Pos)
			}
			got[r.Pos] = r.text()
		}
	}
	found.compare("reject of", want, got)
	return found.found, nil
}
