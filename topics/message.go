package topics

import "slices"

// Message is one record of a topic.
type Message struct {
	// Key and Value keep nil and empty apart: a nil key has no key, and a nil value is
	// a tombstone, which deletes the key from a compacted topic.
	Key, Value []byte
	Headers    []Header // in order, names may repeat
	// Millis is the record's time in milliseconds since 1970, -1 if it has none.
	// A writer takes 0 to mean now.
	Millis    int64
	Partition int32
	Offset    int64 // set on reading
}

// Header is a named value beside a message. A nil value and an empty one differ.
type Header struct {
	Name  string
	Value []byte
}

// Header is the value of the last header of that name, as Kafka's own clients take
// it; ok is false if there is none.
func (m *Message) Header(name string) (value []byte, ok bool) {
	for _, h := range slices.Backward(m.Headers) {
		if h.Name == name {
			return h.Value, true
		}
	}
	return nil, false
}
