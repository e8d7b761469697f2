package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Partitions is how many partitions each topic has.
const partitions = 3

// maxLine is the longest line that the pipeline takes.
const maxLine = 4000

// An input is one line on its way to a source topic.
type input struct {
	gold bool   // a judgment, for the topic of gold where there is one
	key  string // its route; bad lines have that of somebody else
	line string
	// partition is where it goes in a topic that is not partitioned by route.
	partition int32
}

// generator makes the lines of a round. Times in it are places in the sequence.
type generator struct {
	rng    *rand.Rand
	now    int
	serial int
	due    map[int][]input
}

// generate makes n lines: predictions of three systems and what happens to them later.
// Predictions come again, are corrected and moved to other groups; judgments come late
// and in any order, come again, are corrected, withdrawn and given back; some are for
// nobody; some lines are bad. Whatever two records of one slot say, they have different
// revisions, so that the order of the partitions does not matter.
func generate(seed uint64, n int) []input {
	g := &generator{rng: rand.New(rand.NewPCG(seed, 1)), due: map[int][]input{}}
	var out []input
	for unit := 0; len(out) < n; g.now++ {
		if late := g.due[g.now]; len(late) > 0 {
			out = append(out, late...)
			delete(g.due, g.now)
		}
		g.unit(unit, n)
		unit++
	}
	// What is still to come comes at the end, in its order.
	var rest []int
	for at := range g.due {
		rest = append(rest, at)
	}
	slices.Sort(rest)
	for _, at := range rest {
		out = append(out, g.due[at]...)
	}
	return out
}

func (g *generator) chance(percent int) bool { return g.rng.IntN(100) < percent }

// later is a place after now: mostly soon, sometimes much later.
func (g *generator) later(n int) int {
	if g.chance(70) {
		return g.now + 1 + g.rng.IntN(20)
	}
	return g.now + 1 + g.rng.IntN(1+n/8)
}

func (g *generator) put(at int, gold bool, key, format string, args ...any) input {
	g.serial++
	in := input{gold: gold, key: key, partition: int32(g.rng.IntN(partitions))}
	in.line = strings.Replace(fmt.Sprintf(format, args...), `{`, fmt.Sprintf(`{"serial":"s%d",`, g.serial), 1)
	g.due[at] = append(g.due[at], in)
	return in
}

// again lets the very same line come once more.
func (g *generator) again(at int, in input) {
	in.partition = int32(g.rng.IntN(partitions))
	g.due[at] = append(g.due[at], in)
}

func (g *generator) unit(unit, n int) {
	q := fmt.Sprintf("q%d", unit)
	at := g.now + 1
	for _, system := range []string{"a", "b", "c"} {
		if system == "c" && g.chance(40) { // so something is missing
			continue
		}
		first := g.prediction(at, q, system, unit, 1)
		when := at
		if g.chance(12) {
			g.again(g.later(n), first)
		}
		for revision := 2; g.chance(15); revision++ {
			when = max(when, g.later(n))
			in := g.prediction(when, q, system, unit, revision)
			if g.chance(20) {
				g.again(g.later(n), in)
			}
		}
		if g.chance(5) { // an old one that comes late
			g.prediction(g.later(n), q, system, unit, 0)
		}
	}
	if !g.chance(12) {
		g.judgments(q, n)
	}
	if g.chance(3) {
		g.judgments(fmt.Sprintf("nobody%d", unit), n)
	}
	if g.chance(6) {
		g.bad(q)
	}
}

func (g *generator) prediction(at int, q, system string, unit, revision int) input {
	var top []string
	for _, p := range g.rng.Perm(5)[:3] {
		top = append(top, fmt.Sprintf(`{"id":"p%d"}`, p))
	}
	// Times go on with the units and are out of order by an hour or so.
	t := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(unit)*11*time.Second + time.Duration(g.rng.IntN(7200))*time.Second)
	return g.put(at, false, q, `{"kind":"run","query_id":%q,"run":%q,"ticker":"t%d","time":%q,"revision":%d,"top":[%s]}`,
		q, system, g.rng.IntN(4), t.Format(time.RFC3339), revision, strings.Join(top, ","))
}

// judgments are those of one or two passages, and what becomes of them.
func (g *generator) judgments(q string, n int) {
	for _, p := range g.rng.Perm(5)[:1+g.rng.IntN(2)] {
		when := g.later(n)
		for revision := 1; ; revision++ {
			grade := "1"
			switch {
			case revision > 1 && g.chance(40):
				grade = "null" // withdrawn
			case g.chance(15):
				grade = "0"
			}
			in := g.put(when, true, q, `{"kind":"qrel","query_id":%q,"passage_id":"p%d","grade":%s,"revision":%d}`, q, p, grade, revision)
			if g.chance(8) {
				g.again(g.later(n), in)
			}
			if !g.chance(20) {
				break
			}
			when = max(when, g.later(n))
		}
	}
}

// bad is a line that parse rejects, or one that score does.
func (g *generator) bad(q string) {
	at, gold := g.now+1, g.chance(30)
	switch g.rng.IntN(6) {
	case 0:
		g.put(at, gold, q, `{"kind":"run","query_id":%q`, q)
	case 1:
		g.put(at, gold, q, `{"kind":"run","run":"a","top":[]}`)
	case 2:
		g.put(at, gold, q, `{"kind":"run","query_id":%q,"run":"a","top":[{"id":"p1"},{"id":"p1"}]}`, q)
	case 3:
		g.put(at, gold, q, `{"kind":"qrel","query_id":%q,"passage_id":"p1","grade":"high"}`, q)
	case 4:
		g.put(at, gold, q, `{"kind":"run","query_id":%q,"run":"a","top":[],"text":%q}`, q, strings.Repeat("long ", maxLine/5))
	case 5: // in its right place: only a prediction goes through parse to score
		g.put(at, false, q, `{"kind":"passage","passage_id":%q,"text":"neither a prediction nor a judgment"}`, q)
	}
}
