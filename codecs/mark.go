package codecs

import (
	"fmt"
	"time"

	"github.com/goccy/go-json"

	"evalstream"
)

func (o *object) mark(b *evalstream.Mark) {
	o.text("step", b.Step)
	o.int("partition", int64(b.Partition))
	o.int("partitions", int64(b.Partitions))
	if b.Watermark != evalstream.NoTime {
		o.time("watermark", b.Watermark)
	}
	o.bool("idle", b.Idle)
	o.bool("ended", b.Ended)
	o.key("through")
	o.b = append(o.b, '[')
	for i, c := range b.Through {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = append(o.b, '{')
		o.text("topic", c.Origin.Name)
		o.int("partition", int64(c.Origin.Partition))
		o.int("next", c.Next)
		o.b = append(o.b, '}')
	}
	o.b = append(o.b, ']')
}

// maxPartitions bounds what a mark makes its readers hold; Kafka has none.
const maxPartitions = 1_000_000

// DecodeMark reads what AppendRecord writes of a mark.
func DecodeMark(line []byte) (*evalstream.Mark, error) {
	var m struct {
		Kind, Step            string
		Partition, Partitions int32
		Watermark             string
		Idle, Ended           bool
		Through               []struct {
			Topic     string
			Partition int32
			Next      int64
		}
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return nil, fmt.Errorf("mark: %w", err)
	}
	if m.Kind != "mark" || m.Step == "" || m.Partition < 0 || m.Partition >= m.Partitions || m.Partitions > maxPartitions {
		return nil, fmt.Errorf("mark: want kind mark, a step and a partition below %d, got %s, %q and %d", m.Partitions, m.Kind, m.Step, m.Partition)
	}
	b := &evalstream.Mark{Step: m.Step, Partition: m.Partition, Partitions: m.Partitions, Watermark: evalstream.NoTime, Idle: m.Idle, Ended: m.Ended}
	if m.Watermark != "" {
		at, err := parseWatermark(m.Watermark)
		if err != nil {
			return nil, err
		}
		b.Watermark = at
	}
	for _, c := range m.Through {
		b.Through = append(b.Through, evalstream.Cursor{Origin: evalstream.Origin{Name: c.Topic, Topic: true, Partition: c.Partition}, Next: c.Next})
	}
	return b, nil
}

func parseWatermark(text string) (evalstream.Time, error) {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return evalstream.NoTime, fmt.Errorf("mark: watermark: %w", err)
	}
	t, ok := evalstream.TimeOf(at)
	if !ok {
		return evalstream.NoTime, fmt.Errorf("mark: watermark: %s is out of range", text)
	}
	return t, nil
}
