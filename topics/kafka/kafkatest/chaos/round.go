package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"evalstream/topics/kafka"
)

// A round is one pipeline, from its empty topics to the checks of what they hold.
type round struct {
	program string
	brokers brokers
	dir     string // kept if something is wrong
	seed    uint64
	length  time.Duration // of the disturbances
	rate    int           // lines a second
}

// An outcome is what a round has seen.
type outcome struct {
	seed       uint64
	apart      bool // gold in a topic of its own
	lines      int  // of input
	rejects    int
	scores     int
	before     int // scores that were there when the disturbances ended
	did        map[action]int
	members    int // processes that were started
	commits    int // transactions with offsets
	markers    int // of ended transactions, on the pipeline's own topics
	aborts     int // of those
	took       time.Duration
	violations []violation
}

// apart says which rounds have gold in a topic of its own.
func apart(seed uint64) bool { return seed%2 == 1 }

// command is the program with these arguments. At the end of ctx it says where its
// goroutines are. It dies with the thread that starts it.
func command(ctx context.Context, program string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, program, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGQUIT) }
	c.WaitDelay = 5 * time.Second
	return c
}

// run runs the round. An error says that it could not be run; what it has found is in
// the outcome.
func (r *round) run(ctx context.Context) (*outcome, error) {
	began := time.Now()
	// The broker may still have the topics of another session.
	f := flow{name: fmt.Sprintf("chaos-%d-%x", r.seed, began.UnixMilli()), brokers: r.brokers.seeds, apart: apart(r.seed)}
	out := &outcome{seed: r.seed, apart: f.apart}
	yaml := filepath.Join(r.dir, "pipeline.yaml")
	if err := os.WriteFile(yaml, []byte(f.yaml()), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(r.dir, "events.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	if told, err := command(ctx, r.program, "topics", "create", "--partitions", fmt.Sprint(partitions), yaml).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("topics create: %w\n%s", err, told)
	}
	ledger := reader{r.brokers.seeds}
	offsetsFrom, err := ledger.offsetsEnds(ctx)
	if err != nil {
		return nil, err
	}

	fed, feedingEnds := make(chan error, 1), time.Now().Add(r.length*9/10)
	go func() { fed <- r.feed(ctx, f, feedingEnds) }()
	watched, unwatch := context.WithCancel(ctx)
	defer unwatch()
	go r.watch(watched, ledger, f, began, log)
	d := &driver{program: r.program, dir: r.dir, yaml: yaml, brokers: r.brokers, log: log}
	defer d.end()
	if err := d.run(ctx, plan(r.seed, r.length, len(r.brokers.seeds)), r.length); err != nil {
		return nil, err
	}
	if err := <-fed; err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	rng := rand.New(rand.NewPCG(r.seed, 3))
	if err := d.stop(ctx, rng); err != nil {
		return nil, err
	}
	out.before, err = r.count(ctx, ledger, f.topic("scored"))
	if err != nil {
		return nil, err
	}
	if err := d.finish(ctx, rng.IntN(2) == 0); err != nil {
		return nil, err
	}
	out.did, out.violations = d.did, d.faults
	for _, s := range d.slots {
		out.members += s.times
	}
	if err := r.check(ctx, ledger, f, out); err != nil {
		// Without its end the pipeline has not written what there is to check.
		if len(out.violations) == 0 {
			return nil, err
		}
		fmt.Fprintln(log, err)
	}
	if len(out.violations) > 0 {
		held, err := ledger.open(ctx, slices.Concat(f.topics(), f.changelogs()))
		if err != nil {
			return nil, err
		}
		out.violations = append(out.violations, held...)
	}
	if out.commits, err = ledger.transactions(ctx, offsetsFrom); err != nil {
		return nil, err
	}
	out.took = time.Since(began)
	if len(out.violations) == 0 {
		err = r.forget(ctx, f)
	}
	return out, err
}

// feed writes the input of the round, spread over the time until ends, whatever happens
// to the broker.
func (r *round) feed(ctx context.Context, f flow, ends time.Time) error {
	begins := time.Now()
	inputs := generate(r.seed, int(ends.Sub(begins).Seconds()*float64(r.rate)))
	c, err := kgo.NewClient(kgo.SeedBrokers(r.brokers.seeds...), kgo.AlwaysRetryEOF(), kgo.RecordPartitioner(kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
		return func(rec *kgo.Record, _ int) int { return int(rec.Partition) }
	})))
	if err != nil {
		return err
	}
	defer c.Close()
	const bite = 50 * time.Millisecond
	tick := time.NewTicker(bite)
	defer tick.Stop()
	for sent := 0; sent < len(inputs); {
		share := min(1, time.Since(begins).Seconds()/ends.Sub(begins).Seconds())
		var recs []*kgo.Record
		for ; sent < int(share*float64(len(inputs))); sent++ {
			in := inputs[sent]
			rec := &kgo.Record{Topic: f.topic("predictions"), Partition: in.partition, Value: []byte(in.line)}
			if f.apart && in.gold {
				// Gold is not repartitioned, so it comes in the partition of its route.
				rec.Topic, rec.Key, rec.Partition = f.topic("qrels"), []byte(in.key), kafka.Partition([]byte(in.key), partitions)
			}
			recs = append(recs, rec)
		}
		// Whatever becomes of the broker: what comes twice by this is one repeat more.
		for len(recs) > 0 && ctx.Err() == nil {
			var again []*kgo.Record
			for _, res := range c.ProduceSync(ctx, recs...) {
				if res.Err != nil {
					again = append(again, res.Record)
				}
			}
			recs = again
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// watch tells now and then how far the pipeline is.
func (*round) watch(ctx context.Context, ledger reader, f flow, began time.Time, log io.Writer) {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var far []string
		for _, name := range f.topics() {
			timed, cancel := context.WithTimeout(ctx, time.Second)
			_, stable, err := ledger.ends(timed, name, partitions)
			cancel()
			if err != nil { // the broker is away
				far = append(far, "?")
				continue
			}
			far = append(far, fmt.Sprintf("%s %v", strings.TrimPrefix(name, f.name+"."), stable))
		}
		fmt.Fprintf(log, "%6.1fs ends: %s\n", time.Since(began).Seconds(), strings.Join(far, " "))
	}
}

// count is how many scores are there.
func (*round) count(ctx context.Context, ledger reader, topic string) (n int, err error) {
	all, stable, err := ledger.ends(ctx, topic, partitions)
	if err != nil {
		return 0, err
	}
	_ = all // what is open does not count
	l, err := ledger.read(ctx, topic, nil, stable)
	if err != nil {
		return 0, err
	}
	for p := range l.partitions {
		n += len(l.data(p))
	}
	return n, nil
}

// check reads the topics and adds what is wrong to the outcome.
func (r *round) check(ctx context.Context, ledger reader, f flow, out *outcome) error {
	logs := map[string]*topicLog{}
	for _, name := range f.topics() {
		l, err := ledger.whole(ctx, name)
		if errors.Is(err, errHeld) {
			out.violations = append(out.violations, violation{"transactions", err.Error()})
			return nil
		}
		if err != nil {
			return err
		}
		logs[name] = l
		out.markers += l.commits + l.aborts
		out.aborts += l.aborts
	}
	scored := logs[f.topic("scored")]
	for _, name := range f.sources() {
		for n := range logs[name].partitions {
			out.lines += len(logs[name].data(n))
		}
	}
	for n := range scored.partitions {
		out.scores += len(scored.data(n))
	}
	for n := range logs[f.topic("rejects")].partitions {
		out.rejects += len(logs[f.topic("rejects")].data(n))
	}
	found, err := checkTopics(ctx, pipe{program: r.program, dir: r.dir}, f, logs, "")
	out.violations = append(out.violations, found...)
	return err
}

// checkTopics runs the checks, or only the one of that name.
func checkTopics(ctx context.Context, p pipe, f flow, logs map[string]*topicLog, only string) (found []violation, err error) {
	runs, scored := logs[f.topic("runs")], logs[f.topic("scored")]
	check := func(name string, of func() ([]violation, error)) {
		if err != nil || only != "" && only != name {
			return
		}
		var vs []violation
		vs, err = of()
		found = append(found, vs...)
	}
	check("runs", func() ([]violation, error) { return checkRuns(ctx, p, logs[f.topic("predictions")], runs) })
	check("scored", func() ([]violation, error) {
		if f.apart {
			return checkScoresOf(ctx, runs, logs[f.topic("qrels")], scored)
		}
		return checkScores(ctx, p, runs, scored)
	})
	check("partials", func() ([]violation, error) { return checkPartials(ctx, p, scored, logs[f.topic("partials")]) })
	check("results", func() ([]violation, error) {
		var sources []*topicLog
		for _, name := range f.sources() {
			sources = append(sources, logs[name])
		}
		return checkResults(ctx, p, sources, logs[f.topic("results")])
	})
	check("rejects", func() ([]violation, error) { return checkRejects(ctx, p, f, logs) })
	return found, err
}

// forget deletes the topics of the pipeline, those that it made for itself too.
func (r *round) forget(ctx context.Context, f flow) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(r.brokers.seeds...))
	if err != nil {
		return err
	}
	defer c.Close()
	all := kmsg.NewPtrMetadataRequest()
	all.Topics = nil
	known, err := all.RequestWith(ctx, c)
	if err != nil {
		return err
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	for _, t := range known.Topics {
		if t.Topic != nil && strings.HasPrefix(*t.Topic, f.name+".") {
			one := kmsg.NewDeleteTopicsRequestTopic()
			one.Topic = t.Topic
			req.Topics, req.TopicNames = append(req.Topics, one), append(req.TopicNames, *t.Topic)
		}
	}
	_, err = req.RequestWith(ctx, c)
	return err
}

// report writes what was found wrong.
func (o *outcome) report(w io.Writer, dir string) {
	const most = 5 // of each check
	counts := map[string]int{}
	for _, v := range o.violations {
		if counts[v.check]++; counts[v.check] <= most {
			fmt.Fprintf(w, "chaos: seed %d: %s: %s\n", o.seed, v.check, v.text)
		}
	}
	for check, n := range counts {
		if n > most {
			fmt.Fprintf(w, "chaos: seed %d: %s: %d more\n", o.seed, check, n-most)
		}
	}
	fmt.Fprintf(w, "chaos: seed %d: what was done, and what each process told, is in %s; again with SEED=%d\n", o.seed, dir, o.seed)
}
