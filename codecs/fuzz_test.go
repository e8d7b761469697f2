package codecs

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"evalstream"
)

// seedLines are lines of every kind, right and wrong.
func seedLines() []string {
	return []string{
		`{"kind":"run","query_id":"q","run":"a","top":[{"id":"d","score":0.5},{"score":1e-1,"id":9007199254740993}],"time":"2026-01-02T03:04:05.5+01:00","revision":3,"x":1.0}`,
		`{"query_id":7,"top":[{"id":"a"},{"id":"b"},{"id":"\u0061"}]}`,
		` { "query_id" : "q\ud83d\ude00" , "top" : [ ] , "t":[[1],{"a":[]}] } `,
		`{"query_id":"q","top":[],"x":{"a":1,"\u0061":2}}`,
		"{\"query_id\":\"q\xff\",\"top\":[]}",
		`{"query_id":"q","top":[],"x":"\ud800"}`,
		`{"query_id":"q","top":[{"id":"a","score":1e400}]}`,
		`{"qid":1e2,"m":[{"name":"\u0041"}],"top":[{"pid":0}],"x":-0.10}`,
		`{"kind":"prediction","seed":1,"label":"org:founded","gold":"no_relation"}`,
		`{"kind":"qrel","query_id":"q","passage_id":"p","grade":null}`,
		`{"kind":"rating","unit":"u","coder":"c","value":true}`,
		`{"kind":"score","unit":"u","status":"scored","values":{"mrr":0.25},"slices":{"a":"b"},"settings":"0123456789abcdef"}`,
		`{"a":1}{"a":2}`, `[1]`, `{"a":tru}`, `{"a":"` + "\x00" + `"}`, `{"a":1,}`,
	}
}

// hasRepeatedKey is the oracle for keys that stand twice in one object.
func hasRepeatedKey(line []byte) bool {
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	var open []map[string]bool // nil for arrays
	isKey := false
	for {
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			return false
		}
		if err != nil {
			panic(err)
		}
		object := len(open) > 0 && open[len(open)-1] != nil
		if name, ok := t.(string); ok && object && isKey {
			if open[len(open)-1][name] {
				return true
			}
			open[len(open)-1][name] = true
			isKey = false
			continue
		}
		switch t {
		case json.Delim('{'):
			open = append(open, map[string]bool{})
		case json.Delim('['):
			open = append(open, nil)
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
		}
		isKey = len(open) > 0 && open[len(open)-1] != nil
	}
}

func depth(line []byte) (deepest int) {
	n, inText := 0, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '{' || c == '[':
			n++
			deepest = max(deepest, n)
		case c == '}' || c == ']':
			n--
		}
	}
	return deepest
}

// sound is the oracle for lines that are no parse fault, escapes aside.
func sound(line []byte) bool {
	return utf8.Valid(line) && json.Valid(line) && bytes.TrimLeft(line, " \t\r\n")[0] == '{' && depth(line) <= maxDepth && !hasRepeatedKey(line)
}

// idText is an id as encoding/json reads it.
func idText(t *testing.T, raw json.RawMessage) string {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}

// FuzzDecode holds a decoder that has seen other lines against encoding/json.
func FuzzDecode(f *testing.F) {
	for _, line := range seedLines() {
		f.Add([]byte(line))
	}
	f.Add([]byte(strings.Join(seedLines(), "\n")))
	f.Fuzz(func(t *testing.T, text []byte) {
		each, err := NewDecoder(Plan{AllSlices: true})
		if err != nil {
			t.Fatal(err)
		}
		runs, err := NewDecoder(Plan{As: "run", AllSlices: true})
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.SplitSeq(text, []byte{'\n'}) {
			before := bytes.Clone(line)
			rec := evalstream.Record{Raw: line}
			fault := runs.Decode(&rec)
			if !bytes.Equal(line, before) {
				t.Fatal("the line was changed")
			}
			checkFault(t, line, fault)
			if fault == nil {
				checkRun(t, line, rec.Body.(*evalstream.Run))
				// A decoder that has seen nothing reads the same.
				fresh, f := decode(t, Plan{As: "run", AllSlices: true}, string(line))
				if f != nil {
					t.Fatalf("%s: a fresh decoder says %v", line, f)
				}
				if diff := cmp.Diff(fresh.Body, rec.Body); diff != "" {
					t.Fatalf("%s: %s", line, diff)
				}
			}
			// What any kind accepts is written and read back as it was.
			rec = evalstream.Record{Raw: line}
			fault = each.Decode(&rec)
			checkFault(t, line, fault)
			if fault != nil {
				continue
			}
			back := evalstream.Record{Body: rec.Body, Time: rec.Time}
			back.Raw = bytes.TrimSuffix(AppendRecord(nil, &back), []byte{'\n'})
			if f := each.Decode(&back); f != nil {
				t.Fatalf("%s became %s: %v", line, back.Raw, f)
			}
			if diff := cmp.Diff(rec.Body, back.Body); diff != "" || back.Time != rec.Time {
				t.Fatalf("%s became %s: %s", line, back.Raw, diff)
			}
		}
	})
}

func checkFault(t *testing.T, line []byte, fault *evalstream.Fault) {
	t.Helper()
	if fault == nil {
		if !sound(line) {
			t.Fatalf("%q was accepted", line)
		}
		return
	}
	if fault.Column < 0 || int(fault.Column) > len(line)+1 || fault.Reason == "" || strings.Contains(fault.Reason, "BUG") || strings.Contains(fault.Reason, "runtime error") {
		t.Fatalf("%q: %+v", line, fault)
	}
	if fault.Class == evalstream.ClassParse && sound(line) && !strings.Contains(fault.Reason, "surrogate") {
		t.Fatalf("%q is sound, but %v", line, fault)
	}
}

// checkRun holds a run against what encoding/json reads.
func checkRun(t *testing.T, line []byte, got *evalstream.Run) {
	t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal(line, &all); err != nil {
		t.Fatal(err)
	}
	want := evalstream.Run{QueryID: idText(t, all["query_id"]), Revision: got.Revision}
	if raw := all["run"]; raw != nil {
		want.Run = idText(t, raw)
	}
	var top []map[string]json.RawMessage
	if err := json.Unmarshal(all["top"], &top); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	for i, e := range top {
		h := evalstream.Hit{ID: idText(t, e["id"]), Score: -float64(i)}
		if raw := e["score"]; raw != nil && string(raw) != "null" {
			if err := json.Unmarshal(raw, &h.Score); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
		want.Top = append(want.Top, h)
	}
	fields := map[string]string{}
	for _, s := range got.Slices {
		fields[s.Name] = s.Value
	}
	want.Slices = got.Slices
	if diff := cmp.Diff(&want, got, cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) })); diff != "" {
		t.Fatalf("%s: %s", line, diff)
	}
	for name, raw := range all {
		switch name {
		case "kind", "query_id", "run", "top", "time", "revision":
			continue
		}
		var v any
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		wantValue := ""
		switch v := v.(type) {
		case string:
			if len(v) <= 64 {
				wantValue = string(evalstream.AppendString(nil, v))
			}
		case json.Number:
			if len(v) <= 64 {
				wantValue = v.String()
			}
		case bool:
			wantValue = strconv.FormatBool(v)
		}
		// A string without escapes keeps its bytes: DEL and others need none.
		if got := fields[name]; got != wantValue {
			t.Fatalf("%s: field %q is %s, want %s", line, name, got, wantValue)
		}
		delete(fields, name)
	}
	if len(fields) > 0 {
		t.Fatalf("%s: fields from nowhere: %v", line, fields)
	}
}

// FuzzDuplicateKeys makes objects of few keys, so that keys repeat, at two depths.
func FuzzDuplicateKeys(f *testing.F) {
	f.Add([]byte("abcabd"), []byte("ab"), uint8(3))
	f.Add([]byte("aAbB"), []byte("ba"), uint8(70))
	f.Fuzz(func(t *testing.T, first, second []byte, pad uint8) {
		d, err := NewDecoder(Plan{As: "prediction", AllSlices: true})
		if err != nil {
			t.Fatal(err)
		}
		line := func(keys []byte) []byte {
			b := []byte(`{"label":1,"x":{`)
			for i := range pad {
				b = append(b, `"p`...)
				b = append(strconv.AppendInt(b, int64(i), 10), `":0,`...)
			}
			for i, k := range keys {
				// Keys come plain and escaped; one in four holds an object.
				if k&8 == 0 {
					b = append(b, '"', 'a'+k%6, '"', ':')
				} else {
					b = append(append(b, `"\u006`...), '1'+k%6, '"', ' ', ':')
				}
				if k&0x30 == 0x30 {
					b = append(b, `{"a":1,"`...)
					b = append(b, 'a'+byte(i)%3, '"', ':', '2', '}')
				} else {
					b = append(b, '0')
				}
				b = append(b, ',')
			}
			return append(b, `"end":1}}`...)
		}
		for _, keys := range [][]byte{first, second, first, second, first} {
			l := line(keys)
			rec := evalstream.Record{Raw: l}
			fault := d.Decode(&rec)
			if (fault != nil) != hasRepeatedKey(l) {
				t.Fatalf("%s: %v", l, fault)
			}
			if fault != nil && (fault.Class != evalstream.ClassParse || !strings.HasPrefix(fault.Path, "/x") || l[fault.Column-1] != '"') {
				t.Fatalf("%s: %+v", l, fault)
			}
		}
	})
}

// FuzzSplice reads a spliced line without mappings: it is the same record, and its
// other fields are the same bytes.
func FuzzSplice(f *testing.F) {
	for _, line := range seedLines() {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		p := Plan{As: "run", Lines: true, Map: []Mapping{
			{"query_id", "/qid"}, {"run", "/m/0/name"}, {"top.id", "/pid"}, {"co", "/m/0/co"}, {"revision", "/revision"},
		}, Slices: []string{"co", "x"}}
		rec, fault := decode(t, p, string(line))
		if fault != nil {
			return
		}
		again, fault := decode(t, Plan{Slices: p.Slices}, string(rec.Raw))
		if fault != nil {
			t.Fatalf("%s became %s: %v", line, rec.Raw, fault)
		}
		anyOrder := cmpopts.SortSlices(func(a, b evalstream.Slice) bool { return a.Name < b.Name })
		if diff := cmp.Diff(rec.Body, again.Body, anyOrder); diff != "" || rec.Time != again.Time {
			t.Fatalf("%s became %s: %s", line, rec.Raw, diff)
		}
		var was, is map[string]json.RawMessage
		if err := json.Unmarshal(line, &was); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(rec.Raw, &is); err != nil {
			t.Fatal(err)
		}
		for name, raw := range was {
			switch name {
			case "kind", "query_id", "run", "top", "co":
				continue
			}
			if string(is[name]) != string(raw) {
				t.Fatalf("%s became %s: %q changed", line, rec.Raw, name)
			}
		}
	})
}
