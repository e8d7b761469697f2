package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"evalstream"
	"evalstream/topics"
	"evalstream/topics/kafka"
)

// topicOf is the name in topic:NAME.
func topicOf(edge string) (name string, ok bool) { return strings.CutPrefix(edge, "topic:") }

func checkTopic(field, name string) error {
	if name == "" {
		return evalstream.Usagef("%s: want topic:NAME, got topic: alone", field)
	}
	return checkName(field, name)
}

// topicLength is how long Kafka lets the name of a topic be.
const topicLength = 249

// checkName refuses what cannot be the name of a topic.
func checkName(field, name string) error {
	foreign := strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-'
	})
	if foreign >= 0 || len(name) > topicLength || name == "." || name == ".." {
		return evalstream.Usagef("%s: want up to %d letters, digits, dots, _ and -, as topics are named, got %q", field, topicLength, name)
	}
	return nil
}

// checkNamed refuses an argument that cannot be the name of a topic, such as a path, or a
// variable that is not set.
func checkNamed(name string) error {
	if name == "" {
		return evalstream.Usagef("want the name of a TOPIC, got an empty one")
	}
	return checkName("TOPIC", name)
}

// checkStage refuses a stage of a pipeline over topics whose names, or that of its
// changelog, cannot be those of topics.
func checkStage(pipeline string, s stage) error {
	if err := checkName("name", pipeline); err != nil {
		return err
	}
	if err := checkName("as", s.name); err != nil {
		return err
	}
	if err := checkName("via", s.via); err != nil {
		return err
	}
	return checkName("name", pipeline+"."+s.name+".changelog")
}

func errFromList(edge string) error {
	return evalstream.Usagef("from: want topics in a list, got %q; several files are read by cat FILE... | evalstream run with from: stdin", edge)
}

// ends are the ends of a pipeline that are topics. A nil one has none.
type ends struct {
	from        []string // read together, partition by partition
	to, rejects string   // "" if that is no topic
	limited     bool     // --max-rejects was given

	client   *kafka.Client
	producer *kafka.Producer
	told     *notices // what the client says
}

// endsOf finds the topics among the edges of a pipeline.
func endsOf(spec *evalstream.Spec, to, rejects string) (*ends, error) {
	e := &ends{}
	for _, edge := range spec.From {
		name, ok := topicOf(edge)
		if !ok {
			if len(spec.From) > 1 {
				return nil, errFromList(edge)
			}
			break
		}
		if err := checkTopic("from", name); err != nil {
			return nil, err
		}
		if slices.Contains(e.from, name) {
			return nil, evalstream.Usagef("from: topic %s is named twice", name)
		}
		e.from = append(e.from, name)
	}
	written := map[string]string{}
	for _, out := range []struct {
		field, edge string
		name        *string
	}{{"to", to, &e.to}, {"rejects", rejects, &e.rejects}} {
		name, ok := topicOf(out.edge)
		if !ok {
			continue
		}
		if err := checkTopic(out.field, name); err != nil {
			return nil, err
		}
		if slices.Contains(e.from, name) {
			return nil, evalstream.Usagef("%s: topic %s is an input of this pipeline; name another", out.field, name)
		}
		if other := written[name]; other != "" {
			return nil, evalstream.Usagef("%s: topic %s is %s: too; name another", out.field, name, other)
		}
		written[name], *out.name = out.field, name
	}
	return e, nil
}

// readsTopics reports whether from: of a pipeline names a topic.
func readsTopics(spec *evalstream.Spec) bool {
	return slices.ContainsFunc(spec.From, func(edge string) bool { _, ok := topicOf(edge); return ok })
}

func (e *ends) used() bool { return e.reads() || e.to != "" || e.rejects != "" }

func (e *ends) reads() bool { return e != nil && e.from != nil }

// kafkaClient connects to the brokers, or to those of the environment. What it has to say
// goes to told, of which quiet leaves errors alone.
func (e *env) kafkaClient(ctx context.Context, brokers []string, told io.Writer, quiet bool) (*kafka.Client, error) {
	conf, err := kafka.FromEnv(brokers, e.lookup)
	if err != nil {
		return nil, err
	}
	level := slog.LevelInfo
	if quiet {
		level = slog.LevelError
	}
	conf.Log = slog.New(slog.NewTextHandler(told, &slog.HandlerOptions{Level: level}))
	return kafka.Connect(ctx, conf)
}

// notices is a writer of whole lines, which go elsewhere once a progress line stands.
type notices struct {
	mu sync.Mutex
	to io.Writer
}

// Write hands lines on.
func (n *notices) Write(lines []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.to.Write(lines)
}

func (n *notices) goTo(w io.Writer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.to = w
}

func (e *ends) connect(ctx context.Context, in *env, brokers []string, quiet bool) (err error) {
	e.told = &notices{to: in.stderr}
	if e.client, err = in.kafkaClient(ctx, brokers, e.told, quiet); err != nil {
		return err
	}
	e.producer = e.client.NewProducer(ctx, kafka.Zstd)
	return nil
}

// inFile names the pipeline file in a hint on what to do next.
func inFile(path string, err error) error {
	if x, ok := errors.AsType[*evalstream.ExitError](err); ok {
		x.Hint = strings.ReplaceAll(x.Hint, "PIPELINE.yaml", path)
	}
	return err
}

func (e *ends) close() error {
	err := e.producer.Close()
	e.client.Close()
	return err
}

// attach gives the session its rejects topic.
func (e *ends) attach(ctx context.Context, s *session) error {
	if e == nil || e.rejects == "" {
		return nil
	}
	sink, err := e.sink(ctx, e.rejects)
	if err != nil {
		return err
	}
	s.rejects.next, s.close = sink, io.NopCloser(nil)
	s.rejects.All = "evalstream dlq list " + e.rejects + " prints them all"
	return nil
}

// sink writes records to a topic that is there: by their keys, to the partition of their
// route.
func (e *ends) sink(ctx context.Context, topic string) (evalstream.Sink, error) {
	if _, err := e.client.Partitions(ctx, topic); err != nil {
		return nil, err
	}
	return kafka.NewTopicSink(e.producer, topic, message), nil
}

// message is a record as an upsert of its key; a result or a review that was withdrawn
// deletes its.
func message(r *evalstream.Record) (m topics.Message, route []byte, ok bool) {
	_, m, route, _, ok = final(nil, r)
	return m, route, ok
}

// final is message in memory that is appended to dst; all is as passedOn has it.
func final(dst []byte, r *evalstream.Record) (_ []byte, m topics.Message, route []byte, all, ok bool) {
	dst, m, route, all, ok = passedOn(dst, r)
	if withdrawn(r) {
		m.Value = nil
	}
	return dst, m, route, all, ok
}

func withdrawn(r *evalstream.Record) bool {
	switch b := r.Body.(type) {
	case *evalstream.Result:
		return b.Undefined == "withdrawn"
	case *evalstream.Review:
		return b.Withdrawn
	}
	return false
}

// passedOn is a record for the next step, which is told what was withdrawn too, in memory
// that is appended to dst; all says that it goes to every partition, for all owners of the
// next step have to know.
func passedOn(dst []byte, r *evalstream.Record) (_ []byte, m topics.Message, route []byte, all, ok bool) {
	if r.Body == nil {
		return dst, m, nil, false, false
	}
	from := len(dst)
	dst = r.Body.AppendKey(dst)
	m.Key = dst[from:len(dst):len(dst)]
	from = len(dst)
	dst = r.Body.AppendRoute(dst)
	route = dst[from:len(dst):len(dst)]
	from = len(dst)
	dst = appendLine(dst, r)
	m.Value = dst[from:len(dst):len(dst)]
	switch b := r.Body.(type) {
	case *evalstream.Mark:
		m.Headers = []topics.Header{{Name: kafka.HeaderKind, Value: []byte(b.Kind())}}
		all = true
	case *evalstream.Partial:
		all = b.Family == evalstream.JudgedFamily
	}
	return dst, m, route, all, true
}

// guard adds a step that checks that records of topics at the front are in the partition
// of their route, if there are several and a step remembers units: parts of a unit that
// lie in two partitions would never meet.
func guard(p *evalstream.Pipeline, front []string, partitions int32) (*evalstream.Pipeline, error) {
	if partitions < 2 || len(front) == 0 {
		return p, nil
	}
	remembers, err := anyStep(p, func(_ evalstream.Step, st evalstream.Stage) bool {
		_, units := st.(evalstream.Stateful)
		_, met := st.(evalstream.Placed)
		return units || met
	})
	if err != nil || !remembers {
		return p, err
	}
	check := evalstream.Step{Name: "partition check", Doc: "stop at a record that is not in the partition of its route", New: func() (evalstream.Stage, error) {
		return &placement{front: front, partitions: partitions}, nil
	}}
	return &evalstream.Pipeline{Name: p.Name, Steps: slices.Insert(slices.Clone(p.Steps), 1, check)}, nil // behind parse
}

// anyStep reports whether f holds for a step that does not gather.
func anyStep(p *evalstream.Pipeline, f func(evalstream.Step, evalstream.Stage) bool) (bool, error) {
	for _, step := range p.Steps {
		if step.Gather {
			continue
		}
		st, err := step.New()
		if err != nil {
			return false, fmt.Errorf("%s: %w", step.Name, err)
		}
		if f(step, st) {
			return true, nil
		}
	}
	return false, nil
}

// placement is the step that guard adds.
type placement struct {
	front      []string
	partitions int32
	route      []byte
}

// Process passes records on.
func (s *placement) Process(_ context.Context, in []evalstream.Record, out *evalstream.Out) error {
	for _, r := range in {
		if r.Body != nil && r.Pos.Origin != nil && slices.Contains(s.front, r.Pos.Origin.Name) {
			s.route = r.Body.AppendRoute(s.route[:0])
			if want := kafka.Partition(s.route, s.partitions); want != r.Pos.Origin.Partition {
				return &evalstream.ExitError{
					Code: evalstream.ExitUsage,
					Err:  fmt.Errorf("%v: %s with route %q belongs in partition %d of %d", r.Pos, r.Body.Kind(), s.route, want, s.partitions),
					Hint: "cut the pipeline behind parse by via: TOPIC, which partitions by route; or produce records with their route as the key, partitioned by murmur2 as Java's producer does",
				}
			}
		}
		out.Emit(r)
	}
	return nil
}
