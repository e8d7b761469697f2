package cli

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/zeebo/xxh3"

	"evalstream"
	statedir "evalstream/topics/state"
)

// keptState is the state that a command goes on with. A nil one is none.
type keptState struct {
	store *statedir.Store
	point *evalstream.Checkpoint // nil: the state is new
	sides []evalstream.Option    // digests of what was read before the first record, by name
}

func (k *keptState) has() bool { return k != nil }

// resumes says that something was read before.
func (k *keptState) resumes() bool { return k != nil && k.point != nil }

func (k *keptState) close() error {
	if k == nil || k.store == nil {
		return nil
	}
	return k.store.Close()
}

// publish notes, before the first result is written, that a later process may find it
// read.
func (k *keptState) publish() error {
	if k == nil || k.store == nil {
		return nil
	}
	return k.store.Publish()
}

// readSide runs the job that reads a side input whole. Where the state goes on, the
// rejects of that are in their file already: they are counted and not written again.
func (s *session) readSide(ctx context.Context, name string, job *evalstream.Job, digest *xxh3.Hasher) error {
	s.rejects.muted = s.kept.resumes()
	sum, err := job.Run(ctx)
	s.rejects.muted = false
	s.sides = joined(s.sides, sum)
	if err != nil || s.kept == nil {
		return err
	}
	s.kept.sides = append(s.kept.sides, evalstream.Option{Name: name, Value: fmt.Sprintf("%016x", digest.Sum64())})
	if !s.kept.resumes() {
		s.rejects.base, err = s.rejects.Length()
	}
	return err
}

// openState opens the directory of --state. A file may then be named only once: the
// second time it would be known, and skipped.
func (s *session) openState(inputs []Edge) error {
	dir := s.common.state
	if dir == "" {
		return nil
	}
	seen := map[string]bool{}
	for _, in := range inputs {
		path := filepath.Clean(in.Path)
		if !in.Std && seen[path] {
			return evalstream.Usagef("%s: is named twice; with --state a file is read once", in)
		}
		seen[path] = true
	}
	store, err := statedir.Open(dir, true)
	if err != nil {
		return err
	}
	s.kept = &keptState{store: store}
	if s.kept.point, err = store.Checkpoint(0); err == nil {
		s.common.published, err = store.Published()
	}
	if err != nil {
		return errors.Join(err, store.Close())
	}
	return nil
}

// bindState refuses a state that was made with other options.
func (s *session) bindState(list []stage) error {
	if s.kept == nil || s.kept.store == nil {
		return nil
	}
	options, err := stateOptions(complete(list), s.common, s.kept.sides)
	if err != nil {
		return err
	}
	return s.kept.store.Bind(options)
}

// stateFlags are the common options that decide what the state is.
func stateFlags() []string {
	return []string{"max-line", "horizon", "max-out-of-order", "time-from", "time-unit", "on-conflict"}
}

// stepsOption names the option that lists the steps.
const stepsOption = "steps"

// sideFields are the options that name a side input, which a state knows by its digest
// wherever it lies.
func sideFields() []string { return []string{"Gold", "Passages", "Instances"} }

// otherFields are options of remote steps that say how, not what, they ask.
func otherFields() []string {
	return []string{
		"Log", "URL", "KeyEnv", "KeyFile", "Timeout", "Deadline", "Linger", "Batch", "BatchBytes", "InFlight", "Attempts", "RetrySeed",
	}
}

// stateOptions are all options that decide what the state is, as text.
func stateOptions(list []stage, c *common, sides []evalstream.Option) ([]evalstream.Option, error) {
	var steps []string
	for _, st := range list {
		steps = append(steps, st.name+"="+st.verb)
	}
	options := []evalstream.Option{{Name: stepsOption, Value: strings.Join(steps, " ")}}
	add := func(name, value string) {
		if value != "" && value != "null" && value != `""` {
			options = append(options, evalstream.Option{Name: name, Value: value})
		}
	}
	own := new(common)
	fs := flag.NewFlagSet("state", flag.ContinueOnError)
	own.declare(fs) // sets the defaults
	*own = *c
	for _, name := range stateFlags() {
		add(name, fs.Lookup(name).Value.String())
	}
	for _, st := range list {
		data, err := json.Marshal(st.options)
		if err != nil {
			return nil, err
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(data, &fields); err != nil {
			return nil, err
		}
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			value := string(fields[field])
			if slices.Contains(otherFields(), field) {
				continue
			}
			if text, err := strconv.Unquote(value); err == nil && field == "Gold" && strings.HasPrefix(text, "topic:") {
				continue // as if it came in the stream
			}
			if slices.Contains(sideFields(), field) && value != `""` && value != strconv.Quote(inlineGold) {
				value = strconv.Quote(strings.ToLower(field))
			}
			add(st.name+"."+field, value)
		}
	}
	return append(options, sides...), nil
}

// placer says what the state has of origins whose records are not lines.
type placer struct {
	point *evalstream.Checkpoint
	next  evalstream.Seq // of the next record
}

func (s *session) place(skip bool) placer {
	if !skip || !s.kept.resumes() {
		return placer{}
	}
	return placer{point: s.kept.point, next: s.kept.point.Next}
}

// records is how many of an origin's records are to be skipped.
func (p placer) records(o *evalstream.Origin) (int64, error) {
	if p.point == nil {
		return 0, nil
	}
	if at := p.point.Place(o); at != nil {
		return at.Records, nil
	}
	for _, at := range p.point.Places {
		if at.Origin.Name == o.Name && o.Name != "<stdin>" {
			return 0, &evalstream.ExitError{
				Code: evalstream.ExitState, Err: fmt.Errorf("%s: begins with another line than when the state read it", o.Name),
				Hint: "give the file that was read before, give the new one another name, or name another --state DIR",
			}
		}
	}
	return 0, nil
}
