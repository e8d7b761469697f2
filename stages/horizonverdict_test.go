package stages_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"evalstream"
	"evalstream/stages"
)

func verdictAt(span, judge, version, value string, d float64) evalstream.Record {
	return evalstream.Record{Time: day(d), Body: &evalstream.Verdict{SpanID: span, Dimension: "faithfulness", Judge: judge, PromptVersion: version, Value: value}}
}

// TestHorizonOfVerdicts checks that a judged unit ends by its own time, the least of its
// verdicts, so that a verdict after it begins another unit; and each prompt version alone.
func TestHorizonOfVerdicts(t *testing.T) {
	recs := []evalstream.Record{
		verdictAt("u", "a", "v1", "1", 1), verdictAt("w", "a", "v1", "1", 1),
		verdictAt("u", "a", "v2", "0", 3), verdictAt("u", "human", "", "1", 3),
	}
	for h := 24; h <= 10*24; h++ {
		switch d := float64(h) / 24; d {
		case 4: // in time
			recs = append(recs, verdictAt("u", "b", "v1", "1", d))
		case 5.5: // v1 and w have ended; v2 has not
			recs = append(recs, verdictAt("u", "b", "v1", "0", d), verdictAt("u", "b", "v2", "0", d), verdictAt("w", "b", "v1", "0", d))
		case 7.5: // v2 has ended too, and with it what people said
			recs = append(recs, verdictAt("u", "c", "v2", "0", d))
		}
		recs = append(recs, verdictAt(fmt.Sprint("x", h), "a", "v1", "1", float64(h)/24))
	}
	s := trial{partitions: 1, workers: 1, horizon: 4 * 24 * time.Hour, memory: 1, by: stages.Aggregation{
		By: [][]string{{"prompt_version"}}, Panel: []string{"a", "b", "human"}, Intervals: []string{"wilson"},
	}}
	rng := rand.New(rand.NewPCG(1, 1))
	var without outcome
	for _, store := range []*shelves{nil, newShelves(rng, 4)} {
		got, _ := survive(t, rng, store, recs, s)
		// v1: 217 others, u with three verdicts and with two, w with one and with one.
		want := `"v1" all: n 221 ones 1 decided 1 missing 220
"v2" all: n 2 ones 0 decided 1 missing 1`
		if got := judgedUnits(got.Final); got != want || len(got) == 0 {
			t.Errorf("want\n%s\ngot\n%s", want, got)
		}
		if len(got.Rejects) > 0 {
			t.Errorf("rejects: %v", got.Rejects)
		}
		if store == nil {
			without = got
		} else if diff := compare(without, got); diff != "" {
			t.Errorf("-without +with a store\n%s", diff)
		}
	}
}

// judgedUnits is what the panel says in each group of final results, as text.
func judgedUnits(rs []evalstream.Result) string {
	ones, decided := map[string]int64{}, map[string]int64{}
	var lines []string
	key := func(r evalstream.Result) string { return r.By[0].Value + " " + windowName(r.Window) }
	for _, r := range rs {
		switch r.Metric {
		case "faithfulness":
			ones[key(r)] = int64(math.Round(r.Value * float64(r.N)))
		case "faithfulness_coverage":
			decided[key(r)] = int64(math.Round(r.Value * float64(r.N)))
		}
	}
	for _, r := range rs {
		if r.Metric == "faithfulness" {
			lines = append(lines, fmt.Sprintf("%s: n %d ones %d decided %d missing %d", key(r), r.N, ones[key(r)], decided[key(r)], r.Missing))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// heard is a verdict as the oracle knows it.
type heard struct {
	value string
	at    evalstream.Time
}

// judgedSpan is what the oracle knows of one span: who said what of which version.
type judgedSpan struct {
	votes    map[[2]string]heard // by judge and version
	versions map[string]bool
}

// bench says by force what becomes of verdicts: it looks at every span after each record.
type bench struct {
	span, slack, newest evalstream.Time
	panel               []string
	spans               map[string]*judgedSpan
	sums                map[string]*[4]int64 // n, ones, decided, missing by version and window
	width               evalstream.Time
	late                int64
}

func (b *bench) take(r evalstream.Record) {
	v := r.Body.(*evalstream.Verdict)
	b.newest = max(b.newest, r.Time)
	limit := b.newest - b.slack - b.span
	b.expire(limit)
	if r.Time < limit {
		b.late++
		return
	}
	s := b.spans[v.SpanID]
	if s == nil {
		s = &judgedSpan{votes: map[[2]string]heard{}, versions: map[string]bool{}}
		b.spans[v.SpanID] = s
	}
	s.votes[[2]string{v.Judge, v.PromptVersion}] = heard{v.Value, r.Time}
	if v.PromptVersion != "" {
		delete(s.versions, "")
	}
	if v.PromptVersion != "" || len(s.versions) == 0 {
		s.versions[v.PromptVersion] = true
	}
}

func (b *bench) expire(limit evalstream.Time) {
	for _, s := range b.spans {
		for version := range s.versions {
			picks, least := map[string]heard{}, evalstream.EndOfTime
			for slot, h := range s.votes {
				if _, has := s.votes[[2]string{slot[0], version}]; slot[1] == version || slot[1] == "" && !has {
					picks[slot[0]], least = h, min(least, h.at)
				}
			}
			if least >= limit {
				continue
			}
			b.add(version, picks, least)
			delete(s.versions, version)
			for slot := range s.votes {
				if version != "" && slot[1] == version {
					delete(s.votes, slot)
				}
			}
		}
		for slot, h := range s.votes {
			if len(s.versions) == 0 || slot[1] == "" && h.at < limit {
				delete(s.votes, slot)
			}
		}
	}
}

func (b *bench) add(version string, picks map[string]heard, at evalstream.Time) {
	votes := map[string]int{}
	for _, judge := range b.panel {
		votes[picks[judge].value]++ // "" is missing
	}
	name := ""
	if version != "" {
		name = literal(version)
	}
	for _, w := range []string{"all", (at - at%b.width).String()} {
		key := name + " " + w
		if b.sums[key] == nil {
			b.sums[key] = new([4]int64)
		}
		c := b.sums[key]
		c[0]++
		for i, value := range []string{"1", "0"} {
			if 2*votes[value] > len(b.panel) {
				c[1] += int64(1 - i)
				c[2]++
			}
		}
		if votes[""] > 0 {
			c[3]++
		}
	}
}

// panels are verdicts on spans, of several prompt versions and of people, with gaps of up
// to two horizons, corrections and some that come too late. Before each comes one on
// another span, as old as it is, so that event time is the same for score and aggregate.
func panels(rng *rand.Rand, spans, partitions int, horizon, disorder time.Duration) []evalstream.Record {
	type dated struct {
		evalstream.Record
		order evalstream.Time
	}
	var recs []dated
	length := 10 * horizon
	for i := range spans {
		at := day(0) + upTo(rng, length)
		for range 1 + rng.IntN(9) {
			r := verdictAt(fmt.Sprint("s", i), []string{"a", "b", "human", "human"}[rng.IntN(4)], []string{"v1", "v2"}[rng.IntN(2)], []string{"0", "1", "1", ""}[rng.IntN(4)], 0)
			v := r.Body.(*evalstream.Verdict)
			if v.Judge == "human" || rng.IntN(8) == 0 {
				v.PromptVersion = ""
			}
			if v.Value == "" {
				v.Reason = []string{"", "timeout", "refused"}[rng.IntN(3)]
			}
			r.Time = at
			order := at + upTo(rng, disorder)
			if rng.IntN(20) == 0 {
				order += evalstream.Time(2 * horizon)
			}
			recs = append(recs, dated{r, order})
			if at += upTo(rng, horizon/2); rng.IntN(5) == 0 {
				at += upTo(rng, 2*horizon)
			}
		}
	}
	slices.SortStableFunc(recs, func(a, b dated) int { return cmp.Compare(a.order, b.order) })
	var out []evalstream.Record
	for i, r := range recs {
		beat := verdictAt("", "a", "v1", "1", 0)
		beat.Time = r.Time
		for k := 0; k == 0 || byQuery(beat, partitions) != byQuery(r.Record, partitions); k++ {
			beat.Body.(*evalstream.Verdict).SpanID = fmt.Sprintf("x%d.%d", i, k)
		}
		out = append(out, beat, r.Record)
	}
	return out
}

// TestHorizonOfPanels compares score and aggregate with the oracle: what verdicts come to
// at a horizon, whatever the partitions, the memory and the crashes.
func TestHorizonOfPanels(t *testing.T) {
	for seed := range seeds(6) {
		rng := rand.New(rand.NewPCG(seed, 8))
		horizon := time.Duration(6+rng.IntN(90)) * time.Hour
		panel := []string{"a", "b", "human"}
		const width = 48 * time.Hour
		s := trial{
			workers: 1 + rng.IntN(3), partitions: 1 + int(seed%2)*rng.IntN(3), horizon: horizon, disorder: step + horizon/time.Duration(3+rng.IntN(30))/step*step, every: int64(rng.IntN(3) * 41),
			by: stages.Aggregation{By: [][]string{{"prompt_version"}}, Windows: windows(t, "all", "2d"), Panel: panel, Intervals: []string{"wilson"}},
		}
		recs := panels(rng, 40, s.partitions, horizon, s.disorder)
		sums, late := map[string]*[4]int64{}, int64(0)
		benches := make([]*bench, s.partitions)
		for p := range benches {
			benches[p] = &bench{
				span: evalstream.Time(horizon), slack: evalstream.Time(s.disorder), newest: evalstream.NoTime / 2, panel: panel,
				spans: map[string]*judgedSpan{}, sums: sums, width: evalstream.Time(width),
			}
		}
		for _, r := range recs {
			benches[byQuery(r, s.partitions)].take(r)
		}
		for _, b := range benches {
			b.expire(evalstream.EndOfTime)
			late += b.late
		}
		var lines []string
		for key, c := range sums {
			lines = append(lines, fmt.Sprintf("%s: n %d ones %d decided %d missing %d", key, c[0], c[1], c[2], c[3]))
		}
		slices.Sort(lines)
		want := strings.Join(lines, "\n")
		if late == 0 || len(lines) < 6 {
			t.Fatalf("seed %d: %d groups, %d late: the records show too little", seed, len(lines), late)
		}
		var without outcome
		for i, memory := range []int64{0, 0, 1, 20_000} {
			var store *shelves
			if s.memory = memory; i > 0 {
				store = newShelves(rng, 4)
			}
			got, crashes := survive(t, rng, store, recs, s)
			if diff := gocmp.Diff(want, judgedUnits(got.Final)); diff != "" {
				t.Fatalf("seed %d, memory %d, %d crashes, %+v: -oracle +got\n%s", seed, memory, crashes, s, diff)
			}
			if n := got.Summary.ByClass[evalstream.ClassLate]; n != late || got.Summary.Rejects != late {
				t.Fatalf("seed %d, memory %d: want %d rejects, all late, got %d of %v", seed, memory, late, got.Summary.Rejects, got.Summary.ByClass)
			}
			if i == 0 {
				without = got
			} else if diff := compare(without, got); diff != "" {
				t.Fatalf("seed %d, memory %d, %d crashes: -without +with a store\n%s", seed, memory, crashes, diff)
			}
		}
	}
}
