package stages_test

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"evalstream"
	"evalstream/stages"
)

func day(d float64) evalstream.Time {
	t, _ := evalstream.TimeOf(begin.Add(time.Duration(d * 24 * float64(time.Hour))))
	return t
}

func runAt(query, run string, d float64, top string) evalstream.Record {
	return evalstream.Record{Time: day(d), Body: &evalstream.Run{QueryID: query, Run: run, Top: []evalstream.Hit{{ID: top}}}}
}

func gold(query, passage string, grade int32) evalstream.Record {
	return evalstream.Record{Time: evalstream.NoTime, Body: &evalstream.Qrel{QueryID: query, PassageID: passage, Grade: grade}}
}

// ofUnits is the counts of a group of final results, as text.
func ofUnits(rs []evalstream.Result) string {
	var lines []string
	for _, r := range rs {
		if r.Metric == "success@1" {
			lines = append(lines, fmt.Sprintf("%s %s: n %d hits %d pending %d unjudged %d missing %d", r.By[0].Value, windowName(r.Window), r.N, int64(math.Round(r.Value*float64(r.N))), r.Pending, r.Unjudged, r.Missing))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func windowName(w evalstream.Window) string {
	if w.All {
		return "all"
	}
	return w.Start.String()
}

// TestHorizonByRun checks that a prediction waits for gold as long as its own time says,
// whatever other predictions there are for its query.
func TestHorizonByRun(t *testing.T) {
	recs := []evalstream.Record{runAt("q1", "a", 1, "p")}
	for h := 24; h <= 10*24; h++ { // others come all the time
		if h == 5*24 {
			recs = append(recs, runAt("q1", "b", 5, "p"))
		}
		if h == 7*24 {
			recs = append(recs, gold("q1", "p", 1))
		}
		q := fmt.Sprint("x", h)
		recs = append(recs, gold(q, "p", 1), runAt(q, "c", float64(h)/24, "p"))
	}
	s := trial{partitions: 1, workers: 1, horizon: 4 * 24 * time.Hour}
	rng := rand.New(rand.NewPCG(1, 1))
	for _, store := range []*shelves{nil, newShelves(rng, 4)} {
		s.memory = 1
		got, _ := survive(t, rng, store, recs, s)
		want := `"a" all: n 0 hits 0 pending 0 unjudged 1 missing 218
"b" all: n 1 hits 1 pending 0 unjudged 0 missing 217
"c" all: n 217 hits 217 pending 0 unjudged 0 missing 1`
		if got := ofUnits(got.Final); got != want {
			t.Errorf("want\n%s\ngot\n%s", want, got)
		}
		if len(got.Rejects) > 0 {
			t.Errorf("rejects: %v", got.Rejects)
		}
	}
}

// asked is a prediction as the oracle knows it.
type asked struct {
	run, top string
	at       evalstream.Time
	status   evalstream.Status
	hit      bool
}

// query is all that the oracle knows of one query.
type query struct {
	open  map[string]*asked
	over  []*asked
	gold  map[string]int32 // by passage
	seen  evalstream.Time
	known bool // judged at least once
	ended bool // forgotten after that
}

// oracle says by force what becomes of predictions: it looks at every query after each
// record, and keeps everything.
type oracle struct {
	span, slack    evalstream.Time
	newest         evalstream.Time
	queries        map[string]*query
	late, replaced int64
	again          bool // a judged query was forgotten and is known again: aggregate may take it for another
	frozen         bool // gold came first and stays
}

func newOracle(span, slack time.Duration) *oracle {
	return &oracle{span: evalstream.Time(span), slack: evalstream.Time(slack), newest: evalstream.NoTime, queries: map[string]*query{}}
}

func (o *oracle) take(r evalstream.Record) {
	run, isRun := r.Body.(*evalstream.Run)
	if isRun {
		o.newest = max(o.newest, r.Time)
	}
	watermark := evalstream.NoTime
	if o.newest != evalstream.NoTime {
		watermark = o.newest - o.slack
		o.expire(watermark - o.span)
		if isRun && r.Time < watermark-o.span {
			o.late++
			return
		}
	}
	if isRun {
		q := o.query(run.QueryID)
		if q.open[run.Run] != nil {
			o.replaced++
		}
		q.open[run.Run] = &asked{run: run.Run, top: run.Top[0].ID, at: r.Time, status: evalstream.Pending}
		q.seen = max(q.seen, r.Time)
		o.judge(q)
		return
	}
	g := r.Body.(*evalstream.Qrel)
	q := o.query(g.QueryID)
	q.gold[g.PassageID] = g.Grade
	q.seen = max(q.seen, watermark)
	o.judge(q)
}

func (o *oracle) query(id string) *query {
	if o.queries[id] == nil {
		o.queries[id] = &query{open: map[string]*asked{}, gold: map[string]int32{}, seen: evalstream.NoTime}
	}
	return o.queries[id]
}

func (o *oracle) judge(q *query) {
	if len(q.gold) == 0 {
		return
	}
	o.again = o.again || q.ended
	q.known = true
	for _, a := range q.open {
		a.status, a.hit = evalstream.Scored, q.gold[a.top] > 0
	}
}

func (o *oracle) expire(limit evalstream.Time) {
	for _, q := range o.queries {
		for name, a := range q.open {
			if a.at < limit {
				if a.status == evalstream.Pending {
					a.status = evalstream.Expired
				}
				q.over = append(q.over, a)
				delete(q.open, name)
			}
		}
		if len(q.open) == 0 && q.seen != evalstream.NoTime && q.seen < limit {
			if q.ended = q.known; !o.frozen {
				clear(q.gold)
			}
		}
	}
}

// counts is what a run adds up to in a window.
type counts struct{ n, hits, unjudged int64 }

// add adds up what the oracle knows at the end of the input.
func (o *oracle) add(sums map[[2]string]*counts, of map[evalstream.Status]int64, width time.Duration) (judged int64) {
	if o.newest != evalstream.NoTime {
		o.expire(o.newest - o.slack - o.span)
	}
	for _, q := range o.queries {
		if q.known {
			judged++
		}
		for _, a := range slices.AppendSeq(q.over, maps.Values(q.open)) {
			if a.status == evalstream.Pending {
				a.status = evalstream.Unjudged
			}
			of[a.status]++
			for _, w := range []string{"all", (a.at - a.at%evalstream.Time(width)).String()} {
				key := [2]string{literal(a.run), w}
				if sums[key] == nil {
					sums[key] = new(counts)
				}
				c := sums[key]
				switch {
				case a.status != evalstream.Scored:
					c.unjudged++
				case a.hit:
					c.hits++
					fallthrough
				default:
					c.n++
				}
			}
		}
	}
	return judged
}

// byQuery is the partition that scatter gives a record.
func byQuery(r evalstream.Record, partitions int) int {
	h := fnv.New32a()
	h.Write(r.Body.AppendRoute(nil))
	return int(h.Sum32() % uint32(partitions))
}

// step is that of times in these tests: longer than what aggregate keeps a unit's time in,
// which is a thousandth of the horizon.
const step = 10 * time.Minute

// upTo is a time in whole steps, less than d.
func upTo(rng *rand.Rand, d time.Duration) evalstream.Time {
	return evalstream.Time(step) * evalstream.Time(rng.Int64N(max(1, int64(d/step))))
}

// waits are predictions of several runs for each query, all within the horizon of the one before, in
// about the order of their times; some are corrected, some come too late. Gold comes whenever.
func waits(rng *rand.Rand, queries int, horizon, disorder time.Duration, goldFirst, goldLate bool) []evalstream.Record {
	type dated struct {
		evalstream.Record
		order evalstream.Time
	}
	var recs []dated
	length := 20 * horizon
	for i := range queries {
		q := fmt.Sprint("q", i)
		at := day(0) + upTo(rng, length)
		first := at
		for _, run := range rng.Perm(4)[:rng.IntN(5)] {
			name := fmt.Sprint("m", run)
			add := func(at evalstream.Time) {
				recs = append(recs, dated{runAt(q, name, 0, fmt.Sprint("p", rng.IntN(3))), at + upTo(rng, disorder)})
				recs[len(recs)-1].Time = at
			}
			add(at)
			if rng.IntN(4) == 0 { // again, and another unit if its horizon has passed
				at += upTo(rng, 2*horizon-disorder)
				add(at)
			}
			at += upTo(rng, horizon-disorder)
		}
		for range rng.IntN(4) {
			r := dated{Record: gold(q, fmt.Sprint("p", rng.IntN(3)), int32(rng.IntN(2)))}
			r.order = first + upTo(rng, 3*horizon) - evalstream.Time(horizon/2/step*step)
			switch {
			case goldFirst:
				r.order = evalstream.NoTime
			case !goldLate:
				r.order = min(r.order, at)
			}
			recs = append(recs, r)
		}
		if rng.IntN(10) == 0 { // of another time altogether
			r := dated{runAt("late"+q, "m0", 0, "p0"), at + evalstream.Time(2*horizon+2*disorder)}
			r.Time = at - evalstream.Time(horizon)
			recs = append(recs, r)
		}
	}
	slices.SortStableFunc(recs, func(a, b dated) int { return cmp.Compare(a.order, b.order) })
	out := make([]evalstream.Record, len(recs))
	for i := range recs {
		out[i] = recs[i].Record
	}
	return out
}

// TestHorizon compares score and aggregate with the oracle, whatever the order, the
// partitions, the gold, the memory and the crashes.
func TestHorizon(t *testing.T) {
	const width = 48 * time.Hour
	missing := regexp.MustCompile(`missing \d+`)
	exact := 0 // seeds in which missing is known
	for seed := range seeds(8) {
		rng := rand.New(rand.NewPCG(seed, 6))
		horizon := time.Duration(6+rng.IntN(90)) * time.Hour
		s := trial{
			workers: 1 + rng.IntN(3), partitions: 1 + int(seed%2)*rng.IntN(3), horizon: horizon, disorder: step + horizon/time.Duration(3+rng.IntN(30))/step*step, every: int64(rng.IntN(3) * 41),
			by: stages.Aggregation{Windows: windows(t, "all", "2d")},
		}
		goldFirst := rng.IntN(3) == 0
		recs := waits(rng, 150, horizon, s.disorder, goldFirst, seed%4 == 3)
		type expected struct {
			lines          string
			again          bool
			of             map[evalstream.Status]int64
			late, replaced int64
		}
		expect := func(frozen bool) (e expected) {
			oracles := make([]*oracle, s.partitions)
			for p := range oracles {
				oracles[p] = newOracle(horizon, s.disorder)
				oracles[p].frozen = frozen
			}
			for _, r := range recs {
				oracles[byQuery(r, s.partitions)].take(r)
			}
			sums, judged := map[[2]string]*counts{}, int64(0)
			e.of = map[evalstream.Status]int64{}
			for _, o := range oracles {
				judged += o.add(sums, e.of, width)
				e.late += o.late
				e.replaced += o.replaced
				e.again = e.again || o.again
			}
			var lines []string
			for key, c := range sums {
				unanswered := int64(0)
				if key[1] == "all" {
					unanswered = judged - c.n
				}
				lines = append(lines, fmt.Sprintf("%s %s: n %d hits %d pending 0 unjudged %d missing %d", key[0], key[1], c.n, c.hits, c.unjudged, unanswered))
			}
			slices.Sort(lines)
			if e.lines = strings.Join(lines, "\n"); e.again {
				e.lines = missing.ReplaceAllString(e.lines, "missing ?")
			}
			return e
		}
		want := expect(false)
		if !want.again {
			exact++
		}
		check := func(what string, want expected, got outcome) {
			t.Helper()
			is := ofUnits(got.Final)
			if want.again {
				is = missing.ReplaceAllString(is, "missing ?")
			}
			if diff := gocmp.Diff(want.lines, is); diff != "" {
				t.Fatalf("seed %d, %s, %+v: -oracle +got\n%s", seed, what, s, diff)
			}
			if n := got.Summary.ByClass[evalstream.ClassLate]; n != want.late || got.Summary.Rejects != want.late {
				t.Fatalf("seed %d, %s: want %d rejects, all late, got %d of %v", seed, what, want.late, got.Summary.Rejects, got.Summary.ByClass)
			}
		}
		got, _ := survive(t, rng, nil, recs, s)
		check("open", want, got)
		for _, tally := range got.Summary.Tallies {
			if tally.Step == "score" && tally.Kind == "run" {
				for _, status := range evalstream.Statuses() {
					if tally.Of[status] != want.of[status] {
						t.Errorf("seed %d: want %d %v predictions, got %d", seed, want.of[status], status, tally.Of[status])
					}
				}
				if tally.Replaced != want.replaced {
					t.Errorf("seed %d: want %d replaced, got %d", seed, want.replaced, tally.Replaced)
				}
			}
		}
		for _, memory := range []int64{0, 1, 20_000} {
			s.memory = memory
			again, n := survive(t, rng, newShelves(rng, 4), recs, s)
			check(fmt.Sprintf("memory %d, %d crashes", memory, n), want, again)
			if diff := gocmp.Diff(got.Summary.Tallies, again.Summary.Tallies); diff != "" {
				t.Fatalf("seed %d, memory %d: tallies -without +with a store\n%s", seed, memory, diff)
			}
		}
		if !goldFirst {
			continue
		}
		isRun := slices.IndexFunc(recs, func(r evalstream.Record) bool { return r.Body.Kind() == "run" })
		s.gold = func() *stages.Gold {
			g := stages.NewGold("")
			var out evalstream.Out
			if err := g.Process(t.Context(), recs[:isRun], &out); err != nil || len(out.Rejects) > 0 {
				t.Fatal(err, out.Rejects)
			}
			g.Seal()
			return g
		}
		frozen, _ := survive(t, rng, nil, recs[isRun:], s)
		check("frozen", expect(true), frozen)
	}
	if exact < 3 {
		t.Errorf("want seeds in which missing is known, got %d", exact)
	}
}

// TestHorizonOfRatings checks that a rated unit ends by its own time, the least of its
// ratings, so that a rating after it begins another unit.
func TestHorizonOfRatings(t *testing.T) {
	rating := func(unit, coder string, d float64) evalstream.Record {
		return evalstream.Record{Time: day(d), Body: &evalstream.Rating{Unit: unit, Coder: coder, Value: "1"}}
	}
	recs := []evalstream.Record{rating("u", "a", 1)}
	for h := 24; h <= 10*24; h++ {
		if h == 4*24 {
			recs = append(recs, rating("u", "b", 4))
		}
		if h == 7*24 {
			recs = append(recs, rating("u", "c", 7))
		}
		recs = append(recs, rating(fmt.Sprint("x", h), "a", float64(h)/24))
	}
	s := trial{partitions: 1, workers: 1, horizon: 4 * 24 * time.Hour, memory: 1, by: stages.Aggregation{By: [][]string{{}}, Bootstrap: 10}}
	rng := rand.New(rand.NewPCG(1, 1))
	for _, store := range []*shelves{nil, newShelves(rng, 4)} {
		got, _ := survive(t, rng, store, recs, s)
		if len(got.Rejects) > 0 || len(got.Final) == 0 || got.Final[0].N != 217+2 {
			t.Errorf("want 219 units and no rejects, got %+v, %v", got.Final, got.Rejects)
		}
	}
}

// TestHorizonOfScores checks that a score that nobody has ended is expired when its unit
// is forgotten.
func TestHorizonOfScores(t *testing.T) {
	var recs []evalstream.Record
	for h := range 240 {
		s := &evalstream.Score{Unit: fmt.Sprint("q", h), Run: "a", Status: evalstream.Pending}
		if h%3 == 0 {
			s.Status, s.Measures, s.Values = evalstream.Scored, []string{"success@1"}, []evalstream.Nano{evalstream.One}
		}
		recs = append(recs, evalstream.Record{Time: day(float64(h) / 24), Body: s})
	}
	rng := rand.New(rand.NewPCG(2, 1))
	s := trial{partitions: 1, workers: 2, horizon: 24 * time.Hour, memory: 1, aggregateOnly: true}
	for _, store := range []*shelves{nil, newShelves(rng, 4)} {
		got, _ := survive(t, rng, store, recs, s)
		// The last sweep was within an eighth of the horizon, and units are remembered a quarter longer.
		if r := got.Final[0]; r.N != 80 || r.Pending+r.Unjudged != 160 || r.Pending > 23 {
			t.Errorf("want 80 units scored, and at most 23 of 160 pending, got %+v", r)
		}
	}
}
