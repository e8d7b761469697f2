package evalstream

// Hooks are called as the job goes; each may be nil. They must not block.
type Hooks struct {
	// Block is called after each block, in order within its partition.
	Block func(Progress)
}

// Progress is how far a job has come.
type Progress struct {
	Partition int32
	Lines     int64 // lines read so far in this partition
	Rejects   int64 // rejects so far in the job
}
