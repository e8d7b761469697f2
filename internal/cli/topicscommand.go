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
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"evalstream"
	"evalstream/topics"
	"evalstream/topics/kafka"
)

// topics is the commands that make topics and look at them.
func (e *env) topics() *cobra.Command {
	return parent(&cobra.Command{Use: "topics", Short: "make and look at the Kafka topics of a pipeline: create, describe, lag, cat, reset", GroupID: "other"},
		e.topicsCreate(), e.topicsDescribe(), e.topicsLag(), e.topicsCat(), e.topicsReset())
}

// topicsOf is a command on the topics of a pipeline file.
func (e *env) topicsOf(name, short, long string, c *common, f func(ctx context.Context, cmd *cobra.Command, p *topicPipeline) error) *cobra.Command {
	return &cobra.Command{
		Use: name + " PIPELINE.yaml", Short: short, Long: long, Args: usage(onePipeline),
		Example: "  evalstream topics " + name + " deploy/online/live.yaml",
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
			client, err := e.kafkaClient(cmd.Context(), spec.Brokers, e.stderr, false)
			if err != nil {
				return err
			}
			defer client.Close()
			p := &topicPipeline{ends: ends, client: client, out: json.NewEncoder(e.stdout), common: c}
			if n, err := cmd.Flags().GetInt32("partitions"); err == nil {
				p.partitions = n
			}
			if p.partitions == 0 && ends.reads() { // as many as the first input has
				if p.partitions, err = counts(client, 1)(cmd.Context(), ends.from[0]); err != nil {
					return err
				}
			}
			if err := p.layOut(cmd.Context(), e, spec, list, c); err != nil {
				return e.placed(cmd.Context(), args[0], err)
			}
			return inFile(args[0], f(cmd.Context(), cmd, p))
		},
	}
}

// topicPipeline is the topics of a pipeline file and where they are.
type topicPipeline struct {
	*ends
	*layout    // nil if the pipeline reads no topic
	client     *kafka.Client
	out        *json.Encoder
	partitions int32 // of topics that are not there
	common     *common
}

// config are the settings that a topic of the pipeline is made with.
func (p *topicPipeline) config(r topicRole) map[string]string {
	config := r.role.config()
	if least, ok := p.common.lives(); ok && r.role == roleVia && least > defaultRetention {
		config["retention.ms"] = strconv.FormatInt(least.Milliseconds(), 10)
	}
	return config
}

// layOut cuts the pipeline.
func (p *topicPipeline) layOut(ctx context.Context, e *env, spec *evalstream.Spec, list []stage, c *common) error {
	if !p.reads() {
		return nil
	}
	list, err := cutUp(ctx, list, spec, p.ends, counts(p.client, max(1, p.partitions)))
	if err != nil {
		return err
	}
	s := &session{env: e, verb: spec.Name, common: c}
	pipeline, err := s.assemble(ctx, list, false)
	if err != nil {
		return err
	}
	pipeline.Name = spec.Name
	p.layout, err = layoutOf(pipeline, list, p.ends)
	return err
}

// roles are the topics and what they are for.
func (p *topicPipeline) roles() []topicRole {
	if p.layout != nil {
		return p.topics(p.rejects)
	}
	var all []topicRole
	if p.to != "" {
		all = append(all, topicRole{name: p.to, role: roleOutput})
	}
	if p.rejects != "" {
		all = append(all, topicRole{name: p.rejects, role: roleRejects})
	}
	return all
}

func (p *topicPipeline) names() []string {
	var names []string
	for _, r := range p.roles() {
		names = append(names, r.name)
	}
	return names
}

// specs are the topics as the pipeline needs them.
func (p *topicPipeline) specs(partitions int32, replication int16) []kafka.TopicSpec {
	var specs []kafka.TopicSpec
	for _, r := range p.roles() {
		specs = append(specs, kafka.TopicSpec{Name: r.name, Partitions: partitions, Replication: replication, Config: p.config(r)})
	}
	return specs
}

func (e *env) topicsCreate() *cobra.Command {
	var partitions int32
	var replication int16
	cmd := e.topicsOf("create", "make the topics of a pipeline that are missing",
		"create: make the topics of a pipeline that are missing: sources, those between its steps,\nchangelogs, results and rejects. Sources keep their messages for ever; changelogs, partials\nand results are compacted. Topics that are there stay as they are; where they are not as\nthey should be, that is said, and the exit code is 2.", newCommon(),
		func(ctx context.Context, cmd *cobra.Command, p *topicPipeline) error {
			if partitions < 0 {
				return evalstream.Usagef("partitions: want 1 or more, got %d", partitions)
			}
			specs := p.specs(max(1, p.partitions), replication)
			for i, r := range p.roles() {
				if r.role != roleChangelog {
					continue
				}
				var err error // as many as what it is the state of
				if specs[i].Partitions, err = counts(p.client, specs[i].Partitions)(ctx, r.like); err != nil {
					return err
				}
			}
			made, err := p.client.CreateTopics(ctx, specs...)
			if err != nil {
				return err
			}
			var wrong []misfit
			for _, want := range specs {
				n, err := p.client.Partitions(ctx, want.Name)
				if err != nil {
					return err
				}
				if cmd.Flags().Changed("partitions") && n != want.Partitions {
					wrong = append(wrong, misfit{reason: fmt.Sprintf("%s: want %d partitions, got %d", want.Name, want.Partitions, n), fix: "leave --partitions out, or name other topics"})
				}
				line := struct {
					Topic      string `json:"topic"`
					Partitions int32  `json:"partitions"`
					Made       bool   `json:"made"`
				}{want.Name, n, slices.Contains(made, want.Name)}
				if err := p.out.Encode(line); err != nil {
					return lostOutput(err)
				}
			}
			fits, err := fit(ctx, p.client, p.common, p.roles())
			if err != nil {
				return err
			}
			for _, n := range fits.notes {
				fmt.Fprintf(e.stderr, "evalstream topics: note: %s\n", n)
			}
			return fits.err(wrong...)
		})
	cmd.Flags().Int32Var(&partitions, "partitions", 0, "`N` partitions of each topic that is made (default: as many as the first topic of from: has, or 1)")
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
	return e.topicsOf("lag", "print how far a pipeline is behind its topics",
		"lag: print a JSON object for each partition that a group of the pipeline reads, with the\noffset that is read next (null before anything was read), the end, and how many offsets are between them. Marks and the\nends of transactions take offsets too.", newCommon(),
		func(ctx context.Context, _ *cobra.Command, p *topicPipeline) error {
			if p.layout == nil {
				return evalstream.Usagef("from: want topic:NAME, got none")
			}
			for _, s := range p.segments {
				lags, err := p.client.GroupLag(ctx, s.Name, s.From...)
				if err != nil {
					return err
				}
				for _, l := range lags {
					line := struct {
						Group     string `json:"group"`
						Topic     string `json:"topic"`
						Partition int32  `json:"partition"`
						Next      *int64 `json:"next"`
						End       int64  `json:"end"`
						Behind    int64  `json:"behind"`
					}{s.Name, l.Topic, l.Partition, nil, l.End, max(0, l.End-max(l.Committed, l.First))}
					if l.Committed >= 0 {
						line.Next = &l.Committed
					}
					if err := p.out.Encode(line); err != nil {
						return lostOutput(err)
					}
				}
			}
			return nil
		})
}

func (e *env) topicsCat() *cobra.Command {
	var brokers string
	var latest, marks bool
	cmd := &cobra.Command{
		Use: "cat [flags] TOPIC", Short: "print the messages of a topic as NDJSON",
		Long: "cat: print the values that a topic holds now, one a line, in order within a partition and\none partition after the other. A tombstone is null; a value that is not JSON is a string.\nMarks, by which the steps of a pipeline tell each other how far they are, are left out.",
		Args: usage(cobra.ExactArgs(1)), Example: "  evalstream topics cat --brokers 127.0.0.1:9092 --latest results",
		RunE: func(cmd *cobra.Command, args []string) error {
			named := commaSeparated(brokers)
			name := strings.TrimPrefix(args[0], "topic:")
			if err := checkNamed(name); err != nil {
				return err
			}
			client, err := e.kafkaClient(cmd.Context(), named, e.stderr, false)
			if err != nil {
				return err
			}
			defer client.Close()
			w := bufio.NewWriter(e.stdout)
			read := client.Cat
			if latest {
				read = client.CatLatest
			}
			if err := read(cmd.Context(), name, func(m topics.Message) error {
				if kind, ok := m.Header(kafka.HeaderKind); ok && string(kind) == "mark" && !marks {
					return nil
				}
				return lostOutput(printValue(w, m.Value))
			}); err != nil {
				return errors.Join(err, lostOutput(w.Flush()))
			}
			return lostOutput(w.Flush())
		},
	}
	cmd.Flags().StringVar(&brokers, "brokers", "", "`HOST:PORT` of a broker, several with commas")
	cmd.Flags().BoolVar(&latest, "latest", false, "print the last value of each key, without tombstones and without messages that have no key")
	cmd.Flags().BoolVar(&marks, "marks", false, "print marks too")
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
