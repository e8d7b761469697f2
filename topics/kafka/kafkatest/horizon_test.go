package kafkatest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// Behind a cut event time comes with marks, in steps as large as they may be: what the
// step before took in has then passed the horizon all at once, and is still accounted for.
func TestRunHorizonBehindACut(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	rng := rand.New(rand.NewPCG(9, 9))
	var rs []record
	for i := range 120 {
		q := fmt.Sprintf("q%d", rng.IntN(50))
		line := fmt.Sprintf(`{"kind":"run","query_id":%q,"run":"a","time":"2024-05-01T%02d:%02d:00Z","top":[{"id":"p1"}],"revision":%d}`, q, i/8, i%8*7, i)
		if rng.IntN(5) > 2 {
			line = fmt.Sprintf(`{"kind":"qrel","query_id":%q,"passage_id":"p1"}`, q)
		}
		rs = append(rs, record{q, line})
	}
	for _, cuts := range [][2]string{{"    via: VIA.p\n"}, {"", "    via: VIA.s\n"}, {"    via: VIA.p\n", "    via: VIA.s\n"}} {
		for _, n := range []int32{1, 3} {
			in, to := topic(t, c, n, nil), topic(t, c, 1, compacted())
			produce(t, c, in, rs)
			path := live(t, b, fmt.Sprintf("from: topic:%s\nto: topic:%s\nhorizon: 2h\nmax_rejects: 1000\nstages:\n  - parse: {}\n", in, to)+
				strings.ReplaceAll(cuts[0]+"  - score: {measure: [success@1]}\n"+cuts[1]+"  - aggregate: {by: [run]}\n", "VIA", name("via")))
			_, told := execute(t, "", 0, "run", "--until-end", path)
			got, _ := execute(t, "", 0, "topics", "cat", "--brokers", strings.Join(b, ","), "--latest", to)
			for k, r := range finals(t, got) {
				if !strings.Contains(r, `"pending":0`) {
					t.Errorf("cuts %q, %d partitions: %s: pending at the end: %s\n%s", cuts, n, k, r, told)
				}
			}
		}
	}
}
