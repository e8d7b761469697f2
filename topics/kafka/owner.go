package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Ownership is what a member owns for one generation of its group, taken over: numbers of
// partitions, each of every topic that is read together. No former owner can write for
// them any more, and From is where it stopped.
type Ownership struct {
	Partitions []int32 // ascending; at least one
	Group      string
	Member     Member
	// Transactor writes for all of them.
	Transactor *Transactor
	// From is where each topic's partition goes on: First where nothing was committed.
	From map[TopicPartition]int64
}

// Own takes part in the group and calls own once a generation, with what is owned in it,
// until ctx ends or own fails otherwise than by ErrLost or ErrUnknown: after those the
// group is joined again. A generation that brings nothing is waited for to end.
//
// Each partition has a transactional id: the group's, a dot and its number. An owner takes
// over those of all its partitions and writes under the least of them, so that whatever
// its predecessors left open is ended by somebody of the next generation at once.
//
// The topics must have equal numbers of partitions. own must return soon after its
// context has ended; transactions still commit until then.
func (c *Client) Own(ctx context.Context, opt GroupOptions, own func(context.Context, Ownership) error) error {
	counts, err := c.await(ctx, opt)
	if err != nil {
		return err
	}
	for _, name := range opt.Topics {
		if counts[name] != counts[opt.Topics[0]] {
			return fmt.Errorf("group %s: want equal numbers of partitions, got %d of %s and %d of %s",
				opt.ID, counts[opt.Topics[0]], opt.Topics[0], counts[name], name)
		}
	}
	return c.Join(ctx, opt, func(ctx context.Context, a *Assignment) error {
		if len(a.Partitions) == 0 {
			<-ctx.Done()
			return nil
		}
		o, err := c.takeOver(ctx, a, opt.Codec)
		if err != nil {
			return err
		}
		return own(ctx, o)
	})
}

// takeOver takes over the transactional ids of all partitions.
func (c *Client) takeOver(ctx context.Context, a *Assignment, codec Codec) (Ownership, error) {
	o := Ownership{Group: a.Group, Member: a.Member, From: map[TopicPartition]int64{}}
	for _, tp := range a.Partitions {
		o.From[tp] = First
		o.Partitions = append(o.Partitions, tp.Partition)
	}
	slices.Sort(o.Partitions)
	o.Partitions = slices.Compact(o.Partitions)
	taken, failed := make([]*Transactor, len(o.Partitions)), make([]error, len(o.Partitions))
	var wg sync.WaitGroup
	for i, p := range o.Partitions {
		wg.Go(func() { taken[i], failed[i] = c.Transactor(ctx, fmt.Sprintf("%s.%d", a.Group, p), codec) })
	}
	wg.Wait()
	for _, err := range failed {
		if err != nil {
			return o, err
		}
	}
	o.Transactor = taken[0]
	// Only now: before the takeover they may be those of before the last transaction.
	committed, err := c.Committed(ctx, a.Group, a.Partitions...)
	if err != nil {
		return o, err
	}
	maps.Copy(o.From, committed)
	return o, nil
}
