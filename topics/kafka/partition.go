package kafka

import (
	"encoding/binary"
	"fmt"
)

// Partition is where Java's default partitioner puts a record with this key: murmur2
// of it, without its sign, modulo n. n is at least 1.
func Partition(key []byte, n int32) int32 {
	return int32(murmur2(key)&0x7fffffff) % n
}

// murmur2 is MurmurHash2 by Austin Appleby (32 bits, little endian) with the seed that
// Kafka fixes.
func murmur2(data []byte) uint32 {
	const (
		seed = 0x9747b28c
		mul  = 0x5bd1e995
		rot  = 24
	)
	h := uint32(seed) ^ uint32(len(data))
	for ; len(data) >= 4; data = data[4:] {
		k := binary.LittleEndian.Uint32(data) * mul
		k = (k ^ k>>rot) * mul
		h = h*mul ^ k
	}
	switch len(data) {
	case 3:
		h ^= uint32(data[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(data[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(data[0])) * mul
	}
	h = (h ^ h>>13) * mul
	return h ^ h>>15
}

// TopicPartition names one partition of a topic.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String is topic[partition].
func (p TopicPartition) String() string { return fmt.Sprintf("%s[%d]", p.Topic, p.Partition) }
