package codecs

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"evalstream"
)

// dice makes bodies at random.
type dice struct{ *rand.Rand }

func (d dice) maybe() bool { return d.IntN(2) == 0 }

func (d dice) text() string {
	words := []string{"", "a", "org:founded", "q\"uote", `back\slash`, "new\nline", "é€😀", "\x00\x1f", "7", "null", "a/b~c", strings.Repeat("long", 10)}
	return words[d.IntN(len(words))]
}

func (d dice) literal() string {
	literals := []string{"1", "-0", "1.50", "1e400", "9007199254740993", "true", "false", `"s"`, `"é"`, `"a\"b"`, `"a\\b"`, `""`}
	return literals[d.IntN(len(literals))]
}

func (d dice) int() int64 {
	ints := []int64{0, 1, -1, 7, math.MaxInt64, math.MinInt64}
	return ints[d.IntN(len(ints))]
}

func (d dice) nano() evalstream.Nano {
	if d.maybe() {
		return evalstream.Nano(d.int())
	}
	return evalstream.Nano(d.Int64N(3e9) - 1e9)
}

func (d dice) time() evalstream.Time {
	if d.maybe() {
		return evalstream.NoTime
	}
	return evalstream.Time(d.Int64N(9.2e18) * (1 - 2*d.Int64N(2)))
}

// slices makes fields to group by whose names are no fields of a body.
func (d dice) slices() (ss []evalstream.Slice) {
	for _, name := range []string{"ticker", "Run", "a\"b", ""} {
		if d.maybe() {
			ss = append(ss, evalstream.Slice{Name: name, Value: d.literal()})
		}
	}
	return ss
}

func (d dice) settings() *evalstream.Settings {
	if d.maybe() {
		return nil
	}
	return &evalstream.Settings{Digest: fmt.Sprintf("%016x", d.Uint64())}
}

func (d dice) body() evalstream.Body {
	switch d.IntN(6) {
	case 0:
		b := &evalstream.Run{QueryID: d.text(), Run: d.text(), Revision: d.int(), Slices: d.slices()}
		for i := range d.IntN(50) {
			b.Top = append(b.Top, evalstream.Hit{ID: fmt.Sprint(d.text(), i), Score: math.Ldexp(d.Float64()-.5, d.IntN(200)-100)})
		}
		return b
	case 1:
		b := &evalstream.Qrel{QueryID: d.text(), PassageID: d.text(), Source: d.text(), Revision: d.int(), Withdrawn: d.maybe()}
		if !b.Withdrawn {
			b.Grade = int32(d.Uint32())
		}
		return b
	case 2:
		b := &evalstream.Prediction{Dataset: d.text(), Seed: d.text(), K: d.text(), Episode: d.text(), Query: d.text(), Run: d.text(), Revision: d.int(), Slices: d.slices()}
		if b.HasLabel = d.maybe(); b.HasLabel {
			b.Label = d.text()
		}
		if b.HasGold = !b.HasLabel || d.maybe(); b.HasGold {
			b.Gold = d.text()
		}
		return b
	case 3:
		b := &evalstream.Rating{Unit: d.text(), Coder: d.text(), Revision: d.int(), Slices: d.slices(), Retracted: d.maybe()}
		if !b.Retracted {
			b.Value = d.literal()
		}
		return b
	case 4:
		b := &evalstream.Score{Unit: d.text(), Run: d.text(), Status: evalstream.Statuses()[d.IntN(6)], Positions: d.maybe(), Slices: d.slices(), Revision: d.int(), Settings: d.settings()}
		switch d.IntN(4) {
		case 0:
			for _, m := range []string{"success@1", "mrr", "a/b"} {
				b.Measures, b.Values = append(b.Measures, m), append(b.Values, d.nano())
			}
		case 1:
			for _, coder := range []string{"", "alice", "bob"} {
				b.Ratings = append(b.Ratings, evalstream.CoderValue{Coder: coder, Value: d.literal()})
			}
		case 2:
			b.Labelled, b.Label, b.Gold = true, d.text(), d.text()
		}
		return b
	}
	b := &evalstream.Partial{
		Step: d.text(), Partition: int32(d.Uint32()), Partitions: int32(d.Uint32()), Family: d.text(), By: d.slices(),
		Window: d.text(), Pane: d.int(), Judged: d.int(), Settled: d.time(), Settings: d.settings(),
		Cell: evalstream.Cell{N: d.int(), Pending: d.int(), Unjudged: d.int(), Expired: d.int()},
	}
	if d.maybe() {
		b.By = append(b.By, evalstream.Slice{Name: "gone", Value: "null"})
	}
	for i := range d.IntN(3) {
		b.Cell.Measures = append(b.Cell.Measures, d.text())
		b.Cell.Sums = append(b.Cell.Sums, d.nano())
		b.Cell.Counts = append(b.Cell.Counts, evalstream.Count{Name: fmt.Sprint(d.text(), i), N: []int64{d.int(), d.int(), d.int()}[:1+d.IntN(3)]})
	}
	return b
}

// What is written is JSON and is read back as the same body.
func TestRoundTrip(t *testing.T) {
	d := dice{rand.New(rand.NewPCG(1, 2))}
	dec, err := NewDecoder(Plan{AllSlices: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5000 {
		rec := evalstream.Record{Body: d.body(), Time: d.time()}
		switch rec.Body.(type) {
		case *evalstream.Qrel, *evalstream.Partial:
			rec.Time = evalstream.NoTime
		}
		line := AppendRecord(nil, &rec)
		if !json.Valid(line) || line[len(line)-1] != '\n' || slices.Contains(line[:len(line)-1], '\n') {
			t.Fatalf("%s is not one line of JSON", line)
		}
		if want := `{"kind":"` + rec.Body.Kind() + `"`; !strings.HasPrefix(string(line), want) {
			t.Fatalf("%s does not begin with %s", line, want)
		}
		back := evalstream.Record{Raw: line[:len(line)-1]}
		if f := dec.Decode(&back); f != nil {
			t.Fatalf("%s: %v", line, f)
		}
		if diff := cmp.Diff(rec.Body, back.Body, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%s: (-want +got)\n%s", line, diff)
		}
		if back.Time != rec.Time {
			t.Fatalf("%s: time %v, want %v", line, back.Time, rec.Time)
		}
		if i%100 == 0 {
			dec.Reset()
		}
	}
}

func TestAppendResult(t *testing.T) {
	f := func(b evalstream.Result, want string) {
		t.Helper()
		got := string(AppendBody(nil, &b))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if !json.Valid([]byte(got)) {
			t.Errorf("%s is not JSON", got)
		}
	}
	at, _ := evalstream.TimeOf(time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC))
	f(evalstream.Result{
		Metric: "success@1", By: []evalstream.Slice{{Name: "run", Value: `"a"`}, {Name: "year", Value: "2026"}, {Name: "x"}},
		Window: evalstream.Window{All: true}, Value: 2. / 3, Ratio: true, Num: 2e9, Den: 3, N: 3, Missing: 1, Pending: 4, Unjudged: 5,
		Intervals: []evalstream.Interval{
			{Method: "wilson", Looks: "one", Confidence: .95, Low: .1, High: .9},
			{Method: "normal_mixture_cs", Looks: "any", Confidence: .95, Low: 0, High: 1, Parameter: "r", Setting: 1e-7},
		},
		Closed: true, Final: true, Revision: 2,
		Through:  []evalstream.Through{{Origin: &evalstream.Origin{Name: "f.ndjson"}, Line: 9}, {Origin: &evalstream.Origin{Name: "t", Topic: true, Partition: 1}, Line: 8}},
		Settings: &evalstream.Settings{Digest: "0123456789abcdef", Text: "measure=success@1"},
	}, `{"kind":"result","metric":"success@1","by":{"run":"a","year":2026,"x":null},"window":"all","value":0.6666666666666666,"num":2,"den":3,"n":3,"missing":1,"pending":4,"unjudged":5,`+
		`"interval":[{"method":"wilson","looks":"one","confidence":0.95,"low":0.1,"high":0.9},{"method":"normal_mixture_cs","looks":"any","confidence":0.95,"low":0,"high":1,"r":1e-7}],`+
		`"closed":true,"final":true,"revision":2,"through":{"f.ndjson":9,"t[1]":8},"settings":"0123456789abcdef"}`)
	f(evalstream.Result{
		Metric: "alpha", Window: evalstream.Window{Start: at, End: at + 3600e9}, Undefined: "all values are equal", Value: math.NaN(),
		MissingUnknown: "grouped by ticker", NoInterval: "too few units", Over: "seed", HasSD: true, SD: .25, Of: 5, Agreed: true, Units: 2, Values: 4,
	}, `{"kind":"result","metric":"alpha","by":{},"window":{"start":"2026-01-02T03:00:00Z","end":"2026-01-02T04:00:00Z"},"value":null,"undefined":"all values are equal","num":null,"den":null,"n":0,`+
		`"missing":null,"missing_unknown":"grouped by ticker","pending":0,"unjudged":0,"interval":[],"no_interval":"too few units","over":"seed","sd":0.25,"of":5,"units":2,"values":4,`+
		`"closed":false,"final":false,"revision":0,"through":{}}`)
	f(evalstream.Result{Metric: "m", Window: evalstream.Window{All: true}, Value: math.Inf(1), Ratio: true, Num: -1, SD: math.NaN(), HasSD: true},
		`{"kind":"result","metric":"m","by":{},"window":"all","value":null,"undefined":"not a finite number","num":-0.000000001,"den":0,"n":0,"missing":0,"pending":0,"unjudged":0,"interval":[],"sd":null,`+
			`"closed":false,"final":false,"revision":0,"through":{}}`)
}

func TestAppendReject(t *testing.T) {
	f := func(line, want string) {
		t.Helper()
		b := &evalstream.Rejected{
			At: evalstream.Pos{Origin: &evalstream.Origin{Name: "f"}, Line: 3, Column: 4}, Stage: "parse", Class: evalstream.ClassParse, Reason: "a: b", Line: []byte(line),
		}
		want = `{"kind":"reject","pos":"f:3:4","stage":"parse","class":"parse","reason":"a: b",` + want + `}`
		if got := string(AppendBody(nil, b)); got != want {
			t.Errorf("got %.200s, want %.200s", got, want)
		}
	}
	f(`{"a":1`, `"raw":"{\"a\":1"`)
	f("", `"raw":""`)
	f("a\xff", `"raw_base64":"Yf8="`)
	kib64 := strings.Repeat("x", 64<<10)
	f(kib64, `"raw":"`+kib64+`"`)
	f(kib64+"y", `"raw":"`+kib64+`","raw_length":65537`)
	f(kib64[2:]+"€y", `"raw":"`+kib64[2:]+`","raw_length":65538`)
}

// The root's decimals and encoding/json's floats are the reference.
func TestNumbers(t *testing.T) {
	d := dice{rand.New(rand.NewPCG(3, 4))}
	for range 20000 {
		v := math.Float64frombits(d.Uint64())
		if !finite(v) {
			continue
		}
		want, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if got := appendFloat(nil, v); string(got) != string(want) {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
}

func TestSplice(t *testing.T) {
	f := func(p Plan, line, want string) {
		t.Helper()
		p.Lines = true
		rec, fault := decode(t, p, line)
		if fault != nil {
			t.Errorf("%s: %v", line, fault)
		} else if string(rec.Raw) != want {
			t.Errorf("%s\n got  %s\n want %s", line, rec.Raw, want)
		}
	}
	m := func(pairs ...string) Plan {
		p := Plan{As: "run"}
		for _, s := range pairs {
			mapping, err := ParseMapping(s)
			if err != nil {
				t.Fatal(err)
			}
			p.Map = append(p.Map, mapping)
		}
		return p
	}
	f(m(), `{"kind":"run","query_id":1.0,"top":[ ]}`, `{"kind":"run","query_id":1.0,"top":[ ]}`)
	f(m(), ` { "query_id":1.0,"top":[ ]} `, ` {"kind":"run", "query_id":1.0,"top":[ ]} `)
	f(m(), `{"query_id":1,"kind":{"a":1},"top":[]}`, `{"query_id":1,"kind":"run","top":[]}`)
	f(Plan{}, `{"query_id":1,"kind":"run","top":[]}`, `{"query_id":1,"kind":"run","top":[]}`)
	f(m("query_id=/qid", "run=/m/0/name"), `{"qid":1e2,"m":[{"name":"\u0041"}],"top":[],"x":0.10}`,
		`{"kind":"run","qid":1e2,"m":[{"name":"\u0041"}],"top":[],"x":0.10,"query_id":1e2,"run":"\u0041"}`)
	f(m("query_id=/qid", "run=/r"), `{"run":[1,2],"query_id":7,"qid":8,"top":[]}`, `{"kind":"run","run":null,"query_id":8,"qid":8,"top":[]}`)
	f(m("query_id=/run", "run=/query_id"), `{"run":"r","query_id":"q","top":[]}`, `{"kind":"run","run":"q","query_id":"r","top":[]}`)
	f(m("query_id=/query_id/id"), `{"query_id":{"id":5},"top":[]}`, `{"kind":"run","query_id":5,"top":[]}`)
	f(m("query_id=/query_id"), `{"query_id":5,"top":[]}`, `{"kind":"run","query_id":5,"top":[]}`)
	f(m("co=/meta/co", "gone=/meta/x"), `{"query_id":5,"top":[],"meta":{"co":{"a":1}}}`, `{"kind":"run","query_id":5,"top":[],"meta":{"co":{"a":1}},"co":{"a":1}}`)
	f(m("top=/hits", "top.id=/pid", "top.score=/s/v"), `{"query_id":5,"hits":[{"pid":1,"s":{"v":2},"t":"x"} , {"id":0,"pid":2,"s":{"v":1.0},"score":null}]}`,
		`{"kind":"run","query_id":5,"hits":[{"pid":1,"s":{"v":2},"t":"x"} , {"id":0,"pid":2,"s":{"v":1.0},"score":null}],`+
			`"top":[{"pid":1,"s":{"v":2},"t":"x","id":1,"score":2} , {"id":2,"pid":2,"s":{"v":1.0},"score":1.0}]}`)
	f(m("top.id=/pid"), `{"query_id":5,"top":[{"pid":1}]}`, `{"kind":"run","query_id":5,"top":[{"pid":1,"id":1}]}`)
}
