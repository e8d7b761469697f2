package cli

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestSignals(t *testing.T) {
	ch := make(chan os.Signal)
	drained := make(chan struct{}, 2)
	var notice strings.Builder
	ctx, s := watch(t.Context(), func() { drained <- struct{}{} }, &notice, ch)
	if s.Code() != 0 {
		t.Errorf("code %d before any signal", s.Code())
	}
	ch <- syscall.SIGPIPE
	ch <- syscall.SIGTERM
	<-drained
	if s.Code() != 143 {
		t.Errorf("code %d after SIGTERM, want 143", s.Code())
	}
	if ctx.Err() != nil {
		t.Error("first signal ended the context")
	}
	ch <- syscall.SIGINT
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), ErrStoppedAtOnce) {
		t.Errorf("cause %v, want ErrStoppedAtOnce", context.Cause(ctx))
	}
	if s.Code() != 143 {
		t.Errorf("code %d after SIGTERM and SIGINT, want 143", s.Code())
	}
	s.Stop()
	if n := strings.Count(notice.String(), "\n"); n != 1 || len(drained) != 0 {
		t.Errorf("notice %q, drained %d times more; want one line and one drain", notice.String(), len(drained))
	}
}

func TestRealSignal(t *testing.T) {
	drained := make(chan struct{})
	ctx, s := Watch(t.Context(), func() { close(drained) }, nil)
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	<-drained
	if s.Code() != 130 {
		t.Errorf("code %d after SIGINT, want 130", s.Code())
	}
	s.Stop()
	if ctx.Err() == nil {
		t.Error("context goes on after Stop")
	}
}
