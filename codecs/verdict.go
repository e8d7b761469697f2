package codecs

import (
	"strings"

	"evalstream"
)

const (
	verdictSpan = iota
	verdictTriple
	verdictMode
	verdictDimension
	verdictJudge
	verdictPrompt
	verdictValue
	verdictSwap
	verdictReason
	verdictReasoning
	verdictWarning
	verdictUsage
	verdictText
	verdictTripleValue
	verdictRevision
	verdictTime
)

const (
	reviewUnit = iota
	reviewDimension
	reviewSpan
	reviewTriple
	reviewMode
	reviewPrompt
	reviewText
	reviewTripleValue
	reviewWhy
	reviewVerdicts
	reviewReasons
	reviewDecision
	reviewWithdrawn
)

func verdictFields() []string {
	return []string{
		"span_id", "triple_id", "mode", "dimension", "judge", "prompt_version", "verdict", "swap",
		"reason", "reasoning", "warning", "usage", "text", "triple", "revision", "time",
	}
}

func reviewFields() []string {
	return []string{
		"unit", "dimension", "span_id", "triple_id", "mode", "prompt_version", "text", "triple", "why", "verdicts", "reasons", "decision", "withdrawn",
	}
}

const (
	anyVerdict    = "0, 1, good, partial, poor or null"
	binaryVerdict = "0, 1 or null"
	gradedVerdict = "good, partial, poor or null"
)

// scaleOf is the verdicts that a dimension takes: those of the benchmark have theirs,
// any other may have either.
func scaleOf(dimension string) string {
	switch dimension {
	case "faithfulness", "precision", "relevance":
		return binaryVerdict
	case "comprehensiveness":
		return gradedVerdict
	}
	return anyVerdict
}

func (d *Decoder) readVerdict(rec *evalstream.Record) *evalstream.Fault {
	b := d.verdicts.one()
	var f *evalstream.Fault
	if b.SpanID, f = d.id(verdictSpan); f != nil {
		return f
	}
	if b.TripleID, _, f = d.optionalID(verdictTriple); f != nil {
		return f
	}
	if b.Mode, _, f = d.optionalID(verdictMode); f != nil {
		return f
	}
	if b.Dimension, f = d.id(verdictDimension); f != nil {
		return f
	}
	if b.Dimension == "" {
		return d.at(verdictDimension).fault(d.line, d.r.paths[verdictDimension], "want a name, got an empty string")
	}
	if b.Judge, f = d.id(verdictJudge); f != nil {
		return f
	}
	if b.PromptVersion, _, f = d.optionalID(verdictPrompt); f != nil {
		return f
	}
	if b.Value, f = d.verdict(verdictValue, scaleOf(b.Dimension)); f != nil {
		return f
	}
	if b.Swap, f = d.boolean(verdictSwap); f != nil {
		return f
	}
	if b.Reason, f = d.prose(verdictReason); f != nil {
		return f
	}
	if b.Reasoning, f = d.remark(verdictReasoning); f != nil {
		return f
	}
	if b.Warning, f = d.remark(verdictWarning); f != nil {
		return f
	}
	var shown evalstream.Shown
	if shown.Text, f = d.prose(verdictText); f != nil {
		return f
	}
	if shown.Triple = d.value(verdictTripleValue); shown != (evalstream.Shown{}) {
		b.Shown = &evalstream.Shown{Text: shown.Text, Triple: shown.Triple} // shown itself stays on the stack
	}
	if b.Revision, f = d.revision(verdictRevision); f != nil {
		return f
	}
	if f := d.setTime(rec, verdictTime); f != nil {
		return f
	}
	b.Slices = d.slicesOf()
	rec.Body = b
	return nil
}

// verdict reads a verdict of a scale as one of five literals, "" for null.
func (d *Decoder) verdict(f int, scale string) (string, *evalstream.Fault) {
	v := d.at(f)
	if v.absent() {
		return "", d.want(f, scale)
	}
	raw := d.line[v.from:v.to]
	if raw[0] == 'n' {
		return "", nil
	}
	var literal string
	switch c := raw[0]; {
	case c == '-', '0' <= c && c <= '9':
		literal = view(raw)
		if (literal == "0" || literal == "1") && scale != gradedVerdict {
			return literal, nil
		}
	case c == '"':
		switch literal = d.textOf(v); {
		case scale == binaryVerdict:
		case literal == "good":
			return `"good"`, nil
		case literal == "partial":
			return `"partial"`, nil
		case literal == "poor":
			return `"poor"`, nil
		}
		literal = quote(literal)
	default:
		return "", d.wantAt(v, d.r.paths[f], scale)
	}
	return "", v.fault(d.line, d.r.paths[f], "want "+scale+", got "+cutText([]byte(literal)))
}

// value is a field as it stands, "" for null.
func (d *Decoder) value(f int) string {
	v := d.at(f)
	if d.null(v) {
		return ""
	}
	return view(d.line[v.from:v.to])
}

// prose is a text that nothing is keyed by; null is absent.
func (d *Decoder) prose(f int) (string, *evalstream.Fault) {
	v := d.at(f)
	if d.null(v) {
		return "", nil
	}
	if d.line[v.from] != '"' {
		return "", d.want(f, "string")
	}
	return d.textOf(v), nil
}

// remark is prose that no stage reads: its text is taken only if everything is carried.
func (d *Decoder) remark(f int) (string, *evalstream.Fault) {
	v := d.at(f)
	if d.plan.AllSlices || d.null(v) || d.line[v.from] != '"' {
		return d.prose(f)
	}
	return "", nil
}

// readReview reads what AppendRecord writes of a review. Reviews are few, so their
// memory is their own.
func (d *Decoder) readReview(rec *evalstream.Record) *evalstream.Fault {
	b := &evalstream.Review{}
	for _, r := range []struct {
		field    int
		required bool
		to       *string
	}{
		{reviewUnit, true, &b.Unit},
		{reviewDimension, true, &b.Dimension},
		{reviewSpan, false, &b.SpanID},
		{reviewTriple, false, &b.TripleID},
		{reviewMode, false, &b.Mode},
		{reviewPrompt, false, &b.PromptVersion},
	} {
		text, has, f := d.optionalID(r.field)
		if f != nil {
			return f
		}
		if !has && r.required {
			return d.want(r.field, "string or number")
		}
		*r.to = strings.Clone(text)
	}
	text, f := d.prose(reviewText)
	if f != nil {
		return f
	}
	b.Text, b.Triple = strings.Clone(text), strings.Clone(d.value(reviewTripleValue))
	why, f := d.prose(reviewWhy)
	if f != nil {
		return f
	}
	var ok bool
	if b.Why, ok = evalstream.ParseWhy(why); !ok {
		return d.at(reviewWhy).fault(d.line, d.r.paths[reviewWhy], "want split or missing, got "+quote(why))
	}
	if b.Verdicts, f = d.ownValues(reviewVerdicts, "object of verdicts"); f != nil {
		return f
	}
	if b.Reasons, f = d.ownValues(reviewReasons, "object of reasons"); f != nil {
		return f
	}
	if v := d.at(reviewDecision); !v.absent() {
		if b.Decision, f = d.verdict(reviewDecision, anyVerdict); f != nil {
			return f
		}
		b.Decision = strings.Clone(b.Decision)
	}
	if b.Withdrawn, f = d.boolean(reviewWithdrawn); f != nil {
		return f
	}
	rec.Body = b
	return nil
}

// coderValues reads an object of literals by coder, sorted by coder; null is "" where
// it may stand. It lives until Reset.
func (d *Decoder) coderValues(field int, what string, nulls bool) ([]evalstream.CoderValue, *evalstream.Fault) {
	c, ok, f := d.object(field, what)
	if !ok {
		return nil, f
	}
	d.valueBuf = d.valueBuf[:0]
	for c.next() {
		lit, ok := d.literalOf(c.value, int(c.value.to))
		if null := d.line[c.value.from] == 'n'; !ok && (!nulls || !null) {
			return nil, d.wantAt(c.value, d.below(field, c.name()), "number, string or boolean")
		}
		d.valueBuf = append(d.valueBuf, evalstream.CoderValue{Coder: c.name(), Value: lit})
	}
	sortCoders(d.valueBuf)
	return d.values.copy(d.valueBuf), nil
}

// ownValues is coderValues in memory of their own.
func (d *Decoder) ownValues(field int, what string) ([]evalstream.CoderValue, *evalstream.Fault) {
	values, f := d.coderValues(field, what, true)
	var own []evalstream.CoderValue
	for _, v := range values {
		own = append(own, evalstream.CoderValue{Coder: strings.Clone(v.Coder), Value: strings.Clone(v.Value)})
	}
	return own, f
}

func (o *object) verdict(b *evalstream.Verdict, t evalstream.Time) {
	o.text("span_id", b.SpanID)
	o.optional("triple_id", b.TripleID)
	o.optional("mode", b.Mode)
	o.text("dimension", b.Dimension)
	o.text("judge", b.Judge)
	o.optional("prompt_version", b.PromptVersion)
	o.literal("verdict", b.Value)
	if b.Swap {
		o.bool("swap", true)
	}
	o.optional("reason", b.Reason)
	o.optional("reasoning", b.Reasoning)
	o.optional("warning", b.Warning)
	if b.Shown != nil {
		o.optional("text", b.Shown.Text)
		o.triple(b.Shown.Triple)
	}
	o.time("time", t)
	o.revision(b.Revision)
	o.slices(b.Slices)
}

func (o *object) review(b *evalstream.Review) {
	o.text("unit", b.Unit)
	o.text("dimension", b.Dimension)
	o.optional("span_id", b.SpanID)
	o.optional("triple_id", b.TripleID)
	o.optional("mode", b.Mode)
	o.optional("prompt_version", b.PromptVersion)
	o.optional("text", b.Text)
	o.triple(b.Triple)
	o.optional("why", b.Why.String())
	o.coders("verdicts", b.Verdicts)
	o.coders("reasons", b.Reasons)
	o.literal("decision", b.Decision)
	if b.Withdrawn {
		o.bool("withdrawn", true)
	}
}

func (o *object) triple(value string) {
	if value != "" {
		o.literal("triple", value)
	}
}

// coders appends values by coder as an object, nothing if there are none.
func (o *object) coders(name string, values []evalstream.CoderValue) {
	if len(values) == 0 {
		return
	}
	o.nested(name, func() {
		for _, v := range values {
			o.literal(v.Coder, v.Value)
		}
	})
}
