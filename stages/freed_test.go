package stages

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"evalstream"
)

// tape feeds scores of one unit a minute to aggregate and, if it emits partials, their
// partials to merge, with a tick every 1,000; it keeps the last result of each window.
type tape struct {
	t         *testing.T
	aggregate *aggregate
	merge     *merge
	shelf     map[string]string
	topic     map[string]*evalstream.Partial // the last of each key, if merge reads them again
	out, next evalstream.Out
	last      map[string]evalstream.Result
	finals    map[string]int
	most      int // cells and windows that were ever held
	seq       evalstream.Seq
	newest    evalstream.Time
}

func newTape(t *testing.T, a Aggregation, merged, kept bool) *tape {
	t.Helper()
	p := &tape{t: t, shelf: map[string]string{}, last: map[string]evalstream.Result{}, finals: map[string]int{}}
	p.start(a, merged, kept)
	return p
}

// start makes the stages, which begin with what is on the shelf.
func (p *tape) start(a Aggregation, merged, kept bool) {
	t := p.t
	t.Helper()
	if merged {
		instance, err := NewMerge(a)
		if err != nil {
			t.Fatal(err)
		}
		s, _ := instance()
		p.merge = s.(*merge)
	}
	a.Partials, a.Partitions = merged, 1
	instance, err := NewAggregate(a)
	if err != nil {
		t.Fatal(err)
	}
	s, err := instance()
	if err != nil {
		t.Fatal(err)
	}
	p.aggregate = s.(*aggregate)
	if kept {
		p.aggregate.Keep(evalstream.Shelf{
			Scan: func([]byte, func(key, val []byte) (bool, error)) error { return nil },
			Get:  func(dst, _ []byte) ([]byte, bool, error) { return dst, false, nil },
		})
		for _, key := range slices.Sorted(maps.Keys(p.shelf)) {
			if err := p.aggregate.Load([]byte(key), []byte(p.shelf[key])); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.aggregate.Loaded(); err != nil {
			t.Fatal(err)
		}
	}
}

// restart kills the stages and makes them anew. Where partials are replayed merge reads the
// last of each key first.
func (p *tape) restart() {
	p.t.Helper()
	a := p.aggregate.options
	p.start(a, p.merge != nil, true)
	if !a.Replayed {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(p.topic)) {
		if err := p.merge.Process(context.Background(), []evalstream.Record{{Body: p.topic[key]}}, &p.next); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *tape) feed(body evalstream.Body, at evalstream.Time) (rejects int) {
	p.t.Helper()
	p.seq++
	p.newest = max(p.newest, at)
	p.out.Reset()
	if err := p.aggregate.Process(context.Background(), []evalstream.Record{{Body: body, Time: at, Seq: p.seq}}, &p.out); err != nil {
		p.t.Fatal(err)
	}
	rejects = len(p.out.Rejects)
	if p.seq%1000 == 0 && p.aggregate.options.Horizon > 0 {
		p.tick(p.newest)
	}
	return rejects
}

func (p *tape) tick(watermark evalstream.Time) {
	p.t.Helper()
	ctx := context.Background()
	must := func(err error) {
		p.t.Helper()
		if err != nil {
			p.t.Fatal(err)
		}
	}
	p.out.Reset()
	must(p.aggregate.Advance(ctx, watermark, &p.out))
	if watermark != evalstream.EndOfTime {
		must(p.aggregate.Tick(ctx, &p.out))
	}
	b, recs := p.aggregate.book, p.out.Records
	if p.merge != nil {
		p.next.Reset()
		for _, r := range recs {
			if b := r.Body.(*evalstream.Partial); p.topic != nil {
				p.topic[string(b.AppendKey(nil))] = b
			}
		}
		must(p.merge.Process(ctx, recs, &p.next))
		must(p.merge.Advance(ctx, watermark, &p.next))
		if watermark != evalstream.EndOfTime {
			must(p.merge.Tick(ctx, &p.next))
		}
		b, recs = p.merge.book, p.next.Records
		if p.topic == nil {
			p.most = max(p.most, len(p.merge.last))
		}
	}
	for _, r := range recs {
		if r, ok := r.Body.(*evalstream.Result); ok {
			k := r.Window.Start.String()
			p.last[k] = *r
			if r.Final {
				p.finals[k]++
			}
		}
	}
	for i := range b.sheets {
		p.most = max(p.most, len(b.sheets[i].cells), len(b.sheets[i].order), len(b.sheets[i].readers[0].told), len(p.aggregate.sheets[i].cells))
	}
	if p.aggregate.kept != nil {
		p.out.Reset()
		must(p.aggregate.Save(&p.out))
		for _, c := range p.out.Changes {
			if c.Val == nil {
				delete(p.shelf, string(c.Key))
			} else {
				p.shelf[string(c.Key)] = string(c.Val)
			}
		}
		must(p.aggregate.Saved())
		if p.merge == nil || p.topic != nil {
			p.most = max(p.most, len(p.aggregate.kept.bases[0]))
			p.most = max(p.most, len(p.shelf)-2000) // names and units that are not forgotten
		}
	}
}

// TestFinalWindowsAreLetGo checks that windows whose horizon has passed are published as
// final once and take no memory after that, with the results of a job that keeps all.
func TestFinalWindowsAreLetGo(t *testing.T) {
	for _, c := range []struct {
		window       string
		n            int
		merged, kept bool
	}{{"1m", 20_000, false, false}, {"1m", 10_000, false, true}, {"1m", 10_000, true, true}, {"4m/1m", 10_000, false, true}, {"4m/1m", 10_000, true, false}} {
		w, n, merged, kept := c.window, c.n, c.merged, c.kept
		window, err := ParseWindow(w)
		if err != nil {
			t.Fatal(err)
		}
		begin := evalstream.Time(1_767_600_000 * int64(time.Second))
		run := func(horizon time.Duration, merged, kept bool) *tape {
			p := newTape(t, Aggregation{Windows: []Window{window}, Horizon: horizon}, merged, kept)
			for i := range n {
				v := evalstream.Nano(i%3) * evalstream.One / 2
				s := &evalstream.Score{Unit: fmt.Sprint("q", i), Run: "a", Measures: []string{"mrr"}, Values: []evalstream.Nano{v}}
				if i%7 == 0 {
					s.Status, s.Measures, s.Values = evalstream.Pending, nil, nil
				}
				p.feed(s, begin+evalstream.Time(i)*evalstream.Time(time.Minute))
				if i%500 == 499 && horizon > 0 { // far too late: of a window that is gone
					old := &evalstream.Score{Unit: fmt.Sprint("old", i), Run: "a", Measures: []string{"mrr"}, Values: []evalstream.Nano{0}}
					if got := p.feed(old, begin); i > 1500 && got != 1 {
						t.Fatalf("score %d of the first window: want it late, got %d rejects", i, got)
					}
				}
			}
			p.tick(evalstream.EndOfTime)
			return p
		}
		want := run(0, false, false)
		got := run(200*time.Minute, merged, kept)
		if got.most > 1600 { // about what comes between two ticks
			t.Errorf("%s, merged %v, kept %v: at most %d things were held of %d windows", w, merged, kept, got.most, n)
		}
		if len(got.last) != len(want.last) {
			t.Fatalf("%s: want %d windows, got %d", w, len(want.last), len(got.last))
		}
		for k, r := range want.last {
			g := got.last[k]
			if g.N != r.N || g.Value != r.Value || g.Pending+g.Unjudged != r.Pending || !g.Final || !slices.EqualFunc(g.Intervals, r.Intervals, func(a, b evalstream.Interval) bool { return a == b }) {
				t.Fatalf("%s, window %s: want %+v, got %+v", w, k, r, g)
			}
			if got.finals[k] > 2 || g.Window.End < begin+evalstream.Time(n-1600)*evalstream.Time(time.Minute) && got.finals[k] != 1 {
				t.Fatalf("%s, window %s: final %d times", w, k, got.finals[k])
			}
		}
		for _, tally := range got.aggregate.Tallies() {
			if !tally.Balanced() {
				t.Errorf("records vanished: %+v", tally)
			}
		}
		if got.merge != nil {
			for _, tally := range got.merge.Tallies() {
				if !tally.Balanced() {
					t.Errorf("partials vanished: %+v", tally)
				}
			}
		}
	}
}

// TestRestartedMerge kills an aggregate with a store and the merge behind it again and
// again. Merge begins empty: over a topic it reads the last partials again, and aggregate
// keeps nothing of windows that are final; in a pipe aggregate tells it of all.
func TestRestartedMerge(t *testing.T) {
	const n = 6_000
	window, err := ParseWindow("4m/1m")
	if err != nil {
		t.Fatal(err)
	}
	begin := evalstream.Time(1_767_600_000 * int64(time.Second))
	run := func(horizon time.Duration, replayed bool, restarts int) *tape {
		p := newTape(t, Aggregation{Windows: []Window{window}, Horizon: horizon, Replayed: replayed}, true, horizon > 0)
		if replayed {
			p.topic = map[string]*evalstream.Partial{}
		}
		for i := range n {
			v := evalstream.Nano(i%3) * evalstream.One / 2
			p.feed(&evalstream.Score{Unit: fmt.Sprint("q", i), Run: "a", Measures: []string{"mrr"}, Values: []evalstream.Nano{v}}, begin+evalstream.Time(i)*evalstream.Time(time.Minute))
			if restarts > 0 && i%(n/restarts) == n/restarts-1 {
				p.tick(p.newest) // what was not committed would come again
				p.restart()
			}
		}
		p.tick(evalstream.EndOfTime)
		return p
	}
	want := run(0, false, 0)
	for _, replayed := range []bool{false, true} {
		got := run(200*time.Minute, replayed, 7)
		if replayed && got.most > 1600+857 { // as without restarts, and what is said again
			t.Errorf("at most %d things were held of %d windows", got.most, n)
		}
		for k, r := range want.last {
			if g := got.last[k]; g.N != r.N || g.Value != r.Value || !g.Final {
				t.Fatalf("replayed %v, window %s: want %+v, got %+v", replayed, k, r, g)
			}
		}
		if len(got.last) != len(want.last) {
			t.Errorf("replayed %v: want %d windows, got %d", replayed, len(want.last), len(got.last))
		}
		if bases := len(got.aggregate.kept.bases[0]); replayed != (bases < 1600) {
			t.Errorf("replayed %v: %d bases are kept", replayed, bases)
		}
	}
}
