package kafka

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

const (
	// outageBegins is how long something may take before people are told: coordinators of
	// new groups, topics just made and transactions just ended take a moment.
	outageBegins = 5 * time.Second
	outageAgain  = time.Minute
)

// outages tells people what is waited for, however many wait for it: once when that has
// taken a while, once a minute, and once when it is over.
type outages struct {
	log     *slog.Logger
	brokers string

	mu sync.Mutex
	of map[string]*outage
}

// outage is one thing that is waited for.
type outage struct {
	begin, last time.Time // of its failures
	told        time.Time // zero: not yet
}

// brokersAway is what is waited for where connections fail, whatever they were for.
const brokersAway = "brokers"

func newOutages(conf *Config) *outages {
	return &outages{log: conf.log(), brokers: strings.Join(conf.Brokers, ","), of: map[string]*outage{}}
}

// wait is one who may have to wait. It belongs to one goroutine.
type wait struct {
	on    *outages
	about string
	began time.Time
	what  string // is waited for; "" if nothing has failed yet
}

func (o *outages) wait(about string) wait { return wait{on: o, about: about, began: time.Now()} }

// failed notes a failure that may pass.
func (w *wait) failed(ctx context.Context, err error) {
	what := w.about
	if brokenLink(err) {
		what = brokersAway
	}
	w.what = what
	o, now := w.on, time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	one := o.of[what]
	if one == nil || now.Sub(one.last) > outageAgain { // nobody was there to see the last one end
		one = &outage{begin: w.began}
		o.of[what] = one
	}
	one.last = now
	if now.Sub(one.begin) < outageBegins || !one.told.IsZero() && now.Sub(one.told) < outageAgain {
		return
	}
	one.told = now
	o.log.WarnContext(ctx, "waiting", "for", what, "brokers", o.brokers, "since", now.Sub(one.begin).Round(time.Second), "because", err)
}

// over notes that what was waited for has come.
func (w *wait) over(ctx context.Context) {
	if w.what == "" {
		return
	}
	o := w.on
	o.mu.Lock()
	defer o.mu.Unlock()
	one := o.of[w.what]
	delete(o.of, w.what)
	w.what = ""
	if one != nil && !one.told.IsZero() {
		o.log.InfoContext(ctx, "going on", "with", w.about, "brokers", o.brokers, "after", time.Since(one.begin).Round(time.Second))
	}
}
