package cli

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"evalstream"
	"evalstream/stages"
	statedir "evalstream/topics/state"
)

// keptState is the state that a command goes on with. A nil one is none.
type keptState struct {
	store *statedir.Store
	point *evalstream.Checkpoint // nil: the state is new
	gold  string                 // digest of the gold that was read
}

func (k *keptState) has() bool { return k != nil }

// resumes says that something was read before.
func (k *keptState) resumes() bool { return k != nil && k.point != nil }

func (k *keptState) close() error {
	if k == nil {
		return nil
	}
	return k.store.Close()
}

func (k *keptState) goldRead(digest uint64) {
	if k != nil {
		k.gold = fmt.Sprintf("%016x", digest)
	}
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
	if s.kept.point, err = store.Checkpoint(0); err != nil {
		return errors.Join(err, store.Close())
	}
	return nil
}

// bindState refuses a state that was made with other options.
func (s *session) bindState(list []stage) error {
	if s.kept == nil {
		return nil
	}
	options, err := stateOptions(complete(list), s.common, s.kept.gold)
	if err != nil {
		return err
	}
	return s.kept.store.Bind(options)
}

// stateFlags are the common options that decide what the state is.
func stateFlags() []string {
	return []string{"max-line", "horizon", "max-out-of-order", "time-from", "time-unit", "on-conflict"}
}

// stepsOption names the option that lists the steps, and goldOption the one for the
// digest of gold that was read first.
const (
	stepsOption = "steps"
	goldOption  = "gold"
)

// stateOptions are all options that decide what the state is, as text.
func stateOptions(list []stage, c *common, gold string) ([]evalstream.Option, error) {
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
			if _, score := st.options.(*stages.ScoreOptions); score && field == "Gold" && value != `""` && value != strconv.Quote(inlineGold) {
				value = strconv.Quote(goldOption) // by its digest, wherever it lies
			}
			add(st.name+"."+field, value)
		}
	}
	add(goldOption, gold)
	return options, nil
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
