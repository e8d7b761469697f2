package stages

import (
	"evalstream"
)

// Conflict says what a second record of a held slot does that is different: in what it
// says, its time, or the fields that it carries to be grouped by. A repeat with another
// revision is none. What stands in the results does not depend on where the gold comes
// from; but beside complete gold only the score of a prediction is remembered, so two
// lists with the same score are a repeat there, and a conflict where gold may yet come.
type Conflict uint8

// The ways to meet a conflict.
const (
	Replace Conflict = iota // the greatest (revision, position) wins
	Refuse                  // it is a reject
)

// ParseConflict reads replace or reject.
func ParseConflict(name string) (Conflict, error) {
	switch name {
	case "replace":
		return Replace, nil
	case "reject":
		return Refuse, nil
	}
	return 0, evalstream.NoChoice("on-conflict", name, "replace", "reject")
}

func conflict(b evalstream.Body) *evalstream.Fault {
	return &evalstream.Fault{Class: evalstream.ClassStage, Reason: "slot " + string(b.AppendKey(nil)) + " holds a different " + b.Kind() + "; --on-conflict replace takes the newer one"}
}
