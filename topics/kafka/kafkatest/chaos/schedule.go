package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// An action is what the driver does to the members of a segment, or to the broker.
type action string

// The actions.
const (
	kill    action = "kill"    // kill -9 of a member, which starts again soon
	killAll action = "killall" // of all members of a segment at once
	pause   action = "pause"   // SIGSTOP for about the session timeout or longer, then SIGCONT
	term    action = "term"    // SIGTERM, and start again
	add     action = "add"     // one member more
	remove  action = "remove"  // SIGTERM, and no other in its place
	restart action = "restart" // of the broker, in order
	crash   action = "crash"   // kill -9 of the broker, which starts again
)

// actions are all of them and how often each is drawn.
func actions() map[action]int {
	return map[action]int{kill: 6, killAll: 1, pause: 5, term: 4, add: 3, remove: 3, restart: 1, crash: 1}
}

// An event is an action at a time of the round.
type event struct {
	at   time.Duration
	what action
	step int           // of the segment
	pick int           // among the members that it can be done to
	wait time.Duration // until a member starts again, or goes on
}

func (e event) String() string {
	return fmt.Sprintf("%.1fs %s %s", e.at.Seconds(), e.what, steps()[e.step])
}

// sessionTimeout is after how long a silent member is taken for dead.
const sessionTimeout = 10 * time.Second

// plan draws the events of a round of that length: first each action once, in some order,
// then more of them. The broker is restarted at most once in 30 seconds.
func plan(seed uint64, length time.Duration) []event {
	rng := rand.New(rand.NewPCG(seed, 2))
	const first, mean = 2 * time.Second, 3 * time.Second
	var names, weighted []action
	for a, weight := range actions() {
		names = append(names, a)
		for range weight {
			weighted = append(weighted, a)
		}
	}
	slices.Sort(names)
	slices.Sort(weighted)
	rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	var events []event
	broker := -30 * time.Second
	for at := first; at < length; at += mean/2 + time.Duration(rng.Float64()*float64(mean)) {
		e := event{at: at, step: rng.IntN(len(steps())), pick: rng.IntN(1 << 20), wait: time.Duration(rng.IntN(2500)) * time.Millisecond}
		if len(names) > 0 {
			e.what, names = names[0], names[1:]
		} else {
			e.what = weighted[rng.IntN(len(weighted))]
		}
		if e.what == restart || e.what == crash {
			if at-broker < 30*time.Second {
				e.what = kill
			} else {
				broker = at
			}
		}
		if e.what == pause {
			// From just before the others notice to long after they have taken over.
			e.wait = sessionTimeout*8/10 + time.Duration(rng.IntN(6000))*time.Millisecond
		}
		events = append(events, e)
	}
	return events
}
