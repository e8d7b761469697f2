package kafkatest

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// proxy stands before each broker of a cluster, at the address that the broker names as its
// own. It passes requests and answers on as they are, but for requests that are held.
type proxy struct {
	addresses []string
	cluster   *kfake.Cluster // nil: the brokers are real
	ended     chan struct{}
	open      sync.WaitGroup

	mu      sync.Mutex
	holds   []*hold
	conns   map[net.Conn]bool                   // nil: ended
	weather func(kmsg.Key) (f fate, others int) // nil: all pass
	delayed map[*hold]int                       // until so many others have come
}

// hold is a request that a proxy holds back until the test says what becomes of it.
type hold struct {
	key     kmsg.Key
	frame   []byte // once it has come
	come    chan struct{}
	fate    chan fate
	late    chan struct{}
	answers chan []byte
}

// fate is what becomes of a request.
type fate int

const (
	passes fate = iota // it goes to the broker, and the answer to the client
	loses              // it goes to the broker, and the connection is cut instead of an answer
	waits              // the connection is cut, and it goes to the broker when it is delivered
)

// proxied is the cluster to test against, with proxies before it: the broker of deploy/kafka,
// which has a listener for that, or else a fake one.
func proxied(t *testing.T) *proxy {
	t.Helper()
	const listens, says = 5, 6 // ports of that listener, as distances from the plain one
	if os.Getenv("EVALSTREAM_TEST_BROKER_CONTROL") == "" {
		return proxiedFake(t, 1)
	}
	p := newProxy(t)
	for _, b := range cluster(t) {
		p.before(t, beside(t, b, says), beside(t, b, listens))
	}
	return p
}

// proxiedFake is a fake cluster with proxies before it.
func proxiedFake(t *testing.T, brokers int) *proxy {
	t.Helper()
	p := newProxy(t)
	c, err := kfake.NewCluster(kfake.NumBrokers(brokers), kfake.ListenFn(func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		if err != nil {
			return nil, err
		}
		return renamed{l, p.before(t, "127.0.0.1:0", l.Addr().String())}, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	p.cluster = c
	return p
}

// renamed is a listener that gives another address as its own.
type renamed struct {
	net.Listener
	name net.Addr
}

func (l renamed) Addr() net.Addr { return l.name }

func beside(t *testing.T, address string, distance int) string {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort(host, strconv.Itoa(n+distance))
}

func newProxy(t *testing.T) *proxy {
	p := &proxy{ended: make(chan struct{}), conns: map[net.Conn]bool{}, delayed: map[*hold]int{}}
	t.Cleanup(func() {
		close(p.ended)
		p.mu.Lock()
		for c := range p.conns {
			_ = c.Close()
		}
		p.conns = nil
		p.mu.Unlock()
		p.open.Wait()
	})
	return p
}

// before listens at an address for those who want the broker.
func (p *proxy) before(t *testing.T, address, broker string) net.Addr {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	p.addresses = append(p.addresses, l.Addr().String())
	t.Cleanup(func() { _ = l.Close() })
	p.open.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.open.Go(func() { p.serve(c, broker) })
		}
	})
	return l.Addr()
}

// keep notes an open connection; false: it is over.
func (p *proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns == nil {
		return false
	}
	p.conns[c] = true
	return true
}

func (p *proxy) close(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// serve passes on what one client asks, one request after the other.
func (p *proxy) serve(client net.Conn, address string) {
	defer p.close(client)
	broker, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return
	}
	defer p.close(broker)
	if !p.keep(client) || !p.keep(broker) {
		return
	}
	for {
		request, err := frame(client)
		if err != nil {
			return
		}
		h, f := p.waiting(request), passes
		if h != nil {
			close(h.come)
			select {
			case f = <-h.fate:
			case <-p.ended:
				return
			}
		}
		if f == waits {
			_ = client.Close()
			select {
			case <-h.late:
			case <-p.ended:
				return
			}
		}
		if _, err := broker.Write(request); err != nil {
			return
		}
		answer, err := frame(broker)
		if err != nil {
			return
		}
		if h != nil {
			h.answers <- answer
		}
		if f != passes {
			return
		}
		if _, err := client.Write(answer); err != nil {
			return
		}
	}
}

// frame reads a request or an answer, its size included.
func frame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > 64<<20 {
		return nil, errors.New("no frame of Kafka's")
	}
	b := append(size[:], make([]byte, n)...)
	_, err := io.ReadFull(r, b[4:])
	return b, err
}

func newHold(key kmsg.Key) *hold {
	return &hold{key: key, come: make(chan struct{}), fate: make(chan fate, 1), late: make(chan struct{}), answers: make(chan []byte, 1)}
}

// hold holds back the next request of that kind.
func (p *proxy) hold(key kmsg.Key) *hold {
	h := newHold(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds = append(p.holds, h)
	return h
}

// disturb lets weather say what becomes of each request that is not held: of one that waits
// also after how many others it is delivered. weather is called for one at a time.
func (p *proxy) disturb(weather func(kmsg.Key) (f fate, others int)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.weather = weather
}

// waiting is what waits for this request; nil if nothing does.
func (p *proxy) waiting(request []byte) *hold {
	if len(request) < 8 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.holds, func(h *hold) bool { return h.key.Int16() == int16(binary.BigEndian.Uint16(request[4:])) })
	if i < 0 {
		return p.disturbed(kmsg.Key(binary.BigEndian.Uint16(request[4:])))
	}
	h := p.holds[i]
	p.holds = slices.Delete(p.holds, i, i+1)
	h.frame = request
	return h
}

func (p *proxy) disturbed(key kmsg.Key) *hold {
	if p.weather == nil {
		return nil
	}
	for h, others := range p.delayed {
		if p.delayed[h] = others - 1; others == 0 {
			delete(p.delayed, h)
			close(h.late)
		}
	}
	f, others := p.weather(key)
	h := newHold(key)
	h.fate <- f
	if f == waits {
		p.delayed[h] = others
	}
	return h
}

// has waits for the request.
func (h *hold) has(t *testing.T) {
	t.Helper()
	soon(t, h.come, "no "+h.key.Name()+" has come")
}

// gets waits for the request and says what becomes of it.
func (h *hold) gets(t *testing.T, f fate) {
	t.Helper()
	h.has(t)
	h.fate <- f
}

// deliver lets a request that waits go to the broker, and returns the error code of its answer.
func (h *hold) deliver(t *testing.T) int16 {
	t.Helper()
	close(h.late)
	answer := soon(t, h.answers, "no answer to the "+h.key.Name()+" that came late")
	res := h.key.Response()
	res.SetVersion(int16(binary.BigEndian.Uint16(h.frame[6:])))
	body := answer[8:]
	if res.IsFlexible() {
		body = body[1:] // no tagged fields
	}
	if err := res.ReadFrom(body); err != nil {
		t.Fatal(err)
	}
	switch r := res.(type) {
	case *kmsg.AddPartitionsToTxnResponse:
		return r.Topics[0].Partitions[0].ErrorCode
	case *kmsg.ProduceResponse:
		return r.Topics[0].Partitions[0].ErrorCode
	case *kmsg.AddOffsetsToTxnResponse:
		return r.ErrorCode
	case *kmsg.TxnOffsetCommitResponse:
		return r.Topics[0].Partitions[0].ErrorCode
	case *kmsg.EndTxnResponse:
		return r.ErrorCode
	case *kmsg.InitProducerIDResponse:
		return r.ErrorCode
	}
	t.Fatalf("%s: its answers are not read here", strings.ToLower(h.key.Name()))
	return 0
}

// soon is what comes from c, or its zero value once that is closed.
func soon[T any](t *testing.T, c <-chan T, otherwise string) T {
	t.Helper()
	late := time.NewTimer(30 * time.Second)
	defer late.Stop()
	select {
	case v := <-c:
		return v
	case <-late.C:
		t.Fatal(otherwise)
	}
	var none T
	return none
}
