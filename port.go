package evalstream

import (
	"context"
	"errors"
	"time"
)

// ErrPaused is what Source.Read returns when there is no more for now, but the input goes
// on another time. The job then publishes what it has, commits, and returns without
// saying that the input has ended: nothing becomes final by it.
var ErrPaused = errors.New("input is paused")

// Source is where lines come from.
type Source interface {
	// Read fills b with the next block. Calls do not overlap, but come from any worker.
	// A block is handed over as soon as waiting for more would block. io.EOF means no
	// more, ever, and ErrPaused no more in this job. b's memory stays the caller's and is reused by it. Index is set by
	// the caller.
	Read(ctx context.Context, b *Block) error
}

// LiveSource is a Source that knows the ends of partitions which others still write to: one
// that gives nothing is idle only if it holds nothing.
type LiveSource interface {
	Source
	// CaughtUp is when a partition was last known to hold nothing that was not handed
	// over; the zero time if it may hold something. It may be called at any time.
	CaughtUp(partition int32) time.Time
}

// Block is a piece of one partition: whole lines, or records that were decoded
// elsewhere.
type Block struct {
	Data    []byte   // whole lines, each with its newline (the last of an origin may lack it)
	Records []Record // used if Data is nil; Seq and Pos are set
	// Partition is where the lines come from; Index is the block's place in it, from
	// 0 without holes.
	Partition int32
	Index     int64
	First     Seq // of the first line
	At        Pos // of the first line
	// Reach is how far a source of topics has come with this block; nil if the source does
	// not say. A block with it may be without records.
	Reach *Reach
	// Offset is how many bytes of the origin there are up to the end of the block,
	// before any compression; 0 if that is not known.
	Offset int64
	// Long is the length of a line over the limit: Data is then the head of that
	// line alone. 0 otherwise.
	Long int64
	// Lines is how many lines Data has, if the source has counted them; 0: it has not.
	Lines int
	// Unterminated says that the last line ended without a newline.
	Unterminated bool
	// Buf is the memory behind Data.
	Buf []byte

	lines int // how many lines or records, counted once
}

// Reach is how far a source of topics has come. It is never changed once it is made.
type Reach struct {
	Next []Cursor // of the partitions that are read here, then of those that were once
	// Marks are the last ones of the partitions of the step before, by number; nil at the
	// front of a pipeline.
	Marks []Mark
	// Through is Next at the front of a pipeline; behind it, how far the topics at the
	// front have come to here, as all partitions of the step before say.
	Through []Cursor
	// Watermark is the least of the Marks'; NoTime before there is one of each partition.
	Watermark Time
}

// Sink is where records go. Calls do not overlap.
type Sink interface {
	// Write takes the records in order; it must not keep them.
	Write(ctx context.Context, recs []Record) error
	// Flush makes everything written visible; it is called whenever the input would block.
	Flush(ctx context.Context) error
}
