package codecs

import (
	"math"
	"strconv"

	"evalstream"
)

func (d *Decoder) readRun(rec *evalstream.Record) *evalstream.Fault {
	query, f := d.id(runQuery)
	if f != nil {
		return f
	}
	run, _, f := d.optionalID(runName)
	if f != nil {
		return f
	}
	top, f := d.top()
	if f != nil {
		return f
	}
	revision, f := d.revision(runRevision)
	if f != nil {
		return f
	}
	if f := d.setTime(rec, runTime); f != nil {
		return f
	}
	b := d.runs.one()
	*b = evalstream.Run{QueryID: query, Run: run, Top: top, Revision: revision, Slices: d.slicesOf()}
	rec.Body = b
	return nil
}

// top reads the ranked list. Without scores the order given counts: entry i (from 0)
// has score -i.
func (d *Decoder) top() ([]evalstream.Hit, *evalstream.Fault) {
	list := d.at(runTop)
	if list.absent() || d.line[list.from] != '[' {
		return nil, d.want(runTop, "array of {id, score}")
	}
	d.hitBuf = d.hitBuf[:0]
	scored := false
	for i := range d.entries {
		e := &d.entries[i]
		if d.line[e.whole.from] != '{' {
			return nil, d.wantAt(e.whole, d.entryPath(i, ""), "object with id and score")
		}
		if e.id.absent() {
			return nil, e.whole.fault(d.line, d.entryPath(i, d.r.idPath), "missing; want string or number")
		}
		id, ok := d.idAt(e.id)
		if !ok {
			return nil, d.wantAt(e.id, d.entryPath(i, d.r.idPath), "string or number")
		}
		has := !d.null(e.score)
		if i == 0 {
			scored = has
		}
		if has != scored {
			return nil, e.whole.fault(d.line, d.entryPath(i, d.r.scorePath), "some entries have a score and some have none; want all or none")
		}
		score := -float64(i)
		if e.exact {
			score = e.value
		} else if has {
			var reason string
			if score, reason = parseFloat(d.line[e.score.from:e.score.to]); reason != "" {
				return nil, e.score.fault(d.line, d.entryPath(i, d.r.scorePath), reason)
			}
		}
		d.hitBuf = append(d.hitBuf, evalstream.Hit{ID: id, Score: score})
	}
	if i := d.ids.repeated(d.hitBuf); i >= 0 {
		e := &d.entries[i]
		return nil, e.id.fault(d.line, d.entryPath(i, d.r.idPath), "id "+quote(d.hitBuf[i].ID)+" stands twice in the list")
	}
	return d.hits.copy(d.hitBuf), nil
}

func (d *Decoder) entryPath(i int, below string) string {
	return d.r.paths[runTop] + "/" + strconv.Itoa(i) + below
}

func (d *Decoder) readQrel(rec *evalstream.Record) *evalstream.Fault {
	query, f := d.id(qrelQuery)
	if f != nil {
		return f
	}
	passage, f := d.id(qrelPassage)
	if f != nil {
		return f
	}
	source, _, f := d.optionalID(qrelSource)
	if f != nil {
		return f
	}
	revision, f := d.revision(qrelRevision)
	if f != nil {
		return f
	}
	grade, withdrawn := int64(1), false
	if v := d.at(qrelGrade); !v.absent() {
		withdrawn = d.line[v.from] == 'n'
		if grade, f = d.integer(qrelGrade, "integer or null"); f != nil {
			return f
		}
		if grade < math.MinInt32 || grade > math.MaxInt32 {
			return v.fault(d.line, d.r.paths[qrelGrade], "integer "+cutText(d.line[v.from:v.to])+" does not fit 32 bits")
		}
	}
	b := d.qrels.one()
	*b = evalstream.Qrel{QueryID: query, PassageID: passage, Grade: int32(grade), Withdrawn: withdrawn, Source: source, Revision: revision}
	rec.Body = b
	return nil
}

func (d *Decoder) readPrediction(rec *evalstream.Record) *evalstream.Fault {
	b := d.predictions.one()
	var f *evalstream.Fault
	for field, to := range [...]*string{
		predDataset: &b.Dataset, predSeed: &b.Seed, predK: &b.K, predEpisode: &b.Episode, predQuery: &b.Query, predRun: &b.Run,
	} {
		if *to, _, f = d.optionalID(field); f != nil {
			return f
		}
	}
	if b.Label, b.HasLabel, f = d.optionalID(predLabel); f != nil {
		return f
	}
	if b.Gold, b.HasGold, f = d.optionalID(predGold); f != nil {
		return f
	}
	if !b.HasLabel && !b.HasGold {
		return d.want(predLabel, "a label, or gold in "+d.r.paths[predGold])
	}
	if b.Revision, f = d.revision(predRevision); f != nil {
		return f
	}
	if f := d.setTime(rec, predTime); f != nil {
		return f
	}
	b.Slices = d.slicesOf()
	rec.Body = b
	return nil
}

func (d *Decoder) readRating(rec *evalstream.Record) *evalstream.Fault {
	unit, f := d.id(ratingUnit)
	if f != nil {
		return f
	}
	coder, f := d.id(ratingCoder)
	if f != nil {
		return f
	}
	v := d.at(ratingValue)
	if v.absent() {
		return d.want(ratingValue, "number, string, boolean or null")
	}
	value, ok := d.literalOf(v, math.MaxInt)
	retracted := d.line[v.from] == 'n'
	if !ok && !retracted {
		return d.want(ratingValue, "number, string, boolean or null")
	}
	revision, f := d.revision(ratingRevision)
	if f != nil {
		return f
	}
	if f := d.setTime(rec, ratingTime); f != nil {
		return f
	}
	b := d.ratings.one()
	*b = evalstream.Rating{Unit: unit, Coder: coder, Value: value, Retracted: retracted, Revision: revision, Slices: d.slicesOf()}
	rec.Body = b
	return nil
}
