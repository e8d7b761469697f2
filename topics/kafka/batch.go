package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"

	"github.com/segmentio/kafka-go/compress"

	"evalstream/topics"
)

// A record batch of format 2: a header of 61 bytes, then the records, compressed as
// one. Field offsets from its start; the checksum covers what follows it.
const (
	atLength     = 8
	atMagic      = 16
	atChecksum   = 17
	atAttributes = 21
	atLastDelta  = 23
	atBaseTime   = 27
	atMaxTime    = 35
	atProducer   = 43
	atEpoch      = 51
	atSequence   = 53
	atCount      = 57
	batchHeader  = 61
	lengthFrom   = 12 // the length counts from here
)

const (
	attrCodec         = 0x07
	attrAppendTime    = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
)

// maxInflated bounds what a batch may grow to when it is decompressed.
const maxInflated = 256 << 20

// Codec is how the records of a batch are compressed.
type Codec int8

// The codecs that batches are written with. Batches of gzip and snappy are read too.
const (
	None Codec = 0
	LZ4  Codec = 3
	Zstd Codec = 4
)

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// stamp is what a producer puts on its batches.
type stamp struct {
	producer      int64 // -1: none
	epoch         int16
	sequence      int32 // of the first record; -1: none
	transactional bool
	codec         Codec
}

func unstamped() stamp { return stamp{producer: -1, epoch: -1, sequence: -1} }

// recordSize is how many bytes m takes in a batch at most, before compression.
func recordSize(m *topics.Message) int {
	n := 1 + 10 + 5 + 5 + len(m.Key) + 5 + len(m.Value) + 5
	for i := range m.Headers {
		n += 10 + len(m.Headers[i].Name) + len(m.Headers[i].Value)
	}
	return n + 5
}

// encoder makes batches, and keeps its memory between them.
type encoder struct {
	plain  []byte
	packed bytes.Buffer
}

// batch is msgs as one batch; there is at least one. It is valid until the next call.
func (e *encoder) batch(st stamp, msgs []topics.Message) ([]byte, error) {
	size := batchHeader
	for i := range msgs {
		size += recordSize(&msgs[i])
	}
	b := slices.Grow(e.plain[:0], size)[:batchHeader]
	clear(b)
	base, newest := msgs[0].Millis, msgs[0].Millis
	for i := range msgs {
		newest = max(newest, msgs[i].Millis)
		b = appendRecord(b, &msgs[i], base, i)
	}
	e.plain = b
	if st.codec != None {
		var err error
		if b, err = e.deflate(b, st.codec); err != nil {
			return nil, err
		}
	}
	attributes := uint16(st.codec)
	if st.transactional {
		attributes |= attrTransactional
	}
	be := binary.BigEndian
	be.PutUint32(b[atLength:], uint32(len(b)-lengthFrom))
	be.PutUint32(b[lengthFrom:], math.MaxUint32) // leader epoch: the broker's business
	b[atMagic] = 2
	be.PutUint16(b[atAttributes:], attributes)
	be.PutUint32(b[atLastDelta:], uint32(len(msgs)-1))
	be.PutUint64(b[atBaseTime:], uint64(base))
	be.PutUint64(b[atMaxTime:], uint64(newest))
	be.PutUint64(b[atProducer:], uint64(st.producer))
	be.PutUint16(b[atEpoch:], uint16(st.epoch))
	be.PutUint32(b[atSequence:], uint32(st.sequence))
	be.PutUint32(b[atCount:], uint32(len(msgs)))
	be.PutUint32(b[atChecksum:], checksum(b[atAttributes:]))
	return b, nil
}

// appendBatch appends msgs as one batch; there is at least one.
func appendBatch(dst []byte, st stamp, msgs []topics.Message) ([]byte, error) {
	b, err := new(encoder).batch(st, msgs)
	return append(dst, b...), err
}

func appendRecord(dst []byte, m *topics.Message, base int64, i int) []byte {
	body := 1 + varintLen(m.Millis-base) + varintLen(int64(i)) + bytesLen(m.Key) + bytesLen(m.Value) + varintLen(int64(len(m.Headers)))
	for k := range m.Headers {
		body += varintLen(int64(len(m.Headers[k].Name))) + len(m.Headers[k].Name) + bytesLen(m.Headers[k].Value)
	}
	dst = binary.AppendVarint(dst, int64(body))
	dst = append(dst, 0)
	dst = binary.AppendVarint(dst, m.Millis-base)
	dst = binary.AppendVarint(dst, int64(i))
	dst = appendBytes(dst, m.Key)
	dst = appendBytes(dst, m.Value)
	dst = binary.AppendVarint(dst, int64(len(m.Headers)))
	for k := range m.Headers {
		h := &m.Headers[k]
		dst = binary.AppendVarint(dst, int64(len(h.Name)))
		dst = append(dst, h.Name...)
		dst = appendBytes(dst, h.Value)
	}
	return dst
}

func varintLen(v int64) int {
	u := uint64(v<<1) ^ uint64(v>>63)
	n := 1
	for ; u >= 0x80; u >>= 7 {
		n++
	}
	return n
}

func bytesLen(b []byte) int {
	if b == nil {
		return 1
	}
	return varintLen(int64(len(b))) + len(b)
}

func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return binary.AppendVarint(dst, -1)
	}
	return append(binary.AppendVarint(dst, int64(len(b))), b...)
}

// deflate is batch b with its records compressed.
func (e *encoder) deflate(b []byte, codec Codec) ([]byte, error) {
	c := compress.Compression(codec).Codec()
	if c == nil || codec != LZ4 && codec != Zstd {
		return nil, fmt.Errorf("codec %d: want none, lz4 or zstd", codec)
	}
	e.packed.Reset()
	e.packed.Write(b[:batchHeader])
	w := c.NewWriter(&e.packed)
	if _, err := w.Write(b[batchHeader:]); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return e.packed.Bytes(), nil
}

// aborted is a transaction of which nothing may be seen.
type aborted struct{ producer, first int64 }

// decoder turns the batches of one partition into messages. It keeps header names, so
// that each is made once.
type decoder struct {
	names   map[string]string
	headers []topics.Header
	growth  int // of the last batch, when it was decompressed
}

var errShort = errors.New("record is cut short")

// decode appends to dst the messages of data whose offset is at least from, without
// those of aborted transactions and without control records, and returns the offset
// to go on with. A batch that is cut off at the end is left for the next fetch.
// Messages point into data, or into what was decompressed from it.
func (d *decoder) decode(dst []topics.Message, data []byte, partition int32, from int64, gone []aborted) ([]topics.Message, int64, error) {
	next := from
	open := map[int64]bool{} // producers in an aborted transaction at this point
	be := binary.BigEndian
	d.headers = nil
	for len(data) >= lengthFrom {
		size := lengthFrom + int64(be.Uint32(data[atLength:]))
		base := int64(be.Uint64(data))
		if size > int64(len(data)) {
			break
		}
		b := data[:size]
		data = data[size:]
		if size < batchHeader || b[atMagic] != 2 {
			return dst, next, fmt.Errorf("batch at offset %d: want record format 2 (Kafka 0.11 or newer), got %d bytes of format %d", base, size, magic(b))
		}
		if sum := be.Uint32(b[atChecksum:]); sum != checksum(b[atAttributes:]) {
			return dst, next, fmt.Errorf("batch at offset %d: checksum is wrong: the log or the way to it is damaged", base)
		}
		last := base + int64(int32(be.Uint32(b[atLastDelta:])))
		if last < base {
			return dst, next, fmt.Errorf("batch at offset %d: ends before it begins", base)
		}
		attributes := be.Uint16(b[atAttributes:])
		producer := int64(be.Uint64(b[atProducer:]))
		for len(gone) > 0 && gone[0].first <= last {
			open[gone[0].producer] = true
			gone = gone[1:]
		}
		var err error
		switch {
		case attributes&attrControl != 0:
			if abortMarker(b) {
				delete(open, producer)
			}
		case last < from:
		case attributes&attrTransactional != 0 && open[producer]:
		default:
			dst, err = d.records(dst, b, partition, base, from)
		}
		if err != nil {
			return dst, next, fmt.Errorf("batch at offset %d: %w", base, err)
		}
		next = max(next, last+1)
	}
	return dst, next, nil
}

func magic(b []byte) int {
	if len(b) <= atMagic {
		return -1
	}
	return int(b[atMagic])
}

// abortMarker reports whether the control batch b ends a transaction by aborting it.
func abortMarker(b []byte) bool {
	r := cursor{b: b[batchHeader:]}
	r.varint() // length
	r.take(1)
	r.varint()
	r.varint()
	key := r.take(r.varint())
	return !r.bad && len(key) >= 4 && binary.BigEndian.Uint16(key[2:]) == 0
}

func (d *decoder) records(dst []topics.Message, b []byte, partition int32, base, from int64) ([]topics.Message, error) {
	be := binary.BigEndian
	attributes := be.Uint16(b[atAttributes:])
	body := b[batchHeader:]
	if codec := attributes & attrCodec; codec != 0 {
		var err error
		packed := len(body)
		if body, err = inflate(body, codec, packed*(d.growth+1)); err != nil {
			return dst, err
		}
		d.growth = len(body) / max(1, packed)
	}
	baseTime, newest := int64(be.Uint64(b[atBaseTime:])), int64(be.Uint64(b[atMaxTime:]))
	count := int(int32(be.Uint32(b[atCount:])))
	const least = 7 // bytes of a record
	dst = slices.Grow(dst, min(max(0, count), len(body)/least))
	r := cursor{b: body}
	for range count {
		m := topics.Message{Partition: partition}
		rec := cursor{b: r.take(r.varint())}
		if r.bad {
			return dst, errShort
		}
		rec.take(1)
		m.Millis = baseTime + rec.varint()
		if attributes&attrAppendTime != 0 {
			m.Millis = newest
		}
		m.Offset = base + rec.varint()
		m.Key = rec.bytes()
		m.Value = rec.bytes()
		if n := rec.varint(); n > 0 {
			if n > int64(len(rec.b)) {
				return dst, errShort
			}
			at := len(d.headers)
			for range n {
				name := rec.take(rec.varint())
				d.headers = append(d.headers, topics.Header{Name: d.name(name), Value: rec.bytes()})
			}
			m.Headers = d.headers[at:len(d.headers):len(d.headers)]
		}
		if rec.bad {
			return dst, errShort
		}
		if m.Offset >= from {
			dst = append(dst, m)
		}
	}
	return dst, nil
}

// name is b as a string that is made once, for the first names that come.
func (d *decoder) name(b []byte) string {
	if s, ok := d.names[string(b)]; ok {
		return s
	}
	s := string(b)
	if d.names == nil {
		d.names = map[string]string{}
	}
	if len(d.names) < 256 {
		d.names[s] = s
	}
	return s
}

// inflate decompresses b, to about guess bytes.
func inflate(b []byte, codec uint16, guess int) ([]byte, error) {
	c := compress.Compression(codec).Codec()
	if c == nil {
		return nil, fmt.Errorf("codec %d is not known", codec)
	}
	r := c.NewReader(bytes.NewReader(b))
	out := bytes.NewBuffer(make([]byte, 0, min(guess+bytes.MinRead, maxInflated)))
	_, err := out.ReadFrom(io.LimitReader(r, maxInflated+1))
	if cerr := r.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name(), err)
	}
	if out.Len() > maxInflated {
		return nil, fmt.Errorf("%s: batch grows to more than %d MiB", c.Name(), maxInflated>>20)
	}
	return out.Bytes(), nil
}

// cursor reads the fields of a record; once it has met its end it is bad and gives
// zeros.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) varint() int64 {
	v, n := binary.Varint(c.b)
	if n <= 0 {
		c.b, c.bad = nil, true
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *cursor) take(n int64) []byte {
	if n < 0 || n > int64(len(c.b)) {
		c.b, c.bad = nil, true
		return nil
	}
	out := c.b[:n:n]
	c.b = c.b[n:]
	return out
}

// bytes is a length and that many bytes, nil for a length of -1.
func (c *cursor) bytes() []byte {
	n := c.varint()
	if n == -1 {
		return nil
	}
	return c.take(n)
}
