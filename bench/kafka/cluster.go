//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"evalstream/bench/figure"
	"evalstream/topics"
	"evalstream/topics/kafka"
)

// bench is one run: the broker, the program and what was found so far.
type bench struct {
	settings
	brokers []string
	control string // deploy/kafka/broker
	client  *kafka.Client
	program string
	dir     string
	made    int // topics and pipelines, to name them apart
	report  report
}

func newBench(ctx context.Context, set settings) (*bench, error) {
	if _, err := os.Stat("go.mod"); err != nil {
		return nil, errors.New("go.mod: not here; start the bench from the module's root")
	}
	b := &bench{settings: set, brokers: strings.Split(os.Getenv("EVALSTREAM_TEST_BROKERS"), ","), control: os.Getenv("EVALSTREAM_TEST_BROKER_CONTROL")}
	if b.brokers[0] == "" || b.control == "" {
		return nil, errors.New("EVALSTREAM_TEST_BROKERS, EVALSTREAM_TEST_BROKER_CONTROL: not set; run make bench-kafka")
	}
	var err error
	if b.dir, err = os.MkdirTemp("", "bench-kafka"); err != nil {
		return nil, err
	}
	b.program = filepath.Join(b.dir, "evalstream")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", b.program, "./cmd/evalstream")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if told, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, told)
	}
	if b.client, err = kafka.Connect(ctx, kafka.Config{Brokers: b.brokers}); err != nil {
		return nil, err
	}
	b.report.machine = figure.Machine("Apache Kafka 4.4.0")
	return b, nil
}

func (b *bench) close() {
	b.client.Close()
	_ = os.RemoveAll(b.dir)
}

// say tells people what is going on.
func (*bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench-kafka: "+format+"\n", args...)
}

// unique is a name that nothing has yet.
func (b *bench) unique(what string) string {
	b.made++
	return fmt.Sprintf("bench-%d-%s-%d", os.Getpid(), what, b.made)
}

// topic makes a topic as topics create makes those at both ends of a pipeline, under a name of its own.
func (b *bench) topic(ctx context.Context, what string, partitions int) (string, error) {
	name := b.unique(what)
	_, err := b.client.CreateTopics(ctx, kafka.TopicSpec{Name: name, Partitions: int32(partitions), Config: map[string]string{"cleanup.policy": "delete", "retention.ms": "-1"}})
	return name, err
}

// holds looks whether a topic has n messages, or more where some may come twice.
func (b *bench) holds(ctx context.Context, topic string, n int, more bool) error {
	got := 0
	err := b.client.Cat(ctx, topic, func(topics.Message) error { got++; return nil })
	if err == nil && (got < n || got > n && !more) {
		err = fmt.Errorf("%s: want %d messages, got %d", topic, n, got)
	}
	return err
}

// drop deletes topics, so that a long run does not fill the disk.
func (b *bench) drop(ctx context.Context, names ...string) error {
	if b.keep {
		return nil
	}
	return b.client.DeleteTopics(ctx, names...)
}

// pipeline writes a pipeline file and makes the topics that are missing.
func (b *bench) pipeline(ctx context.Context, name, text string) (string, error) {
	path := filepath.Join(b.dir, name+".yaml")
	text = fmt.Sprintf("name: %s\nbrokers: [%s]\n%s", name, strings.Join(b.brokers, ", "), text)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", err
	}
	if told, err := exec.CommandContext(ctx, b.program, "topics", "create", path).CombinedOutput(); err != nil {
		return "", fmt.Errorf("topics create: %w\n%s", err, told)
	}
	return path, nil
}

// fill writes predictions from, from+1 … from+n-1 to a topic.
func (b *bench) fill(ctx context.Context, topic string, partitions, from, n int) error {
	p := b.client.NewProducer(ctx, kafka.None)
	defer p.Close() //nolint:errcheck // Send has told
	const at = 20_000
	for i := 0; i < n; i += at {
		msgs := make([]topics.Message, min(at, n-i))
		for k := range msgs {
			msgs[k] = prediction(from+i+k, int32(partitions))
		}
		if err := errors.Join(p.SendTo(ctx, topic, msgs...)...); err != nil {
			return err
		}
	}
	return nil
}

// brokerCPU is how many seconds the broker has worked so far.
func (b *bench) brokerCPU(ctx context.Context) (float64, error) {
	out, err := exec.CommandContext(ctx, b.control, "pid").Output()
	if err != nil {
		return 0, fmt.Errorf("broker pid: %w", err)
	}
	stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(out)) + "/stat")
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0, fmt.Errorf("stat of the broker: want 13 fields or more, got %d", len(fields))
	}
	var ticks float64
	for _, f := range fields[11:13] { // user and system, in hundredths of a second
		n, err := strconv.ParseFloat(f, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return ticks / 100, nil
}
