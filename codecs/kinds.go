package codecs

import "evalstream"

// kindSpec is what the wire knows of a kind.
type kindSpec struct {
	kind   string
	fields []string // top-level keys that are not fields to group by
	sliced bool     // remaining scalars are fields to group by
	read   func(*Decoder, *evalstream.Record) *evalstream.Fault
}

// The places of fields in the tables of specs.
const (
	runQuery = iota
	runName
	runTop
	runTime
	runRevision
)

const (
	qrelQuery = iota
	qrelPassage
	qrelGrade
	qrelSource
	qrelRevision
	qrelTime
)

const (
	predDataset = iota
	predSeed
	predK
	predEpisode
	predQuery
	predRun
	predLabel
	predGold
	predRevision
	predTime
	predScore
)

const (
	ratingUnit = iota
	ratingCoder
	ratingValue
	ratingRevision
	ratingTime
)

const (
	scoreUnit = iota
	scoreRun
	scoreStatus
	scoreValues
	scoreRatings
	scoreLabel
	scoreGold
	scorePosition
	scoreSlices
	scoreTime
	scoreRevision
	scoreSettings
	scoreMode
	scoreDimension
	scoreSwapped
)

const (
	partialStep = iota
	partialPartition
	partialPartitions
	partialFamily
	partialBy
	partialWindow
	partialPane
	partialN
	partialPending
	partialUnjudged
	partialExpired
	partialMeasures
	partialSums
	partialCounts
	partialJudged
	partialPosition
	partialSettled
	partialSettings
)

// specs lists the kinds that can be read.
func specs() []kindSpec {
	return []kindSpec{
		{kind: "run", sliced: true, read: (*Decoder).readRun, fields: []string{runQuery: "query_id", runName: "run", runTop: "top", runTime: "time", runRevision: "revision"}},
		{kind: "qrel", sliced: false, read: (*Decoder).readQrel, fields: []string{
			qrelQuery: "query_id", qrelPassage: "passage_id", qrelGrade: "grade", qrelSource: "source",
			qrelRevision: "revision", qrelTime: "time",
		}},
		{kind: "prediction", sliced: true, read: (*Decoder).readPrediction, fields: []string{
			predDataset: "dataset", predSeed: "seed", predK: "k", predEpisode: "episode",
			predQuery: "query", predRun: "run", predLabel: "label", predGold: "gold",
			predRevision: "revision", predTime: "time", predScore: "score",
		}},
		{kind: "rating", sliced: true, read: (*Decoder).readRating, fields: []string{ratingUnit: "unit", ratingCoder: "coder", ratingValue: "value", ratingRevision: "revision", ratingTime: "time"}},
		{kind: "score", sliced: false, read: (*Decoder).readScore, fields: []string{
			scoreUnit: "unit", scoreRun: "run", scoreStatus: "status", scoreValues: "values",
			scoreRatings: "ratings", scoreLabel: "label", scoreGold: "gold", scorePosition: "position",
			scoreSlices: "slices", scoreTime: "time", scoreRevision: "revision", scoreSettings: "settings",
			scoreMode: "mode", scoreDimension: "dimension", scoreSwapped: "swapped",
		}},
		{kind: "verdict", sliced: true, read: (*Decoder).readVerdict, fields: verdictFields()},
		{kind: "review", sliced: false, read: (*Decoder).readReview, fields: reviewFields()},
		{kind: "partial", sliced: false, read: (*Decoder).readPartial, fields: []string{
			partialStep: "step", partialPartition: "partition", partialPartitions: "partitions",
			partialFamily: "family", partialBy: "by", partialWindow: "window", partialPane: "pane",
			partialN: "n", partialPending: "pending", partialUnjudged: "unjudged",
			partialExpired: "expired", partialMeasures: "measures", partialSums: "sums",
			partialCounts: "counts", partialJudged: "judged", partialPosition: "position", partialSettled: "settled", partialSettings: "settings",
		}},
		{kind: "passage", sliced: true, read: (*Decoder).readPassage, fields: passageFields()},
		{kind: "query", sliced: true, read: (*Decoder).readQuery, fields: queryFields()},
		{kind: "instance", sliced: false, read: (*Decoder).readInstance, fields: instanceFields()},
		{kind: "episode", sliced: true, read: (*Decoder).readEpisode, fields: episodeFields()},
	}
}

// Kinds lists the kinds that a Decoder reads.
func Kinds() []string {
	var names []string
	for _, s := range specs() {
		names = append(names, s.kind)
	}
	return names
}
