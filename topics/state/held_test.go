package state

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"evalstream"
)

// What is held in maps is what is held on disk, whatever is written, deleted and written
// again.
func TestHeldIsAStore(t *testing.T) {
	disk, err := OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := disk.Close(); err != nil {
			t.Error(err)
		}
	})
	stores := []evalstream.Store{disk, new(Held)}
	rng := rand.New(rand.NewPCG(7, 7))
	steps := []string{"score", "aggregate", "s"}
	key := func() []byte { return fmt.Appendf(nil, "\xff%d\x00", rng.IntN(50)) }
	for round := range 300 {
		p := int32(rng.IntN(3))
		var changes []evalstream.StepChanges
		for range rng.IntN(4) {
			c := evalstream.StepChanges{Step: steps[rng.IntN(len(steps))]}
			for range rng.IntN(20) {
				e := evalstream.Change{Key: key(), Val: fmt.Append(nil, rng.IntN(1000))}
				switch rng.IntN(4) {
				case 0:
					e.Val = nil
				case 1:
					e.Val = []byte{}
				}
				c.Changes = append(c.Changes, e)
			}
			changes = append(changes, c)
		}
		from, asked := key(), key()
		got := make([]string, len(stores))
		for i, s := range stores {
			if err := s.Commit(p, changes, &evalstream.Checkpoint{Next: evalstream.Seq(round)}); err != nil {
				t.Fatal(err)
			}
			ps, err := s.Partitions()
			got[i] = fmt.Sprint(ps, err)
			for _, q := range ps {
				cp, err := s.Checkpoint(q)
				got[i] += fmt.Sprintf(" %d:%d %v", q, cp.Next, err)
			}
			for _, step := range steps {
				for _, at := range [][]byte{nil, from} {
					left := 3 + 1000*(round%2) // some, or all of them
					var list []string
					if err := s.Scan(step, p, at, func(key, val []byte) (bool, error) {
						list = append(list, fmt.Sprintf("%q=%q", key, val))
						left--
						return left > 0, nil
					}); err != nil {
						t.Fatal(err)
					}
					got[i] += fmt.Sprintf("\n%s %q", step, list)
				}
				val, found, err := s.Get([]byte("x"), step, p, asked)
				got[i] += fmt.Sprintf("\n%q=%q %t %v", asked, val, found, err)
			}
		}
		if d := cmp.Diff(got[0], got[1]); d != "" {
			t.Fatal(d)
		}
		for _, c := range changes { // a stage uses the memory of its changes again
			for _, e := range c.Changes {
				clear(e.Key)
				clear(e.Val)
			}
		}
	}
}
