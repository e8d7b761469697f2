package metric

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// Vote is what one judge said of one unit.
type Vote uint8

// The votes. NoVote is of a judge who was not heard, MissingVote of one who gave no
// verdict; neither is 0 or 1, and a panel cannot tell them apart.
const (
	NoVote Vote = iota
	MissingVote
	VoteZero
	VoteOne
	VotePoor
	VotePartial
	VoteGood
)

// voteCodes is each vote as one byte of a ballot's text.
const voteCodes = ".-01pag"

// ParseVote reads the JSON literal of a verdict: 0, 1, "good", "partial" or "poor", with
// or without quotes, and "" or null for a missing one.
func ParseVote(literal string) (v Vote, ok bool) {
	switch literal {
	case "", "null":
		return MissingVote, true
	case "0":
		return VoteZero, true
	case "1":
		return VoteOne, true
	case `"poor"`, "poor":
		return VotePoor, true
	case `"partial"`, "partial":
		return VotePartial, true
	case `"good"`, "good":
		return VoteGood, true
	}
	return NoVote, false
}

// String is the verdict's text, "" if there is none.
func (v Vote) String() string {
	return [...]string{"", "", "0", "1", "poor", "partial", "good"}[v]
}

// Literal is the verdict as a JSON literal, "" if there is none.
func (v Vote) Literal() string {
	return [...]string{"", "", "0", "1", `"poor"`, `"partial"`, `"good"`}[v]
}

// Cast says that the judge gave a verdict.
func (v Vote) Cast() bool { return v >= VoteZero }

// Graded says that the verdict is of the scale of three.
func (v Vote) Graded() bool { return v >= VotePoor }

// Halves is the verdict's number times two, so that it is whole: good and 1 are 1,
// partial is one half, poor and 0 are 0; without a verdict it is 0.
func (v Vote) Halves() int64 {
	return [...]int64{0, 0, 0, 2, 0, 1, 2}[v]
}

// Ballot is what one judge said of one unit: of the two things compared in their
// order, and in reverse order.
type Ballot struct {
	Judge    string
	Straight Vote
	Swapped  Vote
}

// Ballots is what all judges said of one unit in one dimension, by judge ascending,
// each at most once.
type Ballots struct {
	Dimension string
	Ballots   []Ballot
}

// of is the straight vote of a judge.
func (b *Ballots) of(judge string) Vote {
	for i := range b.Ballots {
		if b.Ballots[i].Judge == judge {
			return b.Ballots[i].Straight
		}
	}
	return NoVote
}

// AppendText appends b as text that [ParseBallots] reads: the dimension and each
// judge with the length of its name in bytes, and two bytes for the votes, as in
// "12:faithfulness;1:a1.;1:b-0;". Equal ballots have equal texts.
func (b *Ballots) AppendText(dst []byte) []byte {
	dst = append(appendName(dst, b.Dimension), ';')
	for i := range b.Ballots {
		v := &b.Ballots[i]
		dst = append(appendName(dst, v.Judge), voteCodes[v.Straight], voteCodes[v.Swapped], ';')
	}
	return dst
}

func appendName(dst []byte, name string) []byte {
	dst = strconv.AppendInt(dst, int64(len(name)), 10)
	return append(append(dst, ':'), name...)
}

// ParseBallots reads what AppendText wrote.
func ParseBallots(text string) (Ballots, error) {
	bad := func() (Ballots, error) {
		return Ballots{}, fmt.Errorf("pattern %s: want length:dimension; and length:judge with two votes; for each judge", quoted(text))
	}
	name, rest, ok := cutName([]byte(text))
	if !ok || len(rest) == 0 || rest[0] != ';' {
		return bad()
	}
	b := Ballots{Dimension: name}
	for rest = rest[1:]; len(rest) > 0; rest = rest[3:] {
		if name, rest, ok = cutName(rest); !ok || len(rest) < 3 || rest[2] != ';' {
			return bad()
		}
		straight, swapped := bytes.IndexByte([]byte(voteCodes), rest[0]), bytes.IndexByte([]byte(voteCodes), rest[1])
		if n := len(b.Ballots); straight < 0 || swapped < 0 || n > 0 && b.Ballots[n-1].Judge >= name {
			return bad()
		}
		b.Ballots = append(b.Ballots, Ballot{Judge: name, Straight: Vote(straight), Swapped: Vote(swapped)})
	}
	return b, nil
}

func cutName(text []byte) (name string, rest []byte, ok bool) {
	length, after, ok := bytes.Cut(text, []byte(":"))
	size, err := strconv.Atoi(string(length))
	if !ok || err != nil || size < 0 || size > len(after) {
		return "", nil, false
	}
	return string(after[:size]), after[size:], true
}

// Panel is the judges who decide, each once. With an empty panel nothing is decided.
type Panel []string

// Check refuses a panel with an empty name or one that comes twice.
func (p Panel) Check() error {
	for i, judge := range p {
		switch {
		case judge == "":
			return errors.New("panel: want judges between commas, got an empty name")
		case slices.Contains(p[:i], judge):
			return fmt.Errorf("panel: want each judge once, got %s twice", judge)
		}
	}
	return nil
}

// Decision is what a panel makes of one unit.
type Decision struct {
	// Vote is the verdict of more than half of the whole panel; missing votes stay in
	// the denominator. NoVote if there is none: undecided.
	Vote Vote
	// Halves is [Vote.Halves] of the decision, and the lowest of the panel's votes if it
	// is undecided, a missing one being 0.
	Halves    int64
	Missing   int  // judges of the panel without a verdict
	Differ    bool // two of the panel gave different verdicts
	Unanimous bool // all of the panel gave the same verdict
}

// Decide is the decision of the panel. It does not depend on the order of its judges.
// An empty panel decides nothing, and Differ is about all judges.
func (p Panel) Decide(b *Ballots) Decision {
	if len(p) == 0 {
		return b.differ()
	}
	var d Decision
	var votes [VoteGood + 1]int
	for _, judge := range p {
		votes[b.of(judge)]++
	}
	d.Missing = votes[NoVote] + votes[MissingVote]
	kinds, lowest := 0, int64(2)
	if d.Missing > 0 {
		lowest = 0
	}
	for v := VoteZero; v <= VoteGood; v++ {
		if votes[v] == 0 {
			continue
		}
		kinds++
		lowest = min(lowest, v.Halves())
		if 2*votes[v] > len(p) {
			d.Vote = v
		}
	}
	d.Differ = kinds > 1
	d.Unanimous = kinds == 1 && d.Missing == 0
	if d.Halves = lowest; d.Vote != NoVote {
		d.Halves = d.Vote.Halves()
	}
	return d
}

// differ is the decision where there is no panel: missing are those who gave no verdict.
func (b *Ballots) differ() Decision {
	var d Decision
	var first Vote
	for i := range b.Ballots {
		switch v := b.Ballots[i].Straight; {
		case v == MissingVote:
			d.Missing++
		case !v.Cast():
		case first == NoVote:
			first = v
		case v != first:
			d.Differ = true
		}
	}
	return d
}
