package kafka

import (
	"context"
	"slices"
	"sync"
	"time"

	kgo "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// othersAnswer is how long the other brokers of the list may take once one has answered.
const othersAnswer = time.Second

// answering leaves out of the list the brokers that say nothing while others answer: kafka-go
// asks one of the list at a time, whichever, and a request would be over before it has given
// that one up. Who refuses stays, for that takes no time. If none answers, the error is that
// of one of them.
func (c *Client) answering(ctx context.Context) ([]string, error) {
	if len(c.conf.Brokers) == 1 {
		return c.conf.Brokers, nil
	}
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		address string
		err     error
	}
	answers := make(chan answer, len(c.conf.Brokers))
	for _, address := range c.conf.Brokers {
		asking.Go(func() {
			t := c.newTransport()
			defer t.CloseIdleConnections()
			_, err := c.ask(ctx, t, kgo.TCP(address), -1, &metadata.Request{TopicNames: []string{}})
			answers <- answer{address, err}
		})
	}
	var heard []string
	var refusal error
	var late <-chan time.Time
	for waiting := true; waiting && len(heard) < len(c.conf.Brokers); {
		select {
		case a := <-answers:
			heard = append(heard, a.address)
			if a.err != nil {
				refusal = a.err
			} else if late == nil {
				t := time.NewTimer(othersAnswer)
				defer t.Stop()
				late = t.C
			}
		case <-late:
			waiting = false
		}
	}
	if late == nil {
		return nil, refusal
	}
	for _, address := range c.conf.Brokers {
		if !slices.Contains(heard, address) {
			c.conf.log().WarnContext(ctx, "broker does not answer, and is left out", "broker", address)
		}
	}
	return heard, nil
}
