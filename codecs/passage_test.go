package codecs

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"evalstream"
)

func TestDecodeTexts(t *testing.T) {
	f := func(p Plan, line string, want evalstream.Body) {
		t.Helper()
		rec, fault := decode(t, p, line)
		if fault != nil {
			t.Fatalf("%s: %v", line, fault)
		}
		if diff := cmp.Diff(want, rec.Body); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", line, diff)
		}
		again, fault := decode(t, p, string(AppendBody(nil, rec.Body)))
		if fault != nil {
			t.Fatalf("%s: %v", AppendBody(nil, rec.Body), fault)
		}
		if diff := cmp.Diff(want, again.Body); diff != "" {
			t.Errorf("%s: read again: (-want +got)\n%s", line, diff)
		}
	}
	all := Plan{AllSlices: true}
	f(all, `{"kind":"passage","passage_id":7,"text":"a\nb","company":"Acme","date":2024,"section":"risk","long":"`+long65+`"}`,
		&evalstream.Passage{PassageID: "7", Text: "a\nb", Company: "Acme", Date: "2024", Slices: []evalstream.Slice{{Name: "section", Value: `"risk"`}}})
	f(Plan{Texts: []string{"long"}}, `{"kind":"passage","passage_id":"p","text":"","long":"`+long65+`","other":1}`,
		&evalstream.Passage{PassageID: "p", Slices: []evalstream.Slice{{Name: "long", Value: `"` + long65 + `"`}}})
	f(all, `{"kind":"query","query_id":"q","text":"why","vector":{"fingerprint":"00","values":[1,-0.5,1e-3]}}`,
		&evalstream.Query{QueryID: "q", Text: "why", Vector: evalstream.Vector{Values: []float32{1, -.5, 1e-3}, Fingerprint: "00"}})
	f(all, `{"kind":"instance","id":"i","relation":"per:title","token":["Ann","-LRB-","CEO"],"subj_start":0,"subj_end":0,"obj_start":2,"obj_end":2,"subj_type":"PERSON","obj_type":"TITLE"}`,
		&evalstream.Instance{ID: "i", Relation: "per:title", Tokens: []string{"Ann", "-LRB-", "CEO"}, ObjStart: 2, ObjEnd: 2, SubjType: "PERSON", ObjType: "TITLE"})
	f(all, `{"kind":"episode","dataset":"d","seed":1,"n":2,"k":1,"episode":0,"targets":["a","b"],"support":[["x"],["y"]],"queries":[{"id":"q","source_relation":"c","gold":"NOTA"},{"id":"r"}]}`,
		&evalstream.Episode{
			Dataset: "d", Seed: "1", K: "1", Episode: "0", Targets: []string{"a", "b"}, Support: [][]string{{"x"}, {"y"}},
			Queries: []evalstream.EpisodeQuery{{ID: "q", SourceRelation: "c", Gold: "NOTA", HasGold: true}, {ID: "r"}},
		})
}

const long65 = "01234567890123456789012345678901234567890123456789012345678901234"

func TestDecodeTextsFaults(t *testing.T) {
	f := func(line, want string) {
		t.Helper()
		_, fault := decode(t, Plan{}, line)
		if fault == nil {
			t.Fatalf("%s: want a fault, got none", line)
		}
		if got := fault.Error(); got != want {
			t.Errorf("%s:\n got %s\nwant %s", line, got, want)
		}
	}
	f(`{"kind":"passage","passage_id":"p","text":7}`, "/text: want string, got number")
	f(`{"kind":"query","query_id":"q","text":"t","vector":[1,2]}`, "/vector: want object with fingerprint and f32 or values, got array")
	f(`{"kind":"query","query_id":"q","text":"t","vector":{"values":[1]}}`, "/vector/fingerprint: missing; want what made the vector, since vectors of different models must not meet")
	f(`{"kind":"query","query_id":"q","text":"t","vector":{"fingerprint":"f","f32":"AAAAAA=="}}`, "/vector: want a vector of finite numbers that are not all 0")
	f(`{"kind":"query","query_id":"q","text":"t","vector":{"fingerprint":"f","f32":"AADAfw=="}}`, "/vector: want a vector of finite numbers that are not all 0")
	f(`{"kind":"query","query_id":"q","text":"t","vector":{"fingerprint":"f","f32":"AAA="}}`, "/vector/f32: want base64 of little-endian float32")
	f(`{"kind":"instance","id":"i","token":["a"],"subj_start":0,"subj_end":1,"obj_start":0,"obj_end":0}`, "/subj_end: want an index below 1, got 1")
	f(`{"kind":"episode","targets":["a"],"support":[],"queries":[]}`, "/support: want a list for each of 1 targets, got 0")
	f(`{"kind":"episode","targets":["a"],"support":[["x"]],"queries":[{"gold":"a"}]}`, "/queries/0/id: missing; want string or number")
}

func TestSpliceFields(t *testing.T) {
	f := func(line, want string, fields ...evalstream.Field) {
		t.Helper()
		if got := string(SpliceFields([]byte("x"), []byte(line), fields)); got != "x"+want {
			t.Errorf("%s:\n got %s\nwant %s", line, got, "x"+want)
		}
	}
	text := evalstream.Field{Name: "text", Value: []byte(`"new"`)}
	more := evalstream.Field{Name: "context", Value: []byte(`"c"`)}
	f(` {"id" : 1e2, "text": "old" ,"x":{"text":1}} `, ` {"id" : 1e2, "text": "new" ,"x":{"text":1},"context":"c"} `, text, more)
	f(`{"te\u0078t":"old","n":123456789012345678901}`, `{"te\u0078t":"new","n":123456789012345678901}`, text)
	f(`{"a":1}`, `{"a":1,"text":"new","context":"c"}`, text, more)
	f(`{"a":1}`, `{"a":1}`)
}
