package codecs

import (
	"bytes"
	stdjson "encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/goccy/go-json"
)

// Inputs on which go-json before v0.12.0 panicked or went wrong; the numbers are its
// issues. They hold the version in go.mod to what the decoder rests on.
func TestGoJSONIssues(t *testing.T) {
	f := func(line string, want bool) {
		t.Helper()
		if got := json.Valid([]byte(line)); got != want || got != stdjson.Valid([]byte(line)) {
			t.Errorf("%q: valid %v, want %v", line, got, want)
		}
		var all struct{}
		if err := json.Unmarshal([]byte(line), &all); (err == nil) != want {
			t.Errorf("%q: %v", line, err)
		}
	}
	f("{}\x00", false)                                              // 176
	f(`{"\u`, false)                                                // 429
	f(`{"a\q":1}`, false)                                           // 575
	f(`{"a":"`+strings.Repeat("\xe2", 64)+`"}`, true)               // 424; encoding is checked apart
	f("{\"a\":\"b\tc\"}", false)                                    // control characters
	f(`{"a":[tru]}`, false)                                         // literals in what is skipped
	f(`{"a":1e999,"b":`+strings.Repeat("9", 400)+`}`, true)         // 555
	f(`{"a":"\ud83d"}`, true)                                       // escapes are checked apart
	f(`{"a":-}`, false)                                             // numbers in what is skipped
	f(`{"a":.5}`, false)                                            //
	f(`{"a":"\x"}`, false)                                          //
	f(strings.Repeat(`[`, 20000)+strings.Repeat(`]`, 20000), false) // depth, not a crash
}

// go-json and encoding/json agree on mutated lines, whatever came before them (604).
func TestGoJSONMutations(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	lines := append(foreignLines(1, 20), fewshotLines(1, 20)...)
	for _, l := range seedLines() {
		lines = append(lines, []byte(l))
	}
	odd := []byte("\"\\{}[],:u0\x00\xff\x1f\xe2 e.-+tn")
	accepted := 0
	for range 20000 {
		line := bytes.Clone(lines[rng.IntN(len(lines))])
		for range rng.IntN(3) {
			at, c := rng.IntN(len(line)), odd[rng.IntN(len(odd))]
			switch rng.IntN(4) {
			case 0:
				line[at] = c
			case 1:
				line = append(line[:at], append([]byte{c}, line[at:]...)...)
			case 2:
				line = append(line[:at], line[at+1:]...)
			case 3:
				line = line[:at+1]
			}
			if len(line) == 0 {
				line = []byte{c}
			}
		}
		before := bytes.Clone(line)
		got, want := json.Valid(line), stdjson.Valid(line)
		if got != want {
			t.Fatalf("%q: valid %v, want %v", line, got, want)
		}
		if got {
			accepted++
		}
		_ = check(line)
		if !bytes.Equal(line, before) {
			t.Fatalf("%q was changed", before)
		}
	}
	if accepted < 1000 {
		t.Errorf("only %d lines were right", accepted)
	}
}

// Strings are unescaped as encoding/json does.
func TestUnescape(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	parts := []string{`\"`, `\\`, `\/`, `\b`, `\f`, `\n`, `\r`, `\t`, `\u0000`, `\u00e9`, `\u20AC`, `\ud83d\ude00`, "é", "€", "😀", "a", "bcdefghijklmnop"}
	for range 5000 {
		raw := []byte{'"'}
		for range rng.IntN(20) {
			raw = append(raw, parts[rng.IntN(len(parts))]...)
		}
		raw = append(raw, '"')
		var want string
		if err := stdjson.Unmarshal(raw, &want); err != nil {
			t.Fatal(err)
		}
		if got := unescape(raw); got != want {
			t.Fatalf("%s: got %q, want %q", raw, got, want)
		}
	}
}
