package main

import (
	"context"
	"fmt"
	"slices"

	"evalstream"
	"evalstream/codecs"
	"evalstream/stages"
	"evalstream/stages/metric"
)

// canonical is a score without the slices that nobody groups by.
func canonical(line string) (string, error) {
	o, err := parseObject(line)
	if err != nil {
		return "", err
	}
	if s, ok := o["slices"].(map[string]any); ok {
		o["slices"] = map[string]any{"ticker": s["ticker"]}
	}
	return o.text(), nil
}

// checkScores compares the topic behind score with what the pipe's score makes of each
// partition of runs: the same changes in the same order.
func checkScores(ctx context.Context, p pipe, runs, scored *topicLog) ([]violation, error) {
	f := findings{check: "scored"}
	for n := range runs.partitions {
		want, _, err := p.score(ctx, values(runs.data(n)))
		if err != nil {
			return nil, err
		}
		got := scored.data(n)
		for i := range max(len(want), len(got)) {
			var w, g string
			at := place{scored.name, n, -1}
			if i < len(want) {
				if w, err = canonical(want[i]); err != nil {
					return nil, err
				}
			}
			if i < len(got) {
				at.offset = got[i].offset
				if g, err = canonical(string(got[i].value)); err != nil {
					return nil, err
				}
			}
			if w != g {
				f.add("partition %d has %d scores, want %d; the first that differs is number %d, at %v:\n    want %s\n    got  %s", n, len(got), len(want), i+1, at, w, g)
				break
			}
		}
	}
	return f.found, nil
}

// checkScoresOf compares the topic behind score where gold came from a topic of its
// own. The order of the two is not known, so it is looked for: for each unit some order
// of its predictions and its judgments, each in their own order, must give the scores
// that are there, and no others.
func checkScoresOf(ctx context.Context, runs, qrels, scored *topicLog) ([]violation, error) {
	f := findings{check: "scored"}
	for n := range runs.partitions {
		units := map[string]*walk{}
		unit := func(id string) *walk {
			if units[id] == nil {
				units[id] = &walk{made: map[edge][]string{}}
			}
			return units[id]
		}
		for _, side := range []*topicLog{runs, qrels} {
			d, err := codecs.NewDecoder(codecs.Plan{Slices: []string{"ticker"}})
			if err != nil {
				return nil, err
			}
			for _, m := range side.data(n) {
				rec := evalstream.Record{Raw: m.value}
				if len(m.value) > maxLine || d.Decode(&rec) != nil {
					continue
				}
				switch b := rec.Body.(type) {
				case *evalstream.Run:
					u := unit(b.QueryID)
					u.runs = append(u.runs, rec)
				case *evalstream.Qrel:
					u := unit(b.QueryID)
					u.gold = append(u.gold, rec)
				}
			}
		}
		for _, m := range scored.data(n) {
			o, err := parseObject(string(m.value))
			if err != nil {
				return nil, err
			}
			text, err := canonical(string(m.value))
			if err != nil {
				return nil, err
			}
			u := unit(o.string("unit"))
			u.scores = append(u.scores, text)
			u.at = append(u.at, place{scored.name, n, m.offset})
		}
		for id, u := range units {
			ok, err := u.explained(ctx)
			if err != nil {
				return nil, err
			}
			if !ok {
				f.add("unit %s, partition %d: no order of its %d predictions and %d judgments gives its scores, at %v: %q", id, n, len(u.runs), len(u.gold), u.at, u.scores)
			}
		}
	}
	return f.found, nil
}

// A walk is what came for a unit and what was said of it.
type walk struct {
	runs, gold []evalstream.Record
	scores     []string
	at         []place
	made       map[edge][]string
}

// An edge is what is said when so many runs and judgments have come and one comes more.
// It does not depend on their order: what is said last of a unit follows from what it holds.
type edge struct {
	runs, gold int
	next       byte // 'r' a run, 'g' a judgment, 'e' the end
}

// explained reports whether some order of runs and gold gives the scores.
func (w *walk) explained(ctx context.Context) (bool, error) {
	type state struct{ runs, gold, said int }
	open, seen := []state{{}}, map[state]bool{}
	for len(open) > 0 {
		s := open[len(open)-1]
		open = open[:len(open)-1]
		if seen[s] {
			continue
		}
		seen[s] = true
		var edges []edge
		if s.runs < len(w.runs) {
			edges = append(edges, edge{s.runs, s.gold, 'r'})
		}
		if s.gold < len(w.gold) {
			edges = append(edges, edge{s.runs, s.gold, 'g'})
		}
		if len(edges) == 0 {
			edges = append(edges, edge{s.runs, s.gold, 'e'})
		}
		for _, st := range edges {
			made, err := w.make(ctx, st)
			if err != nil {
				return false, err
			}
			if len(made) > len(w.scores)-s.said || !slices.Equal(made, w.scores[s.said:s.said+len(made)]) {
				continue
			}
			to := state{s.runs, s.gold, s.said + len(made)}
			switch st.next {
			case 'r':
				to.runs++
			case 'g':
				to.gold++
			case 'e':
				if to.said == len(w.scores) {
					return true, nil
				}
				continue
			}
			open = append(open, to)
		}
	}
	return false, nil
}

// make is what score says at an edge.
func (w *walk) make(ctx context.Context, st edge) ([]string, error) {
	if made, ok := w.made[st]; ok {
		return made, nil
	}
	var scoring stages.OpenScoring
	for _, name := range measures() {
		m, err := metric.ParseMeasure(name)
		if err != nil {
			return nil, err
		}
		scoring.Measures = append(scoring.Measures, m)
	}
	fresh, err := stages.NewScore(scoring)
	if err != nil {
		return nil, err
	}
	stage, err := fresh()
	if err != nil {
		return nil, err
	}
	timed, ok := stage.(evalstream.Timed)
	if !ok {
		return nil, fmt.Errorf("score: want a stage that hears of the end, got %T", stage)
	}
	var out evalstream.Out
	before := slices.Concat(w.runs[:st.runs], w.gold[:st.gold])
	if len(before) > 0 {
		if err := stage.Process(ctx, before, &out); err != nil {
			return nil, err
		}
	}
	out.Reset()
	switch st.next {
	case 'r':
		err = stage.Process(ctx, w.runs[st.runs:st.runs+1], &out)
	case 'g':
		err = stage.Process(ctx, w.gold[st.gold:st.gold+1], &out)
	default:
		err = timed.Advance(ctx, evalstream.EndOfTime, &out)
	}
	if err != nil {
		return nil, err
	}
	made := []string{}
	for i := range out.Records {
		text, err := canonical(string(codecs.AppendRecord(nil, &out.Records[i])))
		if err != nil {
			return nil, err
		}
		made = append(made, text)
	}
	w.made[st] = made
	return made, nil
}
