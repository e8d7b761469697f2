package stages

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"evalstream"
)

func loadInstances(t *testing.T, vectors bool, list ...evalstream.Instance) *Instances {
	t.Helper()
	s := NewInstances(vectors)
	var recs []evalstream.Record
	for i := range list {
		recs = append(recs, evalstream.Record{Body: &list[i]})
	}
	var out evalstream.Out
	if err := s.Process(t.Context(), recs, &out); err != nil || len(out.Rejects) > 0 {
		t.Fatal(err, out.Rejects)
	}
	return s
}

// labels classifies one episode.
func labels(t *testing.T, o ClassifyOptions, instances *Instances, e *evalstream.Episode) string {
	t.Helper()
	o.Instances, o.Negative = "file", "NOTA"
	stage, err := NewClassify(o, instances)
	if err != nil {
		t.Fatal(err)
	}
	s, err := stage()
	if err != nil {
		t.Fatal(err)
	}
	var out evalstream.Out
	if err := s.Process(context.Background(), []evalstream.Record{{Body: e}}, &out); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, r := range out.Rejects {
		all = append(all, "reject "+r.Fault.Error())
	}
	for i, r := range out.Records {
		p := r.Body.(*evalstream.Prediction)
		if p.Query != fmt.Sprint(i) || p.Episode != e.Episode || p.Gold != e.Queries[i].Gold {
			t.Errorf("prediction %d: %+v", i, p)
		}
		all = append(all, p.Label)
	}
	return strings.Join(all, " ")
}

func typed(id, subject, object string) evalstream.Instance {
	return evalstream.Instance{ID: id, Tokens: []string{"a", "b"}, ObjStart: 1, ObjEnd: 1, SubjType: subject, ObjType: object}
}

func TestClassifyEntityType(t *testing.T) {
	set := loadInstances(t, false, typed("s1", "PER", "ORG"), typed("s2", "PER", "ORG"), typed("s3", "ORG", "PER"), typed("s4", "PER", "ORG"),
		typed("q1", "ORG", "PER"), typed("q2", "PER", "CITY"), typed("q3", "PER", "ORG"))
	e := &evalstream.Episode{
		Episode: "0", Targets: []string{"a", "b"}, Support: [][]string{{"s1", "s2"}, {"s3", "s4"}},
		Queries: []evalstream.EpisodeQuery{{ID: "q1", Gold: "b"}, {ID: "q2"}},
	}
	if got := labels(t, ClassifyOptions{Method: "entity-type"}, set, e); got != "b NOTA" {
		t.Errorf("want b NOTA, got %s", got)
	}
	// q3 fits s1, s2 and s4: a twice as often as b.
	count := map[string]int{}
	for n := range 3000 {
		e := &evalstream.Episode{Episode: fmt.Sprint(n), Targets: e.Targets, Support: e.Support, Queries: []evalstream.EpisodeQuery{{ID: "q3"}}}
		first := labels(t, ClassifyOptions{Method: "entity-type", DrawSeed: 7}, set, e)
		if again := labels(t, ClassifyOptions{Method: "entity-type", DrawSeed: 7}, set, e); again != first {
			t.Fatalf("episode %d: %s, then %s", n, first, again)
		}
		count[first]++
	}
	if a := count["a"]; a < 1900 || a > 2100 || a+count["b"] != 3000 {
		t.Errorf("want a two times in three, got %v", count)
	}
	e.Support[1][0] = "nobody"
	if got, want := labels(t, ClassifyOptions{Method: "entity-type"}, set, e), `reject /support/1/0: instance "nobody" is not in file`; got != want {
		t.Errorf("want %s, got %s", want, got)
	}
}

func TestClassifyPrototype(t *testing.T) {
	at := func(id string, x, y float32) evalstream.Instance {
		i := typed(id, "PER", "ORG")
		i.Vector = evalstream.Vector{Values: []float32{x, y}, Fingerprint: "f"}
		return i
	}
	set := loadInstances(t, true, at("s1", 1, 0), at("s2", 0, 1), at("s3", -1, 0), at("s4", -3, .1),
		at("q1", 2, 2.1), at("q2", -1, -.2), at("q3", 5, -5))
	e := &evalstream.Episode{
		Targets: []string{"a", "b", "same"}, Support: [][]string{{"s1", "s2"}, {"s3", "s4"}, {"s2", "s1"}},
		Queries: []evalstream.EpisodeQuery{{ID: "q1"}, {ID: "q2"}, {ID: "q3"}},
	}
	f := func(threshold, want string) {
		t.Helper()
		if got := labels(t, ClassifyOptions{Method: "prototype", Threshold: threshold}, set, e); got != want {
			t.Errorf("below %q: want %s, got %s", threshold, want, got)
		}
	}
	f("", "a b a") // of a and same, which are equal, the first
	f("0.9", "a b NOTA")
	f("0.99", "a NOTA NOTA")

	other := NewInstances(true)
	a, b := at("x", 1, 0), at("y", 1, 0)
	b.Vector.Fingerprint = "g"
	var out evalstream.Out
	err := other.Process(t.Context(), []evalstream.Record{{Body: &a}, {Body: &b}}, &out)
	if evalstream.ExitCode(err) != evalstream.ExitNotComparable {
		t.Errorf("want exit 12, got %v", err)
	}
}

func TestInstanceText(t *testing.T) {
	b := evalstream.Instance{Tokens: strings.Fields("Ann Lee , CEO of Acme"), SubjEnd: 1, ObjStart: 3, ObjEnd: 3, SubjType: "PERSON", ObjType: "TITLE"}
	if diff := cmp.Diff("[SUBJ-PERSON] , [OBJ-TITLE] of Acme", instanceText(&b)); diff != "" {
		t.Error(diff)
	}
}
