package stages

import (
	"context"
	"fmt"
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
	}
	return p
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
		must(p.merge.Process(ctx, recs, &p.next))
		must(p.merge.Advance(ctx, watermark, &p.next))
		if watermark != evalstream.EndOfTime {
			must(p.merge.Tick(ctx, &p.next))
		}
		b, recs = p.merge.book, p.next.Records
		p.most = max(p.most, len(p.merge.last))
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
		if p.merge == nil {
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
	}{{"1m", 100_000, false, false}, {"1m", 10_000, false, true}, {"1m", 10_000, true, true}, {"4m/1m", 10_000, false, true}, {"4m/1m", 10_000, true, false}} {
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
