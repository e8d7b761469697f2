// Package topics holds what the topics below it share: the [Message], and the bridge
// by which any Watermill Pub/Sub is a source or a sink.
package topics
