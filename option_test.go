package evalstream_test

import (
	"testing"

	"evalstream"
)

func TestOptionsDiffer(t *testing.T) {
	f := func(want string, had []string, has ...string) {
		t.Helper()
		options := func(kv []string) []evalstream.Option {
			var os []evalstream.Option
			for i := 0; i < len(kv); i += 2 {
				os = append(os, evalstream.Option{Name: kv[i], Value: kv[i+1], Line: len(had) + i})
			}
			return os
		}
		if got := evalstream.OptionsDiffer(options(had), options(has)); got != want {
			t.Errorf("%v, %v: got %q, want %q", had, has, got, want)
		}
	}
	f("", nil)
	f("", []string{"a", "1", "b", "2", "a", "3"}, "a", "1", "a", "3", "b", "2")
	f("a was 1, 3 and is 1; b was 2 and is not given; c is 4 and was not given", []string{"a", "1", "b", "2", "a", "3"}, "c", "4", "a", "1")
	f("a was 1, 3 and is 3, 1", []string{"a", "1", "a", "3"}, "a", "3", "a", "1")
	f("a was 1, 3 and is 1, 3", []string{"a", "1, 3"}, "a", "1", "a", "3")
	f("a is  and was not given", nil, "a", "")
}
