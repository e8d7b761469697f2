package codecs

import (
	"testing"

	"github.com/goccy/go-json"

	"evalstream"
)

func benchLines(b *testing.B, lines [][]byte, f func([]byte)) {
	n := 0
	for _, l := range lines {
		n += len(l)
	}
	b.SetBytes(int64(n / len(lines)))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		f(lines[i])
		if i++; i == len(lines) {
			i = 0
		}
	}
}

func benchDecode(b *testing.B, p Plan, lines [][]byte) {
	d, err := NewDecoder(p)
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	var rec evalstream.Record
	benchLines(b, lines, func(line []byte) {
		rec.Raw = line
		if f := d.Decode(&rec); f != nil {
			b.Fatal(f)
		}
		if n++; n%128 == 0 {
			d.Reset()
		}
	})
}

func foreignPlan() Plan {
	return Plan{
		As:     "run",
		Map:    []Mapping{{"run", "/model"}, {"time", "/ts"}, {"top", "/retrieved"}},
		Slices: []string{"model", "ticker"},
	}
}

func BenchmarkDecode(b *testing.B) {
	runs, few := foreignLines(1, 2000), fewshotLines(1, 2000)
	b.Run("run", func(b *testing.B) { benchDecode(b, foreignPlan(), runs) })
	lines := foreignPlan()
	lines.Lines, lines.AllSlices = true, true
	b.Run("run,lines", func(b *testing.B) { benchDecode(b, lines, runs) })
	b.Run("fewshot", func(b *testing.B) { benchDecode(b, Plan{As: "prediction"}, few) })
	b.Run("verdict", func(b *testing.B) { benchDecode(b, Plan{As: "verdict", NoTime: true}, verdictLines(1, 2000)) })
	b.Run("check/run", func(b *testing.B) { benchLines(b, runs, func(l []byte) { _ = check(l) }) })
	// The yardstick: go-json alone, into the struct that holds the planned fields.
	var r struct {
		Query  string `json:"query_id"`
		Model  string `json:"model"`
		Ticker string `json:"ticker"`
		TS     string `json:"ts"`
		Top    []struct {
			ID    string  `json:"id"`
			Score float64 `json:"score"`
		} `json:"retrieved"`
	}
	opt := json.DecodeNoCopyString()
	b.Run("yardstick/run", func(b *testing.B) {
		benchLines(b, runs, func(l []byte) {
			clear(r.Top)
			r.Top = r.Top[:0]
			if err := json.UnmarshalWithOption(l, &r, opt); err != nil {
				b.Fatal(err)
			}
		})
	})
}

func BenchmarkScore(b *testing.B) {
	rec := evalstream.Record{
		Time: 1700000000e9,
		Body: &evalstream.Score{
			Unit: "q0012345", Run: "model-a", Measures: []string{"success@1", "recall@10", "mrr", "ndcg@10"},
			Values:   []evalstream.Nano{1e9, 5e8, 333333333, 630929754},
			Slices:   []evalstream.Slice{{Name: "ticker", Value: `"T001"`}, {Name: "model", Value: `"model-a"`}},
			Settings: &evalstream.Settings{Digest: "0123456789abcdef"},
		},
	}
	var line []byte
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			line = AppendRecord(line[:0], &rec)
		}
		b.SetBytes(int64(len(line)))
	})
	b.Run("decode", func(b *testing.B) {
		benchDecode(b, Plan{As: "score", Slices: []string{"ticker"}}, [][]byte{line[:len(line)-1]})
	})
}
