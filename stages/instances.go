package stages

import (
	"context"
	"fmt"
	"strings"

	"evalstream"
)

// Instances is a frozen file of instances: what episodes name by id. It is filled as
// the last step of a job; after that it is shared by all workers.
type Instances struct {
	vectors     bool // they are needed
	ids         map[string]int32
	rows        []instanceRow // by number of the id
	values      []float32
	dims        int
	fingerprint string

	received, rejected int64
}

type instanceRow struct{ subject, object string }

// NewInstances makes an empty set; vectors says that each must have one.
func NewInstances(vectors bool) *Instances {
	return &Instances{vectors: vectors, ids: map[string]int32{}}
}

// Load is for the contract: instances have no changelog.
func (*Instances) Load(_, _ []byte) error { return nil }

// Len is the number of instances.
func (s *Instances) Len() int { return len(s.rows) }

// Process takes instances; a second one of the same id is a reject.
func (s *Instances) Process(_ context.Context, in []evalstream.Record, out *evalstream.Out) error {
	for i := range in {
		s.received++
		f, err := s.take(in[i].Body)
		if err != nil {
			return err
		}
		if f != nil {
			s.rejected++
			out.Reject(in[i].Seq, *f)
		}
	}
	return nil
}

func (s *Instances) take(body evalstream.Body) (*evalstream.Fault, error) {
	b, ok := body.(*evalstream.Instance)
	if !ok {
		return &evalstream.Fault{Class: evalstream.ClassStage, Reason: "want instance, got " + body.Kind()}, nil
	}
	if _, ok := s.ids[b.ID]; ok {
		return &evalstream.Fault{Class: evalstream.ClassStage, Path: "/id", Reason: fmt.Sprintf("instance %q is there twice", b.ID)}, nil
	}
	if s.vectors {
		n := len(b.Vector.Values)
		switch {
		case n == 0:
			return &evalstream.Fault{Class: evalstream.ClassStage, Path: "/vector", Reason: "instance has no vector; run it through embed first"}, nil
		case s.dims == 0:
			s.dims, s.fingerprint = n, strings.Clone(b.Vector.Fingerprint)
		case b.Vector.Fingerprint != s.fingerprint:
			return nil, mixed("instances", s.fingerprint, fmt.Sprintf("instance %q", b.ID), b.Vector.Fingerprint)
		case n != s.dims:
			return &evalstream.Fault{Class: evalstream.ClassStage, Path: "/vector", Reason: fmt.Sprintf("want %d dimensions as before, got %d", s.dims, n)}, nil
		}
		s.values = append(s.values, b.Vector.Values...)
	}
	// The body's strings die with its block.
	s.ids[strings.Clone(b.ID)] = int32(len(s.rows))
	s.rows = append(s.rows, instanceRow{subject: strings.Clone(b.SubjType), object: strings.Clone(b.ObjType)})
	return nil, nil
}

func (s *Instances) vector(i int32) []float32 { return s.values[int(i)*s.dims : (int(i)+1)*s.dims] }

// Tallies accounts for the instances that were loaded.
func (s *Instances) Tallies() []evalstream.Tally {
	return []evalstream.Tally{{Kind: "instance", Received: s.received, Held: s.received - s.rejected, Rejected: s.rejected}}
}
