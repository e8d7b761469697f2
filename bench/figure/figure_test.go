//go:build linux

package figure

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMedian(t *testing.T) {
	f := func(want float64, values ...float64) {
		t.Helper()
		if got := Median(values); got != want {
			t.Errorf("%v: want %v, got %v", values, want, got)
		}
	}
	f(3, 3)
	f(2, 3, 1)
	f(2, 9, 1, 2)
}

func TestSpread(t *testing.T) {
	type round struct{ wall float64 }
	walls := Of([]round{{2}, {1}, {4}}, func(r round) float64 { return r.wall })
	if got, want := Spread(walls, "%.1f"), "2.0 (1.0–4.0)"; got != want {
		t.Errorf("want %s, got %s", want, got)
	}
}

func TestMachine(t *testing.T) {
	got := Machine("DuckDB 1")
	for _, part := range []string{" processors, go", ", DuckDB 1", ", load "} {
		if !strings.Contains(got, part) {
			t.Errorf("want %q in %s", part, got)
		}
	}
}

func TestWriteMarkdown(t *testing.T) {
	var b strings.Builder
	WriteMarkdown(&b, "Hop", [][]string{{"what", "s", "MB"}, {"ours", "1", "2"}})
	want := "\n**Hop**\n\n| what | s | MB |\n|---|---:|---:|\n| ours | 1 | 2 |\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
