package embedding

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"

	"evalstream"
)

// Settings are what a vector depends on, beside its text.
type Settings struct {
	Provider  string // hash or http
	Model     string
	Dims      int
	Normalize bool // to length 1
	// Prefixes are written before the text of queries and of passages, as in "query: ".
	QueryPrefix, PassagePrefix string
}

// String is all of them in one line, with nothing left out.
func (s Settings) String() string {
	return fmt.Sprintf("provider=%s model=%q dims=%d normalize=%t query_prefix=%q passage_prefix=%q",
		s.Provider, s.Model, s.Dims, s.Normalize, s.QueryPrefix, s.PassagePrefix)
}

// Fingerprint is the digest of String, 16 hex digits.
func (s Settings) Fingerprint() string {
	sum := sha256.Sum256([]byte(s.String()))
	return hex.EncodeToString(sum[:8])
}

// Key is what the vector of a text, prefix included, is kept under in a log.
func (s Settings) Key(text string) evalstream.LogKey {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%s", s.String(), text)
	var key evalstream.LogKey
	copy(key[:], h.Sum(nil))
	return key
}

// Finish checks what a provider made, and brings it to length 1 if that is asked for.
// fault is "" if the vector can be used.
func (s Settings) Finish(v []float32) (fault string) {
	if len(v) != s.Dims {
		return fmt.Sprintf("want %d dimensions, got %d", s.Dims, len(v))
	}
	sum := 0.0
	for i, x := range v {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return fmt.Sprintf("want finite numbers, got %v at place %d", x, i)
		}
		sum += float64(x) * float64(x)
	}
	norm := math.Sqrt(sum)
	if norm == 0 {
		return "want a vector that is not all 0"
	}
	if !s.Normalize {
		return ""
	}
	for i, x := range v {
		v[i] = float32(float64(x) / norm)
	}
	return ""
}
