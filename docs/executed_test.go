//go:build docs

// Package docs_test runs the commands that README.md and the files of docs/ show, and compares what they print.
//
// A fenced block tagged console is a session: a line "$ command" is run by bash, the lines after it are the output, standard
// error included. A command goes on while its line ends in a backslash. A line … alone stands for any number of lines, and one …
// within a line for any text; spaces at the end of a line do not count. "console exit=3" wants that exit code of the block's last
// command; every other command must end with 0. Each command starts in a copy of the repository that the blocks of one document
// share, with the binary built from this tree first on PATH and the variables that the commands before it have exported. What a
// document leaves running is ended after it.
//
// "console kafka" blocks need a Kafka broker, which their document starts by deploy/kafka/broker; they are run with -kafka, and
// then they alone.
package docs_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	update = flag.Bool("update", false, "rewrite the output shown in the documents")
	kafka  = flag.Bool("kafka", false, "run the blocks that need a Kafka broker, and them alone")
)

const (
	anyLines   = "…"
	runAtMost  = 2 * time.Minute
	blockStart = "```console"
	blockEnd   = "```"
)

func TestDocuments(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, "evalstream"), "./cmd/evalstream")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build ./cmd/evalstream: %v\n%s", err, out)
	}

	// A test that is told to stop still ends what the documents have started.
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	more, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append([]string{filepath.Join(root, "README.md")}, more...) {
		name, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			src, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			blocks, err := parseBlocks(string(src))
			if err != nil {
				t.Fatalf("%s:%v", name, err)
			}
			all := blocks
			blocks = slices.Clone(all)
			blocks = slices.DeleteFunc(blocks, func(b block) bool { return b.kafka != *kafka })
			if len(blocks) == 0 {
				if name == "README.md" {
					t.Fatalf("%s: want a block tagged console, got none", name)
				}
				return
			}
			work := t.TempDir()
			sh := &shell{dir: work, bin: bin, variables: filepath.Join(t.TempDir(), "variables")}
			t.Cleanup(sh.end)
			if *kafka {
				sh.useBroker(t, root)
			}
			if err := copyRepository(work, root); err != nil {
				t.Fatal(err)
			}
			updated := false
			for _, b := range all {
				if b.kafka != *kafka {
					continue
				}
				for i := range b.sessions {
					s := &b.sessions[i]
					got, code, err := sh.run(ctx, s.command)
					if err != nil {
						t.Fatalf("%s:%d: $ %s: %v", name, s.line, s.command, err)
					}
					want := 0
					if i == len(b.sessions)-1 {
						want = b.exit
					}
					if code != want {
						t.Errorf("%s:%d: $ %s\nwant exit code %d, got %d, output:\n%s", name, s.line, s.command, want, code, strings.Join(got, "\n"))
						continue
					}
					if matchLines(s.output, got) {
						continue
					}
					if *update {
						s.output, updated = got, true
						continue
					}
					t.Errorf("%s:%d: $ %s\noutput (-shown +got):\n%s", name, s.line, s.command, cmp.Diff(s.output, got))
				}
			}
			if updated {
				if err := os.WriteFile(path, []byte(rewrite(string(src), all)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// A block is one fenced session of a document.
type block struct {
	kafka      bool // it needs a broker
	exit       int  // wanted of the last command
	start, end int  // indexes of its first line and of the line that closes the fence
	sessions   []session
}

// A session is a command and the output shown below it.
type session struct {
	line    int // 1-based, of the command
	raw     []string
	command string
	output  []string
}

// blockTag is what may follow the opening of a block.
var blockTag = regexp.MustCompile("^```console( kafka)?(?: exit=([0-9]{1,3}))?$")

// parseBlocks returns the blocks of a document in order. An error starts with the line that it is about.
func parseBlocks(doc string) ([]block, error) {
	lines := strings.Split(doc, "\n")
	var blocks []block
	for i := 0; i < len(lines); i++ {
		if !strings.HasPrefix(lines[i], blockStart) {
			continue
		}
		open := i + 1
		tag := blockTag.FindStringSubmatch(strings.TrimRight(lines[i], " \r"))
		if tag == nil {
			return nil, fmt.Errorf("%d: want ```console, with kafka or exit=CODE behind it, got %q", open, lines[i])
		}
		b := block{start: i + 1, kafka: tag[1] != ""}
		if tag[2] != "" {
			code, err := strconv.Atoi(tag[2])
			if err != nil {
				return nil, fmt.Errorf("%d: exit code: %w", open, err)
			}
			b.exit = code
		}
		for i++; i < len(lines) && lines[i] != blockEnd; i++ {
			command, ok := strings.CutPrefix(lines[i], "$ ")
			if !ok {
				if len(b.sessions) == 0 {
					return nil, fmt.Errorf("%d: want a line that starts with \"$ \", got %q", i+1, lines[i])
				}
				last := &b.sessions[len(b.sessions)-1]
				last.output = append(last.output, strings.TrimRight(lines[i], " "))
				continue
			}
			s := session{line: i + 1, raw: []string{lines[i]}, command: command}
			for strings.HasSuffix(s.command, `\`) && i+1 < len(lines) && lines[i+1] != blockEnd {
				i++
				s.raw = append(s.raw, lines[i])
				s.command += "\n" + strings.TrimPrefix(lines[i], "> ")
			}
			b.sessions = append(b.sessions, s)
		}
		if i == len(lines) {
			return nil, fmt.Errorf("%d: block is never closed", open)
		}
		if len(b.sessions) == 0 {
			return nil, fmt.Errorf("%d: block has no command", open)
		}
		b.end = i
		blocks = append(blocks, b)
	}
	return blocks, nil
}

// rewrite returns doc with the lines of its blocks replaced by what the blocks hold now.
func rewrite(doc string, blocks []block) string {
	lines := strings.Split(doc, "\n")
	for _, b := range slices.Backward(blocks) {
		var body []string
		for _, s := range b.sessions {
			body = append(append(body, s.raw...), s.output...)
		}
		lines = slices.Replace(lines, b.start, b.end, body...)
	}
	return strings.Join(lines, "\n")
}

// A shell runs the commands of a document.
type shell struct {
	dir, bin  string
	variables string   // file with what commands have exported
	env       []string // beside this process's
	groups    []int    // of the processes of each command
}

// run executes the command and returns the lines it printed and its exit code, which is 128 plus the number if a signal ended it.
// An error says that it could not be run or took longer than runAtMost.
func (s *shell) run(ctx context.Context, command string) ([]string, int, error) {
	ctx, cancel := context.WithTimeout(ctx, runAtMost)
	defer cancel()
	if s.variables != "" {
		command = "[[ ! -e '" + s.variables + "' ]] || . '" + s.variables + "'; trap 'export -p > " + s.variables + "' EXIT\n" + command
	}
	cmd := exec.CommandContext(ctx, "bash", "-c", command)
	cmd.Dir = s.dir
	cmd.WaitDelay = 5 * time.Second // a command in the background may hold the output open
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = append(append(os.Environ(),
		"PATH="+s.bin+string(os.PathListSeparator)+os.Getenv("PATH"), "LC_ALL=C.UTF-8", "TZ=UTC", "COLUMNS=80", "NO_COLOR=1"), s.env...)
	out, err := cmd.CombinedOutput()
	if cmd.Process != nil {
		s.groups = append(s.groups, cmd.Process.Pid)
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, 0, context.Cause(ctx)
	}
	if ctx.Err() != nil {
		return nil, 0, fmt.Errorf("want an end within %v, got output so far:\n%s", runAtMost, out)
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return nil, 0, err
	}
	return outputLines(out), exitCode(cmd.ProcessState), nil
}

// end ends what commands have left running.
func (s *shell) end() {
	for _, g := range s.groups {
		_ = syscall.Kill(-g, syscall.SIGKILL) // mostly there is nothing any more
	}
}

// useBroker gives deploy/kafka/broker a name of this document's own, and removes that broker after it.
func (s *shell) useBroker(t *testing.T, root string) {
	s.env = append(s.env, fmt.Sprintf("EVALSTREAM_BROKER_NAME=docs-%d", os.Getpid()), "EVALSTREAM_BROKERS=")
	t.Cleanup(func() {
		clean := exec.Command(filepath.Join(root, "deploy/kafka/broker"), "clean")
		clean.Env = append(os.Environ(), s.env...)
		if out, err := clean.CombinedOutput(); err != nil {
			t.Errorf("broker clean: %v\n%s", err, out)
		}
	})
}

// run executes the command in dir, in a shell of its own.
func (s *session) run(ctx context.Context, dir, bin string) ([]string, int, error) {
	sh := &shell{dir: dir, bin: bin}
	defer sh.end()
	return sh.run(ctx, s.command)
}

func exitCode(p *os.ProcessState) int {
	if code := p.ExitCode(); code >= 0 {
		return code
	}
	return 1 // bash itself was ended by a signal
}

func outputLines(out []byte) []string {
	if len(out) == 0 {
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(string(bytes.ReplaceAll(out, []byte("\r\n"), []byte("\n"))), "\n"), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return lines
}

// matchLines reports whether got is what shown stands for.
func matchLines(shown, got []string) bool {
	for i, s := range shown {
		if s == anyLines {
			for skip := range len(got) - i + 1 {
				if matchLines(shown[i+1:], got[i+skip:]) {
					return true
				}
			}
			return false
		}
		if i >= len(got) || !matchLine(s, got[i]) {
			return false
		}
	}
	return len(shown) == len(got)
}

// matchLine reports whether got is shown, where … within it stands for any text.
func matchLine(shown, got string) bool {
	parts := strings.Split(shown, anyLines)
	if len(parts) == 1 {
		return shown == got
	}
	rest, ok := strings.CutPrefix(got, parts[0])
	if !ok {
		return shown == got // a table may have cut a word by …
	}
	for _, p := range parts[1 : len(parts)-1] {
		if _, rest, ok = strings.Cut(rest, p); !ok {
			return shown == got
		}
	}
	return shown == got || strings.HasSuffix(rest, parts[len(parts)-1])
}

// copyRepository copies the files that a fresh clone would have into dir.
func copyRepository(dir, root string) error {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	list, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		from, to := filepath.Join(root, name), filepath.Join(dir, name)
		info, err := os.Stat(from)
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, and the deletion is not committed yet
		}
		if err != nil {
			return err
		}
		data, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, data, info.Mode().Perm()); err != nil {
			return err
		}
	}
	return nil
}
