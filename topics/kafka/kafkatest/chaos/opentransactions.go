package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// open says which transactions hold back readers of the topics, and of committed offsets:
// for each producer what its coordinator takes it for, and where it has written. One that
// its coordinator takes for ended, and its partitions do not, has lost its markers.
func (r reader) open(ctx context.Context, topics []string) ([]violation, error) {
	c, err := kgo.NewClient(kgo.SeedBrokers(r.brokers...), kgo.AlwaysRetryEOF())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	coordinated := map[int64]string{}
	list := kmsg.NewListTransactionsRequest()
	for _, shard := range c.RequestSharded(ctx, &list) {
		if shard.Err != nil {
			return nil, fmt.Errorf("list transactions: %w", shard.Err)
		}
		res := shard.Resp.(*kmsg.ListTransactionsResponse)
		if err := kerr.ErrorForCode(res.ErrorCode); err != nil {
			return nil, fmt.Errorf("list transactions: %w", err)
		}
		for _, t := range res.TransactionStates {
			coordinated[t.ProducerID] = t.TransactionalID + ", " + t.TransactionState
		}
	}
	req := kmsg.NewDescribeProducersRequest()
	ask := func(topic string, count int32) {
		t := kmsg.NewDescribeProducersRequestTopic()
		t.Topic = topic
		for p := range count {
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
	}
	for _, topic := range topics {
		ask(topic, partitions)
	}
	ask(offsetsTopic, offsetsPartitions)
	held := map[int64][]string{}
	for _, shard := range c.RequestSharded(ctx, &req) {
		if shard.Err != nil {
			return nil, fmt.Errorf("describe producers: %w", shard.Err)
		}
		for _, t := range shard.Resp.(*kmsg.DescribeProducersResponse).Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return nil, fmt.Errorf("describe producers: %s[%d]: %w", t.Topic, p.Partition, err)
				}
				for _, a := range p.ActiveProducers {
					if a.CurrentTxnStartOffset >= 0 {
						held[a.ProducerID] = append(held[a.ProducerID], fmt.Sprintf("%s[%d]@%d, written last %v ago", t.Topic, p.Partition, a.CurrentTxnStartOffset, time.Since(time.UnixMilli(a.LastTimestamp)).Round(time.Second)))
					}
				}
			}
		}
	}
	var found []violation
	for _, id := range slices.Sorted(maps.Keys(held)) {
		slices.Sort(held[id])
		whose := coordinated[id]
		if whose == "" {
			whose = "known to no coordinator"
		}
		found = append(found, violation{"transactions", fmt.Sprintf("producer %d (%s) holds open %s", id, whose, strings.Join(held[id], "; "))})
	}
	return found, nil
}
