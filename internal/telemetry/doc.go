// Package telemetry shows a job to Prometheus while it runs: its results and how many
// records went where, as text on an HTTP port. It is fed through [evalstream.Hooks] and
// with the results that go to the sink, and never slows a job down for a reader.
package telemetry
