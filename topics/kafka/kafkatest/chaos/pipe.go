package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// A pipe runs steps of the program as filters: what the topics must hold is what these
// write for the same lines. It has no broker, no state and no interruptions.
type pipe struct {
	program string
	dir     string // for scratch files
}

// A reject is one object on the rejects topic.
type reject struct {
	Pos    string `json:"pos"`
	Class  string `json:"class"`
	Reason string `json:"reason"`
}

// text is the class and the reason, without the advice that follows it.
func (r reject) text() string {
	reason, _, _ := strings.Cut(r.Reason, " (")
	return r.Class + ": " + reason
}

// run gives the lines to a command. The rejects' positions are numbers of lines, from 0.
func (p pipe) run(ctx context.Context, in []string, args ...string) (out []string, rejects map[int]reject, err error) {
	file := filepath.Join(p.dir, "rejects.ndjson")
	_ = os.Remove(file)
	args = append(args, "-q", "--max-line", strconv.Itoa(maxLine), "--rejects", file, "--max-rejects", "100%")
	c := exec.CommandContext(ctx, p.program, args...)
	var stdout, stderr bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(strings.Join(in, "\n")+"\n"), &stdout, &stderr
	if len(in) == 0 {
		c.Stdin = nil
	}
	if err := c.Run(); err != nil {
		return nil, nil, fmt.Errorf("%v: %w\n%s", args, err, &stderr)
	}
	for line := range strings.Lines(stdout.String()) {
		out = append(out, strings.TrimSuffix(line, "\n"))
	}
	told, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil, err
	}
	rejects = map[int]reject{}
	for line := range strings.Lines(string(told)) {
		var r reject
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return nil, nil, fmt.Errorf("%v: rejects: %w", args, err)
		}
		number, _, _ := strings.Cut(strings.TrimPrefix(r.Pos, "<stdin>:"), ":")
		n, err := strconv.Atoi(number)
		if err != nil {
			return nil, nil, fmt.Errorf("%v: rejects: pos: want <stdin>:LINE, got %s", args, r.Pos)
		}
		rejects[n-1] = r
	}
	return out, rejects, nil
}

// flags repeats a flag for each value.
func flags(name string, values []string) (args []string) {
	for _, v := range values {
		args = append(args, name, v)
	}
	return args
}

func (p pipe) parse(ctx context.Context, in []string) ([]string, map[int]reject, error) {
	return p.run(ctx, in, "parse")
}

func (p pipe) score(ctx context.Context, in []string) ([]string, map[int]reject, error) {
	return p.run(ctx, in, append([]string{"score"}, flags("--measure", measures())...)...)
}

// aggregate writes the partials of one partition.
func (p pipe) aggregate(ctx context.Context, in []string, partition int) ([]string, map[int]reject, error) {
	args := append([]string{"aggregate", "--partition", fmt.Sprintf("%d/%d", partition, partitions)}, flags("--by", groupings())...)
	return p.run(ctx, in, append(args, flags("--window", windows())...)...)
}

// results are the final results of all steps.
func (p pipe) results(ctx context.Context, in []string) ([]string, error) {
	file := filepath.Join(p.dir, "pipe.yaml")
	if err := os.WriteFile(file, []byte(pipeYAML()), 0o600); err != nil {
		return nil, err
	}
	out, _, err := p.run(ctx, in, "run", file)
	return out, err
}
