package codecs

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-json"
	"github.com/google/go-cmp/cmp"

	"evalstream"
)

// decode reads one line with a decoder of its own.
func decode(t *testing.T, p Plan, line string) (evalstream.Record, *evalstream.Fault) {
	t.Helper()
	d, err := NewDecoder(p)
	if err != nil {
		t.Fatal(err)
	}
	rec := evalstream.Record{Raw: []byte(line)}
	f := d.Decode(&rec)
	return rec, f
}

type hits = []evalstream.Hit

// by makes fields to group by of names and literals.
func by(pairs ...string) (ss []evalstream.Slice) {
	for i := 0; i < len(pairs); i += 2 {
		ss = append(ss, evalstream.Slice{Name: pairs[i], Value: pairs[i+1]})
	}
	return ss
}

// accepts checks the body and time that a line is read as.
func accepts(t *testing.T, p Plan, line string, want evalstream.Body, at string) {
	t.Helper()
	rec, fault := decode(t, p, line)
	if fault != nil {
		t.Errorf("%s: %v", line, fault)
		return
	}
	if diff := cmp.Diff(want, rec.Body); diff != "" {
		t.Errorf("%s: (-want +got)\n%s", line, diff)
	}
	if rec.Time.String() != at {
		t.Errorf("%s: time %v, want %s", line, rec.Time, at)
	}
	if !p.Lines && string(rec.Raw) != line {
		t.Errorf("%s: the line became %s", line, rec.Raw)
	}
}

func TestDecodeRun(t *testing.T) {
	f := func(p Plan, line string, want evalstream.Run, at string) {
		t.Helper()
		accepts(t, p, line, &want, at)
	}
	p := Plan{As: "run"}
	f(p, `{"query_id":"q","top":[]}`, evalstream.Run{QueryID: "q"}, "none")
	f(p, ` { "top" : [ ] , "query_id" : "q" } `, evalstream.Run{QueryID: "q"}, "none")
	f(p, `{"query_id":"q","run":null,"time":null,"revision":null,"top":[]}`, evalstream.Run{QueryID: "q"}, "none")
	f(p, `{"kind":"chat","query_id":"q","top":[]}`, evalstream.Run{QueryID: "q"}, "none")
	f(p, `{"query_id":"q","top":[{"id":"a"},{"id":"b","score":null},{"x":{},"id":"c"}]}`,
		evalstream.Run{QueryID: "q", Top: hits{{ID: "a", Score: 0}, {ID: "b", Score: -1}, {ID: "c", Score: -2}}}, "none")
	f(p, `{"query_id":7,"run":1e2,"top":[{"id":"d","score":0.5},{"score":1e-1,"id":9007199254740993}],"time":"2026-01-02T03:04:05.5+01:00","revision":3}`,
		evalstream.Run{QueryID: "7", Run: "1e2", Revision: 3, Top: hits{{ID: "d", Score: .5}, {ID: "9007199254740993", Score: .1}}}, "2026-01-02T02:04:05.5Z")
	f(p, `{"query_id":"a\"\u00e9\n","top":[{"id":"\\","score":-0.0}],"revision":"1970-01-01T00:00:01Z"}`,
		evalstream.Run{QueryID: "a\"é\n", Revision: 1e9, Top: hits{{ID: `\`, Score: math.Copysign(0, -1)}}}, "none")
	f(foreignPlan(), `{"query_id":"q","model":"m","ticker":"A\u0042","ts":"2026-01-02T03:04:05Z","x":1,"retrieved":[{"id":"d","score":1,"text":"long"},{"id":"e","score":0}]}`,
		evalstream.Run{QueryID: "q", Run: "m", Top: hits{{ID: "d", Score: 1}, {ID: "e"}}, Slices: by("model", `"m"`, "ticker", `"AB"`)}, "2026-01-02T03:04:05Z")
}

func TestDecodeSlices(t *testing.T) {
	f := func(p Plan, line string, want ...evalstream.Slice) {
		t.Helper()
		p.As = "run"
		rec, fault := decode(t, p, line)
		if fault != nil {
			t.Errorf("%s: %v", line, fault)
		} else if diff := cmp.Diff(want, rec.Body.(*evalstream.Run).Slices); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", line, diff)
		}
	}
	long := strings.Repeat("x", 64)
	line := `{"kind":"run","query_id":"q","top":[],"a":1.0,"b":"s","c":true,"d":null,"e":{"f":1},"g":[1],"h":"` + long + `","i":"` + long + `y","j":-0,"k":"\u0041\/","l":"` + strings.Repeat(`\u0041`, 64) + `","m":` + strings.Repeat("1", 65) + `}`
	f(Plan{}, line)
	f(Plan{Slices: []string{"c", "a", "z", "i", "d", "e", "top", "query_id", "kind"}}, line, evalstream.Slice{Name: "a", Value: "1.0"}, evalstream.Slice{Name: "c", Value: "true"})
	f(Plan{AllSlices: true}, line, by("a", "1.0", "b", `"s"`, "c", "true", "h", `"`+long+`"`, "j", "-0", "k", `"A/"`, "l", `"`+strings.Repeat("A", 64)+`"`)...)
	// The source of a mapping stays a field of its own; the name that it fills is not one.
	f(Plan{AllSlices: true, Map: []Mapping{{"run", "/a"}}}, `{"query_id":"q","top":[],"a":"x","run":"y"}`, evalstream.Slice{Name: "a", Value: `"x"`})
	// Fields to group by can come from below the top level.
	deep := Plan{Map: []Mapping{{"co", "/m/co"}, {"first", "/l/0"}, {"id", "/l/1/id"}, {"gone", "/m/x"}}, Slices: []string{"co", "first", "id", "gone"}}
	f(deep, `{"query_id":"q","top":[],"co":"own","m":{"co":"up","z":1},"l":[3,{"id":7}]}`, by("co", `"up"`, "first", "3", "id", "7")...)
	f(deep, `{"query_id":"q","top":[],"l":{"0":1,"1":{"id":2}},"m":[{"co":1}]}`, by("first", "1", "id", "2")...)
	// Keys are exact, and beyond those that a place knows by number.
	f(Plan{AllSlices: true}, `{"query_id":"q","Query_ID":1,"top":[]}`, evalstream.Slice{Name: "Query_ID", Value: "1"})
	var many strings.Builder
	var want []evalstream.Slice
	for i := range 200 {
		fmt.Fprintf(&many, `,"f%d":%d`, i, i)
		want = append(want, evalstream.Slice{Name: fmt.Sprintf("f%d", i), Value: strconv.Itoa(i)})
	}
	f(Plan{AllSlices: true}, `{"query_id":"q","top":[]`+many.String()+`}`, want...)
}

func TestDecodeOtherKinds(t *testing.T) {
	f := func(p Plan, line string, want evalstream.Body, at string) {
		t.Helper()
		accepts(t, p, line, want, at)
	}
	each := Plan{AllSlices: true}
	f(each, `{"kind":"qrel","query_id":1,"passage_id":"p","time":"no matter"}`, &evalstream.Qrel{QueryID: "1", PassageID: "p", Grade: 1}, "none")
	f(each, `{"query_id":1,"passage_id":"p","grade":null,"source":"llm","kind":"qrel"}`, &evalstream.Qrel{QueryID: "1", PassageID: "p", Withdrawn: true, Source: "llm"}, "none")
	f(each, `{"query_id":1,"passage_id":"p","grade":-2,"kind":"qrel","revision":-7}`, &evalstream.Qrel{QueryID: "1", PassageID: "p", Grade: -2, Revision: -7}, "none")
	f(Plan{As: "prediction"}, `{"seed":1,"label":"org:founded","gold":"no_relation"}`,
		&evalstream.Prediction{Seed: "1", Label: "org:founded", Gold: "no_relation", HasLabel: true, HasGold: true}, "none")
	f(each, `{"kind":"prediction","dataset":"d","seed":1,"k":5,"episode":"e","query":2,"run":"r","label":null,"gold":3,"score":0.5,"time":"2026-01-01T00:00:00Z","x":1}`,
		&evalstream.Prediction{Dataset: "d", Seed: "1", K: "5", Episode: "e", Query: "2", Run: "r", Gold: "3", HasGold: true, Slices: by("x", "1")}, "2026-01-01T00:00:00Z")
	f(each, `{"kind":"rating","unit":"u","coder":7,"value":1.50}`, &evalstream.Rating{Unit: "u", Coder: "7", Value: "1.50"}, "none")
	f(each, `{"kind":"rating","unit":"u","coder":7,"value":"\u0041"}`, &evalstream.Rating{Unit: "u", Coder: "7", Value: `"A"`}, "none")
	f(each, `{"kind":"rating","unit":"u","coder":7,"value":null}`, &evalstream.Rating{Unit: "u", Coder: "7", Retracted: true}, "none")
	long := `"` + strings.Repeat("x", 1000) + `"`
	f(each, `{"kind":"rating","unit":"u","coder":7,"value":`+long+`}`, &evalstream.Rating{Unit: "u", Coder: "7", Value: long}, "none")
	f(Plan{As: "rating", NoTime: true}, `{"unit":"u","coder":7,"value":false,"time":"no matter"}`, &evalstream.Rating{Unit: "u", Coder: "7", Value: "false"}, "none")
	f(Plan{As: "rating", Map: []Mapping{{"unit", "/a~1b/m~0n"}, {"coder", "/who"}, {"value", "/who"}}}, `{"a/b":{"m~n":"u"},"who":"w"}`,
		&evalstream.Rating{Unit: "u", Coder: "w", Value: `"w"`}, "none")
}

// The time that a record came with stands in place of its line's, and goes on with it.
func TestDecodeRecordTime(t *testing.T) {
	at, _ := evalstream.TimeOf(time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC))
	own, _ := evalstream.TimeOf(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
	m, err := ParseMapping("time=/ts")
	if err != nil {
		t.Fatal(err)
	}
	f := func(p Plan, came evalstream.Time, line string, want evalstream.Time, goesOn string) {
		t.Helper()
		p.RecordTime, p.Lines = true, true
		d, err := NewDecoder(p)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // nothing stays of the record before
			rec := evalstream.Record{Raw: []byte(line), Time: came}
			if fault := d.Decode(&rec); fault != nil {
				t.Fatalf("%s: %v", line, fault)
			}
			if rec.Time != want || string(rec.Raw) != goesOn {
				t.Errorf("%s at %v: got %v, %s; want %v, %s", line, came, rec.Time, rec.Raw, want, goesOn)
			}
		}
	}
	const stamped = `"time":"2026-01-02T03:04:05.006Z"`
	f(Plan{}, at, `{"kind":"run","query_id":"q","top":[]}`, at, `{"kind":"run","query_id":"q","top":[],`+stamped+`}`)
	f(Plan{}, at, `{"kind":"run","time":"2020-01-01T00:00:00Z","query_id":"q","top":[]}`, at, `{"kind":"run",`+stamped+`,"query_id":"q","top":[]}`)
	f(Plan{}, at, `{"kind":"run","time":"no time","query_id":"q","top":[]}`, at, `{"kind":"run",`+stamped+`,"query_id":"q","top":[]}`)
	f(Plan{As: "run", Map: []Mapping{m}}, at, `{"ts":7,"query_id":"q","top":[]}`, at, `{"kind":"run","ts":7,"query_id":"q","top":[],`+stamped+`}`)
	f(Plan{}, evalstream.NoTime, `{"kind":"run","time":"2020-01-01T00:00:00Z","query_id":"q","top":[]}`, own, `{"kind":"run","time":"2020-01-01T00:00:00Z","query_id":"q","top":[]}`)
	f(Plan{}, at, `{"kind":"qrel","query_id":"q","passage_id":"p"}`, evalstream.NoTime, `{"kind":"qrel","query_id":"q","passage_id":"p"}`)
}

func TestDecodeTime(t *testing.T) {
	f := func(p Plan, value, want string) {
		t.Helper()
		p.As = "rating"
		rec, fault := decode(t, p, `{"unit":"u","coder":"c","value":1,"time":`+value+`}`)
		if fault != nil {
			t.Errorf("%s: %v", value, fault)
		} else if got := rec.Time.String(); got != want {
			t.Errorf("%s: got %s, want %s", value, got, want)
		}
	}
	f(Plan{}, `"2000-02-29T23:59:59.123456789Z"`, "2000-02-29T23:59:59.123456789Z")
	f(Plan{}, `"2026-12-31T23:30:00-01:30"`, "2027-01-01T01:00:00Z")
	f(Plan{}, `"1678-01-01T00:00:00Z"`, "1678-01-01T00:00:00Z")
	f(Plan{}, `"2261-12-31T23:59:59.9999999999Z"`, "2261-12-31T23:59:59.999999999Z")
	f(Plan{}, `"2026-01-01T00:00:00\u005a"`, "2026-01-01T00:00:00Z")
	f(Plan{TimeUnit: time.Second}, `1700000000`, "2023-11-14T22:13:20Z")
	f(Plan{TimeUnit: time.Millisecond}, `-1`, "1969-12-31T23:59:59.999Z")
	f(Plan{TimeUnit: time.Microsecond}, `1700000000000001`, "2023-11-14T22:13:20.000001Z")
	f(Plan{TimeUnit: time.Nanosecond}, `1`, "1970-01-01T00:00:00.000000001Z")
	f(Plan{TimeUnit: time.Second}, `"2026-01-01T00:00:00Z"`, "2026-01-01T00:00:00Z")
}

// fastTime must agree with package time on whatever it takes.
func TestFastTime(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	layouts := []string{time.RFC3339, time.RFC3339Nano, "2006-01-02T15:04:05.000Z07:00"}
	for range 20000 {
		at := time.Unix(rng.Int64N(2*9214560000)-9214560000, rng.Int64N(1e9)).In(time.FixedZone("", 60*(rng.IntN(2*23*60)-23*60)))
		text := []byte(at.Format(layouts[rng.IntN(len(layouts))]))
		if rng.IntN(3) == 0 {
			text[rng.IntN(len(text))] = "0123456789-:TZ.+ "[rng.IntN(17)]
		}
		got, ok := fastTime(string(text))
		want, err := time.Parse(time.RFC3339Nano, string(text))
		if ok && (err != nil || got != evalstream.Time(want.UnixNano())) {
			t.Fatalf("%s: got %v, want %v (%v)", text, got, want, err)
		}
	}
	if _, ok := fastTime("2026-03-28T10:20:30.25+02:00"); !ok {
		t.Error("a usual time is not taken")
	}
}

func TestDecimal(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	taken := 0
	for range 20000 {
		text := strconv.FormatFloat(rng.NormFloat64()*math.Pow10(rng.IntN(12)-6), 'f', rng.IntN(18), 64)
		want, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		s := scanner{line: []byte(text + "}")}
		end, got, ok := s.decimal(0)
		if end != len(text) {
			t.Fatalf("%s: got end %d, want %d", text, end, len(text))
		}
		if ok {
			if taken++; math.Float64bits(got) != math.Float64bits(want) {
				t.Fatalf("%s: got %v, want %v", text, got, want)
			}
		}
	}
	if taken < 5000 {
		t.Errorf("took %d of 20000", taken)
	}
}

func TestReset(t *testing.T) {
	d, err := NewDecoder(foreignPlan())
	if err != nil {
		t.Fatal(err)
	}
	lines := foreignLines(3, 300)
	for range 3 {
		var recs []evalstream.Record
		for _, line := range lines {
			rec := evalstream.Record{Raw: line}
			if f := d.Decode(&rec); f != nil {
				t.Fatal(f)
			}
			recs = append(recs, rec)
		}
		for i, rec := range recs {
			want, f := decode(t, foreignPlan(), string(lines[i]))
			if f != nil {
				t.Fatal(f)
			}
			if diff := cmp.Diff(want.Body, rec.Body); diff != "" {
				t.Fatalf("line %d: (-want +got)\n%s", i, diff)
			}
		}
		d.Reset()
	}
	// Nothing is allocated, but by go-json's pool when the race detector is on.
	least := testing.AllocsPerRun(5, func() {
		for _, line := range lines {
			json.Valid(line)
		}
	})
	var rec evalstream.Record
	allocs := testing.AllocsPerRun(5, func() {
		for _, line := range lines {
			rec.Raw = line
			if f := d.Decode(&rec); f != nil {
				t.Fatal(f)
			}
		}
		d.Reset()
	})
	if allocs > 2*least+10 {
		t.Errorf("%v allocations for %d lines", allocs, len(lines))
	}
}

func TestPlanFaults(t *testing.T) {
	f := func(p Plan, want string) {
		t.Helper()
		_, err := NewDecoder(p)
		if err == nil {
			t.Errorf("%+v: no error, want %s", p, want)
		} else if err.Error() != want || evalstream.ExitCode(err) != evalstream.ExitUsage {
			t.Errorf("%+v: got %v, want %s", p, err, want)
		}
	}
	f(Plan{As: "runs"}, `as: no kind "runs"; did you mean run? (have run, qrel, prediction, rating, score, verdict, review, partial, passage, query, instance, episode)`)
	f(Plan{As: "run", TimeUnit: time.Minute}, `time unit: want s, ms, us or ns, got 1m0s`)
	f(Plan{As: "run", Map: []Mapping{{"run", "/a"}, {"run", "/b"}}}, `map: run is mapped twice, from /a and from /b`)
	f(Plan{As: "qrel", Map: []Mapping{{"ticker", "/a"}}}, `map: qrel has no field "ticker" (have query_id, passage_id, grade, source, revision, time)`)
	f(Plan{As: "rating", Map: []Mapping{{"top.id", "/a"}}}, `map: rating has no field "top.id" (have unit, coder, value, revision, time)`)
	f(Plan{As: "run", Map: []Mapping{{"kind", "/a"}}}, `map: run has no field "kind" (have query_id, run, top, time, revision)`)
	f(Plan{As: "run", Map: []Mapping{{"qurey_id", "/a"}}}, `map: run has no field "qurey_id", and nothing groups by it; did you mean query_id? (have query_id, run, top, time, revision)`)
	f(Plan{As: "run", Map: []Mapping{{"run", "/top/0/model"}}}, `map: a field is read from inside of top (/top); want top.id or top.score`)
	f(Plan{As: "run", Map: []Mapping{{"co", "/top/0/co"}}, AllSlices: true}, `map: a field is read from inside of top (/top); want top.id or top.score`)
	var many []string
	for i := range 100 {
		many = append(many, strconv.Itoa(i))
	}
	f(Plan{As: "run", Slices: many}, `run: more than 64 fields of one object are asked for`)
}

func TestParseMapping(t *testing.T) {
	f := func(in string, want Mapping, fault string) {
		t.Helper()
		got, err := ParseMapping(in)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if got != want || text != fault {
			t.Errorf("%s: got %+v, %q", in, got, text)
		}
	}
	f("query_id=/qid", Mapping{"query_id", "/qid"}, "")
	f("a=/b=c/d~1e", Mapping{"a", "/b=c/d~1e"}, "")
	f("a", Mapping{}, `map: want FIELD=/json/pointer, got "a"`)
	f("=/a", Mapping{}, `map: want FIELD=/json/pointer, got "=/a"`)
	f("a=b.c", Mapping{}, `map: a: want a JSON Pointer that begins with /, got "b.c" (for example a=/b/c)`)
	f("a=/b~2", Mapping{}, `map: a: want ~0 or ~1 after ~ in "/b~2" (~0 is ~, ~1 is /)`)
}
