package kafka

import (
	"encoding/binary"
	"maps"
	"slices"

	kgo "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

const stableVersion = 7

// stableOffsets asks for the committed offsets of a group, and wants an error where a
// transaction that commits one has not ended: kafka-go's request cannot ask for that,
// and then gives those of before it.
type stableOffsets struct {
	client string
	broker int32
	group  string
	topics map[string][]int32
}

// ApiKey is OffsetFetch.
func (*stableOffsets) ApiKey() protocol.ApiKey { return protocol.OffsetFetch } //nolint:staticcheck // the name is kafka-go's

// Broker is the coordinator that was asked for.
func (r *stableOffsets) Broker(protocol.Cluster) (protocol.Broker, error) {
	return protocol.Broker{ID: r.broker}, nil
}

// Required takes the exchange over.
func (*stableOffsets) Required(map[protocol.ApiKey]int16) bool { return true }

// RawExchange writes the request and reads the answer. Kafka has it since 2.5; kafka-go
// does not know the version and so does not say whether the broker does.
func (r *stableOffsets) RawExchange(rw readWriter) (protocol.Message, error) {
	f := newFrame(protocol.OffsetFetch, stableVersion, r.client)
	f.uvarint(0) // no tagged fields: from this version on they end everything
	f.compact(r.group)
	f.uvarint(len(r.topics) + 1)
	for _, name := range slices.Sorted(maps.Keys(r.topics)) {
		f.compact(name)
		f.uvarint(len(r.topics[name]) + 1)
		for _, p := range r.topics[name] {
			f.int32(p)
		}
		f.uvarint(0)
	}
	f.int8(1)
	f.uvarint(0)
	a, err := f.exchange(rw)
	if err != nil {
		return nil, err
	}
	return readOffsets(a)
}

func (f *frame) uvarint(n int)    { *f = binary.AppendUvarint(*f, uint64(n)) }
func (f *frame) compact(s string) { f.uvarint(len(s) + 1); *f = append(*f, s...) }

// offsets is the answer; partitions without an offset are left out.
type offsets struct{ at map[TopicPartition]int64 }

// ApiKey is OffsetFetch.
func (*offsets) ApiKey() protocol.ApiKey { return protocol.OffsetFetch } //nolint:staticcheck // the name is kafka-go's

func readOffsets(a answer) (*offsets, error) {
	out := &offsets{at: map[TopicPartition]int64{}}
	var code int16
	a.tags()
	a.int32() // throttled for
	for range a.compactCount(3) {
		name := string(a.compact())
		for range a.compactCount(20) {
			tp := TopicPartition{name, a.int32()}
			at := a.int64()
			a.int32()
			a.compact()
			if c := a.int16(); c != 0 {
				code = c
			}
			a.tags()
			if at >= 0 {
				out.at[tp] = at
			}
		}
		a.tags()
	}
	if c := a.int16(); c != 0 {
		code = c
	}
	if a.bad {
		return nil, errAnswer
	}
	if code != 0 {
		return nil, kgo.Error(code)
	}
	return out, nil
}

func (a *answer) uvarint() int {
	v, n := binary.Uvarint(a.b)
	if n <= 0 || v > maxAnswer {
		a.b, a.bad = nil, true
		return 0
	}
	a.b = a.b[n:]
	return int(v)
}

// compactCount is count for arrays whose length is one more and a varint.
func (a *answer) compactCount(least int) int {
	n := a.uvarint() - 1
	if n > len(a.b)/least {
		a.b, a.bad = nil, true
		return 0
	}
	return max(0, n)
}

func (a *answer) compact() []byte {
	n := a.uvarint() - 1
	if n <= 0 {
		return nil
	}
	b := a.take(n)
	if a.bad {
		return nil
	}
	return b
}

// tags passes over tagged fields.
func (a *answer) tags() {
	for range a.uvarint() {
		if a.bad {
			return
		}
		a.uvarint()
		a.take(a.uvarint())
	}
}
