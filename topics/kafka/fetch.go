package kafka

import (
	"cmp"
	"context"
	"slices"
	"time"

	kgo "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

const fetchVersion = 11

// fetchRequest asks for the next batches of one partition, committed ones only.
type fetchRequest struct {
	client string
	broker int32
	from   TopicPartition
	offset int64
	wait   time.Duration
	bytes  int32
	err    error
}

// ApiKey is Fetch.
func (*fetchRequest) ApiKey() protocol.ApiKey { return protocol.Fetch } //nolint:staticcheck // the name is kafka-go's

// Broker is the leader that was asked for.
func (r *fetchRequest) Broker(protocol.Cluster) (protocol.Broker, error) {
	return protocol.Broker{ID: r.broker}, nil
}

// Required takes the exchange over.
func (r *fetchRequest) Required(versions map[protocol.ApiKey]int16) bool {
	r.err = speaks(versions, protocol.Fetch, fetchVersion)
	return true
}

// RawExchange writes the request and reads the answer.
func (r *fetchRequest) RawExchange(rw readWriter) (protocol.Message, error) {
	if r.err != nil {
		return nil, r.err
	}
	f := newFrame(protocol.Fetch, fetchVersion, r.client)
	f.int32(-1) // a consumer
	f.int32(int32(r.wait / time.Millisecond))
	f.int32(1) // answer as soon as there is anything
	f.int32(r.bytes)
	f.int8(1) // read committed
	f.int32(0)
	f.int32(-1) // no session
	f.int32(1)
	f.text(r.from.Topic)
	f.int32(1)
	f.int32(r.from.Partition)
	f.int32(-1)
	f.int64(r.offset)
	f.int64(-1)
	f.int32(r.bytes)
	f.int32(0)
	f.text("")
	a, err := f.exchange(rw)
	if err != nil {
		return nil, err
	}
	return readFetched(a)
}

// fetched is the answer for one partition.
type fetched struct {
	code                   int16
	highWater, stable, log int64 // end, end of what is committed, and first offset
	gone                   []aborted
	batches                []byte
}

// ApiKey is Fetch.
func (*fetched) ApiKey() protocol.ApiKey { return protocol.Fetch } //nolint:staticcheck // the name is kafka-go's

func readFetched(a answer) (*fetched, error) {
	a.int32() // throttled for
	out := &fetched{code: a.int16()}
	a.int32() // session
	if out.code != 0 {
		return out, nil
	}
	for range a.count(6) {
		a.text()
		for range a.count(38) {
			a.int32()
			out.code = a.int16()
			out.highWater, out.stable, out.log = a.int64(), a.int64(), a.int64()
			for range a.count(16) {
				out.gone = append(out.gone, aborted{producer: a.int64(), first: a.int64()})
			}
			a.int32()
			out.batches = a.bytes()
		}
	}
	if a.bad {
		return nil, errAnswer
	}
	// The protocol does not say that they come in order.
	slices.SortFunc(out.gone, func(a, b aborted) int { return cmp.Compare(a.first, b.first) })
	return out, nil
}

// fetch asks the leader of tp once.
func (c *Client) fetch(ctx context.Context, tp TopicPartition, offset int64, wait time.Duration, bytes int32) (*fetched, error) {
	broker, err := c.leader(ctx, tp)
	if err != nil {
		return nil, err
	}
	// The wait at the broker and the deadline of the request are two things.
	ctx, cancel := context.WithTimeout(ctx, wait+c.conf.timeout())
	defer cancel()
	res, err := c.transport.RoundTrip(ctx, c.addr, &fetchRequest{
		client: c.conf.clientID(), broker: broker, from: tp, offset: offset, wait: wait, bytes: bytes,
	})
	if err == nil {
		if code := res.(*fetched).code; code != 0 {
			err = kgo.Error(code)
		}
	}
	if err != nil {
		if ctx.Err() == nil && staleLeader(err) {
			c.forget(tp.Topic)
		}
		return nil, err
	}
	return res.(*fetched), nil
}
