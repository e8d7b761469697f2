//go:build kafka && kcat

package kafkatest

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"evalstream/topics"
	"evalstream/topics/kafka"
)

func kcat(t *testing.T, in string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "kcat", append([]string{"-b", env(t, brokersEnv)}, args...)...)
	cmd.Stdin = strings.NewReader(in)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kcat: %v\n%s", err, errs.String())
	}
	return string(out)
}

// kcat, which is librdkafka, reads what is written here, aborted records left out, and
// what it writes with each codec is read.
func TestKcat(t *testing.T) {
	c := connect(t, cluster(t))
	for _, codec := range []kafka.Codec{kafka.None, kafka.LZ4, kafka.Zstd} {
		n := topic(t, c, 1, nil)
		tp := kafka.TopicPartition{Topic: n}
		tr, err := c.Transactor(t.Context(), n, codec)
		if err != nil {
			t.Fatal(err)
		}
		commit(t, tr, kafka.Transaction{Messages: map[kafka.TopicPartition][]topics.Message{tp: {
			{Key: []byte("k1"), Value: []byte("v1"), Millis: 1_700_000_000_123, Headers: []topics.Header{{Name: "b", Value: []byte("1")}, {Name: "a", Value: []byte("2")}, {Name: "b", Value: nil}}},
			{Key: []byte("k2"), Millis: 1_700_000_000_124},
		}}})
		if _, err := tr.Commit(t.Context(), kafka.Transaction{
			Messages: map[kafka.TopicPartition][]topics.Message{tp: text("aborted")},
			Offsets:  map[kafka.TopicPartition]int64{tp: 1}, Group: name("g"), Member: kafka.Member{ID: "nobody", Generation: 1},
		}); !errors.Is(err, kafka.ErrLost) {
			t.Fatal(err)
		}
		p := c.NewProducer(t.Context(), codec)
		if err := errors.Join(p.SendTo(t.Context(), n, topics.Message{Value: []byte("v3"), Millis: 1_700_000_000_125})...); err != nil {
			t.Fatal(err)
		}
		closing(t, p)
		got := kcat(t, "", "-C", "-t", n, "-e", "-q", "-Z", "-X", "isolation.level=read_committed", "-f", "%T|%h|%k|%s|%S\n")
		want := "1700000000123|b=1,a=2,b=NULL|k1|v1|2\n1700000000124||k2|NULL|-1\n1700000000125||NULL|v3|2\n"
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("codec %d: %s", codec, d)
		}
	}
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		n := topic(t, c, 1, nil)
		value := strings.Repeat("v", 500)
		kcat(t, "k1|"+value+"\nk2|\n", "-P", "-t", n, "-K", "|", "-Z", "-z", codec, "-H", "b=1", "-H", "a=2", "-H", "b=3")
		var got []string
		for _, m := range read(t, c, kafka.TopicPartition{Topic: n}, 2) {
			got = append(got, fmt.Sprintf("%s %s %s %v", m.Headers, m.Key, m.Value, m.Value == nil))
		}
		want := []string{"[{b 1} {a 2} {b 3}] k1 " + value + " false", "[{b 1} {a 2} {b 3}] k2  true"}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("codec %s: %s", codec, d)
		}
	}
}
