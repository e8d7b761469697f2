package codecs_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"evalstream"
	"evalstream/codecs"
)

// What is written of a mark is read again; what is none is refused.
func TestMark(t *testing.T) {
	for _, m := range []evalstream.Mark{
		{Step: "score", Partition: 2, Partitions: 3, Watermark: 1_700_000_000_123_456_789, Idle: true, Ended: true, Through: []evalstream.Cursor{
			{Origin: evalstream.Origin{Name: "a", Topic: true, Partition: 2}, Next: 7}, {Origin: evalstream.Origin{Name: "b", Topic: true}, Next: 0},
		}},
		{Step: "parse", Partitions: 1, Watermark: evalstream.NoTime},
	} {
		line := codecs.AppendRecord(nil, &evalstream.Record{Body: &m})
		got, err := codecs.DecodeMark(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if diff := cmp.Diff(&m, got); diff != "" {
			t.Errorf("%s (-wrote +read):\n%s", line, diff)
		}
	}
	for _, line := range []string{
		``, `x`, `{}`, `{"kind":"run","step":"a","partition":0,"partitions":1}`, `{"kind":"mark","step":"","partition":0,"partitions":1}`,
		`{"kind":"mark","step":"a","partition":1,"partitions":1}`, `{"kind":"mark","step":"a","partition":-1,"partitions":1}`,
		`{"kind":"mark","step":"a","partition":0,"partitions":2000000000}`, `{"kind":"mark","step":"a","partition":0,"partitions":1,"watermark":"soon"}`,
		`{"kind":"mark","step":"a","partition":0,"partitions":1,"watermark":"9999-01-01T00:00:00Z"}`,
	} {
		if m, err := codecs.DecodeMark([]byte(line)); err == nil {
			t.Errorf("%s: read as %+v", line, m)
		}
	}
}
