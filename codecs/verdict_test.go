package codecs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"evalstream"
)

func TestDecodeVerdict(t *testing.T) {
	f := func(p Plan, line string, want evalstream.Verdict, at string) {
		t.Helper()
		rec, fault := decode(t, p, line)
		if fault != nil {
			t.Fatalf("%s: %v", line, fault)
		}
		if diff := cmp.Diff(&want, rec.Body); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", line, diff)
		}
		if rec.Time.String() != at {
			t.Errorf("%s: time %v, want %s", line, rec.Time, at)
		}
	}
	p := Plan{As: "verdict", AllSlices: true}
	f(p, `{"span_id":7,"triple_id":"t","mode":"multi","dimension":"faithfulness","judge":"a","prompt_version":3,"verdict":1,"swap":true,"reasoning":"so","warning":"","usage":{"total":1},"revision":2,"time":"2026-01-02T03:04:05Z","ticker":"A"}`,
		evalstream.Verdict{
			SpanID: "7", TripleID: "t", Mode: "multi", Dimension: "faithfulness", Judge: "a", PromptVersion: "3", Value: "1", Swap: true,
			Reasoning: "so", Revision: 2, Slices: []evalstream.Slice{{Name: "ticker", Value: `"A"`}},
		}, "2026-01-02T03:04:05Z")
	f(p, `{"span_id":"s","dimension":"comprehensiveness","judge":"a","verdict":"p\u006for"}`,
		evalstream.Verdict{SpanID: "s", Dimension: "comprehensiveness", Judge: "a", Value: `"poor"`}, "none")
	f(p, `{"span_id":"s","dimension":"faithfulness","judge":"a","verdict":null,"reason":"timeout","swap":null}`,
		evalstream.Verdict{SpanID: "s", Dimension: "faithfulness", Judge: "a", Reason: "timeout"}, "none")
	f(Plan{As: "verdict", Map: []Mapping{{"span_id", "/id"}, {"verdict", "/answer/value"}, {"revision", "/at"}, {"judge", "/model"}}},
		`{"id":"s","dimension":"style","model":"m","answer":{"value":"good"},"at":"1970-01-01T00:00:01Z"}`,
		evalstream.Verdict{SpanID: "s", Dimension: "style", Judge: "m", Value: `"good"`, Revision: 1e9}, "none")
}

func TestDecodeVerdictFaults(t *testing.T) {
	f := func(fields, path, want string) {
		t.Helper()
		line := `{"kind":"verdict","span_id":"s","judge":"a"` + fields + `}`
		_, fault := decode(t, Plan{}, line)
		if fault == nil || fault.Class != evalstream.ClassSchema || fault.Path != path || !strings.Contains(fault.Reason, want) {
			t.Errorf("%s: got %+v, want %s: %s", line, fault, path, want)
		}
	}
	f(`,"verdict":1`, "/dimension", "missing")
	f(`,"dimension":"","verdict":1`, "/dimension", "want a name")
	f(`,"dimension":"style"`, "/verdict", "missing; want 0, 1, good, partial, poor or null")
	for _, v := range []string{`2`, `10`, `1.0`, `-1`, `true`, `"1"`, `"Good"`, `""`, `"idk"`, `[1]`, `{}`} {
		f(`,"dimension":"style","verdict":`+v, "/verdict", "want 0, 1, good, partial, poor or null, got ")
	}
	f(`,"dimension":"precision","verdict":2`, "/verdict", "want 0, 1 or null, got 2")
	f(`,"dimension":"faithfulness","verdict":"good"`, "/verdict", `want 0, 1 or null, got "good"`)
	f(`,"dimension":"comprehensiveness","verdict":1`, "/verdict", "want good, partial, poor or null, got 1")
	f(`,"dimension":"style","verdict":1,"swap":1`, "/swap", "want boolean, got number")
	f(`,"dimension":"style","verdict":null,"reason":3`, "/reason", "want string, got number")
}

// TestVerdictsComeBack writes bodies and reads the same ones.
func TestVerdictsComeBack(t *testing.T) {
	f := func(b evalstream.Body, want string) {
		t.Helper()
		line := string(AppendBody(nil, b))
		if line != want {
			t.Errorf("got  %s\nwant %s", line, want)
		}
		rec, fault := decode(t, Plan{AllSlices: true}, line)
		if fault != nil {
			t.Fatalf("%s: %v", line, fault)
		}
		if diff := cmp.Diff(b, rec.Body); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", line, diff)
		}
	}
	f(&evalstream.Verdict{SpanID: "s", TripleID: "t", Mode: "m", Dimension: "precision", Judge: "a", PromptVersion: "v", Value: "0", Swap: true, Warning: "w", Shown: &evalstream.Shown{Text: "net\nsales", Triple: `["a", "b",{"c":1}]`}, Revision: 4, Slices: []evalstream.Slice{{Name: "x", Value: "1"}}},
		`{"kind":"verdict","span_id":"s","triple_id":"t","mode":"m","dimension":"precision","judge":"a","prompt_version":"v","verdict":0,"swap":true,"warning":"w","text":"net\nsales","triple":["a", "b",{"c":1}],"revision":4,"x":1}`)
	f(&evalstream.Verdict{SpanID: "s", Dimension: "style", Judge: "a", Reason: "refused"},
		`{"kind":"verdict","span_id":"s","dimension":"style","judge":"a","verdict":null,"reason":"refused"}`)
	f(&evalstream.Review{
		Unit: `["s"]`, Dimension: "style", SpanID: "s", TripleID: "t", Mode: "m", PromptVersion: "v", Text: "t", Triple: `"x"`, Why: evalstream.Split,
		Verdicts: []evalstream.CoderValue{{Coder: "a", Value: `"good"`}, {Coder: "b", Value: ""}},
		Reasons:  []evalstream.CoderValue{{Coder: "b", Value: `"timeout"`}}, Decision: `"good"`,
	}, `{"kind":"review","unit":"[\"s\"]","dimension":"style","span_id":"s","triple_id":"t","mode":"m","prompt_version":"v","text":"t","triple":"x","why":"split","verdicts":{"a":"good","b":null},"reasons":{"b":"timeout"},"decision":"good"}`)
	f(&evalstream.Review{Unit: "u", Dimension: "style", Withdrawn: true}, `{"kind":"review","unit":"u","dimension":"style","decision":null,"withdrawn":true}`)
	f(&evalstream.Score{
		Unit: "u", Run: "m", Dimension: "style", Ratings: []evalstream.CoderValue{{Coder: "a", Value: "1"}, {Coder: "b"}},
		Swapped: []evalstream.CoderValue{{Coder: "a", Value: "0"}}, Slices: []evalstream.Slice{{Name: "prompt_version", Value: `"v"`}},
	}, `{"kind":"score","unit":"u","mode":"m","dimension":"style","status":"scored","ratings":{"a":1,"b":null},"swapped":{"a":0},"slices":{"prompt_version":"v"}}`)

	if _, fault := decode(t, Plan{}, `{"kind":"score","unit":"u","status":"scored","ratings":{"a":null}}`); fault == nil {
		t.Error("a rating of null without a dimension: want a fault")
	}
	if _, fault := decode(t, Plan{}, `{"kind":"review","unit":"u","dimension":"d","why":"bored"}`); fault == nil || fault.Path != "/why" {
		t.Errorf("a review for no reason: got %v, want a fault", fault)
	}
}
