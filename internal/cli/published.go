package cli

import (
	"fmt"
	"slices"
	"strings"

	"evalstream"
	"evalstream/stages"
)

// checkRules refuses rules that no result of these stages can be meant by.
func (c *common) checkRules(list []stage) error {
	for _, u := range c.failIf {
		if err := checkRule(u, list); err != nil {
			return err
		}
	}
	return nil
}

func checkRule(u *rule, list []stage) error {
	publishes := func(s stage) bool { return s.verb == "aggregate" || s.verb == "merge" }
	if !slices.ContainsFunc(list, publishes) {
		return evalstream.Usagef("%w", errNoResults)
	}
	metrics, err := publishedMetrics(list)
	if err != nil {
		return err
	}
	if metrics != nil && !slices.Contains(metrics, u.metric) {
		return &evalstream.ExitError{
			Code: evalstream.ExitUsage, Err: fmt.Errorf("fail-if %q: no metric %q here%s", u.text, u.metric, didYouMean(u.metric, metrics)),
			Hint: "a ranked measure is computed if --measure names it",
		}
	}
	fields, err := publishedFields(list)
	if err != nil {
		return err
	}
	for _, c := range u.where {
		if !slices.Contains(fields, c.field) {
			return evalstream.Usagef("fail-if %q: no grouping has the field %q%s", u.text, c.field, didYouMean(c.field, fields))
		}
	}
	return nil
}

// publishedMetrics are the metrics that stages can publish; nil if that depends on the
// records: on their kind, or on the dimensions of verdicts.
func publishedMetrics(list []stage) ([]string, error) {
	switch scoredKind(list) {
	case "run":
		return measuresOf(list)
	case "prediction":
		return []string{"f1", "precision", "recall", "macro_f1", "macro_precision", "macro_recall"}, nil
	case "rating":
		return []string{"alpha"}, nil
	}
	return nil, nil
}

// scoredKind is the kind that score gets beside gold; "" if nothing says what it is.
func scoredKind(list []stage) string {
	kind := ""
	for _, s := range list {
		switch o := s.options.(type) {
		case *stages.ParseOptions:
			if kind == "" {
				kind = o.As
			}
		case *stages.RankOptions:
			kind = "run"
		case *stages.ClassifyOptions:
			kind = "prediction"
		case *stages.ScoreOptions:
			switch {
			case kind != "":
			case len(o.Measures) > 0:
				kind = "run"
			case len(o.Panel) > 0:
				kind = "verdict"
			case o.Gold == inlineGold:
				kind = "prediction"
			}
		}
	}
	return kind
}

// measuresOf are the names of what score computes of ranked lists.
func measuresOf(list []stage) ([]string, error) {
	measures := stages.DefaultMeasures()
	for _, s := range list {
		o, ok := s.options.(*stages.ScoreOptions)
		if !ok {
			continue
		}
		scoring, err := o.Scoring()
		if err != nil {
			return nil, wrapUsage("%w", err)
		}
		if len(scoring.Measures) > 0 {
			measures = nil
		}
		for _, m := range scoring.Measures {
			measures = append(measures, m.String())
		}
	}
	return measures, nil
}

// publishedFields are the fields that a rule can name: those of the groupings of the
// last stage that has some, and window. Results on single judges have theirs anyway.
func publishedFields(list []stage) ([]string, error) {
	fields := []string{"window", "judge", "judge2"}
	for _, s := range list {
		var o *stages.AggregateOptions
		switch of := s.options.(type) {
		case *stages.AggregateOptions:
			o = of
		case *stages.MergeOptions:
			o = &of.AggregateOptions
		default:
			continue
		}
		if len(o.By) == 0 {
			fields = append(fields, "run", "mode") // whichever suits the records
			continue
		}
		for _, by := range o.By {
			fields = append(fields, strings.Split(by, ",")...)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(fields))), nil
}
