package evalstream

// Verdict is what one judge, a model or a person, said of one dimension of one
// triple, or of a whole span.
type Verdict struct {
	SpanID    string
	TripleID  string // "" where the whole span is judged, as for comprehensiveness
	Mode      string // the extraction mode whose work is judged; "" if there is one only
	Dimension string // faithfulness, precision, relevance, comprehensiveness, or any other name
	Judge     string // a person is a judge like others, often "human"
	// PromptVersion is what the judge was asked; "" (people, mostly) is an answer to
	// every version.
	PromptVersion string
	// Value is the JSON literal 0, 1, "good", "partial" or "poor". It is "" if there is
	// no verdict: that is neither 0 nor 1.
	Value     string
	Reason    string // why there is no verdict: timeout, refused, bad_value …
	Swap      bool   // the two things compared were shown in reverse order
	Reasoning string // not read by any stage
	Warning   string // not read by any stage
	Shown     *Shown // nil if it carries none
	Revision  int64
	Slices    []Slice
}

// Shown is what a judge was shown, for whoever reviews the unit.
type Shown struct {
	Text   string // of the span
	Triple string // that is judged: a JSON value, or ""
}

// Review is a unit that a person should see, because its judges are not of one mind
// or because one of them is missing. The last Review of a key stands.
type Review struct {
	Unit, Dimension     string
	SpanID, TripleID    string
	Mode, PromptVersion string
	Text                string // of the span, where a verdict carried it
	Triple              string // a JSON value, where a verdict carried it
	Why                 Why
	Verdicts            []CoderValue // of the panel and of any other judge, by judge; Value "" is missing
	Reasons             []CoderValue // why, of the missing ones that said so: JSON strings
	Decision            string       // the panel's, as a JSON literal; "" if it has none
	Withdrawn           bool         // late verdicts have settled it
}

// Why is the reason for a review.
type Why uint8

// The reasons for a review. A unit that is split and incomplete is split.
const (
	Settled Why = iota // there is none: the review is withdrawn
	Split              // two judges of the panel differ
	Missing            // those who spoke agree, but one of the panel is missing
)

// String is the reason on the wire, "" for Settled.
func (w Why) String() string { return [...]string{"", "split", "missing"}[w] }

// ParseWhy is the inverse of String.
func ParseWhy(name string) (Why, bool) {
	for _, w := range []Why{Settled, Split, Missing} {
		if w.String() == name {
			return w, true
		}
	}
	return Settled, false
}

// Kind is "verdict".
func (*Verdict) Kind() string { return "verdict" }

// Kind is "review".
func (*Review) Kind() string { return "review" }

// AppendRoute is the span, so that all verdicts of a span meet.
func (b *Verdict) AppendRoute(dst []byte) []byte { return append(dst, b.SpanID...) }

// AppendUnit is [span_id, mode, triple_id, dimension, prompt_version]: the unit that
// judges agree or differ on.
func (b *Verdict) AppendUnit(dst []byte) []byte {
	return appendArray(dst, b.SpanID, b.Mode, b.TripleID, b.Dimension, b.PromptVersion)
}

// AppendKey is [span_id, mode, triple_id, dimension, prompt_version, judge, swap],
// swap as "true" or "false".
func (b *Verdict) AppendKey(dst []byte) []byte {
	swap := "false"
	if b.Swap {
		swap = "true"
	}
	return appendArray(dst, b.SpanID, b.Mode, b.TripleID, b.Dimension, b.PromptVersion, b.Judge, swap)
}

// AppendRoute is the unit.
func (b *Review) AppendRoute(dst []byte) []byte { return append(dst, b.Unit...) }

// AppendKey is ["review", unit, dimension]: unlike the key of any result.
func (b *Review) AppendKey(dst []byte) []byte { return appendArray(dst, b.Kind(), b.Unit, b.Dimension) }
