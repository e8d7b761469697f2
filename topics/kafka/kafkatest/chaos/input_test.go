package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// The same seed gives the same lines, and they have all that the round is about.
func TestGenerate(t *testing.T) {
	in := generate(5, 5000)
	if !slices.Equal(in, generate(5, 5000)) || slices.Equal(in, generate(6, 5000)) {
		t.Error("want the lines to be those of the seed")
	}
	seen := map[string]int{}
	f := func(text string, atLeast int) {
		t.Helper()
		n := 0
		for _, i := range in {
			if strings.Contains(i.line, text) {
				n++
			}
		}
		if n < atLeast {
			t.Errorf("%d lines have %s, want %d", n, text, atLeast)
		}
	}
	repeats := 0
	for _, i := range in {
		if seen[i.line]++; seen[i.line] == 2 {
			repeats++
		}
	}
	if repeats < 100 {
		t.Errorf("%d lines come again", repeats)
	}
	f(`"grade":null`, 50)
	f(`"grade":0`, 50)
	f(`"kind":"qrel"`, 1000)
	f(`"revision":3`, 30)
	f(`"revision":0`, 30)
	f(`"query_id":"nobody`, 10)
	f(`"kind":"passage"`, 3)
	f(`"grade":"high"`, 3)
	f(`long long`, 3)
}

// The same seed gives the same events; a round of the usual length has each action.
func TestPlan(t *testing.T) {
	for seed := range uint64(50) {
		events := plan(seed, 35*time.Second, 2)
		if !slices.Equal(events, plan(seed, 35*time.Second, 2)) {
			t.Fatal("want the events to be those of the seed")
		}
		had, brokers := map[action]bool{}, map[int]bool{}
		for _, e := range events {
			had[e.what] = true
			if e.what == crash || e.what == restart {
				brokers[e.pick%2] = true
			}
			if e.at >= 35*time.Second {
				t.Errorf("seed %d: %v is after the end", seed, e)
			}
		}
		if !had[pause] {
			t.Errorf("seed %d: no pause", seed)
		}
		if !had[crash] || !had[restart] || len(brokers) < 2 {
			t.Errorf("seed %d: want one broker killed and the other restarted, got %v", seed, events)
		}
		if slices.ContainsFunc(plan(seed, 35*time.Second, 1), func(e event) bool { return e.what == restart }) {
			t.Errorf("seed %d: a broker that is alone is restarted", seed)
		}
		for a := range weights() {
			if !had[a] {
				t.Errorf("seed %d: no %s in %v", seed, a, events)
			}
		}
	}
}
