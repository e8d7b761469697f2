package cli

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"evalstream"
)

// screen is what a goroutine writes while a test looks.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// take is what was written since the last take.
func (s *screen) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.text.Reset()
	return s.text.String()
}

// When all is read, a remote step is what is waited for: how much was read, and an end
// that is reckoned from it, would say nothing.
func TestProgressSaysWhatIsWaitedFor(t *testing.T) {
	f := func(style Style, read int64, want string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			var b screen
			p := NewProgress(&b, style, 100, func() Snapshot { return Snapshot{ReadBytes: read, TotalBytes: 1000, Known: true} })
			p.Hooks().Block(evalstream.Progress{Lines: 400})
			p.Hooks().Calls("other", evalstream.Calls{Records: 10, Settled: 9, InFlight: 1})
			p.Hooks().Calls("embed", evalstream.Calls{Records: 1400, Settled: 96, InFlight: 4, Resting: 2, Retries: 7})
			<-time.After(plainEvery)
			synctest.Wait()
			if got := strings.TrimRight(b.take(), "\n"); !strings.Contains(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
			p.Hooks().Calls("embed", evalstream.Calls{Records: 1400, Settled: 1400})
			p.Hooks().Calls("other", evalstream.Calls{Records: 10, Settled: 10})
			b.take()
			<-time.After(plainEvery)
			synctest.Wait()
			if got := b.take(); strings.Contains(got, "embed") || !strings.Contains(got, "100") == (read == 1000) {
				t.Errorf("nothing is waited for: %q", got)
			}
			p.Stop()
		})
	}
	f(StyleLine, 1000, "\r400 lines  0/s  embed: 96 of 1,400 answered, 4 calls in flight, 2 to be tried again")
	f(StyleLine, 500, "50%")
	f(StylePlain, 1000, "progress lines=400 rejects=0 rate=13 bytes=1000 waits_for=embed settled=96 records=1400 in_flight=4 resting=2 retries=7")
	f(StylePlain, 500, "percent=50.0")
}

func TestProgressLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b screen
		var read atomic.Int64
		p := NewProgress(&b, StyleLine, 60, func() Snapshot {
			return Snapshot{ReadBytes: read.Load(), TotalBytes: 1000, Known: true, Headline: "success@1 0.231 ± 0.021, n 1,668"}
		})
		block := p.Hooks().Block
		seen := func(want string) {
			t.Helper()
			synctest.Wait()
			if d := cmp.Diff(want, b.take()); d != "" {
				t.Errorf("after %v: %s", time.Now().UTC().Format("05.000"), d)
			}
		}
		pass := func(d time.Duration) {
			t.Helper()
			<-time.After(d)
		}
		pass(100 * time.Millisecond)
		seen("")
		read.Store(100)
		block(evalstream.Progress{Lines: 1000})
		block(evalstream.Progress{Lines: 900}) // of another partition, late
		pass(200 * time.Millisecond)
		seen("\rsuccess@1 0.231 ± 0.021, n 1,668  4,000/s  10%  ETA 0:02")
		block(evalstream.Progress{Lines: 1000, Rejects: 1})
		pass(225 * time.Millisecond)
		seen("\r" + before("success@1 0.231 ± 0.021, n 1,668  2,000/s  1 reject", 56))
		for range 4 { // nothing moves for a second: at most four redraws
			pass(250 * time.Millisecond)
		}
		synctest.Wait()
		if n := strings.Count(b.take(), "\r"); n > 4 {
			t.Errorf("%d redraws in a second, want at most 4", n)
		}
		if _, err := p.Write([]byte("a message\n")); err != nil {
			t.Fatal(err)
		}
		seen("\r" + strings.Repeat(" ", 59) + "\ra message\n")
		pass(250 * time.Millisecond)
		seen("\rsuccess@1 0.231 ± 0.021, n 1,668  571/s  ETA 0:16  1 reject")
		p.Stop()
		seen("\r" + strings.Repeat(" ", 59) + "\r")
		p.Stop()
		seen("")
	})
}

// before is a line that is drawn over one of n columns.
func before(line string, n int) string {
	return line + strings.Repeat(" ", n-cells(line)) + "\r" + line
}

func TestProgressPlain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		p := NewProgress(&b, StylePlain, 80, nil)
		p.Hooks().Block(evalstream.Progress{Lines: 3000, Rejects: 2})
		<-time.After(61 * time.Second)
		p.Stop()
		want := "progress lines=3000 rejects=2 rate=100\nprogress lines=3000 rejects=2 rate=50\n"
		if d := cmp.Diff(want, b.String()); d != "" {
			t.Error(d)
		}
	})
}

func TestProgressNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		p := NewProgress(&b, StyleNone, 80, nil)
		p.Hooks().Block(evalstream.Progress{Lines: 3000})
		<-time.After(61 * time.Second)
		p.Stop()
		if b.String() != "" {
			t.Errorf("got %q, want nothing", b.String())
		}
	})
}

func TestProgressStates(t *testing.T) {
	f := func(s state, wantLine, wantPlain string) {
		t.Helper()
		if d := cmp.Diff([2]string{wantLine, wantPlain}, [2]string{s.line(79), s.plain()}); d != "" {
			t.Error(d)
		}
	}
	f(state{}, "0 lines  0/s", "progress lines=0 rejects=0 rate=0")
	f(state{lines: 1, rate: 1234.6, rejects: 1500}, "1 line  1,234/s  1,500 rejects", "progress lines=1 rejects=1500 rate=1235")
	f(state{Snapshot: Snapshot{ReadBytes: 5, TotalBytes: 0, Known: true}}, "0 lines  0/s", "progress lines=0 rejects=0 rate=0 bytes=5")
	f(state{Snapshot: Snapshot{ReadBytes: 1, TotalBytes: 8, Known: true, Headline: "alpha\r 0.7"}, hasETA: true, eta: 3725 * time.Second},
		`alpha\u000d 0.7  0 lines  0/s  12%  ETA 1:02:05`, `progress lines=0 rejects=0 rate=0 bytes=1 percent=12.5 eta=1h2m5s now="alpha\r 0.7"`)
}

func TestStyleOf(t *testing.T) {
	f := func(quiet, terminal bool, term string, want Style) {
		t.Helper()
		if got := StyleOf(quiet, terminal, func(string) string { return term }); got != want {
			t.Errorf("quiet %v, terminal %v, TERM=%s: got %d, want %d", quiet, terminal, term, got, want)
		}
	}
	f(false, true, "xterm", StyleLine)
	f(false, true, "dumb", StylePlain)
	f(false, false, "xterm", StylePlain)
	f(true, true, "xterm", StyleNone)
}
