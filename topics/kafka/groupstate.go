package kafka

import (
	"context"
	"errors"
	"slices"

	kgo "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/deletegroups"
	"github.com/segmentio/kafka-go/protocol/describegroups"
)

// GroupState is a consumer group as it is.
type GroupState struct {
	ID      string
	Members []string // as client@host, sorted; none if nobody is in it, or it is not there

	protocol string // that they have agreed on; "" while they have not
}

// DescribeGroup asks who is in a group. A member that was killed is in it until its
// session is over.
func (c *Client) DescribeGroup(ctx context.Context, id string) (GroupState, error) {
	out := GroupState{ID: id}
	err := c.groupCall(ctx, id, func(ctx context.Context) error {
		out.Members, out.protocol = nil, ""
		res, err := c.coordinated(ctx, id, ofGroup, &describegroups.Request{Groups: []string{id}})
		if err != nil {
			return err
		}
		for _, g := range res.(*describegroups.Response).Groups {
			// From version 6 on a group that is not there is an error.
			if code := kgo.Error(g.ErrorCode); code != 0 && code != kgo.GroupIdNotFound {
				return code
			}
			out.protocol = g.ProtocolData
			for _, m := range g.Members {
				out.Members = append(out.Members, m.ClientID+"@"+m.ClientHost)
			}
		}
		return nil
	})
	slices.Sort(out.Members)
	return out, c.explain(id, err)
}

// DeleteGroup deletes a group with its offsets, and says whether it was there. One with
// members is exit 4: ask DescribeGroup first.
func (c *Client) DeleteGroup(ctx context.Context, id string) (there bool, err error) {
	err = c.groupCall(ctx, id, func(ctx context.Context) error {
		res, err := c.coordinated(ctx, id, ofGroup, &deletegroups.Request{GroupIDs: []string{id}})
		if err != nil {
			return err
		}
		for _, g := range res.(*deletegroups.Response).Responses {
			switch code := kgo.Error(g.ErrorCode); {
			case code == 0:
				there = true
			case !errors.Is(code, kgo.GroupIdNotFound):
				return code
			}
		}
		return nil
	})
	return there, c.explain(id, err)
}
