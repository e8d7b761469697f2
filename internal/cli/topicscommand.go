package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"evalstream"
	"evalstream/stages"
	"evalstream/topics"
	"evalstream/topics/kafka"
	statedir "evalstream/topics/state"
)

// topics is the commands that make topics and look at them.
func (e *env) topics() *cobra.Command {
	return parent(&cobra.Command{Use: "topics", Short: "make and look at the Kafka topics of a pipeline: create, describe, lag, cat", GroupID: "other"},
		e.topicsCreate(), e.topicsDescribe(), e.topicsLag(), e.topicsCat())
}

// topicsOf is a command on the topics of a pipeline file.
func (e *env) topicsOf(name, short, long string, c *common, f func(ctx context.Context, cmd *cobra.Command, p *topicPipeline) error) *cobra.Command {
	return &cobra.Command{
		Use: name + " PIPELINE.yaml", Short: short, Long: long, Args: usage(onePipeline),
		Example: "  evalstream topics " + name + " pipeline.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, list, err := e.load(args[0], c.flags("topics"), cmd)
			if err != nil {
				return e.placed(cmd.Context(), args[0], err)
			}
			ends, err := endsOf(spec, spec.To, spec.Rejects)
			if err != nil {
				return e.placed(cmd.Context(), args[0], err)
			}
			if !ends.used() {
				return evalstream.Usagef("%s: want topic:NAME in from:, to: or rejects:, got none", args[0])
			}
			client, err := e.kafkaClient(cmd.Context(), spec.Brokers)
			if err != nil {
				return err
			}
			defer client.Close()
			return f(cmd.Context(), cmd, &topicPipeline{ends: ends, list: list, client: client, out: json.NewEncoder(e.stdout)})
		},
	}
}

// topicPipeline is the topics of a pipeline file and where they are.
type topicPipeline struct {
	*ends
	list   []stage
	client *kafka.Client
	out    *json.Encoder
}

func (p *topicPipeline) names() []string {
	names := append([]string(nil), p.from...)
	for _, name := range []string{p.to, p.rejects} {
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}

// specs are the topics as the pipeline needs them. Inputs are kept for ever, for they
// are read from their start; results are upserts.
func (p *topicPipeline) specs(partitions int32, replication int16) []kafka.TopicSpec {
	var specs []kafka.TopicSpec
	add := func(name string, config map[string]string) {
		if name != "" {
			specs = append(specs, kafka.TopicSpec{Name: name, Partitions: partitions, Replication: replication, Config: config})
		}
	}
	whole := map[string]string{"cleanup.policy": "delete", "retention.ms": "-1"}
	for _, name := range p.from {
		add(name, whole)
	}
	out := whole
	if n := len(p.list); n > 0 {
		switch p.list[n-1].options.(type) {
		case *stages.AggregateOptions, *stages.MergeOptions:
			out = map[string]string{"cleanup.policy": "compact"}
		}
	}
	add(p.to, out)
	add(p.rejects, map[string]string{"cleanup.policy": "delete"})
	return specs
}

func (e *env) topicsCreate() *cobra.Command {
	var partitions int32
	var replication int16
	cmd := e.topicsOf("create", "make the topics of a pipeline that are missing",
		"create: make the topics of from:, to: and rejects: that are missing. Inputs keep their\nmessages for ever, results are compacted. Topics that are there stay as they are; where\nthey are not as they should be, that is said, and the exit code is 2.", newCommon(),
		func(ctx context.Context, cmd *cobra.Command, p *topicPipeline) error {
			if partitions < 1 {
				return evalstream.Usagef("partitions: want 1 or more, got %d", partitions)
			}
			specs := p.specs(partitions, replication)
			made, err := p.client.CreateTopics(ctx, specs...)
			if err != nil {
				return err
			}
			var wrong []error
			for _, want := range specs {
				got, err := p.client.DescribeTopic(ctx, want.Name)
				if err != nil {
					return err
				}
				if !cmd.Flags().Changed("partitions") {
					want.Partitions = int32(len(got.Partitions))
				}
				if len(got.Config) == 0 { // they may not be read
					want.Config = nil
				}
				for _, m := range got.Mismatches(want) {
					wrong = append(wrong, errors.New(m))
				}
				line := struct {
					Topic      string `json:"topic"`
					Partitions int    `json:"partitions"`
					Made       bool   `json:"made"`
				}{want.Name, len(got.Partitions), slices.Contains(made, want.Name)}
				if err := p.out.Encode(line); err != nil {
					return lostOutput(err)
				}
			}
			if len(wrong) > 0 {
				return &evalstream.ExitError{Code: evalstream.ExitUsage, Err: errors.Join(wrong...), Hint: "they were there before and are left as they are; change them with kafka-configs, or name other topics"}
			}
			return nil
		})
	cmd.Flags().Int32Var(&partitions, "partitions", 1, "`N` partitions of each topic that is made")
	cmd.Flags().Int16Var(&replication, "replication", 0, "`N` copies of each (default: the broker's)")
	return cmd
}

type partitionText struct {
	Partition int32 `json:"partition"`
	Leader    int32 `json:"leader"`
	First     int64 `json:"first"`
	End       int64 `json:"end"`
}

func (e *env) topicsDescribe() *cobra.Command {
	return e.topicsOf("describe", "print partitions, offsets and settings of the topics of a pipeline",
		"describe: print a JSON object for each topic of a pipeline: partitions with leader, first\noffset and end, and the topic's settings.", newCommon(),
		func(ctx context.Context, _ *cobra.Command, p *topicPipeline) error {
			for _, name := range p.names() {
				t, err := p.client.DescribeTopic(ctx, name)
				if err != nil {
					return err
				}
				line := struct {
					Topic      string            `json:"topic"`
					Partitions []partitionText   `json:"partitions"`
					Config     map[string]string `json:"config"`
				}{Topic: name, Config: t.Config}
				for _, s := range t.Partitions {
					line.Partitions = append(line.Partitions, partitionText(s))
				}
				if err := p.out.Encode(line); err != nil {
					return lostOutput(err)
				}
			}
			return nil
		})
}

func (e *env) topicsLag() *cobra.Command {
	c := newCommon()
	cmd := e.topicsOf("lag", "print how far a state is behind the topics of its pipeline",
		"lag: print a JSON object for each partition of from:, with the offset that the state\nreads next, the end, and how many offsets are between them. run keeps its position in\n--state DIR and in no consumer group; while it runs, the state is in use (exit code 5).", c,
		func(ctx context.Context, _ *cobra.Command, p *topicPipeline) error {
			if !p.reads() {
				return evalstream.Usagef("from: want topic:NAME, got none")
			}
			if c.state == "" {
				return evalstream.Usagef("lag: want --state DIR, or state: in the pipeline, got none: run keeps its position there")
			}
			return printLag(ctx, p, c.state)
		})
	cmd.Flags().StringVar(&c.state, "state", "", "`DIR` of the state (default: state: of the pipeline)")
	return cmd
}

func printLag(ctx context.Context, p *topicPipeline, dir string) (err error) {
	store, err := statedir.Open(dir, false)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := store.Close(); err == nil {
			err = closeErr
		}
	}()
	for _, name := range p.from {
		t, err := p.client.DescribeTopic(ctx, name)
		if err != nil {
			return err
		}
		for _, s := range t.Partitions {
			cp, err := store.Checkpoint(s.Partition)
			if err != nil {
				return err
			}
			next := s.First
			if at := cp.Place(&evalstream.Origin{Name: name, Topic: true, Partition: s.Partition}); at != nil {
				next = at.Line + 1
			}
			line := struct {
				Topic     string `json:"topic"`
				Partition int32  `json:"partition"`
				Next      int64  `json:"next"`
				End       int64  `json:"end"`
				Behind    int64  `json:"behind"`
			}{name, s.Partition, next, s.End, max(0, s.End-max(next, s.First))}
			if err := p.out.Encode(line); err != nil {
				return lostOutput(err)
			}
		}
	}
	return nil
}

func (e *env) topicsCat() *cobra.Command {
	var brokers string
	var latest bool
	cmd := &cobra.Command{
		Use: "cat [--brokers HOST:PORT,...] [--latest] TOPIC", Short: "print the messages of a topic as NDJSON",
		Long: "cat: print the values that a topic holds now, one a line, in order within a partition and\none partition after the other. A tombstone is null; a value that is not JSON is a string.",
		Args: usage(cobra.ExactArgs(1)), Example: "  evalstream topics cat --brokers 127.0.0.1:9092 --latest results",
		RunE: func(cmd *cobra.Command, args []string) error {
			var named []string
			for b := range strings.SplitSeq(brokers, ",") {
				if b = strings.TrimSpace(b); b != "" {
					named = append(named, b)
				}
			}
			name := strings.TrimPrefix(args[0], "topic:")
			client, err := e.kafkaClient(cmd.Context(), named)
			if err != nil {
				return err
			}
			defer client.Close()
			w := bufio.NewWriter(e.stdout)
			read := client.Cat
			if latest {
				read = client.CatLatest
			}
			if err := read(cmd.Context(), name, func(m topics.Message) error { return lostOutput(printValue(w, m.Value)) }); err != nil {
				return errors.Join(err, lostOutput(w.Flush()))
			}
			return lostOutput(w.Flush())
		},
	}
	cmd.Flags().StringVar(&brokers, "brokers", "", "`HOST:PORT` of a broker, several with commas")
	cmd.Flags().BoolVar(&latest, "latest", false, "print the last value of each key, without tombstones and without messages that have no key")
	return cmd
}

// printValue prints a value as one line of JSON.
func printValue(w io.Writer, value []byte) error {
	var line []byte
	switch {
	case value == nil:
		line = []byte("null")
	case !json.Valid(value):
		line = evalstream.AppendString(nil, string(value))
	case bytes.IndexByte(value, '\n') >= 0:
		var b bytes.Buffer
		_ = json.Compact(&b, value) // it is valid
		line = b.Bytes()
	default:
		line = value
	}
	_, err := fmt.Fprintf(w, "%s\n", line)
	return err
}
