package cli

import (
	"flag"
	"testing"
	"time"
)

func TestSize(t *testing.T) {
	f := func(in string, want int64, text string) {
		t.Helper()
		var s Size
		if err := s.Set(in); err != nil {
			t.Errorf("%s: %v", in, err)
		}
		if int64(s) != want || s.String() != text {
			t.Errorf("%s: got %d as %s, want %d as %s", in, int64(s), s.String(), want, text)
		}
		var again Size
		if err := again.Set(s.String()); err != nil || again != s {
			t.Errorf("%s: %s reads as %d, error %v", in, s.String(), again, err)
		}
	}
	f("0", 0, "0")
	f("4096", 4096, "4KiB")
	f("4097B", 4097, "4097")
	f("16MiB", 16<<20, "16MiB")
	f("16mib", 16<<20, "16MiB")
	f("10MB", 10e6, "10MB")
	f("1.5GiB", 3<<29, "1536MiB")
	f("2 kB", 2000, "2kB")
	f("1TiB", 1<<40, "1TiB")
	bad := func(in string) {
		t.Helper()
		s := Size(7)
		err := s.Set(in)
		if err == nil || s != 7 {
			t.Errorf("%q: got %d, error %v; want an error and no change", in, s, err)
		}
	}
	for _, in := range []string{"", "M", "16M", "-1", "+1", "1e3", "0x10", "1/2", ".", "1.5", "9000000TiB", "MiB", "16 MiBs"} {
		bad(in)
	}
}

func TestDuration(t *testing.T) {
	f := func(in string, want time.Duration, text string) {
		t.Helper()
		var d Duration
		if err := d.Set(in); err != nil {
			t.Errorf("%s: %v", in, err)
		}
		if time.Duration(d) != want || d.String() != text {
			t.Errorf("%s: got %v as %s, want %v as %s", in, time.Duration(d), d.String(), want, text)
		}
		var again Duration
		if err := again.Set(d.String()); err != nil || again != d {
			t.Errorf("%s: %s reads as %v, error %v", in, d.String(), again, err)
		}
	}
	f("30d", 720*time.Hour, "30d")
	f("1d12h", 36*time.Hour, "1d12h")
	f("1.5d", 36*time.Hour, "1d12h")
	f("90s", 90*time.Second, "1m30s")
	f("1h", time.Hour, "1h")
	f("10m", 10*time.Minute, "10m")
	f("0s", 0, "0s")
	f("0", 0, "0s")
	f("1d1ns", 24*time.Hour+1, "1d1ns")
	for _, in := range []string{"", "d", "1", "-1h", "-1d", "1d-1h", "1h1d", "200000d", "106751d24h", "1w", "soon"} {
		d := Duration(7)
		if err := d.Set(in); err == nil || d != 7 {
			t.Errorf("%q: got %v, error %v; want an error and no change", in, time.Duration(d), err)
		}
	}
}

func TestRejectLimit(t *testing.T) {
	f := func(in, text string, rejects, records int64, want bool) {
		t.Helper()
		var l RejectLimit
		if err := l.Set(in); err != nil {
			t.Fatalf("%s: %v", in, err)
		}
		if l.String() != text {
			t.Errorf("%s prints as %s, want %s", in, l.String(), text)
		}
		if got := l.Exceeded(rejects, records); got != want {
			t.Errorf("%s: %d of %d: exceeded = %v, want %v", in, rejects, records, got, want)
		}
	}
	f("0", "0", 0, 0, false)
	f("0", "0", 1, 10, true)
	f("10", "10", 10, 10, false)
	f("10", "10", 11, 1000, true)
	f("1%", "1%", 1, 100, false)
	f("1%", "1%", 2, 100, true)
	f("1%", "1%", 1, 99, true)
	f("0.5%", "0.5%", 1, 200, false)
	f("0.0001%", "0.0001%", 2, 1_000_000, true)
	f("100%", "100%", 5, 5, false)
	f("0%", "0%", 0, 0, false)
	f("0%", "0%", 1, 1_000_000_000, true)
	for _, in := range []string{"", "%", "-1", "1.5", "101%", "0.00001%", "1e2", "many"} {
		var l RejectLimit
		if err := l.Set(in); err == nil {
			t.Errorf("%q: got %s, want an error", in, l.String())
		}
	}
	if (RejectLimit{}).Exceeded(0, 5) || !(RejectLimit{}).Exceeded(1, 5) {
		t.Error("zero limit allows more or fewer than no rejects")
	}
}

func TestFlagValues(*testing.T) {
	_ = []flag.Value{new(Size), new(Duration), new(RejectLimit)}
}
