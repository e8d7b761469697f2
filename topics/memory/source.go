// Package memory moves lines that are in memory already: an ordered, partitioned
// [Source] that cuts blocks, interleaves partitions and delivers again by a seed, and
// a [Sink] that collects. What a job makes of them does not depend on the seed.
package memory

import (
	"context"
	"io"
	"math/rand/v2"

	"evalstream"
)

// Options say how lines are handed over. The zero value gives blocks of 1 to 64
// lines in an order by seed 0, each once.
type Options struct {
	Seed uint64
	// MaxLines is the most lines of a block, whose number is drawn from 1 to it;
	// 0 is 64.
	MaxLines int
	// Redeliver is the chance, 0 to 1, that a block is followed by going back in its
	// partition by 1 to 2·MaxLines lines, so that those come again with the Seq that
	// they had.
	Redeliver float64
	// Name is what positions call the topic; "" is "memory".
	Name string
}

// Source delivers lines of partitions, each in order.
type Source struct {
	opt  Options
	rng  *rand.Rand
	left []*partition // those with lines left
	read int64
}

type partition struct {
	origin evalstream.Origin
	number int32
	lines  [][]byte
	at     int // next line
	end    int // lines that have been delivered at least once
}

// New delivers the lines of partitions, numbered from 0. A line comes without its
// newline and has none inside. The first line of a partition has offset 0 and Seq 0.
// Lines are not copied and not changed.
func New(opt Options, partitions ...[][]byte) *Source {
	if opt.MaxLines <= 0 {
		opt.MaxLines = 64
	}
	if opt.Name == "" {
		opt.Name = "memory"
	}
	s := &Source{opt: opt, rng: rand.New(rand.NewPCG(opt.Seed, 0))}
	for i, lines := range partitions {
		if len(lines) == 0 {
			continue
		}
		p := &partition{number: int32(i), lines: lines}
		p.origin = evalstream.Origin{Name: opt.Name, Topic: true, Partition: p.number}
		s.left = append(s.left, p)
	}
	return s
}

// Lines are the lines of text, for New; a last newline ends the last line.
func Lines(text string) [][]byte {
	var lines [][]byte
	from := 0
	for i := range len(text) {
		if text[i] == '\n' {
			lines = append(lines, []byte(text[from:i]))
			from = i + 1
		}
	}
	if from < len(text) {
		lines = append(lines, []byte(text[from:]))
	}
	return lines
}

// Read fills b with the next block of one of the partitions.
func (s *Source) Read(ctx context.Context, b *evalstream.Block) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(s.left) == 0 {
		return io.EOF
	}
	i := s.rng.IntN(len(s.left))
	p := s.left[i]
	n := min(1+s.rng.IntN(s.opt.MaxLines), len(p.lines)-p.at)
	b.Buf = b.Buf[:0]
	for _, l := range p.lines[p.at : p.at+n] {
		b.Buf = append(append(b.Buf, l...), '\n')
	}
	b.Data, b.Records, b.Long, b.Unterminated = b.Buf, nil, 0, false
	b.Partition = p.number
	b.First = evalstream.Seq(p.at)
	b.At = evalstream.Pos{Origin: &p.origin, Line: int64(p.at)}
	p.at += n
	s.read += int64(n)
	fresh := p.at > p.end
	p.end = max(p.end, p.at)
	// Only new lines bring others back, so that the source ends.
	if fresh && s.rng.Float64() < s.opt.Redeliver {
		p.at -= min(p.at, 1+s.rng.IntN(2*s.opt.MaxLines))
	}
	if p.at == len(p.lines) {
		s.left = append(s.left[:i], s.left[i+1:]...)
	}
	return nil
}

// Delivered is how many lines have been delivered, those that came again included.
func (s *Source) Delivered() int64 { return s.read }
