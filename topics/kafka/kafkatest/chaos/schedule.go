package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// An action is what the driver does to the members of a segment, or to a broker.
type action string

// The actions.
const (
	kill    action = "kill"    // kill -9 of a member, which starts again soon
	killAll action = "killall" // of all members of a segment at once
	pause   action = "pause"   // SIGSTOP for about the session timeout or longer, then SIGCONT
	term    action = "term"    // SIGTERM, and start again
	add     action = "add"     // one member more
	remove  action = "remove"  // SIGTERM, and no other in its place
	crash   action = "crash"   // kill -9 of a broker, which starts again
	restart action = "restart" // of a broker, which hands over what it leads
)

// weights are what is done to members beside pauses, and how often each is drawn.
func weights() map[action]int {
	return map[action]int{kill: 5, killAll: 1, term: 4, add: 4, remove: 2}
}

// An event is an action at a time of the round.
type event struct {
	at   time.Duration
	what action
	step int           // of the segment
	pick int           // among the members that it can be done to, or the brokers
	wait time.Duration // until a member starts again, or goes on
}

func (e event) String() string {
	return fmt.Sprintf("%.1fs %s %s", e.at.Seconds(), e.what, steps()[e.step])
}

// sessionTimeout is after how long a silent member is taken for dead.
const sessionTimeout = 10 * time.Second

// plan draws the events of a round of that length: first each of what is done to members
// once, in some order, then more of them. Beside these come pauses, in time to end within
// the round, and the brokers, one after the other, are killed and restarted. One that is
// alone is not restarted: see brokers.between.
func plan(seed uint64, length time.Duration, brokers int) []event {
	rng := rand.New(rand.NewPCG(seed, 2))
	const first, gap, more = 3 * time.Second, 3 * time.Second, 2 * time.Second
	var names, weighted []action
	for a, weight := range weights() {
		names = append(names, a)
		weighted = append(weighted, slices.Repeat([]action{a}, weight)...)
	}
	slices.Sort(names)
	slices.Sort(weighted)
	rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	within := func(d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }
	var events []event
	for at := first; at < length; at += gap + within(more) {
		e := event{at: at, step: rng.IntN(len(steps())), pick: rng.IntN(1 << 20), wait: within(2500 * time.Millisecond)}
		if len(names) > 0 {
			e.what, names = names[0], names[1:]
		} else {
			e.what = weighted[rng.IntN(len(weighted))]
		}
		events = append(events, e)
	}
	what, pick := []action{crash, restart}, rng.IntN(2)
	if brokers == 1 {
		what = what[:1]
	}
	for at, n := 5*time.Second+within(5*time.Second), 0; at < length; at, n = at+13*time.Second+within(7*time.Second), n+1 {
		if n%len(what) == 0 {
			rng.Shuffle(len(what), func(i, j int) { what[i], what[j] = what[j], what[i] })
		}
		events = append(events, event{at: at, what: what[n%len(what)], pick: pick + n})
	}
	const longest = sessionTimeout + 4*time.Second
	for at := first; at+longest < length; at += 2*gap + within(3*more) {
		events = append(events, event{
			at: at, what: pause, step: rng.IntN(len(steps())), pick: rng.IntN(1 << 20),
			// From just before the others notice to long after they have taken over.
			wait: sessionTimeout*9/10 + within(longest-sessionTimeout*9/10),
		})
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	return events
}
