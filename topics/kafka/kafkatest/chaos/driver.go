package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"time"
)

// How many members a segment has at the start, and at most.
const (
	membersFirst = 2
	membersMost  = 3
)

// patience is how long a member may take to end after SIGTERM, and the last run to reach
// the ends of its topics.
const patience = 90 * time.Second

// startPatience is how soon a member that starts without a broker ends.
const startPatience = 20 * time.Second

// A driver does to the members of a pipeline what the plan says. It belongs to one
// goroutine, on the thread that lives longest.
type driver struct {
	program, dir, yaml string
	brokers            brokers
	log                io.Writer

	began  time.Time
	slots  []*slot
	exits  chan ended
	ready  chan error // what became of a broker's restart
	busy   bool       // a broker is being restarted
	back   time.Time  // when one was last
	todo   []task
	did    map[action]int
	faults []violation
}

// A task is something to do later.
type task struct {
	at time.Time
	do func(context.Context) error
}

func (d *driver) tell(format string, args ...any) {
	fmt.Fprintf(d.log, "%6.1fs %s\n", time.Since(d.began).Seconds(), fmt.Sprintf(format, args...))
}

// run starts the members and does what is planned until the round is over.
func (d *driver) run(ctx context.Context, events []event, length time.Duration) error {
	d.began, d.did = time.Now(), map[action]int{}
	d.exits, d.ready = make(chan ended, len(steps())*membersMost), make(chan error, 1)
	for _, step := range steps() {
		for n := range membersMost {
			s := &slot{step: step, number: n}
			d.slots = append(d.slots, s)
			if n < membersFirst {
				if err := d.start(s); err != nil {
					return err
				}
			}
		}
	}
	for _, e := range events {
		d.after(e.at, func(ctx context.Context) error { return d.act(ctx, e) })
	}
	err := d.loop(ctx, func() bool { return time.Since(d.began) >= length })
	return errors.Join(err, ctx.Err())
}

// loop does what is to be done until over says so or ctx ends.
func (d *driver) loop(ctx context.Context, over func() bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !over() && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case e := <-d.exits:
			d.exited(e)
		case err := <-d.ready:
			d.busy, d.back = false, time.Now()
			if err != nil {
				return err
			}
			d.tell("broker is back, with all that it has")
		case now := <-tick.C:
			for len(d.todo) > 0 && !d.todo[0].at.After(now) {
				t := d.todo[0]
				d.todo = d.todo[1:]
				if err := t.do(ctx); err != nil {
					return err
				}
			}
			d.overdue(now)
		}
	}
	return nil
}

func (d *driver) after(wait time.Duration, do func(context.Context) error) {
	at := time.Now().Add(wait)
	i, _ := slices.BinarySearchFunc(d.todo, at, func(t task, at time.Time) int { return t.at.Compare(at) })
	d.todo = slices.Insert(d.todo, i, task{at, do})
}

func (d *driver) start(s *slot) error {
	if d.away() { // whoever starts members waits for the broker, but cannot always know
		d.after(time.Second, func(context.Context) error {
			if s.member != nil {
				return nil
			}
			return d.start(s)
		})
		return nil
	}
	m, err := start(d.program, d.dir, d.yaml, s, d.exits)
	if err == nil {
		d.tell("%s starts as process %d", s, m.cmd.Process.Pid)
	}
	return err
}

// away says that no broker is there.
func (d *driver) away() bool { return d.busy && len(d.brokers.seeds) == 1 }

// candidates are the places of a segment for which f is true.
func (d *driver) candidates(step int, f func(*slot) bool) (of []*slot) {
	for _, s := range d.slots {
		if s.step == steps()[step] && f(s) {
			of = append(of, s)
		}
	}
	return of
}

// act does what an event says, if there is anything to do it to.
func (d *driver) act(ctx context.Context, e event) error {
	up := d.candidates(e.step, (*slot).up)
	free := d.candidates(e.step, func(s *slot) bool { return s.member == nil })
	if e.what == crash || e.what == restart {
		d.disturb(ctx, e)
		return nil
	}
	if e.what == add && len(free) > 0 {
		d.did[add]++
		return d.start(free[0])
	}
	if len(up) == 0 || e.what == add || e.what == remove && len(up) == 1 {
		return nil
	}
	d.did[e.what]++
	one := up[e.pick%len(up)]
	switch e.what {
	case kill:
		d.kill(one, e.wait)
	case killAll:
		for _, s := range up {
			d.kill(s, e.wait)
		}
	case pause:
		d.tell("%s pauses for %v", one, e.wait)
		m := one.member
		m.as = stopped
		m.signal(syscall.SIGSTOP)
		d.after(e.wait, func(context.Context) error {
			if m.as == stopped {
				d.tell("%s goes on", one)
				m.as, m.slept = running, m.slept+e.wait
				m.signal(syscall.SIGCONT)
			}
			return nil
		})
	case term, remove:
		d.leave(one, e.what == term)
	}
	return nil
}

func (d *driver) kill(s *slot, wait time.Duration) {
	d.tell("%s is killed", s)
	s.member.as = killed
	s.member.signal(syscall.SIGKILL)
	d.after(wait, func(context.Context) error {
		if s.member != nil {
			return nil
		}
		return d.start(s)
	})
}

func (d *driver) leave(s *slot, again bool) {
	d.tell("%s must leave", s)
	s.member.as, s.member.again, s.member.asked = leaving, again, time.Now()
	s.member.signal(syscall.SIGTERM)
}

// disturb takes a broker away and brings it back; what comes meanwhile comes later.
func (d *driver) disturb(ctx context.Context, e event) {
	if d.busy {
		d.after(time.Second, func(ctx context.Context) error { return d.act(ctx, e) })
		return
	}
	d.busy = true
	d.did[e.what]++
	do, k := d.brokers.crash, 1+e.pick%len(d.brokers.seeds)
	if e.what == restart {
		do = d.brokers.restart
	}
	d.tell("broker %d: %s", k, e.what)
	// An end of the round must not leave a broker that is half started.
	go func() { d.ready <- do(context.WithoutCancel(ctx), k) }()
}

func (d *driver) exited(e ended) {
	d.tell("%s has ended: %s", e.slot, e.state)
	e.slot.member = nil
	if e.lost() && (d.away() || len(d.brokers.seeds) == 1 && e.began.Before(d.back) || e.slept > 0) && time.Since(e.began)-e.slept < startPatience {
		// A start without a broker, or without time to reach it, ends; whoever supervises
		// it tries again.
		e.again = true
	} else if fault := e.fault(); fault != "" {
		d.faults = append(d.faults, violation{"members", fault})
	}
	if e.again {
		d.after(time.Second, func(context.Context) error {
			if e.slot.member != nil {
				return nil
			}
			return d.start(e.slot)
		})
	}
}

// overdue ends members that do not leave, and lets them say where they are.
func (d *driver) overdue(now time.Time) {
	for _, s := range d.slots {
		if m := s.member; m != nil && m.as == leaving && now.Sub(m.asked) > patience {
			d.faults = append(d.faults, violation{"members", fmt.Sprintf("%s: has not ended %v after SIGTERM; its goroutines are at the end of %s", s, patience, m.stderr)})
			m.as = killed
			m.signal(syscall.SIGQUIT)
			d.after(2*time.Second, func(context.Context) error { m.signal(syscall.SIGKILL); return nil })
		}
	}
}

// stop ends all members, some in order and some not, and waits for the broker.
func (d *driver) stop(ctx context.Context, rng *rand.Rand) error {
	d.todo = nil
	for _, s := range d.slots {
		m := s.member
		if m == nil {
			continue
		}
		m.again = false
		if m.as == stopped {
			m.as = running
			m.signal(syscall.SIGCONT)
		}
		if m.as != running {
			continue
		}
		if rng.IntN(3) == 0 {
			d.tell("%s is killed", s)
			m.as = killed
			m.signal(syscall.SIGKILL)
		} else {
			d.leave(s, false)
		}
	}
	err := d.loop(ctx, func() bool {
		return !d.busy && !slices.ContainsFunc(d.slots, func(s *slot) bool { return s.member != nil })
	})
	return errors.Join(err, ctx.Err())
}

// end kills what is left, whatever has happened before.
func (d *driver) end() {
	for _, s := range d.slots {
		if s.member != nil {
			s.member.as = killed
			s.member.signal(syscall.SIGKILL)
		}
	}
	for slices.ContainsFunc(d.slots, func(s *slot) bool { return s.member != nil }) {
		e := <-d.exits
		e.slot.member = nil
	}
	if d.busy {
		d.tell("broker: %v", <-d.ready)
	}
}

// finish runs the pipeline to the ends of its topics: one process for each segment, or
// one for all of them.
func (d *driver) finish(ctx context.Context, apart bool) error {
	only := [][]string{nil}
	if apart {
		only = nil
		for _, s := range steps() {
			only = append(only, []string{"--only", s})
		}
	}
	type result struct {
		file string
		err  error
	}
	results := make(chan result)
	timed, cancel := context.WithCancel(ctx)
	defer cancel()
	for i, args := range only {
		file := fmt.Sprintf("%s/finish.%d.stderr", d.dir, i)
		told, err := os.Create(file)
		if err != nil {
			return err
		}
		defer told.Close()
		c := command(timed, d.program, append(append([]string{"run", "--until-end"}, args...), d.yaml)...)
		c.Stdout, c.Stderr = told, told
		if err := c.Start(); err != nil {
			return err
		}
		go func() { results <- result{file, c.Wait()} }()
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	for left := len(only); left > 0; {
		select {
		case r := <-results:
			left--
			if r.err != nil && timed.Err() == nil {
				m := member{stderr: r.file}
				d.faults = append(d.faults, violation{"members", fmt.Sprintf("run --until-end: %v; %s", r.err, m.last())})
			}
		case <-late.C:
			d.faults = append(d.faults, violation{"members", fmt.Sprintf("run --until-end: has not ended in %v; its goroutines are at the ends of %s/finish.*.stderr", patience, d.dir)})
			cancel()
		}
	}
	d.tell("finished")
	return ctx.Err()
}
