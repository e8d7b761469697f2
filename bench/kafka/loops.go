//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	kgo "github.com/segmentio/kafka-go"
)

// joinBackoff replaces kafka-go's 5 s, which a group that is new waits for once or twice.
const joinBackoff = 100 * time.Millisecond

// loop is what a contestant that moves messages from one topic to another is given.
type loop struct {
	brokers    []string
	from, to   string
	group      string
	partitions int
	messages   int64
}

// runLoop is the process of a contestant of this program.
func runLoop(ctx context.Context, args []string) error {
	var l loop
	var name, brokers string
	flags := flag.NewFlagSet("loop", flag.ContinueOnError)
	flags.StringVar(&name, "name", "", "reader, client or watermill")
	flags.StringVar(&brokers, "brokers", "", "")
	flags.StringVar(&l.from, "from", "", "")
	flags.StringVar(&l.to, "to", "", "")
	flags.IntVar(&l.partitions, "partitions", 1, "")
	flags.Int64Var(&l.messages, "n", 0, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	l.brokers, l.group = strings.Split(brokers, ","), "group-of-"+l.to
	switch name {
	case "reader":
		return l.reader(ctx)
	case "client":
		return l.client(ctx)
	case "watermill":
		return l.watermill(ctx)
	}
	return fmt.Errorf("name: no loop %q", name)
}

// reader moves messages as people write it with kafka-go: a Reader in a group, a Writer
// given a thousand messages at a time, offsets committed after them.
func (l *loop) reader(ctx context.Context) error {
	r := kgo.NewReader(kgo.ReaderConfig{
		Brokers: l.brokers, GroupID: l.group, Topic: l.from, StartOffset: kgo.FirstOffset,
		MinBytes: 1, MaxBytes: 1 << 20, QueueCapacity: 10_000, JoinGroupBackoff: joinBackoff,
	})
	defer r.Close() //nolint:errcheck // everything is committed
	w := &kgo.Writer{
		Addr: kgo.TCP(l.brokers...), Topic: l.to, Balancer: kgo.Murmur2Balancer{}, RequiredAcks: kgo.RequireAll,
		BatchSize: 1000, BatchTimeout: 5 * time.Millisecond,
	}
	defer w.Close() //nolint:errcheck // everything is written
	const at = 8000
	for left := l.messages; left > 0; {
		in := make([]kgo.Message, 0, at)
		for len(in) < int(min(at, left)) {
			m, err := r.FetchMessage(ctx)
			if err != nil {
				return err
			}
			in = append(in, m)
		}
		out := make([]kgo.Message, len(in))
		for i := range in {
			out[i] = kgo.Message{Key: in[i].Key, Value: in[i].Value, Headers: in[i].Headers}
		}
		if err := w.WriteMessages(ctx, out...); err != nil {
			return err
		}
		if err := r.CommitMessages(ctx, in...); err != nil {
			return err
		}
		left -= int64(len(in))
	}
	return nil
}

// client moves messages with kafka-go's Client.Fetch and Client.Produce, a goroutine a
// partition, each batch as it came, its offset committed after it. It is in no group.
func (l *loop) client(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := &kgo.Client{Addr: kgo.TCP(l.brokers...)}
	var moved atomic.Int64
	var wg sync.WaitGroup
	for p := range l.partitions {
		wg.Go(func() {
			var offset int64
			for ctx.Err() == nil {
				n, err := l.batch(ctx, c, p, offset)
				if code, ok := errors.AsType[kgo.Error](err); ok && code.Temporary() { // topics that are new have no leader yet
					continue
				}
				if err != nil && ctx.Err() == nil {
					cancel(err)
					return
				}
				offset += n
				if moved.Add(n) >= l.messages {
					cancel(io.EOF)
				}
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func (l *loop) batch(ctx context.Context, c *kgo.Client, p int, offset int64) (int64, error) {
	res, err := c.Fetch(ctx, &kgo.FetchRequest{Topic: l.from, Partition: p, Offset: offset, MinBytes: 1, MaxBytes: 1 << 20, MaxWait: 100 * time.Millisecond})
	if err == nil {
		err = res.Error
	}
	if err != nil {
		return 0, err
	}
	var records []kgo.Record
	for {
		r, err := res.Records.ReadRecord()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
		records = append(records, kgo.Record{Key: r.Key, Value: r.Value, Headers: r.Headers, Time: r.Time})
	}
	if len(records) == 0 {
		return 0, nil
	}
	// A batch that was read whole may be too large with what this client adds to it.
	for from := 0; from < len(records); from += 2000 {
		out, err := c.Produce(ctx, &kgo.ProduceRequest{
			Topic: l.to, Partition: p, RequiredAcks: kgo.RequireAll, Records: kgo.NewRecordReader(records[from:min(from+2000, len(records))]...),
		})
		if err == nil {
			err = out.Error
		}
		if err != nil {
			return 0, err
		}
	}
	n := int64(len(records))
	done, err := c.OffsetCommit(ctx, &kgo.OffsetCommitRequest{
		GroupID: l.group, GenerationID: -1, Topics: map[string][]kgo.OffsetCommit{l.from: {{Partition: p, Offset: offset + n}}},
	})
	if err == nil {
		for _, ps := range done.Topics {
			for _, one := range ps {
				err = one.Error
			}
		}
	}
	return n, err
}
