package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A slot is a place for one member of a segment, with a state directory of its own if
// it has one: whoever takes the place finds what the one before left there.
type slot struct {
	step   string
	number int
	member *member // nil: nobody
	times  int     // how many have had it
}

func (s *slot) String() string { return fmt.Sprintf("%s.%d", s.step, s.number) }

// up says that a member is there and nobody has asked it to end.
func (s *slot) up() bool { return s.member != nil && s.member.as == running }

// A standing is what was done to a member last.
type standing int

const (
	running standing = iota
	stopped          // by SIGSTOP
	leaving          // by SIGTERM
	killed           // by SIGKILL
)

// A member is a process that runs one segment.
type member struct {
	slot   *slot
	cmd    *exec.Cmd
	as     standing
	asked  time.Time // when it was asked to leave
	again  bool      // another one follows it
	began  time.Time
	slept  time.Duration // by SIGSTOP
	stderr string        // file
}

// ended is what a member's exit says.
type ended struct {
	*member
	state *os.ProcessState
}

// start starts a member; its end goes to exits. It must be called by the thread that
// lives longest: the kernel kills a member when the thread that started it ends, so
// that none outlives the test.
func start(program, dir, yaml string, s *slot, exits chan<- ended) (*member, error) {
	s.times++
	m := &member{slot: s, began: time.Now(), stderr: filepath.Join(dir, fmt.Sprintf("%s.%d.stderr", s, s.times))}
	args := []string{"run", "--only", s.step}
	if s.number%2 == 0 {
		args = append(args, "--state", filepath.Join(dir, "state", s.String()))
	}
	told, err := os.Create(m.stderr)
	if err != nil {
		return nil, err
	}
	defer told.Close()
	//nolint:noctx // its end is up to the driver
	m.cmd = exec.Command(program, append(args, yaml)...)
	m.cmd.Stdout, m.cmd.Stderr = told, told
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := m.cmd.Start(); err != nil {
		return nil, err
	}
	s.member = m
	go func() {
		_ = m.cmd.Wait()
		exits <- ended{m, m.cmd.ProcessState}
	}()
	return m, nil
}

func (m *member) signal(s syscall.Signal) {
	// A process that has just ended is told by its exit.
	_ = m.cmd.Process.Signal(s)
}

// deaf is how long a process that starts may not yet listen to signals, on a machine
// where others have much to do.
const deaf = 15 * time.Second

// lost says that the member found no broker when it started.
func (e ended) lost() bool { return e.as == running && e.state.ExitCode() == 4 }

// fault says what is wrong with the exit, "" if it is as it should be.
func (e ended) fault() string {
	status, ok := e.state.Sys().(syscall.WaitStatus)
	if !ok {
		return "exit of no Unix process"
	}
	switch {
	case e.as == killed && status.Signaled():
		return ""
	case e.as == leaving && status.Exited() && status.ExitStatus() == 128+int(syscall.SIGTERM):
		return ""
	case e.as == leaving && status.Signaled() && status.Signal() == syscall.SIGTERM && e.asked.Sub(e.began) < deaf:
		return ""
	case e.as == leaving:
		return fmt.Sprintf("%s: %s after SIGTERM, want exit status 143; %s", e.slot, e.state, e.last())
	}
	return fmt.Sprintf("%s: ended by itself: %s; %s", e.slot, e.state, e.last())
}

// last is the end of what the member told.
func (m *member) last() string {
	told, err := os.ReadFile(m.stderr)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(told)), "\n")
	return fmt.Sprintf("the end of %s:\n    %s", m.stderr, strings.Join(lines[max(0, len(lines)-8):], "\n    "))
}
