package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// A broker is the one that deploy/kafka/broker runs.
type broker struct{ control string }

func (b broker) run(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, b.control, args...).Output()
	if err != nil {
		return "", fmt.Errorf("broker %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// crash kills the broker and starts it again.
func (b broker) crash(ctx context.Context) error {
	text, err := b.run(ctx, "pid")
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("broker pid: %w", err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("broker: kill %d: %w", pid, err)
	}
	_, err = b.run(ctx, "start")
	return err
}
