package metric

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseMeasure(t *testing.T) {
	f := func(name string, want Measure, canonical string) {
		t.Helper()
		got, err := ParseMeasure(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if got.String() != canonical {
			t.Errorf("%s is spelled %s, want %s", name, got, canonical)
		}
		if again, err := ParseMeasure(got.String()); err != nil || again != got {
			t.Errorf("%s read back: %v, %v", got, again, err)
		}
	}
	f("success@1", Measure{Kind: KindSuccess, K: 1}, "success@1")
	f("p@5", Measure{Kind: KindPrecision, K: 5}, "precision@5")
	f("mrr", Measure{Kind: KindMRR}, "mrr")
	f("mrr@10", Measure{Kind: KindMRR, K: 10}, "mrr@10")
	f("iprec_at_recall@0.10", Measure{Kind: KindIPrecision, X: 0.1}, "iprec@0.1")
	f("iprec@0", Measure{Kind: KindIPrecision}, "iprec@0")
	f("set_f", Measure{Kind: KindSetF, X: 1}, "set_f")
	f("set_f@2", Measure{Kind: KindSetF, X: 2}, "set_f@2")
	f("11pt_avg", Measure{Kind: KindElevenPoint}, "11pt_avg")
	for _, name := range everyMeasure() {
		f(name, parse(t, name), name)
	}
}

func TestParseMeasureFaults(t *testing.T) {
	f := func(name, want string) {
		t.Helper()
		_, err := ParseMeasure(name)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one with %q", name, err, want)
		}
	}
	f("sucess@1", "did you mean success@1?")
	f("recip_rank", "did you mean mrr?")
	f("ndcg_cut_10", "did you mean ndcg@10?")
	f("map_cut.100", "did you mean map@100?")
	f("P_5", "did you mean precision@5?")
	f("recal", "did you mean recall@10?")
	f("zzzz", "want one of success@K, recall@K, precision@K, mrr, mrr@K")
	f("", "is unknown")
	f("recall", `measure "recall": want recall@K with K a whole number`)
	f("recall@", "want recall@K")
	f("mrr@0", "want mrr or mrr@K with K a whole number from 1")
	f("mrr@-1", "want mrr or mrr@K")
	f("mrr@+1", "want mrr or mrr@K")
	f("ndcg@9999999999", "from 1 to 2147483647")
	f("bpref@3", "want bpref, which has no parameter")
	f("iprec", "want iprec@X with X a number from 0 to 1")
	f("iprec@1.5", "from 0 to 1")
	f("iprec@NaN", "from 0 to 1")
	f("set_f@Inf", "want set_f or set_f@X")
}

// What the documentation lists is what is read.
func TestMeasureNames(t *testing.T) {
	for _, name := range MeasureNames() {
		name = strings.NewReplacer("@K", "@3", "@X", "@0.5").Replace(name)
		if _, err := ParseMeasure(name); err != nil {
			t.Error(err)
		}
	}
}

func TestDepth(t *testing.T) {
	f := func(name string, wantK int, wantBounded bool) {
		t.Helper()
		if k, bounded := parse(t, name).Depth(); k != wantK || bounded != wantBounded {
			t.Errorf("%s: depth %d, %v, want %d, %v", name, k, bounded, wantK, wantBounded)
		}
	}
	f("success@1", 1, true)
	f("mrr@10", 10, true)
	f("mrr", 0, false)
	f("rprec", 0, false)
	f("set_f@2", 0, false)
	f("unj@20", 20, true)
}
