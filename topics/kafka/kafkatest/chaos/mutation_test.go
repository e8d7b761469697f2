package main

import (
	"go/format"
	"testing"
)

// What a mutation replaces is there, and what it makes of it is Go.
func TestMutations(t *testing.T) {
	for _, m := range mutations() {
		files, err := m.apply("../../../..")
		if err != nil {
			t.Error(err)
		}
		for path, text := range files {
			if _, err := format.Source(text); err != nil {
				t.Errorf("%s: %s: %v", m.name, path, err)
			}
		}
	}
}
