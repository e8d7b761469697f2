//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// usage is what one run of a client cost.
type usage struct {
	wall   float64 // seconds from start to end of the process
	cpu    float64 // user and system seconds of it and its children
	broker float64 // of the broker meanwhile
	rss    float64 // MiB at the peak
	rate   float64 // messages a second, by wall or by the client's own count
	stdout string
}

// measure runs a client to its end. n messages are its work.
func (b *bench) measure(ctx context.Context, n int, name string, args ...string) (usage, error) {
	before, err := b.brokerCPU(ctx)
	if err != nil {
		return usage{}, err
	}
	p, err := b.start(ctx, name, args...)
	if err != nil {
		return usage{}, err
	}
	u, err := p.wait()
	if err != nil {
		return u, err
	}
	after, err := b.brokerCPU(ctx)
	u.broker, u.rate = after-before, float64(n)/u.wall
	return u, err
}

// process is a client that runs.
type process struct {
	cmd            *exec.Cmd
	began          time.Time
	stdout, stderr bytes.Buffer
}

func (*bench) start(ctx context.Context, name string, args ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, name, args...)}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.began = time.Now()
	return p, p.cmd.Start()
}

// wait waits for the end, which must be exit code 0 or the one that SIGTERM brings.
func (p *process) wait() (usage, error) {
	err := p.cmd.Wait()
	wall := time.Since(p.began)
	const terminated = 128 + int(syscall.SIGTERM)
	if err != nil && p.cmd.ProcessState.ExitCode() != terminated {
		return usage{}, fmt.Errorf("%s: %w\n%s", strings.Join(p.cmd.Args, " "), err, p.stderr.Bytes())
	}
	u := usage{
		wall: wall.Seconds(), stdout: p.stdout.String(),
		cpu: (p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()).Seconds(),
	}
	if r, ok := p.cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		u.rss = float64(r.Maxrss) / 1024
	}
	return u, nil
}

// terminate asks for the end, and says how long that took.
func (p *process) terminate() (usage, time.Duration, error) {
	begin := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return usage{}, 0, err
	}
	u, err := p.wait()
	return u, time.Since(begin), err
}
