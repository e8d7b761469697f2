package stages

import (
	"evalstream"
)

// openTallies accounts for the records of score, by input kind. What is held is added
// when it is forgotten, or for a look at the state.
type openTallies [inputs]evalstream.Tally

// The input kinds that are accounted for, in the order of their tallies.
const (
	ofRuns = iota
	ofPredictions
	ofQrels
	ofLabels
	ofRatings
	ofVerdicts
	ofOthers
	inputs
)

func (ts *openTallies) add(kind int, s evalstream.Status) {
	ts[kind].Held++
	ts[kind].Of[s]++
}

// run adds a prediction.
func (ts *openTallies) run(r *openRun, s evalstream.Status) {
	if r.fewshot {
		ts.add(ofPredictions, s)
	} else {
		ts.add(ofRuns, s)
	}
}

// gold adds a unit's gold; what met no prediction counts as alone says.
func (ts *openTallies) gold(u *openUnit, alone evalstream.Status) {
	for i := range u.gold {
		kind, s := ofQrels, alone
		if u.label {
			kind = ofLabels
		}
		switch {
		case u.gold[i].withdrawn:
			s = evalstream.Retracted
		case u.met:
			s = evalstream.Scored // matched
		}
		ts.add(kind, s)
	}
}

// ratings adds a unit's ratings.
func (ts *openTallies) ratings(u *openUnit) {
	for i := range u.ratings {
		if u.ratings[i].Retracted {
			ts.add(ofRatings, evalstream.Retracted)
		} else {
			ts.add(ofRatings, evalstream.Scored)
		}
	}
}

// unit adds all that is known of a unit; status says what a prediction counts as.
func (ts *openTallies) unit(u *openUnit, status func(*openRun) evalstream.Status) {
	for i := range u.runs {
		ts.run(&u.runs[i], status(&u.runs[i]))
	}
	ts.gold(u, evalstream.Waiting)
	ts.ratings(u)
}

// Tallies reads what is held off the state.
func (o *openScore) Tallies() []evalstream.Tally {
	ts := o.tallies
	if o.kept != nil {
		o.heldKept(&ts)
	} else {
		for _, u := range o.units {
			ts.unit(u, (*openRun).now)
		}
	}
	v, j := &ts[ofVerdicts], o.judges.tallied()
	v.Held, v.Replaced, v.Of = j.Held, j.Replaced, j.Of
	return kinds(ts[:], "run", "prediction", "qrel", "gold", "rating", "verdict", otherKinds)
}
