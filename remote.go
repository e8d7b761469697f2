package evalstream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Remote is a stateless stage whose work is done elsewhere: it waits more than it
// computes, and it can fail for reasons that pass.
//
// There is one instance a job, and Process is called from up to Limits().InFlight
// goroutines at once, with a batch that the runner has formed. What it emits is its
// own for ever: it is not reused. Every record of a batch is either emitted (once or
// more) or rejected (once), in the order of the batch, with the Seq that it came with.
//
// An error means that the batch has no result. If its tree has a Temporary() bool
// method that says true, the call is made again, after at least what a
// RetryAfter() time.Duration method says. Otherwise, or when the attempts or the
// deadline are spent, the batch is cut in halves that are tried alone, until one
// record is left, which is rejected with class remote. Where the error has a TooLarge()
// bool method that says true, and both halves are then taken, no later batch is larger
// than a half. An [ExitError] in the tree is
// about the endpoint and not about a record: it ends the job, once it is not
// temporary any more.
type Remote interface {
	Stage
	// Limits is called once.
	Limits() Limits
	// Size is what a record adds to its batch, in bytes.
	Size(rec *Record) int
}

// Limits bound the calls of a Remote. A zero field takes its default.
type Limits struct {
	Records  int           // in a batch; 32
	Bytes    int           // in a batch, of what Size says; a larger record is a batch of its own; 256 KiB
	Linger   time.Duration // longest wait of a batch that is not full for records of other blocks; 0: none
	Deadline time.Duration // of a batch, over all its attempts; 2 minutes
	InFlight int           // calls at once; 4
	Retry    Retry
}

// Retry says when a call is made again: attempt n waits a random part of
// min(Max, Base·2ⁿ) (full jitter), or as long as the endpoint asked for.
type Retry struct {
	Attempts int           // in all; 6
	Base     time.Duration // 250 ms
	Max      time.Duration // 30 s
	Seed     uint64        // of the jitter
	// GiveUp is how many records in a row may fail, with no success of any call in
	// between, before the endpoint is taken to be lost; 16.
	GiveUp int
}

func (l Limits) withDefaults() Limits {
	l.Records = orInt(l.Records, 32)
	l.Bytes = orInt(l.Bytes, 256<<10)
	l.InFlight = orInt(l.InFlight, 4)
	l.Retry.Attempts = orInt(l.Retry.Attempts, 6)
	l.Retry.GiveUp = orInt(l.Retry.GiveUp, 16)
	l.Deadline = orSpan(l.Deadline, 2*time.Minute)
	l.Retry.Base = orSpan(l.Retry.Base, 250*time.Millisecond)
	l.Retry.Max = orSpan(l.Retry.Max, 30*time.Second)
	return l
}

func orInt(n, standby int) int {
	if n <= 0 {
		return standby
	}
	return n
}

func orSpan(d, standby time.Duration) time.Duration {
	if d <= 0 {
		return standby
	}
	return d
}

// remote runs the calls of one Remote for all workers of a job.
type remote struct {
	step   Step
	stage  Remote
	limits Limits
	slots  chan struct{} // one a call in flight
	tell   func(step string, now Calls)
	most   atomic.Int64 // records in a batch that the endpoint is known to take

	mu     sync.Mutex
	calls  Calls
	dice   *rand.Rand
	open   *batch // not full, waits for more
	failed int    // records in a row
	tally  Tally
}

func newRemote(step Step, stage Remote, tell func(step string, now Calls)) *remote {
	l := stage.Limits().withDefaults()
	r := &remote{
		step: step, stage: stage, limits: l, tell: tell, tally: Tally{Kind: "record"},
		slots: make(chan struct{}, l.InFlight),
		dice:  rand.New(rand.NewPCG(l.Retry.Seed, 0x72656d6f7465)),
	}
	r.most.Store(int64(l.Records))
	return r
}

// moved changes how the calls stand, and says so.
func (r *remote) moved(change func(now *Calls)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.calls)
	if r.tell != nil {
		r.tell(r.step.Name, r.calls)
	}
}

// batch is the records of one call, which may come from several blocks. A record's
// Seq is its place in the batch while it is being called for.
type batch struct {
	recs  []Record
	bytes int
	full  chan struct{} // closed when nothing more will be added; nil if nobody waits for that
	done  chan struct{} // closed when outs and err are set
	outs  []result      // one a record
	err   error
}

// result is what came of one record.
type result struct {
	recs    []Record
	rejects []Reject
}

// part is the piece of a batch that belongs to one block.
type part struct {
	b        *batch
	from, to int
}

// process runs the records of one block. All batches of the block are in flight at
// once as far as there are slots; it returns when none of its records is.
func (r *remote) process(ctx context.Context, in []Record, out *Out) error {
	r.moved(func(now *Calls) { now.Records += int64(len(in)) })
	parts, mine := r.batches(in)
	var wg sync.WaitGroup
	for _, b := range mine {
		wg.Go(func() { r.run(ctx, b) })
	}
	wg.Wait()
	var errs []error
	for _, p := range parts {
		<-p.b.done
		if p.b.err != nil {
			errs = append(errs, p.b.err)
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("%s: %w", r.step.Name, errs[0])
	}
	i, passed := 0, 0
	for _, p := range parts {
		for _, res := range p.b.outs[p.from:p.to] {
			if len(res.recs) > 0 {
				passed++
			}
			for _, rec := range res.recs {
				rec.Seq = in[i].Seq
				out.Emit(rec)
			}
			for _, rej := range res.rejects {
				out.Reject(in[i].Seq, rej.Fault)
			}
			i++
		}
	}
	r.mu.Lock()
	r.tally.Received += int64(len(in))
	r.tally.Passed += int64(passed)
	r.tally.Rejected += int64(len(in) - passed)
	r.mu.Unlock()
	return nil
}

// Tallies accounts for the records of all workers.
func (r *remote) Tallies() []Tally { return []Tally{r.tally} }

// Counters are the stage's own, and what was learned of the endpoint.
func (r *remote) Counters() []Counter {
	var cs []Counter
	if c, ok := r.stage.(Counted); ok {
		cs = c.Counters()
	}
	if most := r.most.Load(); most < int64(r.limits.Records) {
		cs = append(cs, Counter{Name: "records in a batch, since more were too large", N: most})
	}
	return cs
}

// batches cuts a block's records into batches. The last one, if it is not full, joins
// the batch that waits for more, or becomes it. mine are those that the caller runs.
func (r *remote) batches(in []Record) (parts []part, mine []*batch) {
	most := int(r.most.Load())
	for len(in) > 0 {
		n, size := 0, 0
		for n < len(in) && n < most {
			s := r.stage.Size(&in[n])
			if n > 0 && size+s > r.limits.Bytes {
				break
			}
			size += s
			n++
		}
		if n == len(in) && r.limits.Linger > 0 && n < most && size < r.limits.Bytes {
			p, isNew := r.join(in, size)
			parts = append(parts, p)
			if isNew {
				mine = append(mine, p.b)
			}
			return parts, mine
		}
		b := newBatch(in[:n], size)
		parts = append(parts, part{b: b, to: n})
		mine = append(mine, b)
		in = in[n:]
	}
	return parts, mine
}

func newBatch(recs []Record, size int) *batch {
	b := &batch{bytes: size, done: make(chan struct{})}
	b.add(recs)
	return b
}

func (b *batch) add(recs []Record) {
	for _, rec := range recs {
		rec.Seq = Seq(len(b.recs))
		b.recs = append(b.recs, rec)
	}
}

// join adds recs to the open batch, or opens one for them; whoever opens a batch
// runs it.
func (r *remote) join(recs []Record, size int) (p part, isNew bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.open
	most := int(r.most.Load())
	if b != nil && (len(b.recs)+len(recs) > most || b.bytes+size > r.limits.Bytes) {
		r.close(b)
		b = nil
	}
	if b == nil {
		b = newBatch(nil, 0)
		b.full = make(chan struct{})
		r.open, isNew = b, true
	}
	from := len(b.recs)
	b.add(recs)
	b.bytes += size
	if len(b.recs) >= most {
		r.close(b)
	}
	return part{b: b, from: from, to: len(b.recs)}, isNew
}

// close lets the batch go. r.mu is held.
func (r *remote) close(b *batch) {
	if r.open == b {
		r.open = nil
		close(b.full)
	}
}

// run waits until the batch is complete, and makes its call.
func (r *remote) run(ctx context.Context, b *batch) {
	defer close(b.done)
	if b.full != nil {
		linger := time.NewTimer(r.limits.Linger)
		select {
		case <-b.full:
		case <-linger.C:
		case <-ctx.Done():
		}
		linger.Stop()
		r.mu.Lock()
		r.close(b)
		r.mu.Unlock()
	}
	b.outs = make([]result, len(b.recs))
	select {
	case r.slots <- struct{}{}:
		r.moved(func(now *Calls) { now.InFlight++ })
		defer func() {
			<-r.slots
			r.moved(func(now *Calls) { now.InFlight, now.Settled = now.InFlight-1, now.Settled+int64(len(b.recs)) })
		}()
	case <-ctx.Done():
		b.err = context.Cause(ctx)
		return
	}
	_, b.err = r.settle(ctx, b, b.recs)
}

// settle gets a result for each of recs, a piece of b. No error means that it has, and
// whole that one call gave all of them.
func (r *remote) settle(ctx context.Context, b *batch, recs []Record) (whole bool, err error) {
	if len(recs) > int(r.most.Load()) { // the batch was made before that was known
		_, _, err = r.halves(ctx, b, recs)
		return false, err
	}
	var out Out
	err = r.attempt(ctx, recs, &out)
	if err == nil {
		if err = b.take(recs, &out); err != nil {
			return false, err
		}
		return true, r.count(b.outs[recs[0].Seq : int(recs[0].Seq)+len(recs)])
	}
	if cause := context.Cause(ctx); cause != nil {
		return false, cause
	}
	if _, exit := errors.AsType[*ExitError](err); exit {
		return false, err
	}
	if len(recs) > 1 {
		// If both halves are taken whole it was their number or length, and not one
		// record, that was too large.
		first, second, halvesErr := r.halves(ctx, b, recs)
		if first && second && tooLarge(err) {
			r.learn(int64(len(recs) - len(recs)/2))
		}
		return false, halvesErr
	}
	at := recs[0].Seq
	b.outs[at] = result{rejects: []Reject{{Seq: at, Fault: Fault{Class: ClassRemote, Reason: err.Error()}}}}
	return false, r.count(b.outs[at : at+1])
}

// halves settles the two halves of recs, each by itself.
func (r *remote) halves(ctx context.Context, b *batch, recs []Record) (first, second bool, err error) {
	half := len(recs) / 2
	if first, err = r.settle(ctx, b, recs[:half]); err != nil {
		return first, false, err
	}
	second, err = r.settle(ctx, b, recs[half:])
	return first, second, err
}

// learn makes no batch larger than n records from now on.
func (r *remote) learn(n int64) {
	for {
		have := r.most.Load()
		if n >= have || r.most.CompareAndSwap(have, n) {
			return
		}
	}
}

// take sorts what a call made by the record that caused it.
func (b *batch) take(recs []Record, out *Out) error {
	first, last := recs[0].Seq, recs[len(recs)-1].Seq
	for _, rec := range out.Records {
		if rec.Seq < first || rec.Seq > last {
			return errors.New("BUG: emitted a record that was not in the batch")
		}
		b.outs[rec.Seq].recs = append(b.outs[rec.Seq].recs, rec)
	}
	for _, rej := range out.Rejects {
		if rej.Seq < first || rej.Seq > last {
			return errors.New("BUG: rejected a record that was not in the batch")
		}
		b.outs[rej.Seq].rejects = append(b.outs[rej.Seq].rejects, rej)
	}
	for at := first; at <= last; at++ {
		if len(b.outs[at].recs)+len(b.outs[at].rejects) == 0 {
			return errors.New("BUG: neither emitted nor rejected a record of the batch")
		}
	}
	return nil
}

// count tells a bad record from an endpoint that gives nothing usable.
func (r *remote) count(results []result) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, res := range results {
		if len(res.recs) > 0 {
			r.failed = 0
			continue
		}
		f := res.rejects[0].Fault
		if f.Class != ClassRemote {
			continue
		}
		if r.failed++; r.failed >= r.limits.Retry.GiveUp {
			return &ExitError{
				Code: ExitLost, Err: fmt.Errorf("%d records in a row had no answer; the last: %w", r.failed, &f),
				Hint: "try the endpoint by hand; what was answered is in the log, if there is one, and is not asked again",
			}
		}
	}
	return nil
}

// temporary reports whether the error may pass.
func temporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

// tooLarge reports whether the error says that there was too much in one call.
func tooLarge(err error) bool {
	var t interface{ TooLarge() bool }
	return errors.As(err, &t) && t.TooLarge()
}

// attempt makes the call until it succeeds, fails for good, or attempts or deadline
// are spent.
func (r *remote) attempt(ctx context.Context, recs []Record, out *Out) error {
	within, cancel := context.WithTimeout(ctx, r.limits.Deadline)
	defer cancel()
	end, _ := within.Deadline()
	for n := 0; ; n++ {
		out.Reset()
		err := r.stage.Process(within, recs, out)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case within.Err() != nil:
			return fmt.Errorf("no answer within %v (attempt %d): %w", r.limits.Deadline, n+1, err)
		case !temporary(err):
			return err
		case n+1 >= r.limits.Retry.Attempts:
			return fmt.Errorf("%d attempts: %w", n+1, err)
		}
		wait := r.backoff(n, err)
		if time.Until(end) <= wait {
			return fmt.Errorf("no answer within %v (attempt %d, the next not before %v): %w", r.limits.Deadline, n+1, wait.Round(100*time.Millisecond), err)
		}
		if err := r.rest(ctx, wait); err != nil {
			return err
		}
	}
}

// rest waits before a call is made again.
func (r *remote) rest(ctx context.Context, wait time.Duration) error {
	r.moved(func(now *Calls) { now.Resting, now.Retries = now.Resting+1, now.Retries+1 })
	defer r.moved(func(now *Calls) { now.Resting-- })
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// backoff is how long to wait before attempt n+1.
func (r *remote) backoff(n int, err error) time.Duration {
	bound := r.limits.Retry.Max
	if n < 30 && r.limits.Retry.Base<<n < bound {
		bound = r.limits.Retry.Base << n
	}
	r.mu.Lock()
	wait := time.Duration(r.dice.Int64N(int64(bound) + 1))
	r.mu.Unlock()
	var asked interface{ RetryAfter() time.Duration }
	if errors.As(err, &asked) {
		// Those who were sent away together must not come back together.
		if d := asked.RetryAfter(); d > 0 {
			wait = d + time.Duration(float64(wait)/10)
		}
	}
	return wait
}
