package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// brokers are those that deploy/kafka/broker runs.
type brokers struct {
	control string
	seeds   []string
}

func (b brokers) run(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, b.control, args...).Output()
	if err != nil {
		return "", fmt.Errorf("broker %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// crash kills broker number k, from 1, and starts it again.
func (b brokers) crash(ctx context.Context, k int) error {
	return b.between(ctx, func() error {
		text, err := b.run(ctx, "pid", strconv.Itoa(k))
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
	})
}

// restart ends broker number k in order and starts it again.
func (b brokers) restart(ctx context.Context, k int) error {
	return b.between(ctx, func() error {
		_, err := b.run(ctx, "restart", strconv.Itoa(k))
		return err
	})
}

// logs copies what the brokers and their controller have told so far.
func (b brokers) logs(ctx context.Context, dir string) error {
	whose := []string{"controller"}
	for k := range b.seeds {
		whose = append(whose, strconv.Itoa(k+1))
	}
	for _, k := range whose {
		text, err := b.run(ctx, "log", k)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "broker."+k+".log"), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// between does something to a broker while the others have all that it has. Where a
// partition has no leader, Kafka 4.4.0 takes it for deleted, and ends the transactions
// that have written to it without their markers.
func (b brokers) between(ctx context.Context, do func() error) error {
	if err := b.whole(ctx); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return b.whole(ctx)
}

// whole waits until each partition has a leader and all its replicas in sync.
func (b brokers) whole(ctx context.Context) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(b.seeds...), kgo.AlwaysRetryEOF())
	if err != nil {
		return err
	}
	defer c.Close()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = nil
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for late := time.Now().Add(time.Minute); ; {
		res, err := req.RequestWith(ctx, c)
		lacks := fmt.Sprint(err)
		if err == nil {
			lacks = lacking(res)
		}
		if lacks == "" {
			return nil
		}
		if time.Now().After(late) {
			return fmt.Errorf("broker: not whole after a minute: %s", lacks)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lacking names a partition that lacks a leader or a replica; "" if none does.
func lacking(m *kmsg.MetadataResponse) string {
	for _, t := range m.Topics {
		for _, p := range t.Partitions {
			if p.Leader < 0 || len(p.ISR) < len(p.Replicas) {
				return fmt.Sprintf("%s[%d] has leader %d and %v of %v in sync", *t.Topic, p.Partition, p.Leader, p.ISR, p.Replicas)
			}
		}
	}
	return ""
}
