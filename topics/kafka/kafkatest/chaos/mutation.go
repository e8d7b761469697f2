package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A mutation takes a part of the mechanism away, in the build alone: files are replaced
// by an overlay of the go command, so nothing of it is in the program.
type mutation struct {
	name  string
	what  string
	edits []edit
	// doubled says that another part does the same, so that nothing need be found.
	doubled bool
}

// An edit replaces a text that stands once in a file.
type edit struct{ file, old, new string }

// mutations are those that are tried.
func mutations() []mutation {
	takeover := edit{
		"topics/kafka/transactor.go", "codec Codec) (*Transactor, error) {\n",
		"codec Codec) (*Transactor, error) {\n\tid += fmt.Sprint(\".\", time.Now().UnixNano())\n",
	}
	offsets := edit{"topics/kafka/transactor.go", "\tif len(tx.Offsets) == 0 {\n\t\treturn nil", "\tif len(tx.Offsets) >= 0 {\n\t\treturn nil"}
	position := edit{"topics/kafka/segment.go", "\tif point == nil || point.Reach == nil {", "\tif point = nil; point == nil || point.Reach == nil {"}
	generation := edit{"topics/kafka/transactor.go", "\tm := tx.Member\n", "\tm := Member{}\n"}
	return []mutation{
		{name: "fencing", what: "owners do not take the transactional id over, and their generation is not checked", edits: []edit{takeover, generation}},
		{name: "takeover", what: "owners do not take the transactional id over", edits: []edit{takeover}},
		{name: "generation", what: "the generation of who commits offsets is not checked", edits: []edit{generation}, doubled: true},
		{name: "units", what: "aggregate takes each score for one of a new unit", edits: []edit{{
			"stages/units.go", "\t\tif row.hash != hash {\n\t\t\tcontinue", "\t\tif row.hash != hash || true {\n\t\t\tcontinue",
		}}},
		{name: "recovery", what: "units are not read back from the changelog", edits: []edit{{
			"topics/kafka/changelogload.go", "\tld.changes[i].Changes = append(ld.changes[i].Changes, evalstream.Change{Key: key, Val: m.Value})\n", "\t_ = key\n",
		}}},
		{name: "offsets", what: "offsets are committed by nobody", edits: []edit{offsets}, doubled: true},
		{name: "position", what: "offsets are committed by nobody, and the position in the changelog is not gone by", edits: []edit{offsets, position}},
		{name: "isolation", what: "records of aborted transactions are read", edits: []edit{{
			"topics/kafka/fetch.go", "out.gone = append(out.gone, aborted{producer: a.int64(), first: a.int64()})", "_, _ = a.int64(), a.int64()",
		}}},
	}
}

// apply is the overlay's files: what to read in place of what.
func (m mutation) apply(root string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, e := range m.edits {
		path, err := filepath.Abs(filepath.Join(root, e.file))
		if err != nil {
			return nil, err
		}
		text, ok := files[path]
		if !ok {
			if text, err = os.ReadFile(path); err != nil {
				return nil, err
			}
		}
		if n := strings.Count(string(text), e.old); n != 1 {
			return nil, fmt.Errorf("mutation %s: want %q once in %s, got it %d times", m.name, e.old, e.file, n)
		}
		files[path] = []byte(strings.Replace(string(text), e.old, e.new, 1))
	}
	return files, nil
}

// mutant builds the program with a mutation.
func (s *session) mutant(ctx context.Context, m mutation) (string, error) {
	files, err := m.apply(s.root)
	if err != nil {
		return "", err
	}
	var overlay struct{ Replace map[string]string }
	overlay.Replace = map[string]string{}
	for path, text := range files {
		to := filepath.Join(s.dir, m.name+"."+filepath.Base(path))
		if err := os.WriteFile(to, text, 0o600); err != nil {
			return "", err
		}
		overlay.Replace[path] = to
	}
	data, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	file := filepath.Join(s.dir, m.name+".json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return "", err
	}
	return s.build(ctx, m.name, file)
}

// mutate looks for a seed that shows each mutation.
func (s *session) mutate(ctx context.Context) error {
	fmt.Fprintf(s.out, "chaos: mutations, SEED=%d, rounds of %v, at most %d seeds each\n", s.seed, s.length, s.seeds)
	missed := 0
	for _, m := range mutations() {
		if s.only != "" && !slices.Contains(strings.Split(s.only, ","), m.name) {
			continue
		}
		program, err := s.mutant(ctx, m)
		if err != nil {
			return err
		}
		began, found := time.Now(), false
		n := 0
		for ; n < s.seeds && !found; n++ {
			out, err := s.round(ctx, program, s.seed+uint64(n))
			if err != nil {
				return err
			}
			if found = len(out.violations) > 0; found {
				by := map[string]int{}
				for _, v := range out.violations {
					by[v.check]++
				}
				fmt.Fprintf(s.out, "chaos: mutation %s (%s): found with seed %d, the %d. tried, in %v by %v\n", m.name, m.what, out.seed, n+1, time.Since(began).Round(time.Second), text(by))
			}
		}
		switch {
		case found:
		case m.doubled:
			fmt.Fprintf(s.out, "chaos: mutation %s (%s): not found with %d seeds: another part does the same\n", m.name, m.what, n)
		default:
			fmt.Fprintf(s.out, "chaos: mutation %s (%s): NOT FOUND with %d seeds\n", m.name, m.what, n)
			missed++
		}
	}
	if missed > 0 {
		return fmt.Errorf("%d mutations were not found", missed)
	}
	return nil
}

// text is how many violations each check has found.
func text(by map[string]int) string {
	var parts []string
	for _, check := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, fmt.Sprintf("%s (%d)", check, by[check]))
	}
	return strings.Join(parts, ", ")
}
