package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A violation is something that must not be.
type violation struct {
	check string // which of the checks found it
	text  string
}

// findings gathers the violations of one check.
type findings struct {
	check string
	found []violation
}

func (f *findings) add(format string, args ...any) {
	f.found = append(f.found, violation{f.check, fmt.Sprintf(format, args...)})
}

// An object is a line of NDJSON. Numbers keep their literals.
type object map[string]any

func parseObject(line string) (object, error) {
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	var o object
	if err := d.Decode(&o); err != nil {
		return nil, fmt.Errorf("%q: %w", line, err)
	}
	return o, nil
}

// text is o with sorted keys.
func (o object) text() string {
	b, err := json.Marshal(map[string]any(o))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// of is the values of these fields, as a key.
func (o object) of(fields ...string) string {
	var vs []any
	for _, f := range fields {
		vs = append(vs, o[f])
	}
	b, err := json.Marshal(vs)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func (o object) string(field string) string {
	s, _ := o[field].(string)
	return s
}

// zero reports whether these numbers are 0 or absent.
func (o object) zero(fields ...string) bool {
	return !slices.ContainsFunc(fields, func(f string) bool { n, ok := o[f].(json.Number); return ok && n != "0" })
}

// compare adds what differs between two sets of texts by key.
func (f *findings) compare(what string, want, got map[string]string) {
	all := maps.Clone(want)
	maps.Copy(all, got)
	for _, k := range slices.Sorted(maps.Keys(all)) {
		w, wanted := want[k]
		g, is := got[k]
		switch {
		case !is:
			f.add("%s %s is missing: want %s", what, k, w)
		case !wanted:
			f.add("%s %s: want none, got %s", what, k, g)
		case w != g:
			f.add("%s %s:\n    want %s\n    got  %s", what, k, w, g)
		}
	}
}
