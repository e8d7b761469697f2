package evalstream

import (
	"math"
	"strconv"
	"time"
)

// Record is one object in flight.
//
// A record and its body belong to the stage that emitted it and live until that
// stage's next Process call; a stage that keeps anything longer copies it. Strings
// of a body may point into the line they were read from and die with its block.
type Record struct {
	Body Body   // what the pipeline reads of the object; nil before parse
	Raw  []byte // the object's own line without its newline; nil if it was made here
	Time Time   // event time of the unit (NoTime if unknown)
	Pos  Pos    // where the line that caused the record was read
	Seq  Seq    // order of that line within its source partition
}

// Seq is the place of an input line within its source partition: it grows along
// the partition, and a redelivered line comes with the Seq that it had.
type Seq int64

// Time is an event time: nanoseconds since 1970 in UTC. The zero value is 1970
// itself, so a record without time carries [NoTime].
type Time int64

// NoTime says that a record has no event time. It sorts before every time.
const NoTime Time = math.MinInt64

// EndOfTime is the watermark after the last record of a finite input.
const EndOfTime Time = math.MaxInt64

// TimeOf converts a wall time; years outside 1678 to 2262 are not representable
// and give ok = false.
func TimeOf(t time.Time) (at Time, ok bool) {
	if y := t.Year(); y < 1678 || y > 2261 {
		return NoTime, false
	}
	return Time(t.UnixNano()), true
}

// AppendTime appends t in RFC 3339 (UTC, no trailing zeros), without quotes.
func AppendTime(dst []byte, t Time) []byte {
	return time.Unix(0, int64(t)).UTC().AppendFormat(dst, time.RFC3339Nano)
}

// String is the RFC 3339 form, "none" for NoTime.
func (t Time) String() string {
	switch t {
	case NoTime:
		return "none"
	case EndOfTime:
		return "end"
	}
	return string(AppendTime(nil, t))
}

// Origin is a place that lines come from: a file, a stream or one partition of a topic.
type Origin struct {
	Name      string // path, "<stdin>", or the topic's name
	Topic     bool   // Name is a topic, and lines are its offsets
	Partition int32  // of the topic
	// Head tells streams and files of one name apart: 16 hex digits of a hash of the
	// first line; "" where no state is kept.
	Head string
}

// String is the name, and topic[partition] for a topic.
func (o *Origin) String() string {
	if o == nil {
		return "<made here>"
	}
	if o.Topic {
		return o.Name + "[" + strconv.Itoa(int(o.Partition)) + "]"
	}
	return o.Name
}

// Pos is a position in an origin.
type Pos struct {
	Origin *Origin
	Line   int64 // 1-based line of a file; offset of a topic
	Column int32 // 1-based byte of the line; 0 if the whole line is meant
}

// String prints file:line, file:line:column or topic[partition]@offset.
func (p Pos) String() string { return string(p.Append(nil)) }

// Append appends what String prints.
func (p Pos) Append(dst []byte) []byte {
	dst = append(dst, p.Origin.String()...)
	if p.Origin != nil && p.Origin.Topic {
		dst = append(dst, '@')
		return strconv.AppendInt(dst, p.Line, 10)
	}
	if p.Line > 0 {
		dst = append(dst, ':')
		dst = strconv.AppendInt(dst, p.Line, 10)
	}
	if p.Column > 0 {
		dst = append(dst, ':')
		dst = strconv.AppendInt(dst, int64(p.Column), 10)
	}
	return dst
}
