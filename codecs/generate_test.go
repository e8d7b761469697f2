package codecs

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// foreignLines makes lines of the retrieval workload: a foreign log of ranked lists
// of ten, text in half of the hits, some words escaped, 1.8 KB a line.
func foreignLines(seed uint64, n int) [][]byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	words := strings.Fields("revenue quarter guidance margin company reported increase against prior year operating income segment fiscal outlook dividend share repurchase café naïve résumé caf\\u00e9 na\\u00efve \\u20ac12")
	text := func(size int) string {
		var b strings.Builder
		for b.Len() < size {
			if b.Len() > 0 {
				b.WriteByte(' ')
			}
			k := rng.IntN(len(words))
			if k >= 17 && rng.IntN(3) > 0 {
				k = rng.IntN(17)
			}
			b.WriteString(words[k])
		}
		return b.String()
	}
	lines := make([][]byte, n)
	for i := range lines {
		var b strings.Builder
		fmt.Fprintf(&b, `{"query_id":"q%07d","model":"model-%c","ticker":"T%03d","ts":"2026-03-%02dT%02d:%02d:%02dZ","query":"%s","retrieved":[`,
			i, 'a'+rng.IntN(4), rng.IntN(500), 1+rng.IntN(28), rng.IntN(24), rng.IntN(60), rng.IntN(60), text(150+rng.IntN(100)))
		score := 0.95
		for h := range 10 {
			if h > 0 {
				b.WriteByte(',')
			}
			score -= rng.Float64() * 0.05
			fmt.Fprintf(&b, `{"id":"doc%06d#%d","score":%s`, rng.IntN(900000), rng.IntN(40), strconv.FormatFloat(score, 'f', 6, 64))
			if h%2 == 0 {
				fmt.Fprintf(&b, `,"text":"%s"`, text(150+rng.IntN(90)))
			}
			b.WriteByte('}')
		}
		b.WriteString("]}")
		lines[i] = []byte(b.String())
	}
	return lines
}

// fewshotLines makes lines of the few-shot workload.
func fewshotLines(seed uint64, n int) [][]byte {
	rng := rand.New(rand.NewPCG(seed, 2))
	relations := strings.Fields("org:founded per:title no_relation org:parents per:spouse")
	lines := make([][]byte, n)
	for i := range lines {
		lines[i] = fmt.Appendf(nil, `{"seed":%d,"label":"%s","gold":"%s"}`, rng.IntN(5),
			relations[rng.IntN(len(relations))], relations[rng.IntN(len(relations))])
	}
	return lines
}

func verdictLines(seed uint64, n int) [][]byte {
	rng := rand.New(rand.NewPCG(seed, 3))
	lines := make([][]byte, n)
	for i := range lines {
		lines[i] = fmt.Appendf(nil, `{"span_id":"10-K-2024-%06d","triple_id":"t%d","mode":"multi-pass","dimension":"precision","judge":"judge-%c","prompt_version":"v3","verdict":%d,"reasoning":"%s"}`,
			i/72, i/9%8+1, 'a'+rune(i/3%3), rng.IntN(2), strings.Repeat("Zürich margin was \\u20ac1.2 ", 10+rng.IntN(10)))
	}
	return lines
}
