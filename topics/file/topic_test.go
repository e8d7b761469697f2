package file_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"evalstream"
	"evalstream/topics"
	"evalstream/topics/file"
	"evalstream/topics/topictest"
)

// lines is a file as a log: a sink that appends, a source that is read from where a
// group has come to.
type lines struct {
	path      string
	committed map[string]int64
}

func (l *lines) Write(ctx context.Context, msgs ...topics.Message) error {
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	s := file.NewSink(l.path, f, func(dst []byte, r *evalstream.Record) []byte { return append(dst, r.Raw...) })
	for _, m := range msgs {
		if err := s.Write(ctx, []evalstream.Record{{Raw: m.Value}}); err != nil {
			return err
		}
	}
	return errors.Join(s.Flush(ctx), f.Close())
}

func (l *lines) Consume(_ context.Context, group string) (topictest.Consumer, error) {
	return &reader{log: l, group: group, at: l.committed[group]}, nil
}

type reader struct {
	log    *lines
	group  string
	at     int64 // lines that have been given
	source *file.Source
	block  evalstream.Block
}

// Next opens the file again at its end: a file does not say that it grows.
func (r *reader) Next(ctx context.Context) ([]topics.Message, error) {
	for opened := r.source == nil; ; opened = true {
		if r.source == nil {
			r.source = file.NewSource(file.Path(r.log.path))
		}
		err := r.source.Read(ctx, &r.block)
		if errors.Is(err, io.EOF) && !opened {
			r.source = nil
			continue
		}
		if err != nil {
			return nil, err
		}
		var ms []topics.Message
		line := r.block.At.Line
		for text := range bytes.Lines(r.block.Data) {
			if line > r.at {
				ms = append(ms, topics.Message{Value: bytes.Clone(bytes.TrimSuffix(text, []byte("\n"))), Offset: line - 1})
				r.at = line
			}
			line++
		}
		if len(ms) > 0 {
			return ms, nil
		}
	}
}

func (r *reader) Commit(_ context.Context, _ int32, next int64) error {
	r.log.committed[r.group] = max(r.log.committed[r.group], next)
	return nil
}

func (r *reader) Close() error {
	if r.source == nil {
		return nil
	}
	return r.source.Close()
}

func TestTopic(t *testing.T) {
	topictest.Run(t, topictest.Subject{
		Partitions: 1, ValuesOnly: true,
		Open: func(t *testing.T, _ int32) topictest.Log {
			return &lines{path: filepath.Join(t.TempDir(), "log.ndjson"), committed: map[string]int64{}}
		},
	})
}
