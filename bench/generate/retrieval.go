package main

import (
	"fmt"
	"io"
	"time"
)

const (
	depth     = 10         // passages in a list
	idSpace   = 10_000_000 // query and passage ids have seven digits
	tickers   = 500
	timeSpan  = 6 * time.Hour
	timeNoise = 30 * time.Second // a log is almost, and not quite, in order of time
)

var models = [...]string{"dense-v1", "dense-v2", "hybrid-v1", "bm25-k9b4"}

// hitWeights says, of 1,000 queries, how many have the relevant passage at rank 1, 2, … 10, and not at all.
var hitWeights = [...]int{620, 90, 55, 40, 28, 21, 16, 12, 10, 8, 100}

// retrieval is the retrieval workload: a foreign log {query_id, model, ticker, ts, query, retrieved: [{id, score, text}]}
// of about 1.8 KB a line, and its gold {query_id, passage_id} in another order.
//
// Each query is answered once, by one model. Half the passages carry their text. Scores fall along the list; one list in
// a hundred has two equal neighbours, in an order that is not trec_eval's as often as it is.
type retrieval struct {
	Lines      int // at most 10,000,000
	Seed       uint64
	SecondGold float64 // share of the queries with two relevant passages
}

type judgment struct{ query, passage int32 }

func (r retrieval) write(log, gold io.Writer) error {
	if r.Lines < 1 || r.Lines > idSpace {
		return fmt.Errorf("n: want 1 to %d lines, got %d", idSpace, r.Lines)
	}
	if !(r.SecondGold >= 0 && r.SecondGold <= 1) {
		return fmt.Errorf("second-gold: want a share from 0 to 1, got %v", r.SecondGold)
	}
	d := newDice(r.Seed, 1)
	names := tickerNames()
	start := time.Date(2026, time.March, 2, 9, 0, 0, 0, time.UTC)
	judgments := make([]judgment, 0, r.Lines)
	var line []byte
	var list [depth]int
	for i := range r.Lines {
		// A step that shares no factor with the id space visits every id once, far from its neighbour.
		query := int((int64(i)*7_368_787 + 1_299_709) % idSpace)
		d.drawList(&list)
		hit := d.pick(hitWeights[:], 1000)
		relevant := d.place(&list, hit)
		judgments = append(judgments, judgment{int32(query), int32(relevant)})
		if r.SecondGold > 0 && d.share() < r.SecondGold {
			// Uniform over the other ranks, and as often not at all.
			if p := d.place(&list, d.below(2*depth)); p != relevant {
				judgments = append(judgments, judgment{int32(query), int32(p)})
			}
		}

		at := time.Duration(float64(timeSpan)*float64(i)/float64(r.Lines)) + time.Duration(d.below(int(timeNoise)))
		at = min(at, timeSpan-time.Millisecond)
		line = append(line[:0], `{"query_id":"q`...)
		line = appendDigits(line, query, 7)
		line = append(line, `","model":"`...)
		line = append(line, models[d.below(len(models))]...)
		line = append(line, `","ticker":"`...)
		u := d.share()
		line = append(line, names[int(tickers*u*u*u)]...)
		line = append(line, `","ts":"`...)
		line = start.Add(at).AppendFormat(line, "2006-01-02T15:04:05.000Z07:00")
		line = append(line, `","query":"`...)
		line = d.appendText(line, 150+d.below(251))
		line = append(line, `","retrieved":[`...)
		line = d.appendList(line, &list)
		line = append(line, "]}\n"...)
		if _, err := log.Write(line); err != nil {
			return err
		}
	}
	for i := len(judgments) - 1; i > 0; i-- {
		j := d.below(i + 1)
		judgments[i], judgments[j] = judgments[j], judgments[i]
	}
	for _, j := range judgments {
		line = append(line[:0], `{"query_id":"q`...)
		line = appendDigits(line, int(j.query), 7)
		line = append(line, `","passage_id":"p`...)
		line = appendDigits(line, int(j.passage), 7)
		line = append(line, "\"}\n"...)
		if _, err := gold.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// drawList fills list with distinct passages.
func (d dice) drawList(list *[depth]int) {
	for i := range list {
		list[i] = d.fresh(list[:i])
	}
}

// fresh draws a passage that is not in list.
func (d dice) fresh(list []int) int {
draw:
	for {
		p := d.below(idSpace)
		for _, q := range list {
			if p == q {
				continue draw
			}
		}
		return p
	}
}

// place returns the passage at the rank, counted from 0, or one that was not retrieved if the list ends before it.
func (d dice) place(list *[depth]int, rank int) int {
	if rank < depth {
		return list[rank]
	}
	return d.fresh(list[:])
}

func (d dice) appendList(line []byte, list *[depth]int) []byte {
	score := 900_000 + d.below(100_000) // in millionths
	texts := d.pcg.Uint64()             // bit i: does passage i carry its text
	tie := 0
	if d.below(100) == 0 {
		tie = 1 + d.below(depth-1)
	}
	for i, p := range list {
		if i > 0 {
			line = append(line, ',')
			if i != tie {
				score -= 1 + d.below(40_000)
			}
		}
		line = append(line, `{"id":"p`...)
		line = appendDigits(line, p, 7)
		line = append(line, `","score":0.`...)
		line = appendDigits(line, score, 6)
		if texts>>i&1 == 1 {
			line = append(line, `,"text":"`...)
			line = d.appendText(line, 140+d.below(121))
			line = append(line, '"')
		}
		line = append(line, '}')
	}
	return line
}

// tickerNames returns distinct names of three or four letters.
func tickerNames() []string {
	names := make([]string, tickers)
	for i := range names {
		x := i * 7919 // odd and no multiple of 13, so it visits every residue of 26^3 and of 26^4
		name := []byte{byte('A' + x/17576%26), byte('A' + x/676%26), byte('A' + x/26%26), byte('A' + x%26)}
		if i%3 == 0 {
			name = name[1:]
		}
		names[i] = string(name)
	}
	return names
}
