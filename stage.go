package evalstream

import (
	"context"
	"time"
)

// Stage is one verb of the dataflow.
//
// Process is called by one goroutine at a time, with records of one partition in
// source order; in is not empty. Records of in must not be changed or kept. nil
// means that everything in out takes effect. An error is about the world, not
// about a record: nothing of out takes effect and the job ends; a bad record is a
// reject in out.
type Stage interface {
	Process(ctx context.Context, in []Record, out *Out) error
}

// Stateful is a stage that remembers units. There is one instance a partition, and
// it sees its records in source order whatever the number of workers.
type Stateful interface {
	Stage
	// Load gives back one entry that Put wrote, oldest first, before the first Process.
	Load(key, val []byte) error
}

// Timed is a stage that acts when event time passes.
type Timed interface {
	Stage
	// Advance says that the watermark moved; it never moves back. EndOfTime means
	// that the input has ended: it comes again until the stage emits nothing, so that
	// what is left can come in pieces. Output is sorted by key.
	Advance(ctx context.Context, watermark Time, out *Out) error
}

// Ticker is a stage that publishes now and then.
type Ticker interface {
	Stage
	// Every says when Tick is due.
	Every() Every
	// Tick publishes what has changed. Output is sorted by key.
	Tick(ctx context.Context, out *Out) error
}

// Every is the rhythm of a Ticker: a number of records that entered the stage, or
// a duration. The zero value never ticks.
type Every struct {
	Records  int64
	Interval time.Duration
}

// Digested is a stateful stage whose work on a record has a half that needs no
// state. The runner does that half on the worker that holds the record, so only
// fixed-size observations enter the part that goes in order. Process does both.
type Digested interface {
	Stateful
	// Digester is called once a worker.
	Digester() Digester
	// Apply is Process for digested records, in order.
	Apply(ctx context.Context, in []Observation, out *Out) error
}

// Digester turns records into observations, one goroutine at a time. It may reject
// a record, leave out one that contributes nothing, or emit one that is not the stage's
// matter, which the next step gets before what the stage makes of the block.
type Digester interface {
	Digest(in []Record, dst []Observation, out *Out) []Observation
}

// Observation is what one record contributes, without strings: the numbers are
// those of the stage's own dictionaries.
type Observation struct {
	Unit     [2]uint64 // 128-bit hash of the unit; zero if the position is the unit
	Run      uint32
	Group    uint32
	Pattern  uint32
	Status   Status
	Time     Time
	Revision int64
	Seq      Seq
}

// Placed is a stateless stage that says something at the end of units that never came, and
// so must know which would have come here.
type Placed interface {
	Stage
	// Place comes before the first Process, where the job has a part of the partitions.
	// mine reports whether records of a route come to this instance.
	Place(mine func(route []byte) bool)
}

// Tallied is a stage that accounts for what it received.
type Tallied interface {
	// Tallies is called after the last record; one row an input kind.
	Tallies() []Tally
}

// Tally says where the received records of one kind went. Held is read off the
// state, not counted on the way in.
type Tally struct {
	Step, Kind                                       string
	Received, Passed, Held, Replaced, Rejected, Late int64
	Of                                               [statuses]int64 // Held by status, where the kind has one
}

// Balanced reports whether nothing vanished.
func (t Tally) Balanced() bool {
	return t.Received == t.Passed+t.Held+t.Replaced+t.Rejected+t.Late
}

// Counted is a stage that counts what a reader of the results should know.
type Counted interface {
	// Counters is called after the last record; the instances' are added up by name.
	Counters() []Counter
}

// Noted is a stage that has something to tell people at the end: what is legal, but
// hardly meant.
type Noted interface {
	// Notes is called after the last record; equal texts of several instances are told once.
	Notes() []string
}

// Counter is how often something happened in a step.
type Counter struct {
	Step, Name string
	N          int64
}

// Out collects what a call makes.
type Out struct {
	Records []Record
	Rejects []Reject
	Changes []Change
}

// Reject is a record set aside by a stage: the line is found by its Seq.
type Reject struct {
	Seq   Seq
	Fault Fault
	// Unit names what is refused where there is no line of it: a stage has made it, of a
	// unit that expired or of a whole cell. "" otherwise.
	Unit string
}

// Change is one entry for the stage's changelog; Val nil deletes.
type Change struct{ Key, Val []byte }

// Emit adds a record. Its body stays the stage's until its next call.
func (o *Out) Emit(r Record) { o.Records = append(o.Records, r) }

// Reject sets the record aside that came with the line of seq.
func (o *Out) Reject(seq Seq, f Fault) { o.Rejects = append(o.Rejects, Reject{Seq: seq, Fault: f}) }

// RejectRecord sets a record aside that may have no line.
func (o *Out) RejectRecord(rec *Record, f Fault) {
	r := Reject{Seq: rec.Seq, Fault: f}
	if rec.Pos.Origin == nil && rec.Raw == nil && rec.Body != nil {
		r.Unit = unitText(rec.Body)
	}
	o.Rejects = append(o.Rejects, r)
}

// unitText names what a body is about: "unit q1/run a (expired)", or its kind and slot.
func unitText(b Body) string {
	switch b := b.(type) {
	case *Score:
		text := "unit " + b.Unit
		if b.Run != "" {
			text += "/run " + b.Run
		}
		return text + " (" + b.Status.String() + ")"
	case interface{ AppendKey(dst []byte) []byte }:
		return string(b.AppendKey([]byte(b.(Body).Kind() + " ")))
	}
	return b.Kind()
}

// Put writes one entry of the stage's changelog. Key and val are not copied.
func (o *Out) Put(key, val []byte) { o.Changes = append(o.Changes, Change{Key: key, Val: val}) }

// Reset empties o and keeps its memory.
func (o *Out) Reset() {
	o.Records = o.Records[:0]
	o.Rejects = o.Rejects[:0]
	o.Changes = o.Changes[:0]
}
