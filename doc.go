// Package evalstream is a dataflow over NDJSON that evaluates models while they run.
package evalstream
