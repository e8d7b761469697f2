package stages

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"evalstream"
	"evalstream/stages/metric"
)

// Aggregation says what aggregate and merge publish.
type Aggregation struct {
	// By lists the groupings, each a list of fields. An empty list pools everything.
	// None at all: by run for retrieval and few-shot scores, by mode for judging, pooled
	// for agreement.
	By      [][]string
	Windows []Window // none: all
	// Over is a field, often seed: instead of each of its groups, the mean over them
	// and its sample deviation are published.
	Over    string
	Every   evalstream.Every
	Horizon time.Duration // 0: nothing is late
	// MaxOutOfOrder is how far the watermark stays behind the newest time.
	MaxOutOfOrder time.Duration
	// Marked says that event time comes by Advance, and not with the records.
	Marked    bool
	MaxGroups int  // groups of one grouping and window beyond it are folded into OtherGroup; 0: no limit
	MissHits  bool // judged queries that a run never answered count as misses
	Conflict  Conflict

	Negative     string // few-shot: the label that is no relation
	ZeroDivision metric.ZeroDivision
	Level        metric.Level // agreement
	Order        []string     // agreement: the values from low to high
	// Panel is the judges whose strict majority decides a judged unit; Check sorts it,
	// for their order says nothing. Empty: nothing is decided.
	Panel []string

	Confidence float64  // of intervals; 0: .95
	Intervals  []string // methods; none: those that fit the metric
	Bootstrap  int      // replicas; 0: 1,000
	Seed       uint64
	// MixtureR is the r of normal_mixture_cs; 0: 0.18, tightest near 1,000 units.
	MixtureR float64

	// Partials makes aggregate emit the state of its cells for merge, not results.
	Partials bool
	// Replayed says that whoever merges the partials reads the last of each key again when
	// it begins anew, as merge does over a compacted topic that they are committed to
	// together with the state. What is kept in a store of windows that are final goes then,
	// once it was said. Otherwise it stays, since merge begins empty after a crash.
	Replayed bool
	// Upserts says that of the results of each key the last one stands, and that what another
	// process has published before may stand there still: what could have been published and
	// holds no more is withdrawn when this one first publishes, whether it was or not.
	Upserts bool
	// Partition of Partitions is the part of the input that is read here, where
	// partials of several processes meet; Partitions 0: the runner knows. merge takes
	// partials of so many partitions, or, where it is 0, of as many as the first says.
	Partition, Partitions int32
	// Expect is what the scores will be, if that is known beforehand: then groups in
	// which nothing is scored yet are published too.
	Expect *Expectation
}

// Expectation is the family of scores, retrieval, fewshot or agreement, and their
// measures (retrieval only).
type Expectation struct {
	Family   string
	Measures []string
	Settings *evalstream.Settings
}

// OtherGroup is the value of every field of the group that small groups are folded into.
const OtherGroup = `"__other__"`

// relationField is the grouping field that a label itself gives.
const relationField = "relation"

func intervalMethods() []string {
	return []string{"wilson", "beta_cs", "normal_mixture_cs", "poisson_bootstrap"}
}

// Check completes the defaults and refuses what cannot be done.
func (a *Aggregation) Check() error {
	if len(a.Windows) == 0 {
		a.Windows = []Window{{All: true}}
	}
	if len(a.By) == 0 {
		a.By = [][]string{{"run"}}
	}
	for i, w := range a.Windows {
		if slices.Contains(a.Windows[:i], w) {
			return fmt.Errorf("window %s: want it once, got it twice", w)
		}
	}
	// A window is published once, though both 1h and 1h/15m have it.
	a.Windows = slices.DeleteFunc(slices.Clone(a.Windows), func(w Window) bool {
		return slices.ContainsFunc(a.Windows, func(finer Window) bool { return finer.covers(w) })
	})
	seen := map[string]bool{}
	for _, by := range a.By {
		key := strings.Join(by, ",")
		if seen[key] {
			return fmt.Errorf("by %q: want each grouping once, got it twice", key)
		}
		seen[key] = true
		for i, f := range by {
			switch {
			case f == "":
				return fmt.Errorf("by %q: want field names between commas, got an empty one", key)
			case slices.Contains(by[:i], f):
				return fmt.Errorf("by %q: want each field once, got %s twice", key, f)
			case f == a.Over:
				return fmt.Errorf("by %q: the mean is taken over %s, so it cannot be grouped by", key, f)
			}
		}
	}
	if err := metric.Panel(a.Panel).Check(); err != nil {
		return err
	}
	a.Panel = slices.Sorted(slices.Values(a.Panel))
	if a.Confidence == 0 {
		a.Confidence = .95
	}
	if !(a.Confidence > 0 && a.Confidence < 1) { // NaN too
		return fmt.Errorf("confidence: want a number between 0 and 1, got %v", a.Confidence)
	}
	for _, m := range a.Intervals {
		if !slices.Contains(intervalMethods(), m) {
			return evalstream.NoChoice("interval", m, intervalMethods()...)
		}
	}
	if a.Bootstrap == 0 {
		a.Bootstrap = 1000
	}
	if a.MixtureR == 0 {
		a.MixtureR = .18
	}
	if a.Bootstrap < 0 || a.MixtureR < 0 || a.MaxGroups < 0 {
		return fmt.Errorf("want bootstrap, r and max-groups above 0, got %d, %v, %d", a.Bootstrap, a.MixtureR, a.MaxGroups)
	}
	return nil
}

// Fields lists the fields that records must carry to be grouped so.
func (a *Aggregation) Fields() []string {
	var fields []string
	for _, by := range a.By {
		for _, f := range by {
			if f != relationField && !slices.Contains(fields, f) {
				fields = append(fields, f)
			}
		}
	}
	if a.Over != "" && !slices.Contains(fields, a.Over) {
		fields = append(fields, a.Over)
	}
	return fields
}

// Timed reports whether records need a time.
func (a *Aggregation) Timed() bool {
	return slices.ContainsFunc(a.Windows, func(w Window) bool { return !w.All })
}

// grouping is one --by in the form in which cells are kept: the relation is read off
// a cell, and the field that a mean is over is kept apart.
type grouping struct {
	names    []string // as given
	fields   []int    // of the cell's values, in the aggregation's fields
	relation int      // place in names, -1 if it is not there
	over     bool     // the last of fields is the one the mean is over
}

func (a *Aggregation) groupings(by [][]string) []grouping {
	fields := a.Fields()
	var gs []grouping
	for _, names := range by {
		g := grouping{names: names, relation: slices.Index(names, relationField)}
		for _, f := range names {
			if f != relationField {
				g.fields = append(g.fields, slices.Index(fields, f))
			}
		}
		if a.Over != "" {
			g.over = true
			g.fields = append(g.fields, slices.Index(fields, a.Over))
		}
		gs = append(gs, g)
	}
	return gs
}

// runOnly reports whether the grouping is by run alone, so that missing is known.
func (g *grouping) runOnly() bool {
	return len(g.names) == 1 && g.names[0] == "run" && !g.over
}
