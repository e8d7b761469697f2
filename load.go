package evalstream

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Spec is a pipeline as it is written in YAML, before anyone has asked what its
// verbs and options mean.
type Spec struct {
	File        string
	Name        string
	Brokers     []string
	From        []string // one, or topics that are read together; nil if it is not said
	To, Rejects string
	Stages      []StageSpec
	Tests       string   // folder of golden cases, from the file's own; "" if it is not said
	Edges       []Option // from, to, rejects and tests with their positions
	Options     []Option // of the whole pipeline: the fields that are none of the above
}

// StageSpec is one item of stages.
type StageSpec struct {
	Verb, As, Via string
	Options       []Option
	Line, Column  int
}

// Option is one value of one field; a list is one Option a value.
type Option struct {
	Name, Value  string
	Number       bool // it was written as a number, without quotes
	Line, Column int
}

// OptionsDiffer says for people what differs between options that were and that are; ""
// if nothing does. The order of names does not count, and positions do not; the order
// of one name's values does.
func OptionsDiffer(were, are []Option) string {
	var names []string // in the order in which they come
	had, has := map[string][]string{}, map[string][]string{}
	note := func(os []Option, values map[string][]string) {
		for _, o := range os {
			if !slices.Contains(names, o.Name) {
				names = append(names, o.Name)
			}
			values[o.Name] = append(values[o.Name], o.Value)
		}
	}
	note(were, had)
	note(are, has)
	var diffs []string
	for _, n := range names {
		was, is := strings.Join(had[n], ", "), strings.Join(has[n], ", ")
		switch {
		case slices.Equal(had[n], has[n]):
		case has[n] == nil:
			diffs = append(diffs, fmt.Sprintf("%s was %s and is not given", n, was))
		case had[n] == nil:
			diffs = append(diffs, fmt.Sprintf("%s is %s and was not given", n, is))
		default:
			diffs = append(diffs, fmt.Sprintf("%s was %s and is %s", n, was, is))
		}
	}
	return strings.Join(diffs, "; ")
}

// LoadSpec reads a pipeline file. It reports every fault of its form at once, as
// [Faults] sorted by position. ${VAR} and ${VAR:-default} are expanded in values,
// after parsing, so a comment is never expanded; $$ is a dollar sign.
func LoadSpec(file string, data []byte, getenv func(string) (string, bool)) (*Spec, error) {
	l := &loader{file: file, getenv: getenv, spec: &Spec{File: file}}
	if !utf8.Valid(data) {
		l.badText(data)
		return nil, l.result()
	}
	var doc yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			l.fault(&yaml.Node{Line: 1, Column: 1}, "pipeline: want stages, got an empty file")
		} else {
			l.syntax(err)
		}
		return nil, l.result()
	}
	if len(doc.Content) == 1 {
		l.pipeline(doc.Content[0])
	}
	var more yaml.Node
	if err := dec.Decode(&more); err == nil {
		l.fault(&more, "pipeline: want one pipeline a file, got a second document")
	} else if !errors.Is(err, io.EOF) {
		l.syntax(err)
	}
	if err := l.result(); err != nil {
		return l.spec, err
	}
	return l.spec, nil
}

// syntax adds the YAML library's fault.
func (l *loader) syntax(err error) {
	line := yamlLine(err)
	reason := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), fmt.Sprintf("line %d: ", line))
	l.fault(&yaml.Node{Line: line, Column: 1}, "%s", reason)
}

// badText adds the fault of the first byte that is not UTF-8; the YAML library knows
// no position for it.
func (l *loader) badText(data []byte) {
	line, column := 1, 1
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError && n == 1:
			l.fault(&yaml.Node{Line: line, Column: column}, "byte 0x%02x is not UTF-8", data[0])
			return
		case r == '\n':
			line, column = line+1, 1
		default:
			column++
		}
		data = data[n:]
	}
}

// yamlLine finds the line in a syntax error of the YAML library, which has it in its
// text alone; 1 if there is none.
func yamlLine(err error) int {
	var line int
	if _, scanErr := fmt.Sscanf(err.Error(), "yaml: line %d:", &line); scanErr != nil || line < 1 {
		return 1
	}
	return line
}

type loader struct {
	file   string
	getenv func(string) (string, bool)
	spec   *Spec
	faults Faults
}

func (l *loader) fault(n *yaml.Node, format string, args ...any) {
	l.faults = append(l.faults, ConfigFault{File: l.file, Line: n.Line, Column: n.Column, Reason: fmt.Sprintf(format, args...)})
}

func (l *loader) result() error {
	if len(l.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(l.faults, func(a, b ConfigFault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return &ExitError{Code: ExitUsage, Err: l.faults}
}

// fields calls f for each key of a mapping, and faults keys that come twice.
func (l *loader) fields(n *yaml.Node, what string, f func(key, val *yaml.Node)) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode {
		l.fault(n, "%s: want fields, got %s", what, nodeKind(n))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if seen[key.Value] {
			l.fault(key, "%s: field %s is there twice", what, key.Value)
			continue
		}
		seen[key.Value] = true
		f(key, n.Content[i+1])
	}
}

func (l *loader) pipeline(n *yaml.Node) {
	stages := false
	l.fields(n, "pipeline", func(key, val *yaml.Node) {
		switch key.Value {
		case "name":
			l.spec.Name = l.scalar(val, "name")
		case "from":
			if val.Kind != yaml.SequenceNode {
				l.spec.From = []string{l.edge(key, val)}
				break
			}
			for _, o := range l.values(key, val) {
				l.spec.Edges = append(l.spec.Edges, o)
				l.spec.From = append(l.spec.From, o.Value)
			}
		case "to":
			l.spec.To = l.edge(key, val)
		case "rejects":
			l.spec.Rejects = l.edge(key, val)
		case "tests":
			l.spec.Tests = l.edge(key, val)
		case "brokers":
			for _, o := range l.values(key, val) {
				l.spec.Brokers = append(l.spec.Brokers, o.Value)
			}
		case "stages":
			stages = true
			l.stages(val)
		default:
			l.spec.Options = append(l.spec.Options, l.values(key, val)...)
		}
	})
	if n.Kind == yaml.MappingNode && !stages {
		l.fault(n, "pipeline: want stages, got none")
	}
}

// edge is a field of the pipeline whose position is kept.
func (l *loader) edge(key, val *yaml.Node) string {
	o := Option{Name: key.Value, Value: l.scalar(val, key.Value), Line: val.Line, Column: val.Column}
	l.spec.Edges = append(l.spec.Edges, o)
	return o.Value
}

func (l *loader) stages(n *yaml.Node) {
	if n.Kind != yaml.SequenceNode {
		l.fault(n, "stages: want a list, got %s", nodeKind(n))
		return
	}
	for _, item := range n.Content {
		s := StageSpec{Line: item.Line, Column: item.Column}
		l.fields(item, "stage", func(key, val *yaml.Node) {
			switch key.Value {
			case "as":
				s.As = l.scalar(val, "as")
			case "via":
				s.Via = l.scalar(val, "via")
			default:
				if s.Verb != "" {
					advice := "start it with a dash of its own"
					if near := Nearest(key.Value, []string{"via", "as"}); near != "" {
						advice = fmt.Sprintf("did you mean %q?", near)
					}
					l.fault(key, "stage %s: want one verb an item, got %s beside it; %s", s.Verb, key.Value, advice)
					return
				}
				s.Verb, s.Line, s.Column = key.Value, key.Line, key.Column
				if val.Kind == yaml.ScalarNode && val.Tag == "!!null" {
					return
				}
				l.fields(val, key.Value, func(key, val *yaml.Node) {
					s.Options = append(s.Options, l.values(key, val)...)
				})
			}
		})
		if s.Verb == "" {
			l.fault(item, "stage: want a verb, got none")
		}
		l.spec.Stages = append(l.spec.Stages, s)
	}
}

// values is a scalar, or a list of scalars, as options.
func (l *loader) values(key, val *yaml.Node) []Option {
	if val.Kind == yaml.AliasNode {
		val = val.Alias
	}
	if val.Kind != yaml.SequenceNode {
		return []Option{{Name: key.Value, Value: l.scalar(val, key.Value), Number: isNumber(val), Line: key.Line, Column: key.Column}}
	}
	if len(val.Content) == 0 {
		l.fault(val, "%s: want at least one value, got an empty list", key.Value)
	}
	var os []Option
	for _, item := range val.Content {
		os = append(os, Option{Name: key.Value, Value: l.scalar(item, key.Value), Number: isNumber(item), Line: item.Line, Column: item.Column})
	}
	return os
}

func isNumber(n *yaml.Node) bool { return n.ShortTag() == "!!int" || n.ShortTag() == "!!float" }

func (l *loader) scalar(n *yaml.Node, what string) string {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.ScalarNode {
		l.fault(n, "%s: want a value, got %s", what, nodeKind(n))
		return ""
	}
	s, err := expand(n.Value, l.getenv)
	if err != nil {
		l.fault(n, "%s: %v", what, err)
	}
	return s
}

func nodeKind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "fields"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			return "nothing"
		}
		return "a value"
	default:
		return "something else"
	}
}

// expand replaces ${VAR} and ${VAR:-default}.
func expand(s string, getenv func(string) (string, bool)) (string, error) {
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 || i+1 == len(s) {
			b.WriteString(s)
			return b.String(), nil
		}
		b.WriteString(s[:i])
		switch s[i+1] {
		case '$':
			b.WriteByte('$')
			s = s[i+2:]
			continue
		case '{':
		default:
			b.WriteByte('$')
			s = s[i+1:]
			continue
		}
		end := strings.IndexByte(s[i:], '}')
		if end < 0 {
			return "", fmt.Errorf("want } after %s", s[i:])
		}
		name, standby, hasStandby := strings.Cut(s[i+2:i+end], ":-")
		value, ok := getenv(name)
		switch {
		case ok && value != "" || ok && !hasStandby:
			b.WriteString(value)
		case hasStandby:
			b.WriteString(standby)
		default:
			return "", fmt.Errorf("variable %s is not set; set it or write ${%s:-default}", name, name)
		}
		s = s[i+end+1:]
	}
}
