package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	kgo "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/sasl"
)

// Client is a connection to a cluster: it knows who leads which partition and who
// coordinates which group. It may be used by many goroutines.
type Client struct {
	conf      Config
	addr      net.Addr
	transport *kgo.Transport
	api       *kgo.Client
	tls       *tls.Config
	sasl      sasl.Mechanism
	outages   *outages

	mu           sync.Mutex
	leaders      map[TopicPartition]int32
	counts       map[string]int32 // partitions of a topic
	coordinators map[coordinatorKey]int32
	limits       map[string]int // max.message.bytes of a topic
}

type coordinatorKey struct {
	key  string
	kind int8
}

const (
	ofGroup       int8 = 0
	ofTransaction int8 = 1
)

// Connect checks that a broker answers and takes who we are. It waits for a broker
// no longer than Config.Timeout.
func Connect(ctx context.Context, conf Config) (*Client, error) {
	if err := conf.check(); err != nil {
		return nil, err
	}
	c := &Client{
		conf: conf, outages: newOutages(&conf), leaders: map[TopicPartition]int32{}, counts: map[string]int32{},
		coordinators: map[coordinatorKey]int32{}, limits: map[string]int{},
	}
	tlsConf, err := conf.tls()
	if err != nil {
		return nil, err
	}
	if c.sasl, err = conf.sasl(); err != nil {
		return nil, err
	}
	c.tls = tlsConf
	brokers, err := c.answering(ctx)
	if err != nil {
		return nil, c.explain("connect", err)
	}
	c.addr = kgo.TCP(brokers...)
	c.transport = c.newTransport()
	c.api = &kgo.Client{Addr: c.addr, Timeout: conf.timeout(), Transport: c.transport}
	if err := c.refresh(ctx); err != nil {
		c.Close()
		return nil, c.explain("connect", err)
	}
	return c, nil
}

func (c *Client) newTransport() *kgo.Transport {
	return &kgo.Transport{
		ClientID: c.conf.clientID(), TLS: c.tls, SASL: c.sasl, DialTimeout: c.conf.timeout(),
		// Leaders are ours; kafka-go's own table is for the address of a new broker.
		MetadataTTL: 2 * time.Second,
	}
}

// Close closes idle connections; those in use are closed when their request ends.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Brokers are the addresses that Connect was given, with commas between them.
func (c *Client) Brokers() string { return strings.Join(c.conf.Brokers, ",") }

// dialer is for the parts of kafka-go that open connections of their own.
func (c *Client) dialer() *kgo.Dialer {
	return &kgo.Dialer{ClientID: c.conf.clientID(), Timeout: c.conf.timeout(), TLS: c.tls, SASLMechanism: c.sasl}
}

// do sends a request to a broker, or to any for -1.
func (c *Client) do(ctx context.Context, broker int32, req protocol.Message) (protocol.Message, error) {
	return c.ask(ctx, c.transport, c.addr, broker, req)
}

func (c *Client) ask(ctx context.Context, t *kgo.Transport, addr net.Addr, broker int32, req protocol.Message) (protocol.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, c.conf.timeout())
	defer cancel()
	res, err := t.RoundTrip(ctx, addr, &routed{Message: req, broker: broker, client: c.conf.clientID()})
	if err != nil {
		return nil, err
	}
	return res.(*carried).Message, nil
}

// carried is an answer that kafka-go does not look into: it would wait for metadata
// of its own.
type carried struct{ protocol.Message }

// routed sends a message of kafka-go's to a broker that we choose, at the newest
// version that both sides speak.
type routed struct {
	protocol.Message
	broker  int32
	client  string
	version int16
}

// Broker is where it goes.
func (r *routed) Broker(protocol.Cluster) (protocol.Broker, error) {
	return protocol.Broker{ID: r.broker}, nil
}

// Required takes the exchange over.
func (r *routed) Required(versions map[protocol.ApiKey]int16) bool {
	r.version = versions[r.ApiKey()]
	return true
}

// RawExchange writes the message and reads the answer.
func (r *routed) RawExchange(rw readWriter) (protocol.Message, error) {
	res, err := protocol.RoundTrip(rw, r.version, 1, r.client, r.Message)
	if err != nil {
		return nil, err
	}
	return &carried{res}, nil
}

// refresh asks a broker who leads the partitions of the topics, all if none is named.
func (c *Client) refresh(ctx context.Context, names ...string) error {
	res, err := c.do(ctx, -1, &metadata.Request{TopicNames: names})
	if err != nil {
		return err
	}
	m := res.(*metadata.Response)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range m.Topics {
		t := &m.Topics[i]
		if t.ErrorCode != 0 {
			for p := range c.counts[t.Name] {
				delete(c.leaders, TopicPartition{t.Name, p})
			}
			delete(c.counts, t.Name)
			if len(names) == 1 {
				err = kgo.Error(t.ErrorCode)
			}
			continue
		}
		c.counts[t.Name] = int32(len(t.Partitions))
		for k := range t.Partitions {
			p := &t.Partitions[k]
			tp := TopicPartition{t.Name, p.PartitionIndex}
			if p.LeaderID < 0 {
				delete(c.leaders, tp)
				continue
			}
			c.leaders[tp] = p.LeaderID
		}
	}
	return err
}

// leader is the broker that leads the partition.
func (c *Client) leader(ctx context.Context, tp TopicPartition) (int32, error) {
	c.mu.Lock()
	id, ok := c.leaders[tp]
	c.mu.Unlock()
	if ok {
		return id, nil
	}
	if err := c.refresh(ctx, tp.Topic); err != nil {
		return -1, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if id, ok := c.leaders[tp]; ok {
		return id, nil
	}
	if tp.Partition >= c.counts[tp.Topic] {
		return -1, kgo.UnknownTopicOrPartition
	}
	return -1, kgo.LeaderNotAvailable
}

// forget makes the next request look up the leaders of the topic again.
func (c *Client) forget(topic string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.counts[topic] {
		delete(c.leaders, TopicPartition{topic, p})
	}
}

// Partitions is how many partitions the topic has, asked of a broker each time. One that
// is away is waited for; a topic that is not there is exit 4 at once.
func (c *Client) Partitions(ctx context.Context, topic string) (int32, error) {
	var n int32
	var missing error
	err := c.retry(ctx, topic, func(ctx context.Context) (err error) {
		if n, err = c.count(ctx, topic); errors.Is(err, kgo.UnknownTopicOrPartition) {
			missing, err = err, nil
		}
		return err
	})
	return n, c.explain(topic, cmp.Or(err, missing))
}

// count asks for the number of partitions once.
func (c *Client) count(ctx context.Context, topic string) (int32, error) {
	if err := c.refresh(ctx, topic); err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[topic], nil
}

// partitions is Partitions from memory if it is there.
func (c *Client) partitions(ctx context.Context, topic string) (int32, error) {
	c.mu.Lock()
	n := c.counts[topic]
	c.mu.Unlock()
	if n > 0 {
		return n, nil
	}
	return c.recount(ctx, topic)
}

// recount is Partitions of a topic that was there: it is waited for too.
func (c *Client) recount(ctx context.Context, topic string) (n int32, err error) {
	err = c.retry(ctx, topic, func(ctx context.Context) error {
		n, err = c.count(ctx, topic)
		return err
	})
	return n, c.explain(topic, err)
}

// coordinated sends a request to the coordinator of a group or transactional id.
func (c *Client) coordinated(ctx context.Context, key string, kind int8, req protocol.Message) (protocol.Message, error) {
	id, err := c.coordinator(ctx, coordinatorKey{key, kind})
	if err != nil {
		return nil, err
	}
	res, err := c.do(ctx, id, req)
	if err != nil {
		c.dropCoordinator(key, kind)
	}
	return res, err
}

func (c *Client) coordinator(ctx context.Context, k coordinatorKey) (int32, error) {
	c.mu.Lock()
	id, ok := c.coordinators[k]
	c.mu.Unlock()
	if ok {
		return id, nil
	}
	res, err := c.do(ctx, -1, &findcoordinator.Request{Key: k.key, KeyType: k.kind})
	if err != nil {
		return -1, err
	}
	found := res.(*findcoordinator.Response)
	if found.ErrorCode != 0 {
		return -1, kgo.Error(found.ErrorCode)
	}
	c.mu.Lock()
	c.coordinators[k] = found.NodeID
	c.mu.Unlock()
	return found.NodeID, nil
}

func (c *Client) dropCoordinator(key string, kind int8) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.coordinators, coordinatorKey{key, kind})
}

// retry calls f until it goes well, its error is not one that passes, ctx ends, or
// patience does. The first waits are of milliseconds: a transaction that is still
// ending, or a coordinator that is being found, takes no longer.
func (c *Client) retry(ctx context.Context, about string, f func(context.Context) error) error {
	waiting := c.outages.wait(about)
	wait := time.Millisecond
	for {
		err := f(ctx)
		if err == nil {
			waiting.over(ctx)
			return nil
		}
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if !retriable(err) {
			return err
		}
		if time.Since(waiting.began) > c.conf.patience() {
			return fmt.Errorf("waited %v: %w", c.conf.patience(), err)
		}
		waiting.failed(ctx, err)
		if err := pause(ctx, wait); err != nil {
			return err
		}
		if wait *= 2; wait > time.Second {
			wait = time.Second
		}
	}
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
