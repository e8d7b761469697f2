package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// ErrStoppedAtOnce is the cause of a context that a second signal has ended.
var ErrStoppedAtOnce = errors.New("stopped at once by a second signal")

// Signals turns SIGINT and SIGTERM into an orderly end: the first drains, the second
// ends the context.
type Signals struct {
	first  atomic.Int32
	cancel context.CancelCauseFunc
	ch     chan os.Signal
	stop   chan struct{}
	done   chan struct{}
}

// Watch handles signals until Stop. drain is called on the first one, from another
// goroutine, and must return soon; notice, which may be nil, gets a line then. The
// context that is returned ends with ctx, on the second signal, and with Stop.
//
// While it watches, a write to a pipe without reader returns EPIPE on standard output
// too, and does not kill the program.
func Watch(ctx context.Context, drain func(), notice io.Writer) (context.Context, *Signals) {
	ch := make(chan os.Signal, 4)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE)
	return watch(ctx, drain, notice, ch)
}

func watch(ctx context.Context, drain func(), notice io.Writer, ch chan os.Signal) (context.Context, *Signals) {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &Signals{cancel: cancel, ch: ch, stop: make(chan struct{}), done: make(chan struct{})}
	go s.run(drain, notice)
	return ctx, s
}

func (s *Signals) run(drain func(), notice io.Writer) {
	defer close(s.done)
	for {
		select {
		case <-s.stop:
			return
		case sig := <-s.ch:
			number, ok := sig.(syscall.Signal)
			switch {
			case !ok || number == syscall.SIGPIPE:
			case s.first.CompareAndSwap(0, int32(number)):
				if notice != nil {
					fmt.Fprintln(notice, "evalstream: finishing what was read; the same signal again stops at once")
				}
				drain()
			default:
				s.cancel(ErrStoppedAtOnce)
			}
		}
	}
}

// Code is the exit code that a signal asks for: 130 after SIGINT, 143 after SIGTERM, 0
// if there was none. Of two signals the first counts.
func (s *Signals) Code() int {
	if n := s.first.Load(); n != 0 {
		return 128 + int(n)
	}
	return 0
}

// Stop ends the watch, so that signals kill the program again. Call it once, when all
// output is written.
func (s *Signals) Stop() {
	signal.Stop(s.ch)
	close(s.stop)
	<-s.done
	s.cancel(nil)
}
