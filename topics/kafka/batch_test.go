package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go/protocol"

	"evalstream/topics"
)

func sample() []topics.Message {
	return []topics.Message{
		{Key: []byte("k"), Value: []byte("v"), Millis: 1_700_000_000_123},
		{Value: []byte("no key"), Millis: 1_700_000_000_100},
		{Key: []byte{}, Value: []byte{}, Millis: 1_700_000_000_999},
		{Key: []byte("tombstone"), Millis: 1_700_000_001_000},
		{
			Key: []byte("headers"), Value: []byte(strings.Repeat("long ", 1000)), Millis: 1_699_999_999_999,
			Headers: []topics.Header{{Name: "b", Value: []byte("1")}, {Name: "a", Value: nil}, {Name: "b", Value: []byte{}}, {Name: "", Value: []byte("2")}},
		},
	}
}

// placed is what a reader gets of msgs that lie from base on.
func placed(msgs []topics.Message, partition int32, base int64) []topics.Message {
	out := make([]topics.Message, len(msgs))
	for i, m := range msgs {
		m.Partition, m.Offset = partition, base+int64(i)
		out[i] = m
	}
	return out
}

func setBase(b []byte, base int64) []byte {
	binary.BigEndian.PutUint64(b, uint64(base))
	return b
}

// An encoder that has made other batches makes the same one as a new one does.
func TestEncoderForgets(t *testing.T) {
	var e encoder
	for _, codec := range []Codec{LZ4, None, Zstd, LZ4} {
		st := stamp{producer: 7, epoch: 1, sequence: 3, transactional: true, codec: codec}
		for _, msgs := range [][]topics.Message{sample(), sample()[:1], sample()[1:]} {
			want, err := appendBatch(nil, st, msgs)
			if err != nil {
				t.Fatal(err)
			}
			got, err := e.batch(st, msgs)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("codec %d, %d messages: got %x, want %x, error %v", codec, len(msgs), got, want, err)
			}
		}
	}
}

func TestBatchRoundTrip(t *testing.T) {
	for _, codec := range []Codec{None, LZ4, Zstd} {
		st := unstamped()
		st.codec = codec
		b, err := appendBatch(nil, st, sample())
		if err != nil {
			t.Fatal(err)
		}
		var d decoder
		got, next, err := d.decode(nil, setBase(b, 40), 3, 40, nil)
		if err != nil || next != 45 {
			t.Fatalf("codec %d: next %d, error %v", codec, next, err)
		}
		if diff := cmp.Diff(placed(sample(), 3, 40), got); diff != "" {
			t.Errorf("codec %d: %s", codec, diff)
		}
	}
	if _, err := appendBatch(nil, stamp{codec: 2}, sample()); err == nil {
		t.Error("snappy is not written: want an error, got none")
	}
}

// What kafka-go writes with each codec is read, and kafka-go reads what is written.
func TestBatchIsKafkaGos(t *testing.T) {
	for codec := range protocol.Attributes(5) {
		var records []protocol.Record
		for i, m := range sample() {
			r := protocol.Record{Offset: int64(i), Time: time.UnixMilli(m.Millis)}
			if m.Key != nil {
				r.Key = protocol.NewBytes(m.Key)
			}
			if m.Value != nil {
				r.Value = protocol.NewBytes(m.Value)
			}
			for _, h := range m.Headers {
				r.Headers = append(r.Headers, protocol.Header{Key: h.Name, Value: h.Value})
			}
			records = append(records, r)
		}
		var buf bytes.Buffer
		set := protocol.RecordSet{Version: 2, Attributes: codec, Records: protocol.NewRecordReader(records...)}
		if _, err := set.WriteTo(&buf); err != nil {
			t.Fatal(err)
		}
		var d decoder
		got, _, err := d.decode(nil, setBase(buf.Bytes()[4:], 0), 0, 0, nil)
		if err != nil {
			t.Fatalf("codec %d: %v", codec, err)
		}
		if diff := cmp.Diff(placed(sample(), 0, 0), got); diff != "" {
			t.Errorf("codec %d: %s", codec, diff)
		}
	}
	for _, codec := range []Codec{None, LZ4, Zstd} {
		st := unstamped()
		st.codec = codec
		b, err := appendBatch(make([]byte, 4), st, sample())
		if err != nil {
			t.Fatal(err)
		}
		binary.BigEndian.PutUint32(b, uint32(len(b)-4))
		var set protocol.RecordSet
		if _, err := set.ReadFrom(bytes.NewReader(b)); err != nil {
			t.Fatalf("codec %d: %v", codec, err)
		}
		var got []topics.Message
		for {
			r, err := set.Records.ReadRecord()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			m := topics.Message{Offset: r.Offset, Millis: r.Time.UnixMilli(), Key: whole(t, r.Key), Value: whole(t, r.Value)}
			for _, h := range r.Headers {
				m.Headers = append(m.Headers, topics.Header{Name: h.Key, Value: h.Value})
			}
			got = append(got, m)
		}
		if diff := cmp.Diff(placed(sample(), 0, 0), got); diff != "" {
			t.Errorf("codec %d: %s", codec, diff)
		}
	}
}

func whole(t *testing.T, b protocol.Bytes) []byte {
	t.Helper()
	if b == nil {
		return nil
	}
	all, err := protocol.ReadAll(b)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// logOf builds a partition's log of batches made by hand.
type logOf struct {
	t    *testing.T
	data []byte
	end  int64
}

func (l *logOf) batch(st stamp, values ...string) {
	l.t.Helper()
	var msgs []topics.Message
	for _, v := range values {
		msgs = append(msgs, topics.Message{Value: []byte(v), Millis: 1})
	}
	b, err := appendBatch(nil, st, msgs)
	if err != nil {
		l.t.Fatal(err)
	}
	l.data = append(l.data, setBase(b, l.end)...)
	l.end += int64(len(values))
}

// marker ends a transaction.
func (l *logOf) marker(producer int64, commit bool) {
	l.t.Helper()
	key := []byte{0, 0, 0, 0}
	if commit {
		key[3] = 1
	}
	b, err := appendBatch(nil, stamp{producer: producer, transactional: true}, []topics.Message{{Key: key, Value: make([]byte, 6), Millis: 1}})
	if err != nil {
		l.t.Fatal(err)
	}
	b[atAttributes+1] |= attrControl
	binary.BigEndian.PutUint32(b[atChecksum:], checksum(b[atAttributes:]))
	l.data = append(l.data, setBase(b, l.end)...)
	l.end++
}

// hole is an empty batch, as compaction leaves it.
func (l *logOf) hole(n int64) {
	b := make([]byte, batchHeader)
	binary.BigEndian.PutUint32(b[atLength:], batchHeader-lengthFrom)
	b[atMagic] = 2
	binary.BigEndian.PutUint32(b[atLastDelta:], uint32(n-1))
	binary.BigEndian.PutUint64(b[atProducer:], 1<<64-1)
	binary.BigEndian.PutUint32(b[atChecksum:], checksum(b[atAttributes:]))
	l.data = append(l.data, setBase(b, l.end)...)
	l.end += n
}

func TestDecodeReadsCommitted(t *testing.T) {
	f := func(from int64, build func(*logOf), gone []aborted, wantNext int64, want ...string) {
		t.Helper()
		l := &logOf{t: t}
		build(l)
		var d decoder
		msgs, next, err := d.decode(nil, l.data, 0, from, gone)
		if err != nil {
			t.Error(err)
			return
		}
		var got []string
		for _, m := range msgs {
			got = append(got, fmt.Sprintf("%s@%d", m.Value, m.Offset))
		}
		if diff := cmp.Diff(want, got); diff != "" || next != wantNext {
			t.Errorf("next %d, want %d; %s", next, wantNext, diff)
		}
	}
	a, b := stamp{producer: 7, transactional: true}, stamp{producer: 8, transactional: true}
	plain := unstamped()
	// r0 aborted, r1 of another and r2 of the same producer committed.
	f(0, func(l *logOf) {
		l.batch(a, "r0")
		l.batch(b, "r1")
		l.marker(7, false)
		l.batch(a, "r2")
		l.marker(7, true)
		l.marker(8, true)
	}, []aborted{{7, 0}}, 6, "r1@1", "r2@3")
	// Two aborted transactions of one producer with a committed one between.
	f(0, func(l *logOf) {
		l.batch(a, "x")
		l.marker(7, false)
		l.batch(a, "y")
		l.marker(7, true)
		l.batch(a, "z", "z")
		l.marker(7, false)
		l.batch(plain, "end")
	}, []aborted{{7, 0}, {7, 4}}, 8, "y@2", "end@7")
	// Only markers and aborted records: nothing, but on it goes.
	f(0, func(l *logOf) { l.batch(a, "x"); l.marker(7, false) }, []aborted{{7, 0}}, 2)
	// Holes: an empty batch, and one that ends behind its last record.
	f(0, func(l *logOf) { l.hole(5); l.batch(plain, "five"); l.hole(3) }, nil, 9, "five@5")
	// From the middle of a batch.
	f(2, func(l *logOf) { l.batch(plain, "0", "1", "2", "3") }, nil, 4, "2@2", "3@3")
	// From behind a batch that comes nevertheless.
	f(4, func(l *logOf) { l.batch(plain, "0", "1"); l.hole(2); l.batch(plain, "4") }, nil, 5, "4@4")
	// Cut off: the second batch comes with the next fetch.
	f(0, func(l *logOf) { l.batch(plain, "a"); l.batch(plain, "b"); l.data = l.data[:len(l.data)-1] }, nil, 1, "a@0")
}

func TestDecodeBadBatches(t *testing.T) {
	f := func(name string, breakIt func([]byte) []byte, want string) {
		t.Helper()
		b, err := appendBatch(nil, unstamped(), sample())
		if err != nil {
			t.Fatal(err)
		}
		var d decoder
		_, next, err := d.decode(nil, breakIt(b), 0, 0, nil)
		if err == nil || !strings.Contains(err.Error(), want) || next != 0 {
			t.Errorf("%s: next %d, error %v; want %q", name, next, err, want)
		}
	}
	sum := func(b []byte) []byte {
		binary.BigEndian.PutUint32(b[atChecksum:], checksum(b[atAttributes:]))
		return b
	}
	f("flipped bit", func(b []byte) []byte { b[len(b)-3] ^= 1; return b }, "checksum is wrong")
	f("old format", func(b []byte) []byte { b[atMagic] = 1; return b }, "want record format 2")
	f("count over the end", func(b []byte) []byte { b[atCount+3]++; return sum(b) }, "cut short")
	f("no such codec", func(b []byte) []byte { b[atAttributes+1] |= 7; return sum(b) }, "codec 7 is not known")
	f("not gzip", func(b []byte) []byte { b[atAttributes+1] |= 1; return sum(b) }, "gzip")
	f("ends before it begins", func(b []byte) []byte { b[atLastDelta] = 0xff; return sum(b) }, "ends before it begins")
}

func TestFitSplitsByLimit(t *testing.T) {
	msgs := make([]topics.Message, 100)
	for i := range msgs {
		msgs[i] = topics.Message{Value: make([]byte, 1000), Millis: 1}
	}
	n := fit(msgs, 10_000)
	b, err := appendBatch(nil, unstamped(), msgs[:n])
	if err != nil || len(b) > 10_000 || len(b) < 8_000 {
		t.Errorf("%d messages make %d bytes, error %v; want nearly 10,000", n, len(b), err)
	}
	if n := fit(msgs, 10); n != 1 {
		t.Errorf("a first message that is too large goes alone: got %d", n)
	}
}

func FuzzDecode(f *testing.F) {
	for _, codec := range []Codec{None, LZ4, Zstd} {
		st := unstamped()
		st.codec = codec
		b, err := appendBatch(nil, st, sample())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, false)
		f.Add(b[:len(b)-9], true)
	}
	f.Fuzz(func(t *testing.T, b []byte, fix bool) {
		if fix && len(b) >= batchHeader {
			// Past the checksum, where the decoder must watch out for itself.
			b = bytes.Clone(b)
			binary.BigEndian.PutUint32(b[atLength:], uint32(len(b)-lengthFrom))
			b[atMagic] = 2
			binary.BigEndian.PutUint32(b[atChecksum:], checksum(b[atAttributes:]))
		}
		var d decoder
		msgs, next, err := d.decode(nil, b, 0, 0, nil)
		if err == nil && next < 0 {
			t.Errorf("next is %d", next)
		}
		for _, m := range msgs {
			if m.Offset < 0 {
				t.Errorf("message at %d", m.Offset)
			}
		}
	})
}
