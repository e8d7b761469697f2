package file

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"evalstream"
)

func TestResultLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	key := func(c byte) evalstream.LogKey { return evalstream.LogKey{c} }
	open := func() *ResultLog {
		t.Helper()
		l, err := OpenResultLog(path)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	put := func(l *ResultLog, c byte, answer string) {
		t.Helper()
		if err := l.Put(key(c), []byte(answer)); err != nil {
			t.Fatal(err)
		}
	}
	want := func(l *ResultLog, c byte, answer string) {
		t.Helper()
		got, ok, err := l.Get(key(c))
		if err != nil || !ok || string(got) != answer {
			t.Errorf("key %d: want %q, got %q, %t, %v", c, answer, got, ok, err)
		}
	}
	l := open()
	put(l, 1, "one")
	put(l, 2, "")
	put(l, 1, "another")
	want(l, 1, "one")
	if _, err := OpenResultLog(path); err == nil || !strings.Contains(err.Error(), "another process has it open") {
		t.Errorf("second opener: %v", err)
	}
	put(l, 3, "three")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	// Cut anywhere, it opens with the entries that are whole, and goes on.
	for n := range whole {
		if err := os.WriteFile(path, whole[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		l := open()
		has := l.Len()
		if three := 3; n < len(whole) && has >= three {
			t.Fatalf("cut to %d of %d bytes: want fewer than 3 answers, got %d", n, len(whole), has)
		}
		put(l, 3, "three")
		put(l, 4, "four")
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = open()
		want(l, 3, "three")
		want(l, 4, "four")
		if l.Len() != has+2 {
			t.Fatalf("cut to %d bytes: want %d answers, got %d", n, has+2, l.Len())
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}

	// A changed byte within is not a wrong answer but an error, with the place.
	for n := len(logMagic) + 4; n < len(whole)-entryHead-entryTail-5; n++ {
		bad := append([]byte(nil), whole...)
		bad[n] ^= 0x10
		if err := os.WriteFile(path, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		l, err := OpenResultLog(path)
		if err == nil {
			if l.Len() == 3 {
				t.Fatalf("byte %d changed: want an error", n)
			}
			_ = l.Close()
			continue // a length that now goes beyond the end looks like a cut
		}
		if evalstream.ExitCode(err) != evalstream.ExitState || !strings.Contains(err.Error(), "damaged at byte ") {
			t.Fatalf("byte %d changed: %v", n, err)
		}
	}
	if err := os.WriteFile(path, []byte("{\"kind\":\"run\"}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenResultLog(path); err == nil || !strings.Contains(err.Error(), "want a log of results, got something else") {
		t.Errorf("foreign file: %v", err)
	}
	if b, _ := os.ReadFile(path); string(b) != "{\"kind\":\"run\"}\n" {
		t.Errorf("foreign file was changed: %q", b)
	}
}
