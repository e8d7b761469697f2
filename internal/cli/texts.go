package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"evalstream"
	"evalstream/codecs"
	"evalstream/stages"
	"evalstream/topics/file"
)

// enriches reports whether a verb sets fields of the records that it is given, so that
// they leave as the lines they came in.
func enriches(verb string) bool { return verb == "context-prefix" || verb == "embed" }

// leaves reports whether the records of step i leave the pipeline as lines.
func leaves(list []stage, i int) bool {
	for _, later := range list[i+1:] {
		if !enriches(later.verb) {
			return false
		}
	}
	return true
}

// splicer sets fields in lines; nil if nobody will see them.
func splicer(list []stage, i int) evalstream.Splice {
	if !leaves(list, i) {
		return nil
	}
	return codecs.SpliceFields
}

func contextStep(list []stage, i int, o *stages.ContextOptions) (func() (evalstream.Stage, error), string, error) {
	f, err := stages.NewContextPrefix(*o, splicer(list, i))
	doc := fmt.Sprintf("write %q before each text; missing fields: %s; at most %d tokens", o.Template, o.Missing, o.MaxTokens)
	return f, doc, wrapUsage("%w", err)
}

func (s *session) embedStep(list []stage, i int, o *stages.EmbedOptions, load bool) (func() (evalstream.Stage, error), string, error) {
	emb, err := o.Embedding()
	if err != nil {
		return nil, "", wrapUsage("%w", err)
	}
	if leaves(list, i) {
		emb.Lines = &stages.VectorLines{Splice: codecs.SpliceFields, Append: codecs.AppendVector}
	}
	if emb.Remote != nil && load {
		if emb.Remote.Key, err = s.key(o.KeyEnv, o.KeyFile); err != nil {
			return nil, "", err
		}
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = o.InFlight
		emb.Remote.Client = &http.Client{Transport: transport}
		if o.Log != "" {
			log, err := file.OpenResultLog(o.Log)
			if err != nil {
				return nil, "", err
			}
			s.closers = append(s.closers, log)
			emb.Log = log
		}
	}
	f, err := stages.NewEmbed(emb)
	return f, o.String(), wrapUsage("%w", err)
}

// key reads a key from a variable or a file; "" if neither is named. It is in no message.
func (e *env) key(variable, path string) (string, error) {
	if variable != "" {
		key, ok := e.getenv(variable)
		if key = strings.TrimSpace(key); !ok || key == "" {
			return "", evalstream.Usagef("key-env: variable %s holds no key", variable)
		}
		return key, checkKey("variable "+variable, key)
	}
	if path == "" {
		return "", nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", evalstream.Usagef("key-file: %w", err)
	}
	key := strings.TrimSpace(string(data))
	if key == "" {
		return "", evalstream.Usagef("key-file: %s holds no key", path)
	}
	return key, checkKey(path, key)
}

// checkKey refuses what cannot stand in a header, without showing it.
func checkKey(where, key string) error {
	for _, r := range key {
		if r <= ' ' || r > '~' {
			return evalstream.Usagef("key: %s holds more than one word or a character that no key has", where)
		}
	}
	return nil
}

func (s *session) rankStep(ctx context.Context, o *stages.RankOptions, load bool) (func() (evalstream.Stage, error), string, error) {
	if err := o.Check(); err != nil {
		return nil, "", wrapUsage("%w", err)
	}
	variant, err := o.Variant()
	if err != nil {
		return nil, "", wrapUsage("%w", err)
	}
	passages := stages.NewPassages(o.Method, variant)
	if load {
		const hint = `a line is {"passage_id": …, "text": …}, with a vector of embed for --method vector`
		err := s.loadSide(ctx, o.Passages, "passages", "passage", passages, passages.Len, hint)
		if err != nil {
			return nil, "", err
		}
		passages.Seal()
		s.notes = append(s.notes, fmt.Sprintf("ranked among %d passages of %s: %s", passages.Len(), o.Passages, o))
	}
	f, err := stages.NewRank(*o, passages)
	return f, fmt.Sprintf("among %s, read whole first: %s", o.Passages, o), wrapUsage("%w", err)
}

func (s *session) classifyStep(ctx context.Context, o *stages.ClassifyOptions, load bool) (func() (evalstream.Stage, error), string, error) {
	if err := o.Check(); err != nil {
		return nil, "", wrapUsage("%w", err)
	}
	instances := stages.NewInstances(o.Method == stages.ClassifyPrototype)
	if load {
		const hint = `a line is {"id": …, "token": […], "subj_start": …, "subj_end": …, "obj_start": …, "obj_end": …, "subj_type": …, "obj_type": …}`
		err := s.loadSide(ctx, o.Instances, "instances", "instance", instances, instances.Len, hint)
		if err != nil {
			return nil, "", err
		}
		s.notes = append(s.notes, o.String())
	}
	f, err := stages.NewClassify(*o, instances)
	return f, o.String(), wrapUsage("%w", err)
}

// loadSide reads a side input whole into stage, which must then have a size. The kind
// of its lines is kind, unless they say their own.
func (s *session) loadSide(ctx context.Context, edge, name, kind string, stage evalstream.Stateful, size func() int, hint string) error {
	digest := xxh3.New()
	in, err := s.open(ctx, []string{edge}, true, digest)
	if err != nil {
		return err
	}
	plan := codecs.Plan{As: kind, NoTime: true}
	if kindOf(in.head, kind) == "" {
		plan.As = ""
	}
	p, err := evalstream.New(name,
		evalstream.Step{Name: "parse " + name, New: stages.NewParse(func() (stages.Decoder, error) { return codecs.NewDecoder(plan) })},
		evalstream.Step{Name: name, New: func() (evalstream.Stage, error) { return stage, nil }},
	)
	if err != nil {
		return err
	}
	job := evalstream.Job{Pipeline: p, Source: in.Source, Sink: nowhere{}, Rejects: s.rejects, Workers: s.common.workers, FailFast: s.common.failFast}
	err = s.readSide(ctx, name, &job, digest)
	if errors.Is(err, evalstream.ErrStopped) {
		s.summarize(evalstream.Summary{})
		return &saidError{evalstream.ExitRejects}
	}
	if err != nil {
		return err
	}
	if size() == 0 {
		s.summarize(evalstream.Summary{})
		return &evalstream.ExitError{Code: evalstream.ExitUsage, Err: fmt.Errorf("%s %s: want %s, got none", name, edge, name), Hint: hint}
	}
	return nil
}

// sideOf is the edge that a verb reads whole before its first record, "" if it has none.
func sideOf(o stages.Options) string {
	switch o := o.(type) {
	case *stages.ScoreOptions:
		if _, ok := topicOf(o.Gold); ok {
			return ""
		}
		return o.Gold
	case *stages.RankOptions:
		return o.Passages
	case *stages.ClassifyOptions:
		return o.Instances
	}
	return ""
}

// joined is what two jobs did, the first of them first.
func joined(a, b evalstream.Summary) evalstream.Summary {
	b.Lines += a.Lines
	b.Blank += a.Blank
	b.Rejects += a.Rejects
	b.Tallies = append(slices.Clone(a.Tallies), b.Tallies...)
	b.Counters = append(slices.Clone(a.Counters), b.Counters...)
	by := map[evalstream.Class]int64{}
	for _, from := range []map[evalstream.Class]int64{a.ByClass, b.ByClass} {
		for class, n := range from {
			by[class] += n
		}
	}
	b.ByClass = by
	return b
}
