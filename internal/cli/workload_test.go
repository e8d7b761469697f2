package cli

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// retrievalLog is lines as a search service logs them, and their gold.
type retrievalLog struct {
	lines []string // {query_id, model, ticker, ts, query, retrieved: [{id, score, text?}]}
	gold  []string // {query_id, passage_id, grade?}
}

// logAt is the time of the log's first line.
func logAt() time.Time { return time.Date(2026, time.March, 2, 9, 0, 0, 0, time.UTC) }

// newRetrievalLog makes n lines over six hours, of the shape of bench/generate: ten passages each, half of them with text
// (with escapes and UTF-8), now and then a tie, the relevant passage often first and at times nowhere. Every query is asked by
// perQuery models; one in four has a second, graded judgment, one in twenty has none.
func newRetrievalLog(seed uint64, n, perQuery int) *retrievalLog {
	d := rand.New(rand.NewPCG(seed, 7))
	models := []string{"dense-v1", "dense-v2", "hybrid-v1", "bm25-k9b4"}
	words := []string{"revenue", "Société", `S\u0026P`, "margin", `line\nbreak`, "営業利益", "net", "cash", `\"flow\"`}
	var l retrievalLog
	for q := 0; len(l.lines) < n; q++ {
		relevant := fmt.Sprint("p", d.IntN(1e6))
		for m := range perQuery {
			hit := -1
			if d.IntN(10) > 0 {
				hit = int(10 * d.Float64() * d.Float64() * d.Float64())
			}
			at := logAt().Add(time.Duration(len(l.lines))*(6*time.Hour-time.Minute)/time.Duration(n) + time.Duration(d.IntN(30_000))*time.Millisecond)
			var b strings.Builder
			fmt.Fprintf(&b, `{"query_id":"q%d","model":%q,"ticker":"T%d","ts":%q,"query":"%s","retrieved":[`, q, models[(q+m)%len(models)], d.IntN(9), at.Format(time.RFC3339Nano), words[d.IntN(len(words))])
			score := 900 + d.IntN(100)
			for i := range 10 {
				id := relevant
				if i != hit {
					id = fmt.Sprintf("p%d-%d-%d", q, m, i)
				}
				if i > 0 {
					b.WriteByte(',')
					score -= d.IntN(12) // 0 is a tie
				}
				fmt.Fprintf(&b, `{"id":%q,"score":0.%03d`, id, score)
				if d.IntN(2) == 0 {
					fmt.Fprintf(&b, `,"text":"%s %s"`, words[d.IntN(len(words))], words[d.IntN(len(words))])
				}
				b.WriteByte('}')
			}
			b.WriteString("]}")
			l.lines = append(l.lines, b.String())
		}
		if d.IntN(20) > 0 {
			l.gold = append(l.gold, fmt.Sprintf(`{"query_id":"q%d","passage_id":%q}`, q, relevant))
			if d.IntN(4) == 0 {
				l.gold = append(l.gold, fmt.Sprintf(`{"query_id":"q%d","passage_id":"p%d-0-%d","grade":%d}`, q, q, d.IntN(10), d.IntN(3)))
			}
		}
	}
	l.gold = append(l.gold, `{"query_id":"never-asked","passage_id":"p1"}`)
	d.Shuffle(len(l.gold), func(i, j int) { l.gold[i], l.gold[j] = l.gold[j], l.gold[i] })
	return &l
}

// stream mixes log and gold in random order, each line with its kind. The order of the log's own lines is random too.
func (l *retrievalLog) stream(seed uint64) string {
	var all []string
	for _, line := range l.lines {
		all = append(all, `{"kind":"run",`+line[1:])
	}
	for _, line := range l.gold {
		all = append(all, `{"kind":"qrel",`+line[1:])
	}
	return shuffled(seed, all)
}

// shuffled is the lines in random order.
func shuffled(seed uint64, ls []string) string {
	ls = append([]string{}, ls...)
	rand.New(rand.NewPCG(seed, 8)).Shuffle(len(ls), func(i, j int) { ls[i], ls[j] = ls[j], ls[i] })
	return lines(ls...)
}

// newPredictions makes few-shot predictions of two systems over three seeds, and their gold labels in lines of their own.
func newPredictions(seed uint64, episodes int) (predictions, gold []string) {
	d := rand.New(rand.NewPCG(seed, 9))
	labels := []string{"no_relation", "per:children", "org:founded_by", "per:origin"}
	for e := range episodes {
		for q := range 3 {
			unit := fmt.Sprintf(`"dataset":"d","seed":%d,"k":1,"episode":%d,"query":%d`, e%3, e, q)
			g := labels[d.IntN(len(labels))]
			gold = append(gold, fmt.Sprintf(`{%s,"gold":%q}`, unit, g))
			for _, run := range []string{"cnn", "bert"} {
				label := g
				if d.IntN(3) == 0 {
					label = labels[d.IntN(len(labels))]
				}
				at := logAt().Add(time.Duration(d.IntN(5*3600)) * time.Second)
				predictions = append(predictions, fmt.Sprintf(`{%s,"run":%q,"label":%q,"ticker":"T%d","time":%q}`, unit, run, label, d.IntN(4), at.Format(time.RFC3339)))
			}
		}
	}
	return predictions, gold
}

// newRatings makes ratings of three coders, some of them corrected or retracted by later lines.
func newRatings(seed uint64, units int) []string {
	d := rand.New(rand.NewPCG(seed, 10))
	var ls []string
	for u := range units {
		at := logAt().Add(time.Duration(d.IntN(5*3600)) * time.Second)
		for c := range 3 {
			value := fmt.Sprint(1 + (u+d.IntN(2))%4)
			for r := range 1 + d.IntN(3)/2 {
				ls = append(ls, fmt.Sprintf(`{"unit":"u%d","coder":"c%d","value":%s,"revision":%d,"ticker":"T%d","run":"r%d","time":%q}`, u, c, value, r, u%4, u%2, at.Format(time.RFC3339)))
				value = []string{"1", "2", "null"}[d.IntN(3)]
			}
		}
	}
	return ls
}
