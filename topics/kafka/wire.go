package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/segmentio/kafka-go/protocol"
)

type readWriter = io.ReadWriter

// frame is a request being written: its size first, filled in at the end.
type frame []byte

func newFrame(api protocol.ApiKey, version int16, client string) frame {
	f := make(frame, 4, 256)
	f.int16(int16(api))
	f.int16(version)
	f.int32(1) // one request at a time: kafka-go gives the connection away for the exchange
	f.text(client)
	return f
}

func (f *frame) int8(v int8)   { *f = append(*f, byte(v)) }
func (f *frame) int16(v int16) { *f = binary.BigEndian.AppendUint16(*f, uint16(v)) }
func (f *frame) int32(v int32) { *f = binary.BigEndian.AppendUint32(*f, uint32(v)) }
func (f *frame) int64(v int64) { *f = binary.BigEndian.AppendUint64(*f, uint64(v)) }
func (f *frame) text(s string) { f.int16(int16(len(s))); *f = append(*f, s...) }

// maxAnswer bounds what one answer may claim to hold.
const maxAnswer = 1 << 30

// exchange sends the request and returns the body of the answer, whose memory is new.
func (f frame) exchange(rw readWriter) (answer, error) {
	binary.BigEndian.PutUint32(f, uint32(len(f)-4))
	if _, err := rw.Write(f); err != nil {
		return answer{}, err
	}
	var head [8]byte
	if _, err := io.ReadFull(rw, head[:]); err != nil {
		return answer{}, err
	}
	size := int64(int32(binary.BigEndian.Uint32(head[:]))) - 4
	if size < 0 || size > maxAnswer {
		return answer{}, fmt.Errorf("answer claims %d bytes", size)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(rw, b); err != nil {
		return answer{}, err
	}
	return answer{b: b}, nil
}

var errAnswer = errors.New("answer is cut short")

// answer reads the fields of a response; once it has met its end it is bad and gives
// zeros.
type answer struct {
	b   []byte
	bad bool
}

func (a *answer) take(n int) []byte {
	if n < 0 || n > len(a.b) {
		a.b, a.bad = nil, true
		return make([]byte, 8)
	}
	out := a.b[:n:n]
	a.b = a.b[n:]
	return out
}

func (a *answer) int16() int16 { return int16(binary.BigEndian.Uint16(a.take(2))) }
func (a *answer) int32() int32 { return int32(binary.BigEndian.Uint32(a.take(4))) }
func (a *answer) int64() int64 { return int64(binary.BigEndian.Uint64(a.take(8))) }

// count is the length of an array whose items take at least that many bytes; null is 0.
func (a *answer) count(least int) int {
	n := int(a.int32())
	if n < 0 {
		return 0
	}
	if n > len(a.b)/least {
		a.b, a.bad = nil, true
		return 0
	}
	return n
}

func (a *answer) text() string {
	n := int(a.int16())
	if n < 0 {
		return ""
	}
	b := a.take(n)
	if a.bad {
		return ""
	}
	return string(b)
}

func (a *answer) bytes() []byte {
	n := int(a.int32())
	if n < 0 {
		return nil
	}
	b := a.take(n)
	if a.bad {
		return nil
	}
	return b
}

// speaks checks that the broker knows the version that a request is written in.
func speaks(versions map[protocol.ApiKey]int16, api protocol.ApiKey, want int16) error {
	if got := versions[api]; got < want {
		return fmt.Errorf("broker speaks %s up to version %d, want %d: Kafka 2.4 or newer", api, got, want)
	}
	return nil
}
