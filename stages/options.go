package stages

import (
	"flag"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"evalstream"
	"evalstream/stages/metric"
)

// Options are a verb's options as text: declared once, for the shell, YAML and help.
type Options interface {
	// Declare adds the flags. A flag that may be given several times says so.
	Declare(fs *flag.FlagSet)
}

// ParseOptions are the options of parse.
type ParseOptions struct {
	As  string   // kind of every line; "" if each line says its own
	Map []string // FIELD=/json/pointer
}

// Declare adds --as and --map.
func (o *ParseOptions) Declare(fs *flag.FlagSet) {
	fs.StringVar(&o.As, "as", o.As, "`KIND` of every line: run, qrel, prediction, rating, verdict, score or partial (default: each line says its own \"kind\")")
	fs.Func("map", "read a field from elsewhere in the line, `FIELD=/json/pointer`, as in query_id=/qid or top.id=/doc (in each entry of the list); may repeat", func(s string) error {
		o.Map = append(o.Map, s)
		return nil
	})
}

// ScoreOptions are the options of score.
type ScoreOptions struct {
	Gold     string // an edge; "" is the stream itself
	Measures []string
	Ties     string
	Level    int
	Source   string
	Panel    []string
}

// Declare adds the flags.
func (o *ScoreOptions) Declare(fs *flag.FlagSet) {
	fs.StringVar(&o.Gold, "gold", o.Gold, "`FILE` of gold that is read whole before the first record, or inline: each prediction carries its own (default: gold comes with the stream, before or after its predictions)")
	o.DeclareMeasures(fs)
	declarePanel(fs, &o.Panel, "`JUDGES` between commas who must give a verdict: units that lack one, or whose judges differ, are for review (default: whoever was heard)")
}

// declarePanel adds --panel, which may repeat.
func declarePanel(fs *flag.FlagSet, panel *[]string, doc string) {
	fs.Func("panel", doc, func(s string) error {
		*panel = append(*panel, splitJudges(s)...)
		return metric.Panel(*panel).Check()
	})
}

func splitJudges(s string) []string {
	judges := strings.Split(s, ",")
	for i := range judges {
		judges[i] = strings.TrimSpace(judges[i])
	}
	return judges
}

// DeclareMeasures adds the flags other than --gold.
func (o *ScoreOptions) DeclareMeasures(fs *flag.FlagSet) {
	fs.Func("measure", "`MEASURE` of ranked lists, such as success@1, mrr@10, map; may repeat (default: "+strings.Join(DefaultMeasures(), ", ")+")", func(s string) error {
		o.Measures = append(o.Measures, s)
		return nil
	})
	fs.StringVar(&o.Ties, "ties", "trec", "order of equal scores in a list: `POLICY` trec (id, descending), rank (as given), worst, best or expected (mean of all orders)")
	fs.IntVar(&o.Level, "level-relevant", 1, "least `GRADE` that is relevant")
	fs.StringVar(&o.Source, "source", "", "read judgments of this `SOURCE` only, such as human (default: all must have one source)")
}

// Scoring reads the options.
func (o *ScoreOptions) Scoring() (Scoring, error) {
	s := Scoring{Level: int32(o.Level), Source: o.Source}
	if o.Level < 0 || o.Level > math.MaxInt32 {
		return s, fmt.Errorf("level-relevant: want a grade from 1 to %d, got %d", math.MaxInt32, o.Level)
	}
	var err error
	if s.Ties, err = metric.ParseTies(cmpOr(o.Ties, "trec")); err != nil {
		return s, err
	}
	for _, name := range o.Measures {
		m, err := metric.ParseMeasure(name)
		if err != nil {
			return s, err
		}
		s.Measures = append(s.Measures, m)
	}
	return s, s.Check()
}

func cmpOr(s, standby string) string {
	if s == "" {
		return standby
	}
	return s
}

// AggregateOptions are the options of aggregate and merge.
type AggregateOptions struct {
	By           []string
	Windows      []string
	Over         string
	Every        string
	MaxGroups    int
	Missing      string
	Negative     string
	ZeroDivision string
	Partition    string // I/N
	Level        string
	Order        string
	Panel        []string
}

// Declare adds the flags.
func (o *AggregateOptions) Declare(fs *flag.FlagSet) {
	o.DeclareGroups(fs)
	fs.StringVar(&o.Missing, "missing", "skip", "judged queries that a run never answered: `POLICY` skip (leave them out) or miss (count them as misses)")
	o.DeclareLabels(fs)
	o.DeclareLevel(fs)
	fs.StringVar(&o.Partition, "partition", "", "this is part `I/N` of the input, I from 0: write partials, which merge puts together")
	o.DeclarePanel(fs)
}

// DeclarePanel adds --panel.
func (o *AggregateOptions) DeclarePanel(fs *flag.FlagSet) {
	declarePanel(fs, &o.Panel, "`JUDGES` between commas whose strict majority decides a unit; other judges are counted off_panel (default: nothing is decided)")
}

// DeclareGroups adds --by, --window, --over, --every and --max-groups.
func (o *AggregateOptions) DeclareGroups(fs *flag.FlagSet) {
	fs.Func("by", "one grouping, as `FIELDS` between commas, such as run,ticker; \"\" pools everything; may repeat (default: run; ratings: everything)", func(s string) error {
		o.By = append(o.By, s)
		return nil
	})
	fs.Func("window", "`WINDOW` of event time: all, 1h (tumbling) or 1h/5m (hopping); may repeat (default: all)", func(s string) error {
		_, err := ParseWindow(s)
		o.Windows = append(o.Windows, s)
		return err
	})
	fs.StringVar(&o.Over, "over", "", "publish the mean and the standard deviation over the values of `FIELD`, such as seed")
	standby := " (default: at the end only)"
	if o.Every != "" {
		standby = ""
	}
	fs.StringVar(&o.Every, "every", o.Every, "publish after each `N` records that come in, or after each time span such as 1s, and at the end"+standby)
	fs.IntVar(&o.MaxGroups, "max-groups", 10000, "publish the `N` largest groups of a grouping and window, and the others together as __other__; 0: no limit")
}

// DeclareLabels adds the flags of few-shot scores.
func (o *AggregateOptions) DeclareLabels(fs *flag.FlagSet) {
	fs.StringVar(&o.Negative, "negative", "no_relation", "few-shot: the `LABEL` that means none of the above (NOTA)")
	fs.StringVar(&o.ZeroDivision, "zero-division", "one", "few-shot: precision where nothing was guessed, `VALUE` one (as TACRED's scorer), zero or null")
}

// DeclareLevel adds the flags of agreement.
func (o *AggregateOptions) DeclareLevel(fs *flag.FlagSet) {
	fs.StringVar(&o.Level, "level", o.Level, "ratings: `LEVEL` of measurement, nominal, ordinal, interval or ratio")
	fs.StringVar(&o.Order, "order", "", "ratings: ordinal `VALUES` from low to high, between commas (default: numeric order)")
}

// Aggregation reads the options.
func (o *AggregateOptions) Aggregation() (Aggregation, error) {
	a := Aggregation{Over: o.Over, MaxGroups: o.MaxGroups, Negative: o.Negative, Panel: o.Panel}
	for _, by := range o.By {
		var fields []string
		if by != "" {
			fields = strings.Split(by, ",")
			for i := range fields {
				fields[i] = strings.TrimSpace(fields[i])
			}
		}
		a.By = append(a.By, fields)
	}
	for _, s := range o.Windows {
		w, err := ParseWindow(s)
		if err != nil {
			return a, err
		}
		a.Windows = append(a.Windows, w)
	}
	var err error
	if a.Every, err = ParseEvery(o.Every); err != nil {
		return a, err
	}
	switch o.Missing {
	case "", "skip":
	case "miss":
		a.MissHits = true
	default:
		return a, evalstream.NoChoice("missing", o.Missing, "skip", "miss")
	}
	if a.ZeroDivision, err = metric.ParseZeroDivision(cmpOr(o.ZeroDivision, "one")); err != nil {
		return a, err
	}
	if a.Level, err = metric.ParseLevel(cmpOr(o.Level, "nominal")); err != nil {
		return a, err
	}
	if o.Partition != "" {
		if _, err := fmt.Sscanf(o.Partition, "%d/%d", &a.Partition, &a.Partitions); err != nil || fmt.Sprintf("%d/%d", a.Partition, a.Partitions) != o.Partition || a.Partition < 0 || a.Partition >= a.Partitions {
			return a, fmt.Errorf("partition: want I/N with I from 0 to N-1, as in 0/2, got %q", o.Partition)
		}
		a.Partials = true
	}
	if o.Order != "" {
		a.Order = strings.Split(o.Order, ",")
	}
	return a, nil
}

// ParseEvery reads N (records) or a duration; "" never ticks.
func ParseEvery(s string) (evalstream.Every, error) {
	if s == "" {
		return evalstream.Every{}, nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		if n <= 0 {
			return evalstream.Every{}, fmt.Errorf("every: want a number of records above 0, got %d", n)
		}
		return evalstream.Every{Records: n}, nil
	}
	d, err := ParseSpan(s)
	if err != nil || d < time.Millisecond {
		return evalstream.Every{}, fmt.Errorf("every: want a number of records or a duration of 1ms or more, got %q", s)
	}
	return evalstream.Every{Interval: d}, nil
}
