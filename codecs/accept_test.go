package codecs

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"evalstream"
)

// halfCharacter is the oracle for escapes that are half of a surrogate pair:
// encoding/json reads U+FFFD for them. Lines that have it anyway are not asked.
func halfCharacter(line []byte) bool {
	lower := strings.ToLower(string(line))
	if strings.Contains(lower, "\ufffd") || strings.Contains(lower, `\ufffd`) {
		return false
	}
	for d := json.NewDecoder(bytes.NewReader(line)); ; {
		token, err := d.Token()
		if err != nil {
			return false
		}
		if s, ok := token.(string); ok && strings.Contains(s, "\ufffd") {
			return true
		}
	}
}

// checkAccept holds the fast path against encoding/json, and against the slow path on
// the same line: it takes the lines that are right, clean and, unless the kind is
// known, begin with it; it takes nothing else; and both read the same.
func checkAccept(t *testing.T, fast, slow *Decoder, line []byte) bool {
	t.Helper()
	read := func(d *Decoder, judge bool) (rec evalstream.Record, fault *evalstream.Fault) {
		rec = evalstream.Record{Raw: line, Time: evalstream.NoTime}
		if judge {
			fault = d.judge()
		}
		if fault == nil {
			fault = d.r.read(d, &rec)
		}
		return rec, fault
	}
	before := bytes.Clone(line)
	fast.begin(line)
	slow.begin(line)
	accepted := fast.accept()
	bySlow, faultBySlow := read(slow, true)
	if !bytes.Equal(line, before) {
		t.Fatal("the line was changed")
	}
	if !accepted {
		// The judge is asked, so nothing is lost but time; not on usual lines.
		if fast.only != nil && clean(line) && (faultBySlow == nil || faultBySlow.Class != evalstream.ClassParse) {
			t.Fatalf("%q is right, and not accepted", line)
		}
		return false
	}
	if !sound(line) || halfCharacter(line) || bytes.ContainsFunc(line, func(r rune) bool { return r < ' ' }) {
		t.Fatalf("%q was accepted", line)
	}
	byFast, faultByFast := read(fast, false)
	if diff := cmp.Diff(faultBySlow, faultByFast); diff != "" {
		t.Fatalf("%s: the fault differs: (-slow +fast)\n%s", line, diff)
	}
	if diff := cmp.Diff(bySlow.Body, byFast.Body); diff != "" || bySlow.Time != byFast.Time {
		t.Fatalf("%s: (-slow +fast)\n%s", line, diff)
	}
	return true
}

// acceptPlans are plans whose decoders are asked about each line.
func acceptPlans() []Plan {
	return []Plan{
		{As: "run", AllSlices: true},
		{AllSlices: true},
		{As: "prediction"},
		{As: "run", Map: []Mapping{{"query_id", "/qid"}, {"run", "/m/0/name"}, {"top.id", "/pid"}, {"co", "/m/0/co"}}, Slices: []string{"co", "x"}},
	}
}

// FuzzAccept holds the fast path of decoders that have seen other lines.
func FuzzAccept(f *testing.F) {
	for _, line := range seedLines() {
		f.Add([]byte(line))
	}
	for _, line := range oddLines() {
		f.Add([]byte(line))
	}
	f.Add([]byte(strings.Join(append(seedLines(), oddLines()...), "\n")))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, p := range acceptPlans() {
			fast, slow := twoDecoders(t, p)
			for line := range bytes.SplitSeq(text, []byte{'\n'}) {
				checkAccept(t, fast, slow, line)
			}
		}
	})
}

func twoDecoders(t *testing.T, p Plan) (a, b *Decoder) {
	t.Helper()
	a, err := NewDecoder(p)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = NewDecoder(p); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// oddLines are lines on which a walk that does not ask go-json may go wrong: each is
// just right or just wrong.
func oddLines() []string {
	values := []string{
		`0`, `-0`, `00`, `-`, `01`, `1.`, `.1`, `1.e1`, `1e`, `1e+`, `1E-0`, `1e+5`, `1.5e`, `0x1`, `0e0`, `-0.0E-12`, `+1`, `1 2`, `1_0`,
		`true`, `tru`, `truex`, `false`, `null`, `nul`, `NaN`, `Infinity`, `-Infinity`, ``, `:`, `,`, `1,`, `,1`,
		`[]`, `[,]`, `[1,]`, `[1 2]`, `[1`, `1]`, `{}`, `{,}`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{"a":1 "b":2}`, `{"a" 1}`, `{a:1}`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `[{"b":[]}]`, `}`, `{"x":{"y":{}}`,
		`""`, `"a`, `a"`, `"\"`, `"\\"`, `"\\\"`, `"\\\""`, `"\"\\"`, `"\/\b\f\n\r\t"`, `"\x"`, `"\u"`, `"\u12"`, `"\u123g"`, `"\u00zz"`, `"\uABcd"`, `"\u 123"`,
		`"\ud83d\ude00"`, `"\ud83d"`, `"\ude00"`, `"\ud83d\ud83d\ude00"`, `"\ud83d\u0041"`, `"\ud83d\ude0"`, `"\ud83dx\ude00"`, `"\\ud83d"`, `"\ud83d\\ude00"`, `"\uD83D\uDE00"`, `"\\\ud83d"`,
		"\"\t\"", "\"\x00\"", "\"\x1f\"", "\"\x7f\"", "\t1", "1\t", "\"\xff\"", "\"\xc3\"", "\"\xed\xa0\x80\"", "\"é\"", "\"é\x01\"", "\u00a01",
		`"1234567"`, `"12345678"`, `"1234567\""`, `"123456\"8"`, `"12345678\"`, strings.Repeat("[", 600) + strings.Repeat("]", 600),
	}
	var lines []string
	for _, v := range values {
		for _, form := range []string{
			`{"query_id":"q","top":[],"label":1,"x":%}`, `{"kind":"run","query_id":"q","top":[{"id":1,"score":%}]}`,
			`{"query_id":%,"top":[{"id":1}], "x" : "\u00e9" }`, `{"label":"p","a":[1,%],"b":{"c":%}}`, `{"label":"p",%:1}`,
		} {
			lines = append(lines, strings.ReplaceAll(form, "%", v))
		}
	}
	return append(lines, ``, `{`, `}`, `{}`, `{}}`, `{{}`, `[}`, `"}`, `{"}`, ` {}`, `{} `, `{}{}`, `{"kind":"}`, `{"kind":"run`, `{"kind":"run"}`, `{"kind":"ru\u006e"}`, `{"kind":"run","kind":"run"}`)
}

func TestAccept(t *testing.T) {
	for _, p := range acceptPlans() {
		fast, slow := twoDecoders(t, p)
		for _, line := range oddLines() {
			checkAccept(t, fast, slow, []byte(line))
		}
	}
}

// Each byte of a line is changed to others, and left out, and the line is cut there.
func TestAcceptBytes(t *testing.T) {
	f := func(line string, others ...byte) {
		t.Helper()
		fast, slow := twoDecoders(t, acceptPlans()[0])
		if !checkAccept(t, fast, slow, []byte(line)) {
			t.Fatalf("%s is not accepted", line)
		}
		for at := range len(line) {
			for _, c := range others {
				changed := []byte(line)
				changed[at] = c
				checkAccept(t, fast, slow, changed)
			}
			checkAccept(t, fast, slow, []byte(line[:at]))
			checkAccept(t, fast, slow, []byte(line[:at]+line[at+1:]))
		}
	}
	all := make([]byte, 256)
	for c := range all {
		all[c] = byte(c)
	}
	f(`{"query_id":"q","top":[]}`, all...)
	f(`{"query_id":"12345678","run":"\u00e9\ud83d\ude00\\","top":[{"id":"a","score":-0.5e+1,"x":[true]}]}`, all...)
	// Bytes are looked at eight and thirty-two at a time: no length is special.
	for i := range 40 {
		f(`{"query_id":"q","top":[]`+strings.Repeat(" ", i)+`}`, 0, 0x1f, 0x20, 0x7f, 0x80, 0xff, '"')
	}
}

// The usual lines take the fast path; changed ones only if they are right.
func TestAcceptMutations(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	usual := append(foreignLines(1, 50), fewshotLines(1, 50)...)
	for _, p := range []Plan{foreignPlan(), {As: "prediction", AllSlices: true}} {
		fast, slow := twoDecoders(t, p)
		for _, line := range usual {
			if !checkAccept(t, fast, slow, line) {
				t.Fatalf("%s is not accepted", line)
			}
		}
		odd := []byte("\"\\{}[],:u0\x00\xff\x1f\xe2 e.-+tn")
		for range 5000 {
			line := bytes.Clone(usual[rng.IntN(len(usual))])
			for range 1 + rng.IntN(2) {
				line[rng.IntN(len(line))] = odd[rng.IntN(len(odd))]
			}
			checkAccept(t, fast, slow, line)
		}
	}
}
