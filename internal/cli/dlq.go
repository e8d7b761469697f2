package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"evalstream"
	"evalstream/topics"
	"evalstream/topics/kafka"
)

// headerReplay says of a message that it was sent again, and holds the position that it
// was rejected at.
const headerReplay = "evalstream_replay"

// dlq is the commands on rejects that lie in a topic.
func (e *env) dlq() *cobra.Command {
	return parent(&cobra.Command{Use: "dlq", Short: "look at the rejects in a topic, and send their records again: list, replay", GroupID: "other"},
		e.dlqList(), e.dlqReplay())
}

// letters is a topic of rejects and which of them are meant.
type letters struct {
	client                *kafka.Client
	topic                 string
	brokers               string
	classes, stages, at   []string
	last, replayed        map[string]int64 // offsets of the last reject and of the last replay, a key
	foreign               int64            // messages that are no rejects
	again, raw, summarize bool
}

// letter is a reject as it lies in its topic.
type letter struct {
	Pos       string  `json:"pos"`
	Stage     string  `json:"stage"`
	Class     string  `json:"class"`
	Reason    string  `json:"reason"`
	Raw       *string `json:"raw,omitempty"`
	RawBase64 []byte  `json:"raw_base64,omitempty"`
	RawLength int64   `json:"raw_length,omitempty"`
	Replayed  bool    `json:"replayed,omitempty"`

	key       []byte
	partition int32
	offset    int64
}

// lettersOf makes a command on a topic of rejects.
func (e *env) lettersOf(l *letters, use, short, long, example string, f func(ctx context.Context) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Example: "  evalstream dlq " + example, Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			named := commaSeparated(l.brokers)
			if err := l.checkClasses(); err != nil {
				return err
			}
			l.topic = strings.TrimPrefix(args[0], "topic:")
			if strings.HasSuffix(args[0], ".yaml") || strings.HasSuffix(args[0], ".yml") {
				spec, _, err := e.load(args[0], newCommon().flags("dlq"), nil)
				if err != nil {
					return e.placed(ctx, args[0], err)
				}
				name, ok := topicOf(spec.Rejects)
				if !ok {
					return evalstream.Usagef("%s: want rejects: topic:NAME, got %q", args[0], spec.Rejects)
				}
				l.topic = name
				if len(named) == 0 {
					named = spec.Brokers
				}
			}
			if err := checkNamed(l.topic); err != nil {
				return err
			}
			client, err := e.kafkaClient(ctx, named, e.stderr, false)
			if err != nil {
				return err
			}
			defer client.Close()
			l.client = client
			return inFile(args[0], f(ctx))
		},
	}
	cmd.Flags().StringVar(&l.brokers, "brokers", "", "`HOST:PORT` of a broker, several with commas (default: those of the pipeline, or EVALSTREAM_BROKERS)")
	cmd.Flags().StringArrayVar(&l.classes, "class", nil, "rejects of this `CLASS` alone: parse, schema, stage, remote, late or too_large; may repeat")
	cmd.Flags().StringArrayVar(&l.stages, "stage", nil, "rejects of this `STAGE` alone; may repeat")
	cmd.Flags().StringArrayVar(&l.at, "pos", nil, "rejects at this `POSITION` alone, such as predictions[1]@42; may repeat")
	return cmd
}

// checkClasses refuses what no reject can have: nothing found would look like nothing there.
func (l *letters) checkClasses() error {
	known := []string{
		string(evalstream.ClassParse), string(evalstream.ClassSchema), string(evalstream.ClassStage),
		string(evalstream.ClassRemote), string(evalstream.ClassLate), string(evalstream.ClassTooLarge),
	}
	for _, c := range l.classes {
		if !slices.Contains(known, c) {
			return evalstream.Usagef("--class: no class %q%s", c, didYouMean(c, known))
		}
	}
	return nil
}

func commaSeparated(text string) []string {
	var all []string
	for s := range strings.SplitSeq(text, ",") {
		if s = strings.TrimSpace(s); s != "" {
			all = append(all, s)
		}
	}
	return all
}

func (e *env) dlqList() *cobra.Command {
	l := new(letters)
	cmd := e.lettersOf(l, "list [flags] PIPELINE.yaml|TOPIC", "print the rejects in a topic, as NDJSON",
		"list: print the rejects in the topic that rejects: of a pipeline names, or in a topic, a JSON\nobject a line: position, stage, class and reason. A position that was rejected again, after a\nreset say, is there once. Those that were replayed are left out.", "list --summary pipeline.yaml",
		func(ctx context.Context) error { return e.listLetters(ctx, l) })
	cmd.Flags().BoolVar(&l.summarize, "summary", false, "print how many there are of each class and stage instead")
	cmd.Flags().BoolVar(&l.raw, "raw", false, "print the rejected lines too, of which a topic has 64 KiB at most")
	cmd.Flags().BoolVar(&l.again, "all", false, "print those that were replayed too")
	return cmd
}

func (e *env) listLetters(ctx context.Context, l *letters) error {
	if err := l.scan(ctx); err != nil {
		return err
	}
	w := bufio.NewWriter(e.stdout)
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	type group struct{ class, stage string }
	groups := map[group]int64{}
	err := l.each(ctx, func(r *letter) error {
		if l.summarize {
			groups[group{r.Class, r.Stage}]++
			return nil
		}
		if !l.raw {
			r.Raw, r.RawBase64 = nil, nil
		}
		return lostOutput(out.Encode(r))
	})
	if err != nil {
		return errors.Join(err, lostOutput(w.Flush()))
	}
	for _, g := range slices.SortedFunc(maps.Keys(groups), func(a, b group) int {
		if groups[a] != groups[b] {
			return int(groups[b] - groups[a])
		}
		return strings.Compare(a.class+"\x00"+a.stage, b.class+"\x00"+b.stage)
	}) {
		line := struct {
			Class string `json:"class"`
			Stage string `json:"stage"`
			N     int64  `json:"n"`
		}{g.class, g.stage, groups[g]}
		if err := out.Encode(line); err != nil {
			return lostOutput(err)
		}
	}
	e.tellForeign(l)
	return lostOutput(w.Flush())
}

func (e *env) tellForeign(l *letters) {
	if l.foreign > 0 {
		fmt.Fprintf(e.stderr, "evalstream dlq: note: %s of %s left out: no rejects\n", plural(l.foreign, "message"), l.topic)
	}
}

// scan notes the last reject and the last replay of each key. A replay is a tombstone.
func (l *letters) scan(ctx context.Context) error {
	l.last, l.replayed, l.foreign = map[string]int64{}, map[string]int64{}, 0
	return l.client.Cat(ctx, l.topic, func(m topics.Message) error {
		switch {
		case m.Key == nil:
			l.foreign++
		case m.Value == nil:
			l.replayed[string(m.Key)] = m.Offset + 1
		default:
			l.last[string(m.Key)] = m.Offset
		}
		return nil
	})
}

// each calls f for each reject that is meant, as scan has found them.
func (l *letters) each(ctx context.Context, f func(*letter) error) error {
	return l.client.Cat(ctx, l.topic, func(m topics.Message) error {
		if last, ok := l.last[string(m.Key)]; m.Value == nil || !ok || last != m.Offset {
			return nil
		}
		var r struct {
			Kind string `json:"kind"`
			letter
		}
		if bad := json.Unmarshal(m.Value, &r); bad != nil || r.Kind != "reject" {
			l.foreign++
			return nil //nolint:nilerr // it is counted
		}
		one := &r.letter
		one.key, one.partition, one.offset = m.Key, m.Partition, m.Offset
		one.Replayed = l.replayed[string(m.Key)] > m.Offset
		if one.Replayed && !l.again || !l.means(one) {
			return nil
		}
		return f(one)
	})
}

func (l *letters) means(r *letter) bool {
	has := func(list []string, s string) bool { return len(list) == 0 || slices.Contains(list, s) }
	return has(l.classes, r.Class) && has(l.stages, r.Stage) && has(l.at, r.Pos)
}

func (e *env) dlqReplay() *cobra.Command {
	l := new(letters)
	cmd := e.lettersOf(l, "replay [flags] PIPELINE.yaml|TOPIC", "send the records of rejects again to the topics that they came from",
		"replay: send the records of rejects again, to the partition that they came from, with their\nkeys and headers where the record is still there, and the header "+headerReplay+" with the\nposition that was rejected. Everybody who reads that topic gets them again.\n\nEach is sent once: what was sent is noted in the topic of rejects by a tombstone in the same\ntransaction. One that is rejected again is a new reject, at its new position.\n\nWhat was sent is printed, a JSON object a line. Exit code 4 if one cannot be: its line was\ncut, or is over 64 KiB, and the record is gone; or it came from a file.", "replay --class remote pipeline.yaml",
		func(ctx context.Context) error { return e.replayLetters(ctx, l) })
	cmd.Flags().BoolVar(&l.again, "again", false, "send those too that were replayed before, as far as the topic still has them")
	return cmd
}

// replayBatch is how many records one transaction sends again.
const replayBatch = 500

func (e *env) replayLetters(ctx context.Context, l *letters) error {
	// Whoever else replays is fenced, and only then is what was replayed looked up.
	tx, err := l.client.Transactor(ctx, "evalstream.dlq."+l.topic, kafka.Zstd)
	if err != nil {
		return err
	}
	if err := l.scan(ctx); err != nil {
		return err
	}
	var chosen []letter
	err = l.each(ctx, func(r *letter) error {
		r.Raw, r.RawBase64 = nil, nil // it is read again when its turn comes
		chosen = append(chosen, *r)
		return nil
	})
	if err != nil {
		return err
	}
	e.tellForeign(l)
	out := json.NewEncoder(e.stdout)
	out.SetEscapeHTML(false)
	sent, failed := int64(0), int64(0)
	for batch := range slices.Chunk(chosen, replayBatch) {
		t := kafka.Transaction{Messages: map[kafka.TopicPartition][]topics.Message{}}
		var lines []any
		for i := range batch {
			r := &batch[i]
			to, m, err := l.original(ctx, r)
			if err == nil {
				err = tx.Check(ctx, to.Topic, &m)
			}
			if errors.Is(err, context.Canceled) {
				return err
			}
			if err != nil {
				failed++
				fmt.Fprintf(e.stderr, "evalstream dlq: %s: %s: not sent: %v\n", r.Pos, r.Stage, err)
				continue
			}
			t.Messages[to] = append(t.Messages[to], m)
			mine := kafka.TopicPartition{Topic: l.topic, Partition: r.partition}
			t.Messages[mine] = append(t.Messages[mine], topics.Message{Key: r.key, Partition: r.partition})
			lines = append(lines, struct {
				Pos       string `json:"pos"`
				Stage     string `json:"stage"`
				Class     string `json:"class"`
				Topic     string `json:"topic"`
				Partition int32  `json:"partition"`
			}{r.Pos, r.Stage, r.Class, to.Topic, to.Partition})
		}
		if len(lines) == 0 {
			continue
		}
		if _, err := tx.Commit(ctx, t); err != nil {
			return err
		}
		sent += int64(len(lines))
		for _, line := range lines {
			if err := out.Encode(line); err != nil {
				return lostOutput(err)
			}
		}
	}
	fmt.Fprintf(e.stderr, "evalstream dlq: %s replayed, %s not\n", plural(sent, "record"), count(failed))
	if failed > 0 {
		return &saidError{evalstream.ExitLost}
	}
	return nil
}

var topicPosition = regexp.MustCompile(`^([a-zA-Z0-9._-]+)\[([0-9]+)\]@([0-9]+)$`)

// original makes the message to send again: the record as its topic has it, or, if that
// is gone, the line that the reject has.
func (l *letters) original(ctx context.Context, r *letter) (to kafka.TopicPartition, m topics.Message, err error) {
	parts := topicPosition.FindStringSubmatch(r.Pos)
	if parts == nil {
		return to, m, errors.New("position is not in a topic")
	}
	partition, err := strconv.ParseInt(parts[2], 10, 32)
	if err != nil {
		return to, m, err
	}
	offset, err := strconv.ParseInt(parts[3], 10, 64)
	if err != nil {
		return to, m, err
	}
	to = kafka.TopicPartition{Topic: parts[1], Partition: int32(partition)}
	line, whole, err := l.line(ctx, r)
	if err != nil {
		return to, m, err
	}
	m, ok, err := l.client.Message(ctx, to, offset)
	if err != nil {
		return to, m, err
	}
	// A topic that was made again has something else there.
	if ok = ok && bytes.HasPrefix(m.Value, line) && (!whole || len(m.Value) == len(line)); !ok {
		if !whole {
			return to, m, errors.New("the reject has a part of the line alone, and the record is not there any more")
		}
		m = topics.Message{Value: line}
	}
	m.Partition = to.Partition
	m.Headers = append(slices.DeleteFunc(m.Headers, func(h topics.Header) bool { return h.Name == headerReplay }), topics.Header{Name: headerReplay, Value: []byte(r.Pos)})
	return to, m, nil
}

// line is the line that the reject has, and whether that is all of it.
func (l *letters) line(ctx context.Context, r *letter) ([]byte, bool, error) {
	m, ok, err := l.client.Message(ctx, kafka.TopicPartition{Topic: l.topic, Partition: r.partition}, r.offset)
	if err != nil {
		return nil, false, err
	}
	var full letter
	if !ok || json.Unmarshal(m.Value, &full) != nil {
		return nil, false, errors.New("the reject is not there any more")
	}
	// Of a line over a limit a head was read, whatever its length.
	whole := full.RawLength == 0 && full.Class != string(evalstream.ClassTooLarge)
	line := full.RawBase64
	if full.Raw != nil {
		line = []byte(*full.Raw)
	}
	return line, whole && len(line) > 0, nil
}
