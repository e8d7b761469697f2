package evalstream

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// reachOf has n marks of n cursors, as behind two cuts.
func reachOf(n int32) *Reach {
	r := &Reach{Watermark: 7, Next: []Cursor{{Origin{Name: "runs", Topic: true, Partition: 3}, 9}}}
	for p := range n {
		m := Mark{Step: "score", Partition: p, Partitions: n, Watermark: Time(p) - 1, Idle: p == 1, Ended: p == 2}
		for q := range n {
			if p == 0 && q == 1 {
				continue // a partition that nobody has heard of
			}
			m.Through = append(m.Through, Cursor{Origin{Name: "predictions", Topic: true, Partition: q}, 1_000_000 + int64(p*n+q)})
		}
		r.Marks = append(r.Marks, m)
	}
	r.Marks = append(r.Marks, Mark{}) // one that has not spoken
	r.Through = []Cursor{{Origin{Name: "gold", Topic: true}, 0}, {Origin{Name: "predictions", Topic: true, Partition: 1}, 5}}
	return r
}

// A reach comes back as it was, and so does one that was written with cursors as objects.
func TestReachText(t *testing.T) {
	for _, want := range []*Reach{{}, {Watermark: NoTime, Next: []Cursor{}}, reachOf(1), reachOf(12)} {
		short, err := json.Marshal(&Checkpoint{Reach: want})
		if err != nil {
			t.Fatal(err)
		}
		type plain Reach // without its methods
		long, err := json.Marshal(struct{ Reach *plain }{(*plain)(want)})
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range [][]byte{short, long} {
			var got Checkpoint
			if err := json.Unmarshal(text, &got); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if diff := cmp.Diff(want, got.Reach); diff != "" {
				t.Errorf("%s (-want +got):\n%s", text, diff)
			}
		}
	}
	for _, n := range []int32{12, 32, 64} {
		text, err := json.Marshal(reachOf(n))
		t.Logf("%d partitions: %d bytes", n, len(text))
		if limit := int(n*n)*8 + int(n)*150 + 500; err != nil || len(text) > limit {
			t.Errorf("%d partitions: %d bytes, want %d at most; %v", n, len(text), limit, err)
		}
	}
}

// Text that is no reach is an error.
func TestReachTextBad(t *testing.T) {
	for _, text := range []string{`{"Next":3}`, `{"Next":{"a":3}}`, `{"Next":{"a":["x"]}}`, `{"Marks":[{"Through":[3]}]}`} {
		if err := json.Unmarshal([]byte(text), new(Reach)); err == nil {
			t.Errorf("%s: want an error", text)
		}
	}
	if text, err := json.Marshal(&Reach{Next: []Cursor{{Origin{Name: "a.ndjson"}, 3}}}); err == nil {
		t.Errorf("a cursor of a file: want an error, got %s", text)
	}
}
