package stages

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"evalstream"
	"evalstream/stages/metric"
)

// Scoring says what score computes of a prediction and its gold.
type Scoring struct {
	Measures []metric.Measure // retrieval; empty: DefaultMeasures
	Ties     metric.Ties      // how equal scores are ordered
	Level    int32            // the least grade that is relevant; 0 is 1
	Source   string           // the one qrel source that is read; "" if all gold has one source
}

// DefaultMeasures is what score computes when no measure is named.
func DefaultMeasures() []string { return []string{"success@1", "recall@10", "mrr", "ndcg@10"} }

// Check completes the defaults and refuses what cannot be computed.
func (s *Scoring) Check() error {
	if len(s.Measures) == 0 {
		for _, name := range DefaultMeasures() {
			m, err := metric.ParseMeasure(name)
			if err != nil {
				return err
			}
			s.Measures = append(s.Measures, m)
		}
	}
	if s.Level == 0 {
		s.Level = 1
	}
	seen := map[string]bool{}
	for _, m := range s.Measures {
		if err := s.Ties.Check(m); err != nil {
			return err
		}
		if seen[m.String()] {
			return fmt.Errorf("measure %q: want it once, got it twice", m)
		}
		seen[m.String()] = true
	}
	return nil
}

// names lists the measures in order.
func (s *Scoring) names() []string {
	names := make([]string, len(s.Measures))
	for i, m := range s.Measures {
		names[i] = m.String()
	}
	return names
}

// retrieval is the settings of retrieval scores.
func (s *Scoring) retrieval() *evalstream.Settings {
	text := fmt.Sprintf("measures=%s ties=%s level=%d", strings.Join(s.names(), ","), s.Ties, s.Level)
	if s.Source != "" {
		text += " source=" + s.Source
	}
	return newSettings(text)
}

// Expect is what scores of these records will be; nil for a kind that does not say.
func (s *Scoring) Expect(kind string) *Expectation {
	switch kind {
	case "run":
		return &Expectation{Family: familyNames()[retrieval], Measures: s.names(), Settings: s.retrieval()}
	case "prediction":
		return &Expectation{Family: familyNames()[fewshot], Settings: newSettings(fewshotSettings)}
	case "rating":
		return &Expectation{Family: familyNames()[agreement], Settings: newSettings(agreementSettings)}
	case "verdict":
		return &Expectation{Family: familyNames()[judging], Settings: newSettings(judgingSettings)}
	}
	return nil
}

func newSettings(text string) *evalstream.Settings {
	sum := sha256.Sum256([]byte(text))
	return &evalstream.Settings{Digest: hex.EncodeToString(sum[:8]), Text: text}
}

// judgment is what gold says of one passage.
type judgment struct {
	passage string
	grade   int32
}

// ranker turns a ranked list and the judgments of its query into values. One a
// worker; it keeps its memory from list to list.
type ranker struct {
	scoring *Scoring
	items   []metric.Item
	scratch []metric.Item
	grades  []int32
	gold    metric.Gold
	judged  metric.Judged
	byID    map[string]int32
}

// manyJudgments is where a map beats comparing with each judgment.
const manyJudgments = 8

// value appends one value a measure to dst. top is not changed.
func (r *ranker) value(dst []evalstream.Nano, top []evalstream.Hit, gold []judgment) []evalstream.Nano {
	r.items = r.items[:0]
	r.grades = r.grades[:0]
	for i := range gold {
		r.grades = append(r.grades, gold[i].grade)
	}
	if len(gold) > manyJudgments {
		if r.byID == nil {
			r.byID = make(map[string]int32, len(gold))
		}
		clear(r.byID)
		for i := range gold {
			r.byID[gold[i].passage] = gold[i].grade
		}
	}
	for i := range top {
		r.items = append(r.items, metric.Item{ID: top[i].ID, Score: top[i].Score, Rel: r.grade(top[i].ID, gold)})
	}
	r.gold.Reset(r.grades, r.scoring.Level)
	r.scratch = r.judged.Rank(&r.gold, r.items, r.scoring.Ties, r.scratch)
	for _, m := range r.scoring.Measures {
		dst = append(dst, evalstream.NanoOf(m.Score(&r.judged)))
	}
	return dst
}

func (r *ranker) grade(id string, gold []judgment) int32 {
	if len(gold) > manyJudgments {
		if g, ok := r.byID[id]; ok {
			return pooled(g)
		}
		return metric.NotPooled
	}
	for i := range gold {
		if gold[i].passage == id {
			return pooled(gold[i].grade)
		}
	}
	return metric.NotPooled
}

func pooled(grade int32) int32 {
	if grade < 0 {
		return metric.Unjudged
	}
	return grade
}
