package kafkatest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	franz "github.com/twmb/franz-go/pkg/kgo"

	"evalstream"
	"evalstream/topics"
	"evalstream/topics/kafka"
	"evalstream/topics/state"
)

// changelogTopic makes a topic that may be a changelog.
func changelogTopic(t testing.TB, c *kafka.Client, partitions int32, config map[string]string) string {
	t.Helper()
	n := name("changelog")
	conf := map[string]string{"cleanup.policy": "compact"}
	maps.Copy(conf, config)
	if _, err := c.CreateTopics(t.Context(), kafka.TopicSpec{Name: n, Partitions: partitions, Config: conf}); err != nil {
		t.Fatal(err)
	}
	return n
}

// inMemory is a store that is closed with the test.
func inMemory(t testing.TB) *state.Store {
	t.Helper()
	s, err := state.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func options(kv ...string) []evalstream.Option {
	var os []evalstream.Option
	for i := 0; i < len(kv); i += 2 {
		os = append(os, evalstream.Option{Name: kv[i], Value: kv[i+1]})
	}
	return os
}

// puts are changes of one step; the value "-" is a deletion.
func puts(step string, kv ...string) []evalstream.StepChanges {
	c := evalstream.StepChanges{Step: step}
	for i := 0; i < len(kv); i += 2 {
		e := evalstream.Change{Key: []byte(kv[i]), Val: []byte(kv[i+1])}
		if kv[i+1] == "-" {
			e.Val = nil
		}
		c.Changes = append(c.Changes, e)
	}
	return []evalstream.StepChanges{c}
}

// held are the entries of a store.
func held(t *testing.T, s *state.Store) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := s.Entries(func(partition int32, step string, key, val []byte) error {
		out[fmt.Sprintf("%d/%s/%s", partition, step, key)] = string(val)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// loading is a changelog with what is known of its loading.
type loading struct {
	*kafka.Changelog
	store   *state.Store
	cleared bool
	read    int64
}

func load(t *testing.T, c *kafka.Client, s *state.Store, opt kafka.ChangelogOptions) (*loading, error) {
	t.Helper()
	l := &loading{store: s}
	opt.Cache = s
	opt.Clear = func() error {
		l.cleared = true
		return s.Clear()
	}
	opt.Progress = func(n int64) { l.read = n }
	var err error
	l.Changelog, err = c.OpenChangelog(t.Context(), opt)
	return l, err
}

func mustLoad(t *testing.T, c *kafka.Client, s *state.Store, opt kafka.ChangelogOptions) *loading {
	t.Helper()
	l, err := load(t, c, s, opt)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// write commits changes; the cache has them too, but where the process ends before that.
func (l *loading) write(t *testing.T, sink *kafka.Sink, changes []evalstream.StepChanges, cp *evalstream.Checkpoint, killed bool) {
	t.Helper()
	out, err := l.Append(nil, changes, cp)
	if err != nil {
		t.Fatal(err)
	}
	err = sink.Put(t.Context(), kafka.Unit{Outputs: out, Log: out[0].To, Done: func(end int64) {
		if killed {
			return
		}
		if err := l.Apply(changes, cp, end); err != nil {
			t.Error(err)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
}

func drain(t *testing.T, s *kafka.Sink) {
	t.Helper()
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// extreme is a checkpoint with values that a careless encoding would not give back.
func extreme() *evalstream.Checkpoint {
	return &evalstream.Checkpoint{
		Next: 1<<63 - 1, Newest: evalstream.NoTime, Watermark: evalstream.EndOfTime, ToTick: -1,
		ByClass: map[evalstream.Class]int64{evalstream.ClassLate: 1<<53 + 1, evalstream.ClassTooLarge: 2},
		Places:  []evalstream.Place{{Origin: evalstream.Origin{Name: "t", Topic: true, Partition: 3}, Line: 1<<62 + 1, Records: 7}},
		Front:   []evalstream.Tally{{Step: "a", Kind: "b", Received: 9}},
	}
}

func TestChangelog(t *testing.T) {
	c := connect(t, cluster(t))
	opt := kafka.ChangelogOptions{Topic: changelogTopic(t, c, 3, nil), Partition: 2, Partitions: 3, Options: options("by", "run", "by", "kind", "k", "5")}
	id := name("tx")
	sink := kafka.NewSink(t.Context(), transactor(t, c, id), kafka.SinkOptions{})
	closing(t, sink)

	cache := inMemory(t)
	first := mustLoad(t, c, cache, opt)
	if cp := first.Checkpoint(); cp != nil {
		t.Fatalf("an empty changelog has the checkpoint %+v", cp)
	}
	first.write(t, sink, append(puts("score", "a", "1", "b", "2", "c\x00d", "", "gone", "x"), puts("merge", "a", "y")...), &evalstream.Checkpoint{Next: 1}, false)
	drain(t, sink)
	first.write(t, sink, puts("score", "b", "3", "gone", "-"), extreme(), false)
	drain(t, sink)
	transactor(t, c, id) // as each owner does before it loads: what was committed is there then
	want := map[string]string{"2/score/a": "1", "2/score/b": "3", "2/score/c\x00d": "", "2/merge/a": "y"}

	for _, s := range []*state.Store{cache, inMemory(t)} {
		l := mustLoad(t, c, s, opt)
		if d := cmp.Diff(want, held(t, s)); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(extreme(), l.Checkpoint()); d != "" {
			t.Error(d)
		}
		if cp, err := s.Checkpoint(2); err != nil || cmp.Diff(extreme(), cp) != "" {
			t.Errorf("the cache has the checkpoint %+v, error %v", cp, err)
		}
		if wantRead := int64(9); s == cache && l.read != 1 || s != cache && l.read != wantRead || l.cleared {
			t.Errorf("read %d messages, cleared %v; want the last checkpoint alone from a cache, and %d without", l.read, l.cleared, wantRead)
		}
	}

	// Other partitions are their own.
	opt.Partition = 0
	if l := mustLoad(t, c, inMemory(t), opt); l.Checkpoint() != nil || l.read != 0 {
		t.Errorf("partition 0 has %d messages, and the checkpoint %+v", l.read, l.Checkpoint())
	}
	opt.Partition = 2

	refused := func(opt kafka.ChangelogOptions, part string) {
		t.Helper()
		_, err := load(t, c, inMemory(t), opt)
		wantExit(t, err, evalstream.ExitState, part)
	}
	with := opt
	with.Options = options("k", "5", "by", "run", "by", "kind")
	mustLoad(t, c, inMemory(t), with) // the order of names does not count
	with.Options = options("by", "run", "k", "6", "gold", "x")
	refused(with, "by was run, kind and is run; k was 5 and is 6; gold is x and was not given")
	with = opt
	with.Partitions = 4
	refused(with, "topic has 3 partitions, its inputs have 4")
}

func wantExit(t *testing.T, err error, code int, part string) {
	t.Helper()
	e, ok := errors.AsType[*evalstream.ExitError](err)
	if !ok || e.Code != code || e.Hint == "" || !strings.Contains(err.Error(), part) {
		t.Errorf("got error %v (exit %d), want %q (exit %d) and a hint", err, evalstream.ExitCode(err), part, code)
	}
}

// A cache that is not that of the changelog as it is now is made again, and one that
// is, is not.
func TestChangelogCache(t *testing.T) {
	c := connect(t, cluster(t))
	fill := func(opt kafka.ChangelogOptions, values ...string) *state.Store {
		t.Helper()
		id := name("tx")
		sink := kafka.NewSink(t.Context(), transactor(t, c, id), kafka.SinkOptions{})
		closing(t, sink)
		s := inMemory(t)
		l := mustLoad(t, c, s, opt)
		for i, v := range values {
			l.write(t, sink, puts("s", v, v), &evalstream.Checkpoint{Next: evalstream.Seq(i + 1)}, false)
			drain(t, sink)
		}
		transactor(t, c, id)
		return s
	}
	f := func(what string, s *state.Store, opt kafka.ChangelogOptions, cleared bool, want ...string) {
		t.Helper()
		l := mustLoad(t, c, s, opt)
		entries := map[string]string{}
		for _, v := range want {
			entries[fmt.Sprintf("%d/s/%s", opt.Partition, v)] = v
		}
		if d := cmp.Diff(entries, held(t, s)); d != "" || l.cleared != cleared {
			t.Errorf("%s: cleared %v, want %v; entries: %s", what, l.cleared, cleared, d)
		}
	}
	opt := func() kafka.ChangelogOptions {
		return kafka.ChangelogOptions{Topic: changelogTopic(t, c, 2, nil), Partitions: 2, Options: options("k", "1")}
	}

	a := opt()
	s := fill(a, "1", "2", "3")
	f("as it was", s, a, false, "1", "2", "3")
	fill(a, "4")
	f("behind", s, a, false, "1", "2", "3", "4")
	b := opt()
	fill(b, "x")
	f("another topic", s, b, true, "x")
	b.Options = options("k", "2")
	_, err := load(t, c, s, b)
	wantExit(t, err, evalstream.ExitState, "k was 1 and is 2")

	again := func(topic string) {
		t.Helper()
		if err := c.DeleteTopics(t.Context(), topic); err != nil {
			t.Fatal(err)
		}
		// A deletion is answered before all of it is done.
		for deadline := time.Now().Add(30 * time.Second); ; {
			made, err := c.CreateTopics(t.Context(), kafka.TopicSpec{Name: topic, Partitions: 2, Config: map[string]string{"cleanup.policy": "compact"}})
			if err == nil && len(made) == 1 {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("topic is not made again: %v", err)
			}
		}
	}
	d := opt()
	s = fill(d, "1", "2", "3")
	again(d.Topic)
	f("made again and empty", s, d, true)
	s = fill(d, "1", "2", "3")
	again(d.Topic)
	fill(d, "4", "5", "6", "7", "8") // the position is in it
	f("made again and longer", s, d, true, "4", "5", "6", "7", "8")

	e := kafka.ChangelogOptions{Topic: changelogTopic(t, c, 2, map[string]string{"delete.retention.ms": "1"}), Partitions: 2}
	s = fill(e, "1")
	wait(t, 10*time.Millisecond)
	f("deletions may be forgotten", s, e, true, "1")

	// A load that was broken off leaves entries and no position.
	s = inMemory(t)
	if err := s.Commit(0, puts("s", "half", "x"), &evalstream.Checkpoint{}); err != nil {
		t.Fatal(err)
	}
	f("half loaded", s, e, true, "1")

	p := kafka.ChangelogOptions{Topic: topic(t, c, 1, map[string]string{"cleanup.policy": "delete"}), Partitions: 1}
	_, err = load(t, c, inMemory(t), p)
	wantExit(t, err, evalstream.ExitState, "want cleanup.policy=compact, got delete")
}

// The last checkpoint is found without the rest, whatever lies behind it, and is that of a
// load.
func TestCheckChangelog(t *testing.T) {
	c := connect(t, cluster(t))
	opt := kafka.ChangelogOptions{Topic: changelogTopic(t, c, 2, nil), Partition: 1, Partitions: 2, Options: options("k", "1")}
	id := name("tx")
	check := func(opt kafka.ChangelogOptions, part string) {
		t.Helper()
		err := c.CheckChangelog(t.Context(), opt)
		if part == "" {
			if err != nil {
				t.Error(err)
			}
			return
		}
		wantExit(t, err, evalstream.ExitState, part)
	}
	other := opt
	other.Options = options("k", "2")
	check(other, "") // there is nothing yet
	sink := kafka.NewSink(t.Context(), transactor(t, c, id), kafka.SinkOptions{})
	closing(t, sink)
	l := mustLoad(t, c, inMemory(t), opt)
	var kv []string
	for i := range 500 {
		kv = append(kv, fmt.Sprint(i), strings.Repeat("x", 100))
	}
	l.write(t, sink, puts("s", kv...), &evalstream.Checkpoint{Next: 1}, false)
	drain(t, sink)
	refused := "state was made with other options: k was 1 and is 2"
	check(opt, "")
	check(other, refused)

	tp := kafka.TopicPartition{Topic: opt.Topic, Partition: 1}
	entries := make([]topics.Message, 100)
	for i := range entries {
		entries[i] = topics.Message{Key: fmt.Appendf(nil, "s\x00%d", i), Value: []byte("v")}
	}
	aborted := kafka.Transaction{
		Messages: map[kafka.TopicPartition][]topics.Message{tp: entries}, Offsets: map[kafka.TopicPartition]int64{tp: 1},
		Group: name("g"), Member: kafka.Member{ID: "nobody", Generation: 7},
	}
	for range 3 {
		if _, err := transactor(t, c, id).Commit(t.Context(), aborted); !errors.Is(err, kafka.ErrLost) {
			t.Fatalf("want ErrLost, got %v", err)
		}
	}
	tr := transactor(t, c, id)
	check(opt, "")
	check(other, refused)
	other.Partitions = 3
	check(other, "topic has 2 partitions, its inputs have 3")

	commit(t, tr, kafka.Transaction{Messages: map[kafka.TopicPartition][]topics.Message{tp: entries}})
	transactor(t, c, id)
	check(opt, "100 entries without a checkpoint behind them")
}

// What is no changelog is refused, with its place.
func TestForeignChangelog(t *testing.T) {
	c := connect(t, cluster(t))
	id := name("tx")
	f := func(part string, ms ...topics.Message) {
		t.Helper()
		opt := kafka.ChangelogOptions{Topic: changelogTopic(t, c, 1, nil), Partitions: 1}
		commit(t, transactor(t, c, id), kafka.Transaction{Messages: map[kafka.TopicPartition][]topics.Message{{Topic: opt.Topic}: ms}})
		transactor(t, c, id)
		_, err := load(t, c, inMemory(t), opt)
		wantExit(t, err, evalstream.ExitState, part)
		if !strings.Contains(part, "has the key") { // what a key says is read by a load alone
			wantExit(t, c.CheckChangelog(t.Context(), opt), evalstream.ExitState, part)
		}
	}
	m := func(key, value string) topics.Message { return topics.Message{Key: []byte(key), Value: []byte(value)} }
	f(`message at offset 0 has the key "k", which is no entry's`, m("k", "v"))
	f(`has the key "\x00k"`, m("\x00k", "v"))
	f(`has the key "\x00"`, m("\x00", "v"))
	f("2 entries without a checkpoint behind them", m("s\x00a", "v"), m("s\x00b", "v"))
	f("checkpoint at offset 1 cannot be read", m("s\x00a", "v"), m("\x00checkpoint", "{"))
	f("want format 1 to 2, got 3", m("\x00checkpoint", `{"format":3}`))
	f("state was made with 3 partitions, there are 1", m("\x00checkpoint", `{"format":1,"id":"x","partitions":3,"checkpoint":{}}`))
	f("is not whole", m("\x00checkpoint", `{"format":1,"id":"x","partitions":1,"checkpoint":null}`))
	f("cannot be read", topics.Message{Key: []byte("\x00checkpoint")})
}

// An entry that the topic cannot take is found before anything is written.
func TestChangelogTooLarge(t *testing.T) {
	c := connect(t, cluster(t))
	opt := kafka.ChangelogOptions{Topic: changelogTopic(t, c, 1, map[string]string{"max.message.bytes": "100000"}), Partitions: 1}
	l := mustLoad(t, c, inMemory(t), opt)
	_, err := l.Append(nil, puts("s", "small", "x", "large", strings.Repeat("x", 100_000)), &evalstream.Checkpoint{})
	wantExit(t, err, evalstream.ExitLost, `entry "s\x00large": `+opt.Topic+": record of 100")
	var tooLarge *kafka.TooLargeError
	if !errors.As(err, &tooLarge) || tooLarge.Limit != 100_000 {
		t.Errorf("want a *TooLargeError, got %v", err)
	}
	if _, err := l.Append(nil, puts("s", "fits", strings.Repeat("x", 99_000)), &evalstream.Checkpoint{}); err != nil {
		t.Error(err)
	}
}

// However a process ends, and whichever cache the next one has, the state is that of
// the last transaction.
func TestChangelogAfterKills(t *testing.T) {
	c := connect(t, cluster(t))
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	opt := kafka.ChangelogOptions{Topic: changelogTopic(t, c, 1, nil), Partitions: 1}
	id := name("tx")
	caches := []*state.Store{inMemory(t), inMemory(t)} // of two members
	want := map[string]string{}
	next := evalstream.Seq(0)
	for range 15 {
		sink := kafka.NewSink(t.Context(), transactor(t, c, id), kafka.SinkOptions{MaxRecords: 20})
		cache := caches[rng.IntN(len(caches))]
		l := mustLoad(t, c, cache, opt)
		if l.cleared {
			t.Error("a cache was of no use")
		}
		if next > 0 && l.Checkpoint().Next != next {
			t.Fatalf("checkpoint is at %d, want %d", l.Checkpoint().Next, next)
		}
		if d := cmp.Diff(want, held(t, cache)); d != "" {
			t.Fatal(d)
		}
		n := rng.IntN(30)
		killed := rng.IntN(n + 1) // from this unit on nothing reaches the cache
		for i := range n {
			var kv []string
			for range rng.IntN(8) {
				k, v := fmt.Sprint(rng.IntN(40)), fmt.Sprint(rng.Int64())
				if rng.IntN(3) == 0 {
					v = "-"
					delete(want, "0/s/"+k)
				} else {
					want["0/s/"+k] = v
				}
				kv = append(kv, k, v)
			}
			next++
			l.write(t, sink, puts("s", kv...), &evalstream.Checkpoint{Next: next}, i >= killed)
		}
		drain(t, sink)
		if err := sink.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A changelog is not loaded while a transaction is open in it: that of a former owner may
// be seen in the group's offsets already, and not here yet.
func TestChangelogWaitsForTransactions(t *testing.T) {
	b := cluster(t)
	c := connect(t, b)
	opt := kafka.ChangelogOptions{Topic: changelogTopic(t, c, 1, nil), Partitions: 1}
	id := name("tx")
	sink := kafka.NewSink(t.Context(), transactor(t, c, id), kafka.SinkOptions{})
	closing(t, sink)
	mustLoad(t, c, inMemory(t), opt).write(t, sink, puts("score", "a", "1"), &evalstream.Checkpoint{Next: 1}, false)
	drain(t, sink)
	former, err := franz.NewClient(franz.SeedBrokers(b...), franz.TransactionalID(name("former")), franz.RecordPartitioner(franz.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer former.Close()
	if err := former.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := former.ProduceSync(t.Context(), &franz.Record{Topic: opt.Topic, Key: []byte("score\x00a"), Value: []byte("2")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	store := inMemory(t)
	loaded := make(chan error, 1)
	go func() {
		_, err := load(t, c, store, opt)
		loaded <- err
	}()
	select {
	case err := <-loaded:
		t.Fatalf("loaded while a transaction is open, error %v: %v", err, held(t, store))
	case <-time.After(300 * time.Millisecond): // the time in which one with nothing open is loaded many times
	}
	if err := former.EndTransaction(t.Context(), franz.TryAbort); err != nil {
		t.Fatal(err)
	}
	if err := <-loaded; err != nil {
		t.Fatal(err)
	}
	if got := held(t, store)["0/score/a"]; got != "1" {
		t.Errorf("entry %q, want 1", got)
	}
}
