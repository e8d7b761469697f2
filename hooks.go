package evalstream

// Hooks are called as the job goes; each may be nil. They must not block, and those
// other than Block come from any worker, also at once.
type Hooks struct {
	// Block is called after each block, in order within its partition.
	Block func(Progress)
	// Took is called after a stage has taken records, with how many of one kind.
	Took func(step, kind string, n int)
	// Made is called after a stage has made records, with how many of one kind.
	Made func(step, kind string, n int)
	// Rejected is called for each reject, before it goes to the sink of rejects.
	Rejected func(step string, class Class)
	// Calls is called each time that the calls of a [Remote] have moved, in order.
	Calls func(step string, now Calls)
}

// Calls is how a remote step stands.
type Calls struct {
	Records  int64 // that it has taken so far
	Settled  int64 // of these, answered or given up
	InFlight int   // batches that wait for an answer
	Resting  int   // of these, how many were refused and wait to be asked for again
	Retries  int64 // calls that were made again so far, those that rest included
}

// Progress is how far a job has come.
type Progress struct {
	Partition int32
	Lines     int64 // lines read so far in this partition
	Rejects   int64 // rejects so far in the job
	Watermark Time  // of the partition; NoTime if no record had a time
}

// tell calls f for each kind among recs: runs of one kind, which most blocks are, are
// one call.
func tell(f func(step, kind string, n int), step string, recs []Record) {
	if f == nil || len(recs) == 0 {
		return
	}
	from, kind := 0, kindOf(&recs[0])
	for i := 1; i < len(recs); i++ {
		if k := kindOf(&recs[i]); k != kind {
			f(step, kind, i-from)
			from, kind = i, k
		}
	}
	f(step, kind, len(recs)-from)
}

// kindOf is the kind of a record's body, "line" before it has one.
func kindOf(r *Record) string {
	if r.Body == nil {
		return "line"
	}
	return r.Body.Kind()
}
