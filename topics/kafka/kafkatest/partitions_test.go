package kafkatest

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"evalstream"
)

// A connection that breaks while partitions are counted is no reason to give up, as where
// the broker that was asked dies and others are there. A missing topic is.
func TestPartitionsAreAskedAgain(t *testing.T) {
	b := fake(t, 2)
	c := connect(t, b.ListenAddrs())
	name := topic(t, c, 3, nil)
	var broken atomic.Int32
	b.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		if of := req.(*kmsg.MetadataRequest).Topics; len(of) != 1 || *of[0].Topic != name || broken.Load() == 3 {
			return nil, nil, false
		}
		broken.Add(1)
		return nil, errors.New("broken"), true
	})
	if n, err := c.Partitions(t.Context(), name); n != 3 || err != nil || broken.Load() != 3 {
		t.Errorf("want 3 partitions after 3 broken connections, got %d after %d: %v", n, broken.Load(), err)
	}
	_, err := c.Partitions(t.Context(), "missing")
	wantExit(t, err, evalstream.ExitLost, "missing: topic is not there")
}
