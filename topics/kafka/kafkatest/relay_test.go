package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"evalstream/topics"
	"evalstream/topics/kafka"
)

// relay writes the numbers from 0 on to two partitions as an owner does: each in a
// transaction with the offset behind it, going on where the committed offset says.
type relay struct {
	client    *kafka.Client
	out       string
	in        kafka.TopicPartition
	id, group string

	sink *kafka.Sink
	next int
}

func newRelay(t *testing.T, brokers []string) *relay {
	t.Helper()
	c := connect(t, brokers)
	r := &relay{client: c, out: topic(t, c, 2, nil), in: kafka.TopicPartition{Topic: topic(t, c, 1, nil)}, id: name("tx"), group: name("g")}
	commit(t, transactor(t, c, r.id), kafka.Transaction{Offsets: map[kafka.TopicPartition]int64{r.in: 0}, Group: r.group})
	r.takeOver(t)
	return r
}

func (r *relay) takeOver(t *testing.T) {
	t.Helper()
	r.sink = kafka.NewSink(t.Context(), transactor(t, r.client, r.id), kafka.SinkOptions{Group: r.group})
	closing(t, r.sink)
	r.next = int(r.committed(t))
}

// committed is the group's offset. While one is being committed, it waits.
func (r *relay) committed(t *testing.T) int64 {
	t.Helper()
	at, err := r.client.Committed(t.Context(), r.group, r.in)
	if err != nil {
		t.Fatal(err)
	}
	return at[r.in]
}

// write writes the next number. What comes of it is sent.
func (r *relay) write(t *testing.T) <-chan error {
	u := kafka.Unit{Offsets: map[kafka.TopicPartition]int64{r.in: int64(r.next + 1)}}
	for p := range int32(2) {
		u.Outputs = append(u.Outputs, kafka.Output{To: kafka.TopicPartition{Topic: r.out, Partition: p}, Message: text(fmt.Sprint(r.next))[0]})
	}
	r.next++
	done, sink := make(chan error, 1), r.sink // another may have taken over before it is used
	go func() { done <- errors.Join(sink.Put(t.Context(), u), sink.Drain(t.Context())) }()
	return done
}

// wrote writes the next number, and wants it committed.
func (r *relay) wrote(t *testing.T) {
	t.Helper()
	r.done(t, r.write(t))
}

func (r *relay) done(t *testing.T, result <-chan error) {
	t.Helper()
	if err := soon(t, result, "the transaction does not end"); err != nil {
		t.Fatal(err)
	}
	if at := r.committed(t); at != int64(r.next) {
		t.Fatalf("offset %d is committed, want %d", at, r.next)
	}
}

// survives lets a transaction be committed, or cost the owner its id: then number n is next,
// and is written again.
func (r *relay) survives(t *testing.T, result <-chan error, n int) {
	t.Helper()
	if err := soon(t, result, "the transaction does not end"); errors.Is(err, kafka.ErrLost) {
		r.takeOver(t)
		if r.next != n {
			t.Fatalf("goes on at %d, want %d", r.next, n)
		}
		r.wrote(t)
	} else if err != nil {
		t.Fatal(err)
	}
}

// shows wants the numbers below n to be seen, each once, and nothing else.
func (r *relay) shows(t *testing.T, n int) {
	t.Helper()
	var want, got []string
	for range 2 {
		for i := range n {
			want = append(want, fmt.Sprint(i))
		}
	}
	until(t, func() bool { // what is committed may be seen a moment later
		got = nil
		if err := r.client.Cat(t.Context(), r.out, func(m topics.Message) error { got = append(got, string(m.Value)); return nil }); err != nil {
			t.Fatal(err)
		}
		return len(got) >= len(want)
	})
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("both partitions (-want +got):\n%s", d)
	}
}

// transaction are the requests of one.
func transaction() []kmsg.Key {
	return []kmsg.Key{kmsg.AddPartitionsToTxn, kmsg.Produce, kmsg.AddOffsetsToTxn, kmsg.TxnOffsetCommit, kmsg.EndTxn}
}

// A request that took effect and whose answer was lost is asked again, and takes effect once.
func TestLostAnswer(t *testing.T) {
	lost := [][]kmsg.Key{{kmsg.EndTxn, kmsg.InitProducerID}, {kmsg.Produce, kmsg.TxnOffsetCommit, kmsg.EndTxn}}
	for _, key := range transaction() {
		lost = append(lost, []kmsg.Key{key})
	}
	for _, keys := range lost {
		var names []string
		for _, k := range keys {
			names = append(names, k.Name())
		}
		t.Run(strings.Join(names, " and "), func(t *testing.T) {
			p := proxied(t)
			r := newRelay(t, p.addresses)
			const n = 6
			for i := range n {
				var holds []*hold
				for _, k := range keys[:i%2*len(keys)] {
					holds = append(holds, p.hold(k))
				}
				result := r.write(t)
				for _, h := range holds {
					h.gets(t, loses)
				}
				r.done(t, result)
			}
			r.shows(t, n)
		})
	}
}

// A request that reaches the broker when its transaction has long ended, because it was asked
// again over another connection, changes nothing in the next one.
func TestLateRequest(t *testing.T) {
	for _, key := range transaction() {
		t.Run(key.Name(), func(t *testing.T) {
			refused := func(t *testing.T, late *hold) {
				t.Helper()
				if late.deliver(t) == 0 {
					t.Errorf("%s of an old transaction has come late, and is not refused", key.Name())
				}
			}
			begin := func(t *testing.T) (*proxy, *relay, *hold) {
				p := proxied(t)
				r := newRelay(t, p.addresses)
				r.wrote(t)
				late := p.hold(key)
				result := r.write(t)
				late.gets(t, waits)
				r.done(t, result)
				return p, r, late
			}
			t.Run("while the next is open", func(t *testing.T) {
				p, r, late := begin(t)
				end := p.hold(kmsg.EndTxn)
				result := r.write(t)
				end.has(t)
				refused(t, late)
				r.shows(t, 2)
				end.gets(t, passes)
				r.done(t, result)
				r.wrote(t)
				r.shows(t, 4)
			})
			t.Run("before the next begins", func(t *testing.T) {
				_, r, late := begin(t)
				refused(t, late)
				r.shows(t, 2)
				r.wrote(t)
				r.shows(t, 3)
			})
		})
	}
}

// Where it comes before the epoch has changed, it may cost the owner its id, and no more.
func TestLateRequestBeforeTheEpochChanges(t *testing.T) {
	for _, key := range transaction() {
		t.Run(key.Name(), func(t *testing.T) {
			p := proxied(t)
			r := newRelay(t, p.addresses)
			r.wrote(t)
			late, epoch := p.hold(key), p.hold(kmsg.InitProducerID)
			result := r.write(t)
			late.gets(t, waits)
			epoch.has(t)
			late.deliver(t)
			epoch.gets(t, passes)
			r.done(t, result)
			r.survives(t, r.write(t), 2)
			r.wrote(t)
			r.shows(t, 4)
		})
	}
}

// An owner that asks for its id late, after its successor has, takes it from that one, who
// loses what is open and is told.
func TestLateTakeover(t *testing.T) {
	p := proxied(t)
	r := newRelay(t, p.addresses)
	r.wrote(t)
	late := p.hold(kmsg.InitProducerID)
	former := make(chan error, 1)
	go func() {
		_, err := r.client.Transactor(t.Context(), r.id, kafka.None)
		former <- err
	}()
	late.has(t)
	r.takeOver(t)
	r.wrote(t)
	end := p.hold(kmsg.EndTxn)
	result := r.write(t)
	end.has(t)
	late.gets(t, passes)
	if err := soon(t, former, "the id is not taken over"); err != nil {
		t.Fatal(err)
	}
	end.gets(t, passes)
	if err := soon(t, result, "the transaction does not end"); !errors.Is(err, kafka.ErrLost) {
		t.Errorf("want ErrLost, got %v", err)
	}
	r.shows(t, 2)
	r.takeOver(t)
	if r.next != 2 {
		t.Errorf("goes on at %d, want 2", r.next)
	}
	r.wrote(t)
	r.shows(t, 3)
}

// A request for a new epoch that comes late may cost the owner its id too: what is open then
// takes effect whole or not at all, and the owner is told which.
func TestLateEpoch(t *testing.T) {
	p := proxied(t)
	r := newRelay(t, p.addresses)
	r.wrote(t)
	lost, late := p.hold(kmsg.EndTxn), p.hold(kmsg.InitProducerID)
	result := r.write(t)
	lost.gets(t, loses)
	late.gets(t, waits)
	r.done(t, result)
	end := p.hold(kmsg.EndTxn)
	result = r.write(t)
	end.has(t)
	late.deliver(t)
	end.gets(t, passes)
	r.survives(t, result, 2)
	r.wrote(t)
	r.shows(t, 4)
}

// A transaction that is open when its id is taken over is never seen, whatever its owner has
// yet to ask.
func TestTakeoverOfAnOpenTransaction(t *testing.T) {
	for _, key := range []kmsg.Key{kmsg.AddOffsetsToTxn, kmsg.Produce, kmsg.TxnOffsetCommit, kmsg.EndTxn} {
		t.Run(key.Name(), func(t *testing.T) {
			p := proxied(t)
			r := newRelay(t, p.addresses)
			r.wrote(t)
			former := r.sink
			next := p.hold(key)
			result := r.write(t)
			next.has(t)
			r.takeOver(t)
			if r.next != 1 {
				t.Fatalf("goes on at %d, want 1", r.next)
			}
			next.gets(t, passes)
			if err := soon(t, result, "the former owner is not told"); !errors.Is(err, kafka.ErrLost) {
				t.Errorf("former owner: want ErrLost, got %v", err)
			}
			zombie := kafka.Unit{Outputs: []kafka.Output{{To: kafka.TopicPartition{Topic: r.out}, Message: topics.Message{Value: []byte("zombie")}}}}
			if err := former.Put(t.Context(), zombie); !errors.Is(err, kafka.ErrLost) {
				t.Errorf("former owner again: want ErrLost, got %v", err)
			}
			r.shows(t, 1)
			r.wrote(t)
			r.wrote(t)
			r.shows(t, 3)
		})
	}
}

// An owner whose end of a transaction went unanswered, and who is then refused, cannot know
// whether it was committed: the offsets tell.
func TestTakeoverOfADoubtfulTransaction(t *testing.T) {
	for title, end := range map[string]struct {
		first fate
		next  int // where the successor goes on
	}{"that was committed": {loses, 2}, "that was not": {waits, 1}} {
		t.Run(title, func(t *testing.T) {
			p := proxied(t)
			r := newRelay(t, p.addresses)
			r.wrote(t)
			first, again := p.hold(kmsg.EndTxn), p.hold(kmsg.EndTxn)
			result := r.write(t)
			first.gets(t, end.first)
			again.has(t)
			r.takeOver(t)
			if r.next != end.next {
				t.Fatalf("goes on at %d, want %d", r.next, end.next)
			}
			again.gets(t, passes)
			if err := soon(t, result, "the former owner is not told"); !errors.Is(err, kafka.ErrUnknown) {
				t.Errorf("former owner: want ErrUnknown, got %v", err)
			}
			if end.first == waits {
				if code := first.deliver(t); code == 0 {
					t.Error("the end of a transaction that was taken over is not refused")
				}
			}
			r.shows(t, end.next)
			r.wrote(t)
			r.shows(t, end.next+1)
		})
	}
}

// Coordinators of the group and of the id that move within a transaction, be it with an
// answer on its way, are found again, and everything takes effect once.
func TestCoordinatorsMove(t *testing.T) {
	for _, key := range append(transaction(), kmsg.InitProducerID) {
		for title, f := range map[string]fate{"before": passes, "with the answer": loses} {
			t.Run(key.Name()+" "+title, func(t *testing.T) {
				p := proxiedFake(t, 3)
				r := newRelay(t, p.addresses)
				move := func() {
					group, id := p.cluster.CoordinatorFor(r.group), p.cluster.CoordinatorFor(r.id)
					for p.cluster.CoordinatorFor(r.group) == group || p.cluster.CoordinatorFor(r.id) == id {
						p.cluster.RehashCoordinators()
					}
				}
				for range 3 {
					r.wrote(t)
					h := p.hold(key)
					if key == kmsg.InitProducerID {
						lost := p.hold(kmsg.EndTxn) // for a new epoch
						result := r.write(t)
						lost.gets(t, loses)
						h.has(t)
						move()
						h.gets(t, f)
						r.done(t, result)
						continue
					}
					result := r.write(t)
					h.has(t)
					if f == passes { // it comes to one that no longer coordinates
						move()
						h.gets(t, f)
					} else {
						h.gets(t, f)
						soon(t, h.answers, "no answer")
						move()
					}
					r.done(t, result)
				}
				r.shows(t, 6)
			})
		}
	}
}

// Through connections that break all the time, with requests that come late or whose answers
// are lost, and owners that follow one another, each number is written once.
func TestUnreliableConnections(t *testing.T) {
	p := proxied(t)
	r := newRelay(t, p.addresses)
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("EVALSTREAM_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("EVALSTREAM_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0)) // the proxy's
	disturbed := append(transaction(), kmsg.InitProducerID)
	var lost, late, takeovers int
	p.disturb(func(key kmsg.Key) (fate, int) {
		if !slices.Contains(disturbed, key) {
			return passes, 0
		}
		switch rng.IntN(20) {
		case 0:
			lost++
			return loses, 0
		case 1:
			late++
			return waits, rng.IntN(60)
		}
		return passes, 0
	})
	owners := rand.New(rand.NewPCG(seed, 1))
	const n = 200
	for r.next < n {
		result := r.write(t)
		if owners.IntN(40) == 0 {
			takeovers++
			r.takeOver(t)
			continue
		}
		err := soon(t, result, "the transaction does not end")
		if errors.Is(err, kafka.ErrLost) || errors.Is(err, kafka.ErrUnknown) {
			takeovers++
			r.takeOver(t)
		} else if err != nil {
			t.Fatal(err)
		}
		if at := r.committed(t); at != int64(r.next) {
			t.Fatalf("offset %d is committed, want %d", at, r.next)
		}
	}
	p.disturb(nil) // what waits never comes
	t.Logf("%d answers lost, %d requests late, %d takeovers", lost, late, takeovers)
	r.takeOver(t) // whatever is open is ended
	r.shows(t, n)
}

// Members whose coordinators move, in the midst of transactions, copy each message once.
func TestOwnWhileCoordinatorsMove(t *testing.T) {
	b := fake(t, 3)
	c := connect(t, b.ListenAddrs())
	const partitions, n = 2, 240
	in, out, group := topic(t, c, partitions, nil), topic(t, c, partitions, nil), name("g")
	p := c.NewProducer(t.Context(), kafka.None)
	closing(t, p)
	want := make([][]string, partitions)
	var members []*member
	for range 2 {
		members = append(members, startMember(t, b.ListenAddrs(), group, in, out))
	}
	var ends atomic.Int64
	b.ControlKey(int16(kmsg.EndTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		if ends.Add(1)%3 == 0 { // the request itself then comes to one that no longer coordinates
			b.RehashCoordinators()
		}
		return nil, nil, false
	})
	for k := 0; k < n; k += 20 {
		var ms []topics.Message
		was := ends.Load()
		for i := range partitions {
			for j := k; j < k+20; j++ {
				want[i] = append(want[i], fmt.Sprintf("%d/%d", i, j))
				ms = append(ms, topics.Message{Partition: int32(i), Value: []byte(want[i][j])})
			}
		}
		if err := errors.Join(p.SendTo(t.Context(), in, ms...)...); err != nil {
			t.Fatal(err)
		}
		until(t, func() bool { return ends.Load() > was })
	}
	checkCopy(t, c, out, want)
	for _, m := range members {
		m.stop()
		if err := m.wait(); !errors.Is(err, context.Canceled) {
			t.Errorf("member ended with %v", err)
		}
	}
	t.Logf("%d ends of transactions", ends.Load())
}
