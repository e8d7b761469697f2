package evalstream

// Store keeps what a job knows outside of the process, so that the same job goes on
// where it was after a kill. A partition's state and its position stand or fall
// together. Calls for one partition do not overlap; those for several may.
type Store interface {
	// Partitions lists those that have a checkpoint, ascending.
	Partitions() ([]int32, error)
	// Checkpoint is the last one committed; nil if there is none.
	Checkpoint(partition int32) (*Checkpoint, error)
	// Scan calls f for the committed entries of a step from key from on, by key
	// ascending, until f returns false. key and val die with the call.
	Scan(step string, partition int32, from []byte, f func(key, val []byte) (more bool, err error)) error
	// Get appends the committed value of a key to dst; found is false if there is none.
	Get(dst []byte, step string, partition int32, key []byte) (val []byte, found bool, err error)
	// Commit makes all changes and the checkpoint take effect, or nothing of them. Once
	// it has returned, the end of the process loses nothing of it.
	Commit(partition int32, changes []StepChanges, cp *Checkpoint) error
}

// Prompt is a store that says when a commit would not have to wait for the one before:
// then a job commits after each block, and not by the clock or by bytes alone.
type Prompt interface {
	Store
	Ready(partition int32) bool
}

// Ending is a store that output goes through: what is made at the end of the input needs
// a commit of its own, which changes no entry.
type Ending interface {
	Store
	End(partition int32, cp *Checkpoint) error
}

// StepChanges are changes of one step's entries, in order.
type StepChanges struct {
	Step    string
	Changes []Change
}

// Checkpoint says how far the state of a partition has come.
type Checkpoint struct {
	// Next is the Seq of the first line that is not in the state.
	Next      Seq
	Places    []Place
	Newest    Time
	Watermark Time
	// ToTick is how many records are left until the next tick by count.
	ToTick int64
	// Reach is how far the source said that it has come; nil if it does not say.
	Reach *Reach
	// Ended says that the input had ended there, and that what came of its end is written.
	Ended        bool
	Lines, Blank int64
	Rejects      int64
	ByClass      map[Class]int64
	// Output and RejectsOutput are the lengths of the sinks, if they are resumable.
	Output, RejectsOutput int64
	// Front are the tallies of the stateless steps; stateful ones keep their own.
	Front []Tally
	// Counters are those of the stateless steps, without remote ones, whose counters are
	// of one process.
	Counters []Counter
}

// Place is how far an origin has been read.
type Place struct {
	Origin Origin
	Line   int64 // the last one
	// Offset is how many bytes of the origin the lines up to Line are, newlines
	// included and before any compression; 0 if that is not known.
	Offset int64
	// Records is how many records of the origin were read, where they are not lines.
	Records int64
}

// Place is that of an origin; nil if nothing of it has been read.
func (c *Checkpoint) Place(o *Origin) *Place {
	if c == nil {
		return nil
	}
	for i := range c.Places {
		if c.Places[i].Origin == *o {
			return &c.Places[i]
		}
	}
	return nil
}

// Kept is a stateful stage whose state outlives the process.
type Kept interface {
	Stage
	Keeper
}

// Keeper keeps state in a store. The runner calls Save between blocks, so that state
// and position agree, and not after each record: what changes ten times between two
// commits is written once, and a job without a store writes nothing.
type Keeper interface {
	// Keep comes before the first Load, and only if there is a store: from then on the
	// keeper notes what changes.
	Keep(s Shelf)
	// Load gives back one entry that was put.
	Load(key, val []byte) error
	// Loaded comes after the last Load, and says if an entry is missing or too much.
	Loaded() error
	// Save puts the entries that have changed since the last Save.
	Save(out *Out) error
	// Saved says that they are committed: what memory is short of may be dropped now
	// and read back from the shelf.
	Saved() error
}

// Traced is a stateless stage that must know at the end what its instances have met.
// Instances run ahead of each other, so the runner takes the trace of each block and
// gives it, in order, to one follower a partition.
type Traced interface {
	Stage
	// Trace appends what this instance has met since the last call, in a form of its
	// own. The first call turns tracing on; without a store there is none.
	Trace(dst []byte) []byte
	// Follower makes what keeps the traces of a partition.
	Follower() Follower
}

// Follower keeps traces.
type Follower interface {
	Keeper
	// Follow takes the trace of a block in.
	Follow(trace []byte) error
}

// Shelf is a step's own entries in the store, as last committed.
type Shelf struct {
	// Memory is about how many bytes the stage may hold of what is on the shelf too;
	// 0: all it wants.
	Memory int64
	// Get appends the value of a key to dst.
	Get func(dst, key []byte) (val []byte, found bool, err error)
	// Scan calls f by key ascending until it returns false.
	Scan func(from []byte, f func(key, val []byte) (more bool, err error)) error
}

// ResumableSink is a sink that can go back to where it was at a checkpoint, so that
// what was written after it is not there twice.
type ResumableSink interface {
	Sink
	// Length is how many bytes the sink has after Flush.
	Length() (int64, error)
	// CutBack drops what was written after the first n bytes. It comes before the
	// first Write.
	CutBack(n int64) error
}

// DamagedError is about a state that cannot be trusted.
type DamagedError struct{ Err error }

// Error says what is wrong with it.
func (e *DamagedError) Error() string { return e.Err.Error() }

// Unwrap is what was met.
func (e *DamagedError) Unwrap() error { return e.Err }

// Damaged says that a state cannot be trusted (exit 5): a [DamagedError].
func Damaged(err error) error {
	return &ExitError{
		Code: ExitState, Err: &DamagedError{err},
		Hint: "the state is damaged; name another --state DIR and read the sources from their start",
	}
}
