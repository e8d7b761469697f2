package codecs

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"evalstream"
)

// decode reads one line with a decoder of its own.
func decode(t *testing.T, p Plan, line string) (evalstream.Record, *evalstream.Fault) {
	t.Helper()
	d, err := NewDecoder(p)
	if err != nil {
		t.Fatal(err)
	}
	rec := evalstream.Record{Raw: []byte(line)}
	f := d.Decode(&rec)
	return rec, f
}

func TestDecodeRun(t *testing.T) {
	f := func(p Plan, line string, want evalstream.Run, at string) {
		t.Helper()
		rec, fault := decode(t, p, line)
		if fault != nil {
			t.Fatalf("%s: %v", line, fault)
		}
		if diff := cmp.Diff(&want, rec.Body); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", line, diff)
		}
		if rec.Time.String() != at {
			t.Errorf("%s: time %v, want %s", line, rec.Time, at)
		}
	}
	p := Plan{As: "run"}
	f(p, `{"query_id":"q","top":[]}`, evalstream.Run{QueryID: "q"}, "none")
	f(p, `{"query_id":7,"run":"a","top":[{"id":"d","score":0.5},{"score":1e-1,"id":9007199254740993}],"time":"2026-01-02T03:04:05.5+01:00","revision":3}`,
		evalstream.Run{QueryID: "7", Run: "a", Revision: 3, Top: []evalstream.Hit{{ID: "d", Score: .5}, {ID: "9007199254740993", Score: .1}}}, "2026-01-02T02:04:05.5Z")
	f(foreignPlan(), `{"query_id":"q","model":"m","ticker":"A\u0042","ts":"2026-01-02T03:04:05Z","x":1,"retrieved":[{"id":"d","score":1,"text":"long"},{"id":"e","score":0}]}`,
		evalstream.Run{QueryID: "q", Run: "m", Top: []evalstream.Hit{{ID: "d", Score: 1}, {ID: "e"}},
			Slices: []evalstream.Slice{{Name: "model", Value: `"m"`}, {Name: "ticker", Value: `"AB"`}}}, "2026-01-02T03:04:05Z")
}
