package codecs

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadTrecEvalRun(t *testing.T) {
	got, err := ReadTrecEvalRun(strings.NewReader("10 Q0 a 1 2.5 first\r\n\n \t\n9\vQ0 é  1 1.00000001 r more words\n  10 x b y abc last"))
	if err != nil {
		t.Fatal(err)
	}
	want := TrecEvalRun{RunID: "last", Lists: []TrecEvalList{
		{"10", []TrecEvalDoc{{"a", 2.5}, {"b", 0}}},
		{"9", []TrecEvalDoc{{"é", 1}}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReadTrecEvalQrels(t *testing.T) {
	got, err := ReadTrecEvalQrels(strings.NewReader("b 0 d2 1.9\na\t0\td1\t-1  \r\nb 0 d2 x\n b 0 d#1 2"))
	if err != nil {
		t.Fatal(err)
	}
	want := TrecEvalQrels{Queries: []TrecEvalJudged{
		{"a", []TrecEvalJudgment{{"d1", -1}}},
		{"b", []TrecEvalJudgment{{"d2", 1}, {"d2", 0}, {"d#1", 2}}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLenientNumbers(t *testing.T) {
	ints := func(s string, want int64) {
		t.Helper()
		if got := LenientInt(s); got != want {
			t.Errorf("LenientInt(%q) = %d, want %d", s, got, want)
		}
	}
	ints("", 0)
	ints(" +12x", 12)
	ints("-", 0)
	ints("1e3", 1)
	ints("-99999999999999999999", math.MinInt64)
	ints("99999999999999999999", math.MaxInt64)
	floats := func(s string, want float64) {
		t.Helper()
		if got := LenientFloat(s); math.Float64bits(got) != math.Float64bits(want) {
			t.Errorf("LenientFloat(%q) = %v, want %v", s, got, want)
		}
	}
	floats("", 0)
	floats("abc", 0)
	floats("-abc", 0)
	floats(" .5", 0.5)
	floats("5.", 5)
	floats(".", 0)
	floats("-0.0", math.Copysign(0, -1))
	floats("1e", 1)
	floats("1e+", 1)
	floats("12e-1x", 1.2)
	floats("1_000", 1)
	floats("1e999", math.Inf(1))
	floats("-Infinity", math.Inf(-1))
	floats("infinite", math.Inf(1))
	floats("0x", 0)
	floats("0x1.8", 1.5)
	floats("-0X1p-2z", -0.25)
	if !math.IsNaN(LenientFloat("NaN(x)")) {
		t.Error("NaN(x) is a number")
	}
}

// Whatever the bytes, the readers do not panic, and hold every line that is not blank.
func FuzzReadTrecEval(f *testing.F) {
	f.Add("1 Q0 a 1 1.0 r\n")
	f.Add("1 0 a 1\n\n2 0 b -1")
	f.Add("\v\r 1 \x00 \xff 0x1p 3 4")
	f.Fuzz(func(t *testing.T, text string) {
		filled := 0
		for line := range strings.SplitSeq(text, "\n") {
			if strings.Trim(line, " \t\v\f\r") != "" {
				filled++
			}
		}
		if run, err := ReadTrecEvalRun(strings.NewReader(text)); err == nil {
			n := 0
			for i, list := range run.Lists {
				n += len(list.Docs)
				if i > 0 && run.Lists[i-1].Query >= list.Query {
					t.Errorf("query %q behind %q", list.Query, run.Lists[i-1].Query)
				}
			}
			if n != filled {
				t.Errorf("%d documents of %d lines", n, filled)
			}
		}
		if qrels, err := ReadTrecEvalQrels(strings.NewReader(text)); err == nil {
			n := 0
			for _, q := range qrels.Queries {
				n += len(q.Judgments)
			}
			if n != filled {
				t.Errorf("%d judgments of %d lines", n, filled)
			}
		}
	})
}

// A number that Go reads, and that C reads too, is the same to both.
func FuzzLenientFloat(f *testing.F) {
	for _, s := range []string{"1.5", "-0x1p3", "inf", "1e-400", "+.5e1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := LenientFloat(s)
		if want, err := strconv.ParseFloat(s, 64); err == nil && !strings.Contains(s, "_") && !math.IsNaN(want) && got != want {
			t.Errorf("%q: got %v, want %v", s, got, want)
		}
	})
}
