package stages_test

import (
	"testing"

	"evalstream/stages"
)

// TestWindowText: what a window says of itself reads back as the same window.
func TestWindowText(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		w, err := stages.ParseWindow(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			return
		}
		if got := w.String(); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
		if again, err := stages.ParseWindow(w.String()); err != nil || again != w {
			t.Errorf("%s: %s reads back as %v, %v", in, w, again, err)
		}
	}
	f("10s", "10s")
	f("80s", "1m20s")
	f("20m", "20m")
	f("100m", "1h40m")
	f("3610s", "1h0m10s")
	f("1h/15m", "1h/15m")
	f("10d", "240h")
	f("1ms", "1ms")
	f("all", "all")
}
