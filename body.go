package evalstream

// Body is what the pipeline reads of an object. Every kind of DESIGN §4 is one type.
type Body interface {
	// Kind is the object's "kind" on the wire.
	Kind() string
	// AppendRoute appends what the owner is picked by: records that must meet share
	// it. One field is the id's text, several are a compact JSON array of strings.
	AppendRoute(dst []byte) []byte
	// AppendKey appends the slot that the record fills, in the same form.
	AppendKey(dst []byte) []byte
}

// Slice is a field to group by: a scalar top-level field of at most 64 bytes.
// Value is its JSON literal: numbers as they were written, strings quoted in the
// shortest escaping. Null and absent fields are not listed.
type Slice struct{ Name, Value string }

// Hit is one entry of a ranked list. Score is finite.
type Hit struct {
	ID    string
	Score float64
}

// Run is the ranked list that one system gave for one query ("run" in TREC's sense).
// Top is in the order of the input; ids are unique. An empty list is valid.
type Run struct {
	QueryID, Run string
	Top          []Hit
	Revision     int64
	Slices       []Slice
}

// Qrel is one judgment of a passage for a query.
type Qrel struct {
	QueryID, PassageID string
	Grade              int32  // below 1: judged and not relevant
	Withdrawn          bool   // grade was null: the judgment is taken back
	Source             string // human, llm, click; "" if not said
	Revision           int64
}

// Prediction is a label given to one query of an episode, or its gold label, or
// both. Without Episode and Query the position is the unit.
type Prediction struct {
	Dataset, Seed, K, Episode, Query, Run string
	Label, Gold                           string
	HasLabel, HasGold                     bool
	Revision                              int64
	Slices                                []Slice
}

// Identified reports whether the prediction names its unit; if not, its position does.
func (p *Prediction) Identified() bool { return p.Episode != "" || p.Query != "" }

// Rating is the value that one coder gave to one unit.
type Rating struct {
	Unit, Coder string
	Value       string // JSON literal of a number, string or boolean
	Retracted   bool   // value was null: the rating is taken back
	Revision    int64
	Slices      []Slice
}

// Status says what is known of a unit.
type Status uint8

// The statuses of a unit. Scored, Pending, Unjudged, Expired and Retracted are
// of a prediction; Waiting is of gold without a prediction.
const (
	Scored Status = iota
	Pending
	Unjudged
	Waiting
	Expired
	Retracted
	statuses
)

func statusNames() [statuses]string {
	return [statuses]string{"scored", "pending", "unjudged", "waiting", "expired", "retracted"}
}

// Statuses lists the statuses in the order of their values.
func Statuses() []Status { return []Status{Scored, Pending, Unjudged, Waiting, Expired, Retracted} }

// String is the status's name on the wire.
func (s Status) String() string { return statusNames()[s] }

// ParseStatus is the inverse of String.
func ParseStatus(name string) (Status, bool) {
	for i, n := range statusNames() {
		if n == name {
			return Status(i), true
		}
	}
	return 0, false
}

// CoderValue is one coder's value in a unit. Value is a JSON literal; "" is a verdict
// that is missing.
type CoderValue struct{ Coder, Value string }

// Score is what one unit contributes. Exactly one of Values, Label/Gold and
// Ratings is used by a scored unit: it decides the family, with Dimension for verdicts.
type Score struct {
	Unit, Run string // Run is the mode where Dimension is set
	Dimension string // judging: what the Ratings, which are verdicts, are about
	Status    Status
	Measures  []string     // names of Values, in the scorer's order; shared, not to be changed
	Values    []Nano       // retrieval: one a measure
	Ratings   []CoderValue // agreement and judging: by coder, sorted by coder
	Swapped   []CoderValue // judging: those given in reverse order, sorted by coder
	Labelled  bool         // few-shot: Label and Gold are set
	Label     string
	Gold      string
	Positions bool // the unit is a position: it fills no slot and cannot be replaced
	Slices    []Slice
	Revision  int64
	Settings  *Settings
	// Again says that no prediction has come: gold, or the end of waiting for it, has made
	// another score of one that came before. It does not travel.
	Again bool
	// Like is a score that equals this one but for its unit and revision, and never
	// changes: who has seen it once need not look again. nil if none is known; a copy
	// in which anything else is changed must have nil.
	Like *Score
}

// Settings is what defines a score's meaning: two scores whose digests differ
// must not be averaged together.
type Settings struct {
	Digest string // 16 hex digits
	Text   string // the options in full, one line
}

// String is the digest, with the options where they are known: they do not travel.
func (s *Settings) String() string {
	if s.Text == "" {
		return s.Digest
	}
	return s.Digest + " (" + s.Text + ")"
}

// Window is a span of event time, [Start, End).
type Window struct {
	All        bool // all time
	Start, End Time
}

// Interval is an interval for a result's value.
type Interval struct {
	Method     string  // wilson, beta_cs, normal_mixture_cs, poisson_bootstrap
	Looks      string  // "one": valid at this n only; "any": valid under peeking
	Confidence float64 // 0 to 1
	Low, High  float64
	Parameter  string // name of the method's parameter, "" if it has none
	Setting    float64
}

// Through says how far an origin has been read.
type Through struct {
	Origin *Origin
	Line   int64
}

// Result is a metric of a group of units in a window, with what it rests on.
type Result struct {
	Metric    string
	By        []Slice
	Window    Window
	Value     float64
	Undefined string // why there is no value; "" if there is one
	Ratio     bool   // Num and Den are set
	Num       Nano
	Den       int64
	N         int64 // scored units

	Missing        int64  // judged units that this run never answered
	MissingUnknown string // why Missing is not known; "" if it is
	Pending        int64
	Unjudged       int64 // no gold came, within the horizon or at all

	Intervals  []Interval
	NoInterval string // why there is none

	Over   string // the field that the mean is taken over, "" if none
	SD     float64
	HasSD  bool
	Of     int64 // number of groups in a mean over groups; 0 if it is not one
	Agreed bool  // Units and Values are set: agreement
	Units  int64 // pairable units
	Values int64 // pairable values
	// OffPanel is how many verdicts came from judges outside the panel.
	OffPanel int64

	Closed bool
	Final  bool
	// Revision counts the changes since the window was first published as closed.
	Revision int64
	Through  []Through
	Settings *Settings
}

// Partial is the whole present state of one cell of one input partition.
type Partial struct {
	Step                  string
	Partition, Partitions int32
	Family                string // retrieval, fewshot, agreement, judging
	By                    []Slice
	Window                string // as configured: all, 1h, 1h/5m
	Pane                  int64  // start of the pane divided by its length; 0 for all
	Cell                  Cell
	Judged                int64 // judged units of the partition so far
	// Settled is the time by which windows end that the partition will not speak of again;
	// NoTime if none can be told. Only the partial that carries judged units alone has it.
	Settled   Time
	Positions bool // some of its units are positions, so that missing is not known
	Settings  *Settings
}

// JudgedFamily is the family of a partial that carries the number of judged units of a
// partition alone, and no cell: whoever merges needs it, whichever cells it has.
const JudgedFamily = "judged"

// Cell is an accumulator in the form in which it travels.
type Cell struct {
	N, Pending, Unjudged, Expired int64
	Measures                      []string
	Sums                          []Nano  // retrieval: one a measure
	Counts                        []Count // few-shot: guessed, gold, correct a relation; agreement and judging: units a pattern
}

// Count is one row of a counting accumulator, sorted by Name.
type Count struct {
	Name string
	N    []int64
}

// Mark says how far the owner of a partition has come. It is written to all partitions of
// the topic behind its step, and never to stdout.
type Mark struct {
	Step                  string
	Partition, Partitions int32 // of the step's input
	Watermark             Time  // NoTime before the first record with a time
	Idle                  bool  // nothing has come for the idle timeout
	Ended                 bool  // the input had an end, and everything that came of it stands before this
	Through               []Cursor
}

// Cursor says where a partition of a topic is read next.
type Cursor struct {
	Origin Origin
	Next   int64 // offset
}

// Rejected is a record set aside.
type Rejected struct {
	At     Pos
	Stage  string
	Class  Class
	Reason string
	Line   []byte // the record's bytes as read
}

// Kind is "run".
func (*Run) Kind() string { return "run" }

// Kind is "qrel".
func (*Qrel) Kind() string { return "qrel" }

// Kind is "prediction".
func (*Prediction) Kind() string { return "prediction" }

// Kind is "rating".
func (*Rating) Kind() string { return "rating" }

// Kind is "score".
func (*Score) Kind() string { return "score" }

// Kind is "result".
func (*Result) Kind() string { return "result" }

// Kind is "partial".
func (*Partial) Kind() string { return "partial" }

// Kind is "mark".
func (*Mark) Kind() string { return "mark" }

// Kind is "reject".
func (*Rejected) Kind() string { return "reject" }
