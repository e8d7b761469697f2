package codecs

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func faultText(t *testing.T, p Plan, line string) string {
	t.Helper()
	_, f := decode(t, p, line)
	if f == nil {
		return ""
	}
	return fmt.Sprintf("%d %s %s", f.Column, f.Class, f.Error())
}

func TestFaults(t *testing.T) {
	f := func(p Plan, line, want string) {
		t.Helper()
		if got := faultText(t, p, line); got != want {
			t.Errorf("%.200s\n got  %s\n want %s", line, got, want)
		}
	}
	run, pred, each := Plan{As: "run", Advice: "--map"}, Plan{As: "prediction", Advice: "parse --map"}, Plan{}
	foreign := foreignPlan()
	foreign.Advice = "--map"
	deep := func(n int) string {
		return `{"query_id":"q","top":[],"x":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`
	}
	// Lines that are no JSON.
	f(run, ``, `1 parse line is blank; want one JSON object a line`)
	f(run, `  `, `1 parse line is blank; want one JSON object a line`)
	f(run, `{"query_id":"q","top":[`, `24 parse /top/0: line ends inside a value (cut short, or an object printed over several lines, which jq -c . mends)`)
	f(run, `{"query_id":"q","top":[{"id":"a`, `32 parse /top/0/id: line ends inside a value (cut short, or an object printed over several lines, which jq -c . mends)`)
	f(run, `{`, `2 parse line ends inside a value (cut short, or an object printed over several lines, which jq -c . mends)`)
	f(run, `  "query_id": "q",`, `3 parse want one JSON object a line, got string (if an object was printed over several lines, jq -c . mends it)`)
	f(run, `}`, `1 parse want one JSON object a line, got "}" (if an object was printed over several lines, jq -c . mends it)`)
	f(run, `]`, `1 parse want one JSON object a line, got "]" (if an object was printed over several lines, jq -c . mends it)`)
	f(run, `[{"query_id":"q"}]`, `1 parse want one JSON object a line, got array (jq -c '.[]' writes one element a line)`)
	f(run, `[{"query_id":"q"},`, `1 parse want one JSON object a line, got array (jq -c '.[]' writes one element a line)`)
	f(run, `"q"`, `1 parse want one JSON object a line, got string (if an object was printed over several lines, jq -c . mends it)`)
	f(run, `12`, `1 parse want one JSON object a line, got number`)
	f(run, `null`, `1 parse want one JSON object a line, got null`)
	f(run, `NaN`, `1 parse want one JSON object a line, got "NaN"`)
	f(run, `{"query_id":"q","top":[]}{"query_id":"r","top":[]}`, `26 parse two values on a line; want one JSON object a line`)
	f(run, `{"query_id":"q","top":[]} x`, `27 parse two values on a line; want one JSON object a line`)
	f(run, "{\"query_id\":\"q\",\"top\":[]}\x00", `26 parse two values on a line; want one JSON object a line`)
	f(run, `{"query_id":"q","top":[],}`, `26 parse invalid character '}' looking for beginning of object key string`)
	f(run, `{"query_id":"q","top":[{"id":"a"},]}`, `35 parse /top/1: invalid character ']' looking for beginning of value`)
	f(run, `{"query_id":"q","top":[{"id":"a","score":NaN}]}`, `42 parse /top/0/score: NaN is no JSON number; want a finite number`)
	f(run, `{"query_id":"q","top":[{"id":"a","score":-Infinity}]}`, `43 parse /top/0/score: Infinity is no JSON number; want a finite number`)
	f(run, `{"query_id":"q","top":[{"id":"a","score":01}]}`, `43 parse /top/0/score: invalid character '1' after object key:value pair`)
	f(run, `{'query_id':"q"}`, `2 parse invalid character '\'' looking for beginning of object key string`)
	f(run, "{\"query_id\":\"q\tr\",\"top\":[]}", `15 parse /query_id: invalid character '\t' in string literal`)
	f(run, `{"query_id":"\q","top":[]}`, `15 parse /query_id: invalid character 'q' in string escape code`)
	f(run, "\ufeff{\"query_id\":\"q\",\"top\":[]}", `1 parse a byte order mark stands inside the input; only the first line may begin with one`)
	// Encoding.
	f(run, "{\"query_id\":\"q\",\"top\":[],\"text\":{\"a\":[\"ok\",\"b\xffd\"]}}", `46 parse /text/a/1: byte 46 (0xff) is not UTF-8`)
	f(run, "{\"query_id\":\"\xed\xa0\x80\",\"top\":[]}", `14 parse /query_id: byte 14 (0xed) is not UTF-8`)
	f(run, `{"query_id":"q","top":[],"x":["\ud83d\ude00","\ud83d"]}`, `47 parse /x/1: escape \ud83d is half of a surrogate pair`)
	f(run, `{"query_id":"q","top":[],"x":"\ude00"}`, `31 parse /x: escape \ude00 is half of a surrogate pair`)
	f(run, `{"query_id":"q","top":[],"x":"\uD83D\u0041"}`, `31 parse /x: escape \uD83D is half of a surrogate pair`)
	f(run, `{"query_id":"q","top":[],"x":"\\ud83d"}`, ``)
	// Keys.
	f(run, `{"query_id":"q","top":[],"query_id":"r"}`, `26 parse key "query_id" stands twice in one object`)
	f(run, `{"query_id":"q","top":[],"x":{"a":[{"b":1},{"b":1,"c":2,"b":3}]}}`, `57 parse /x/a/1: key "b" stands twice in one object`)
	f(run, `{"query_id":"q","top":[{"id":"a","id":"b"}]}`, `34 parse /top/0: key "id" stands twice in one object`)
	f(run, `{"query_id":"q","top":[],"x":{"a":1,"\u0061":2}}`, `37 parse /x: key "a" stands twice in one object`)
	f(run, `{"query_id":"q","top":[],"":1,"":2}`, `31 parse key "" stands twice in one object`)
	f(run, `{"query_id":"q","top":[],"Query_ID":1}`, ``)
	// Depth.
	f(run, deep(511), ``)
	f(run, deep(512), `541 parse nesting is deeper than 512`)
	f(run, deep(20000), `541 parse nesting is deeper than 512`)
	f(run, strings.Repeat(`{"a":`, 20000), `2561 parse nesting is deeper than 512`)
	// Fields.
	f(run, `{}`, `0 schema /query_id: missing; want string or number (--map query_id=/POINTER reads it from elsewhere)`)
	f(run, `{"query_id":null,"top":[]}`, `13 schema /query_id: want string or number, got null`)
	f(run, `{"query_id":{"a":1},"top":[]}`, `13 schema /query_id: want string or number, got object`)
	f(run, `{"query_id":true,"top":[]}`, `13 schema /query_id: want string or number, got boolean`)
	f(run, `{"query_id":"q"}`, `0 schema /top: missing; want array of {id, score} (--map top=/POINTER reads it from elsewhere)`)
	f(run, `{"query_id":"q","top":{}}`, `23 schema /top: want array of {id, score}, got object`)
	f(run, `{"query_id":"q","top":["a"]}`, `24 schema /top/0: want object with id and score, got string`)
	f(run, `{"query_id":"q","top":[{"score":1}]}`, `24 schema /top/0/id: missing; want string or number`)
	f(run, `{"query_id":"q","top":[{"id":[],"score":1}]}`, `30 schema /top/0/id: want string or number, got array`)
	f(run, `{"query_id":"q","top":[{"id":"a","score":"1"}]}`, `42 schema /top/0/score: want number, got string`)
	f(run, `{"query_id":"q","top":[{"id":"a","score":1e400}]}`, `42 schema /top/0/score: number 1e400 is out of range; want a finite 64-bit float`)
	f(run, `{"query_id":"q","top":[{"id":"a","score":1},{"id":"b"}]}`, `45 schema /top/1/score: some entries have a score and some have none; want all or none`)
	f(run, `{"query_id":"q","top":[{"id":"a"},{"id":"b","score":1}]}`, `35 schema /top/1/score: some entries have a score and some have none; want all or none`)
	f(run, `{"query_id":"q","top":[{"id":"a"},{"id":"b"},{"id":"\u0061"}]}`, `52 schema /top/2/id: id "a" stands twice in the list`)
	f(run, `{"query_id":"q","top":[],"revision":1.5}`, `37 schema /revision: want integer or RFC 3339 time, got 1.5`)
	f(run, `{"query_id":"q","top":[],"revision":9223372036854775808}`, `37 schema /revision: integer 9223372036854775808 does not fit 64 bits`)
	f(run, `{"query_id":"q","top":[],"revision":"yesterday"}`, `37 schema /revision: want RFC 3339 time, got "yesterday"`)
	f(run, `{"query_id":"q","top":[],"time":"2026-02-30T00:00:00Z"}`, `33 schema /time: want RFC 3339 time, got "2026-02-30T00:00:00Z"`)
	f(run, `{"query_id":"q","top":[],"time":"2026-02-03T09:00:00"}`, `33 schema /time: want RFC 3339 time, got "2026-02-03T09:00:00", which has no zone; add Z (UTC) or an offset such as +01:00`)
	f(run, `{"query_id":"q","top":[],"time":"1677-01-01T00:00:00Z"}`, `33 schema /time: time "1677-01-01T00:00:00Z" is out of range; want a year from 1678 to 2261`)
	f(run, `{"query_id":"q","top":[],"time":1700000000}`, `33 schema /time: time is a number and its unit is not known; say --time-unit s, ms, us or ns`)
	f(run, `{"query_id":"q","top":[],"time":true}`, `33 schema /time: want RFC 3339 time or integer, got boolean`)
	f(Plan{As: "run", TimeUnit: time.Second}, `{"query_id":"q","top":[],"time":1700000000000}`, `33 schema /time: time 1700000000000 is out of range; want a year from 1678 to 2261 (is --time-unit right?)`)
	f(Plan{As: "run", TimeUnit: time.Second}, `{"query_id":"q","top":[],"time":1700000000.5}`, `33 schema /time: want integer time, got 1700000000.5`)
	f(foreign, `{"query_id":"q","model":"m"}`, `0 schema /retrieved: missing; want array of {id, score}`)
	f(foreign, `{"query_id":"q","retrieved":[{"id":1},{"id":1}]}`, `45 schema /retrieved/1/id: id "1" stands twice in the list`)
	f(Plan{As: "qrel"}, `{}`, `0 schema /query_id: missing; want string or number`)
	f(pred, `{"seed":1}`, `0 schema /label: missing; want a label, or gold in /gold (parse --map label=/POINTER reads it from elsewhere)`)
	f(pred, `{"label":{"a":1}}`, `10 schema /label: want string or number, got object`)
	f(each, `{"a":1}`, `0 schema kind is missing; want a "kind" field, or parse --as run, qrel, prediction, rating, score, verdict, review, partial, passage, query, instance or episode`)
	f(each, `{"kind":"runs"}`, `9 schema /kind: no kind "runs"; did you mean run? (have run, qrel, prediction, rating, score, verdict, review, partial, passage, query, instance, episode)`)
	f(each, `{"kind":7}`, `9 schema /kind: want string, got number`)
	f(each, `{"kind":"rating","unit":"u","coder":"c","value":[1]}`, `49 schema /value: want number, string, boolean or null, got array`)
	f(each, `{"kind":"qrel","query_id":"u","passage_id":"c","grade":1.5}`, `56 schema /grade: want integer or null, got 1.5`)
	f(each, `{"kind":"qrel","query_id":"u","passage_id":"c","grade":2147483648}`, `56 schema /grade: integer 2147483648 does not fit 32 bits`)
	f(each, `{"kind":"score","unit":"u","status":"score"}`, `37 schema /status: no status "score"; did you mean scored? (have scored, pending, unjudged, waiting, expired, retracted)`)
	f(each, `{"kind":"score","unit":"u","status":"scored","values":{"a/b":0.1234567891}}`, `62 schema /values/a~1b: want decimal of at most 9 places below 9223372037, got 0.1234567891`)
	f(each, `{"kind":"score","unit":"u","status":"scored","settings":"xyz"}`, `57 schema /settings: want digest of 16 hex digits, got "xyz"`)
}
