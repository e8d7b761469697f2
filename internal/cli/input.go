package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"

	"github.com/zeebo/xxh3"

	"evalstream"
	"evalstream/codecs"
	"evalstream/topics/file"
)

// input is the opened source of a job.
type input struct {
	evalstream.Source
	lines      drained // behind it, for progress and drain
	format     codecs.Format
	head       []byte          // the first lines, to look at
	partitions int32           // 0 is 1
	notes      func() []string // what is to be told of it at the end; nil: nothing
}

// drained is what signals and progress need of a source.
type drained interface {
	Drain()
	Progress() (read, total int64, known bool)
	Close() error
}

// open opens edges as one source. NDJSON and TREC are told apart by content, and must
// not be mixed; gather reads TREC runs whole, so that lists may be spread over a file.
//
// With a state, what it has read already is skipped, unless digest is set: that is for
// side inputs, which are read whole, and hashes all bytes of them.
func (s *session) open(ctx context.Context, edges []string, gather bool, digest *xxh3.Hasher) (*input, error) {
	if len(edges) == 0 {
		edges = []string{"-"}
	}
	var inputs []Edge
	for _, text := range edges {
		edge, err := ParseEdge("input", text)
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, edge)
	}
	src := NewSource(s.stdin, inputs...)
	src.MaxLine = int(s.common.maxLine)
	s.files = append(s.files, src)
	p := &peeked{src: src}
	if s.kept != nil {
		p.digest = digest
	}
	if err := src.Read(ctx, &p.first); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	} else if err == nil {
		p.has = true
	}
	format := codecs.Sniff(p.first.Data)
	head := p.first.Data
	if s.kept != nil && digest == nil {
		if err := p.resume(ctx, s.kept.point, format); err != nil {
			return nil, err
		}
	}
	in := &input{Source: p, lines: src, format: format, head: head}
	switch in.format {
	case codecs.TRECRun:
		in.Source = file.NewRecordSource(treced(ctx, p, s.place(digest == nil), func(r io.Reader, o *evalstream.Origin) iter.Seq2[evalstream.Record, error] {
			return codecs.NewTRECRuns(r, o, gather).All()
		}))
	case codecs.TRECQrelFile:
		in.Source = file.NewRecordSource(treced(ctx, p, s.place(digest == nil), func(r io.Reader, o *evalstream.Origin) iter.Seq2[evalstream.Record, error] {
			return codecs.NewTRECQrels(r, o).All()
		}))
	case codecs.NDJSON, codecs.UnknownFormat:
	}
	return in, nil
}

// peeked is a source whose first block has been looked at.
type peeked struct {
	src    *file.Source
	first  evalstream.Block
	has    bool
	digest *xxh3.Hasher
}

func (p *peeked) Read(ctx context.Context, b *evalstream.Block) error {
	if !p.has {
		if err := p.src.Read(ctx, b); err != nil {
			return err
		}
	} else {
		p.has = false
		buf := append(b.Buf[:0], p.first.Data...)
		*b = p.first
		b.Buf, b.Data = buf, buf
		p.first = evalstream.Block{}
	}
	if p.digest != nil {
		_, _ = p.digest.Write(b.Data) // never fails
	}
	return nil
}

// resume skips lines that the state has. Of TREC files every line is read again, for
// a record is many lines; its records are skipped.
func (p *peeked) resume(ctx context.Context, cp *evalstream.Checkpoint, format codecs.Format) error {
	if format == codecs.TRECRun || format == codecs.TRECQrelFile {
		cp = nil
	}
	first := &p.first
	if !p.has {
		first = nil
	}
	keep, err := p.src.Resume(ctx, cp, first)
	p.has = keep
	return err
}

// treced reads TREC records from the blocks of p, origin by origin, without those that
// the state has of each.
func treced(ctx context.Context, p *peeked, place placer, read func(io.Reader, *evalstream.Origin) iter.Seq2[evalstream.Record, error]) iter.Seq2[evalstream.Record, error] {
	return func(yield func(evalstream.Record, error) bool) {
		b := &blocks{read: func(b *evalstream.Block) error { return p.Read(ctx, b) }}
		for seq := place.next; b.next(); {
			skip, err := place.records(b.block.At.Origin)
			if err != nil {
				yield(evalstream.Record{}, err)
				return
			}
			for rec, err := range read(b, b.block.At.Origin) {
				if skip > 0 && err == nil {
					skip--
					continue
				}
				rec.Seq = seq
				seq++
				if !yield(rec, err) {
					return
				}
			}
		}
		if b.err != nil && !errors.Is(b.err, io.EOF) {
			yield(evalstream.Record{}, b.err)
		}
	}
}

// blocks reads the bytes of one origin after the other. read fills its block.
type blocks struct {
	read   func(*evalstream.Block) error
	block  evalstream.Block
	rest   []byte
	origin *evalstream.Origin
	err    error
}

// next goes on to the origin of the next block.
func (b *blocks) next() bool {
	if len(b.rest) == 0 && !b.fetch() {
		return false
	}
	b.origin = b.block.At.Origin
	return true
}

func (b *blocks) fetch() bool {
	if b.err != nil {
		return false
	}
	if b.err = b.read(&b.block); b.err != nil {
		return false
	}
	b.rest = b.block.Data
	if b.block.Long > 0 {
		b.err = evalstream.Usagef("%s: line of %d bytes in a TREC file", b.block.At, b.block.Long)
		return false
	}
	return true
}

func (b *blocks) Read(p []byte) (int, error) {
	if len(b.rest) == 0 && !b.fetch() {
		if errors.Is(b.err, io.EOF) {
			return 0, io.EOF
		}
		return 0, b.err
	}
	if b.block.At.Origin != b.origin {
		return 0, io.EOF
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// kindOf guesses what lines are whose kind no flag says: by the first line's own
// kind, else by its fields.
func kindOf(head []byte, standby string) string {
	for line := range bytes.Lines(head) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		var keys map[string]json.RawMessage
		if json.Unmarshal(line, &keys) != nil {
			return standby
		}
		has := func(name string) bool { _, ok := keys[name]; return ok }
		switch {
		case has("kind"):
			return ""
		case has("passage_id"):
			return "qrel"
		case has("gold"), has("label"):
			return "prediction"
		case has("coder"):
			return "rating"
		case has("top"):
			return "run"
		}
		return standby
	}
	return standby
}
