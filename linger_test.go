package evalstream

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// noted is a Remote that notes its calls.
type noted struct {
	limits Limits
	began  time.Time
	mu     sync.Mutex
	calls  []notedCall
}

type notedCall struct {
	At    time.Duration
	Lines string
}

func (n *noted) Limits() Limits   { return n.limits }
func (*noted) Size(r *Record) int { return len(r.Raw) }

func (n *noted) Process(_ context.Context, in []Record, out *Out) error {
	var lines []string
	for i := range in {
		lines = append(lines, string(in[i].Raw))
		out.Emit(in[i])
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls = append(n.calls, notedCall{time.Since(n.began), strings.Join(lines, " ")})
	return nil
}

// The blocks of a live pipe are single lines: they share a batch, and none waits
// longer than Linger.
func TestRemoteLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &noted{limits: Limits{Records: 3, InFlight: 4, Linger: time.Second}, began: time.Now()}
		r := newRemote(Step{Name: "far"}, n, nil)
		ms := time.Millisecond
		var wg sync.WaitGroup
		for i, b := range []notedCall{{0, "a"}, {300 * ms, "b"}, {1200 * ms, "c"}, {1300 * ms, "d"}, {1400 * ms, "e"}, {6000 * ms, "f"}, {8000 * ms, "g h"}, {8100 * ms, "i j"}} {
			wg.Go(func() {
				<-time.After(b.At)
				var in []Record
				for k, line := range strings.Fields(b.Lines) {
					in = append(in, Record{Raw: []byte(line), Seq: Seq(10*i + k)})
				}
				var out Out
				if err := r.process(t.Context(), in, &out); err != nil {
					t.Error(err)
				}
				if diff := cmp.Diff(in, out.Records); diff != "" {
					t.Errorf("%s (-want +got)\n%s", b.Lines, diff)
				}
			})
		}
		wg.Wait()
		want := []notedCall{{1000 * ms, "a b"}, {1400 * ms, "c d e"}, {7000 * ms, "f"}, {8100 * ms, "g h"}, {9100 * ms, "i j"}}
		if diff := cmp.Diff(want, n.calls); diff != "" {
			t.Errorf("calls (-want +got)\n%s", diff)
		}
	})
}
