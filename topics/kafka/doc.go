// Package kafka reads and writes Kafka topics over segmentio/kafka-go.
//
// Of kafka-go it uses the transport, the request types and ConsumerGroup. Record
// batches, fetching, producing and the choice of leaders and coordinators are its
// own: kafka-go's Reader gives out control records and aborted data, stalls at empty
// batches and rewinds the offsets of other members, its Writer has no producer id,
// and neither asks for a moved leader.
//
// What it holds to: order within a partition, in and out; read committed; offsets
// that only move forward, and only by the member of the generation that was given
// the partition; acks from all replicas; nothing is lost silently.
package kafka
