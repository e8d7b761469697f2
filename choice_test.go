package evalstream_test

import (
	"strings"
	"testing"

	"evalstream"
)

func TestNoChoice(t *testing.T) {
	f := func(got, want string, words ...string) {
		t.Helper()
		if err := evalstream.NoChoice("method", got, words...); err.Error() != want {
			t.Errorf("%q: got %v", got, err)
		}
	}
	f("bm52", `method: want vector or bm25, got "bm52"; did you mean "bm25"?`, "vector", "bm25")
	f("x%s", `method: want a, b or c, got "x%s"`, "a", "b", "c")
	f("", `method: want one or two, got ""`, "one", "two")
}

func TestNearest(t *testing.T) {
	f := func(name, want string) {
		t.Helper()
		if got := evalstream.Nearest(name, []string{"run", "query_id", "Ticker", "k", "rum"}); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
	f("run", "run")
	f("rnu", "run") // swapped
	f("queryid", "query_id")
	f("ticke", "Ticker")
	f("rux", "run") // the first of equals
	f("x", "")      // not in all letters
	f("unrelated", "")
	f("", "")
	f(strings.Repeat("run", 1<<20), "") // at once
}
