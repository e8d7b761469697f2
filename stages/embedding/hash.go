package embedding

import (
	"fmt"
	"math/bits"
	"strings"
	"unicode"

	"github.com/zeebo/xxh3"
)

// Hash is signed feature hashing (Weinberger et al., ICML 2009) of words and pairs of
// neighboring words: each adds +1 or -1 to one place of the vector, both chosen by a
// seeded hash. Words are runs of letters and digits of the lower-cased text.
//
// It needs no model and always answers the same. It is there to try a pipeline with,
// not to compare a model against: words that are everywhere weigh as much as rare ones.
type Hash struct {
	Dims int
	Seed uint64
}

// Model names the method and its seed, for Settings.
func (h Hash) Model() string { return fmt.Sprintf("signed uni+bigrams, seed %d", h.Seed) }

// Embed appends the vector of text to dst, Dims numbers. All are 0 if the text has no
// word, or if what its words add takes itself back.
func (h Hash) Embed(dst []float32, text string) []float32 {
	from := len(dst)
	for range h.Dims {
		dst = append(dst, 0)
	}
	v := dst[from:]
	last := ""
	for word := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	}) {
		h.add(v, word)
		if last != "" {
			h.add(v, last+" "+word)
		}
		last = word
	}
	return dst
}

// add adds one feature: the sign is the hash's lowest bit, the place is the share of
// Dims that its value is of all values.
func (h Hash) add(v []float32, feature string) {
	sum := xxh3.HashStringSeed(feature, h.Seed)
	place, _ := bits.Mul64(sum, uint64(h.Dims))
	if sum&1 == 0 {
		v[place]++
	} else {
		v[place]--
	}
}
