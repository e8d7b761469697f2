package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Ownership is partition number p of every topic that is read together, taken over: no
// former owner can write for it any more, and From is where it stopped.
type Ownership struct {
	Partition  int32
	Of         int // how many partition numbers the member has in this generation
	Group      string
	Member     Member
	Transactor *Transactor
	// From is where each topic's partition goes on: First where nothing was committed.
	From map[TopicPartition]int64
}

// Own takes part in the group and calls own for each partition number that it is
// given, at once and each in a goroutine, until ctx ends or own fails otherwise than
// by ErrLost or ErrUnknown: after those the group is joined again, and own called with
// what is then owned. The transactional id of partition p is the group's, a dot and p.
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
		byNumber := map[int32][]TopicPartition{}
		for _, tp := range a.Partitions {
			byNumber[tp.Partition] = append(byNumber[tp.Partition], tp)
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		var (
			wg   sync.WaitGroup
			mu   sync.Mutex
			lost error // of a partition
			bad  error // of anything else
		)
		for _, p := range slices.Sorted(maps.Keys(byNumber)) {
			wg.Go(func() {
				err := c.ownOne(ctx, a, p, len(byNumber), byNumber[p], opt.Codec, own)
				if err == nil || ctx.Err() != nil && (errors.Is(err, context.Cause(ctx)) || errors.Is(err, context.Canceled)) {
					return // it, or another, has ended the generation already
				}
				mu.Lock()
				if errors.Is(err, ErrLost) || errors.Is(err, ErrUnknown) {
					lost = err
				} else if bad == nil {
					bad = err
				}
				mu.Unlock()
				cancel(err)
			})
		}
		if len(byNumber) == 0 {
			<-ctx.Done()
		}
		wg.Wait()
		if bad != nil {
			return bad
		}
		return lost
	})
}

func (c *Client) ownOne(ctx context.Context, a *Assignment, p int32, of int, tps []TopicPartition, codec Codec, own func(context.Context, Ownership) error) error {
	t, err := c.Transactor(ctx, fmt.Sprintf("%s.%d", a.Group, p), codec)
	if err != nil {
		return err
	}
	// Only now: before the takeover they may be those of before the last transaction.
	committed, err := c.Committed(ctx, a.Group, tps...)
	if err != nil {
		return err
	}
	o := Ownership{Partition: p, Of: of, Group: a.Group, Member: a.Member, Transactor: t, From: map[TopicPartition]int64{}}
	for _, tp := range tps {
		o.From[tp] = First
		if at, ok := committed[tp]; ok {
			o.From[tp] = at
		}
	}
	return own(ctx, o)
}
