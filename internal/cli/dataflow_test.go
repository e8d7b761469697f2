package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"evalstream"
	"evalstream/codecs"
	"evalstream/stages"
	"evalstream/stages/metric"
	"evalstream/topics/file"
)

// dataflow is one job in the forms in which people write it. Options are NAME=VALUE, for the shell and for YAML.
type dataflow struct {
	name                    string
	input, gold             string   // files' content; gold "" comes with the stream or inline
	parse, score, aggregate []string // options
	eval                    []string // the ready command; nil if there is none
	program                 func(t *testing.T, input, gold string) said
}

func dataflows(t *testing.T) []dataflow {
	t.Helper()
	l := newRetrievalLog(1, 600, 2)
	log, gold, mixed := lines(l.lines...), lines(l.gold...), l.stream(2)
	labelled, labels := newPredictions(3, 120)
	var inline []string
	for i, p := range labelled {
		g := labels[i/2]
		inline = append(inline, strings.TrimSuffix(p, "}")+g[strings.Index(g, `,"gold"`):])
	}
	ratings := lines(newRatings(4, 200)...)

	groups := []string{"by=run", "by=run,ticker", "window=all", "window=1h"}
	mapped := []string{"map=run=/model", "map=time=/ts", "map=top=/retrieved"}
	measures := []string{"measure=success@1", "measure=mrr@10", "measure=ndcg@10", "measure=recall@5"}
	plan := codecs.Plan{Map: []codecs.Mapping{{Field: "run", Pointer: "/model"}, {Field: "time", Pointer: "/ts"}, {Field: "top", Pointer: "/retrieved"}}, Slices: []string{"ticker"}}
	scoring := stages.Scoring{}
	for _, name := range []string{"success@1", "mrr@10", "ndcg@10", "recall@5"} {
		m, err := metric.ParseMeasure(name)
		if err != nil {
			t.Fatal(err)
		}
		scoring.Measures = append(scoring.Measures, m)
	}
	aggregation := stages.Aggregation{
		By: [][]string{{"run"}, {"run", "ticker"}}, Windows: []stages.Window{{All: true}, hours(1)},
		MaxGroups: 10000, Negative: "no_relation",
	}
	over := aggregation
	over.By, over.Over = [][]string{{"run"}, {"run", "relation"}}, "seed"
	pooled := aggregation
	pooled.By = [][]string{nil, {"run", "ticker"}}
	pooled.Level = metric.OrdinalLevel
	hopping := aggregation
	hopping.Windows = []stages.Window{hours(2), {Size: hours(2).Size, Step: hours(1).Size}}

	as := func(kind string, p codecs.Plan) codecs.Plan { p.As = kind; return p }
	return []dataflow{
		{
			name: "retrieval, frozen gold", input: log, gold: gold,
			parse: append([]string{"as=run"}, mapped...), score: measures, aggregate: groups, eval: []string{"retrieval", "qrels"},
			program: func(t *testing.T, input, gold string) said {
				return program(t, input, as("run", plan), frozen(t, gold, "qrel", scoring), aggregation)
			},
		},
		{
			name: "retrieval, missing counts", input: lines(l.lines[:200]...), gold: gold,
			parse: append([]string{"as=run"}, mapped...), score: append([]string{"ties=worst", "level-relevant=2"}, measures...),
			aggregate: append([]string{"missing=miss"}, groups...), eval: []string{"retrieval", "qrels"},
			program: func(t *testing.T, input, gold string) said {
				s, a := scoring, aggregation
				s.Ties, s.Level, a.MissHits = metric.TiesWorst, 2, true
				return program(t, input, as("run", plan), frozen(t, gold, "qrel", s), a)
			},
		},
		{
			name: "retrieval, open gold", input: mixed, parse: mapped, score: measures, aggregate: groups,
			program: func(t *testing.T, input, _ string) said {
				f, err := stages.NewScore(stages.OpenScoring{Scoring: scoring})
				return program(t, input, plan, made(t, f, err), aggregation)
			},
		},
		{
			name: "retrieval, hopping windows", input: mixed, parse: mapped, score: measures,
			aggregate: []string{"by=run", "by=run,ticker", "window=2h", "window=2h/1h"},
			program: func(t *testing.T, input, _ string) said {
				f, err := stages.NewScore(stages.OpenScoring{Scoring: scoring})
				return program(t, input, plan, made(t, f, err), hopping)
			},
		},
		{
			name: "few-shot, inline gold", input: lines(inline...), parse: []string{"as=prediction"}, score: []string{"gold=inline"},
			aggregate: groups, eval: []string{"fewshot", "gold"},
			program: func(t *testing.T, input, _ string) said {
				f, err := stages.NewScoreFrozen(stages.Scoring{}, nil)
				return program(t, input, codecs.Plan{As: "prediction", Slices: []string{"ticker"}}, made(t, f, err), aggregation)
			},
		},
		{
			name: "few-shot, gold file, over seeds", input: lines(labelled...), gold: shuffled(5, labels),
			parse: []string{"as=prediction"}, aggregate: []string{"by=run", "by=run,relation", "over=seed", "window=all", "window=1h"},
			eval: []string{"fewshot", "gold"},
			program: func(t *testing.T, input, gold string) said {
				return program(t, input, codecs.Plan{As: "prediction"}, frozen(t, gold, "prediction", stages.Scoring{}), over)
			},
		},
		{
			name: "few-shot, open gold", input: shuffled(6, append(slices.Clone(labelled), labels...)),
			parse: []string{"as=prediction"}, aggregate: groups,
			program: func(t *testing.T, input, _ string) said {
				f, err := stages.NewScore(stages.OpenScoring{})
				return program(t, input, codecs.Plan{As: "prediction", Slices: []string{"ticker"}}, made(t, f, err), aggregation)
			},
		},
		{
			name: "agreement", input: ratings, parse: []string{"as=rating"},
			aggregate: []string{"level=ordinal", `by=`, "by=run,ticker", "window=all", "window=1h"}, eval: []string{"agreement", ""},
			program: func(t *testing.T, input, _ string) said {
				f, err := stages.NewScore(stages.OpenScoring{})
				return program(t, input, codecs.Plan{As: "rating", Slices: []string{"ticker", "run"}}, made(t, f, err), pooled)
			},
		},
	}
}

func hours(n int64) stages.Window {
	w, err := stages.ParseWindow(fmt.Sprintf("%dh", n))
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return w
}

// made is a stage that could be made.
func made(t *testing.T, f func() (evalstream.Stage, error), err error) func() (evalstream.Stage, error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// parsing is the step that reads lines.
func parsing(plan codecs.Plan) evalstream.Step {
	return evalstream.Step{Name: "parse", New: stages.NewParse(func() (stages.Decoder, error) { return codecs.NewDecoder(plan) })}
}

// frozen is score over a gold file.
func frozen(t *testing.T, path, kind string, s stages.Scoring) func() (evalstream.Stage, error) {
	t.Helper()
	gold := stages.NewGold("")
	p, err := evalstream.New("gold", parsing(codecs.Plan{As: kind}), evalstream.Step{Name: "gold", New: func() (evalstream.Stage, error) { return gold, nil }})
	if err != nil {
		t.Fatal(err)
	}
	job := evalstream.Job{Pipeline: p, Source: file.NewSource(file.Path(path)), Sink: nowhere{}}
	if _, err := job.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	gold.Seal()
	f, err := stages.NewScoreFrozen(s, gold)
	return made(t, f, err)
}

// program runs the job as a Go program does.
func program(t *testing.T, input string, plan codecs.Plan, score func() (evalstream.Stage, error), a stages.Aggregation) said {
	t.Helper()
	f, err := stages.NewAggregate(a)
	p, err2 := evalstream.New("program", parsing(plan), evalstream.Step{Name: "score", New: score}, evalstream.Step{Name: "aggregate", New: made(t, f, err)})
	if err2 != nil {
		t.Fatal(err2)
	}
	var out bytes.Buffer
	job := evalstream.Job{Pipeline: p, Source: file.NewSource(file.Path(input)), Sink: file.NewSink("out", &out, appendLine)}
	sum, err := job.Run(t.Context())
	if err != nil || sum.Rejects > 0 || len(sum.Unbalanced()) > 0 {
		t.Fatalf("%v; %+v", err, sum)
	}
	return said{stdout: out.String()}
}

// flags are options as the shell has them.
func flags(options []string) []string {
	var args []string
	for _, o := range options {
		name, value, _ := strings.Cut(o, "=")
		args = append(args, "--"+name, value)
	}
	return args
}

// fields are options as YAML has them.
func fields(options []string) string {
	var names []string
	values := map[string][]string{}
	for _, o := range options {
		name, value, _ := strings.Cut(o, "=")
		name = strings.ReplaceAll(name, "-", "_")
		if values[name] == nil {
			names = append(names, name)
		}
		values[name] = append(values[name], fmt.Sprintf("%q", value))
	}
	var fs []string
	for _, name := range names {
		if vs := values[name]; len(vs) == 1 {
			fs = append(fs, name+": "+vs[0])
		} else {
			fs = append(fs, name+": ["+strings.Join(vs, ", ")+"]")
		}
	}
	return "{" + strings.Join(fs, ", ") + "}"
}

// TestDataflowForms is law 1 over the ways to write a job: a pipe of stages, a file, a program and the ready command end with the
// same results for the same records.
func TestDataflowForms(t *testing.T) {
	for _, d := range dataflows(t) {
		t.Run(d.name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string) string {
				path := filepath.Join(dir, name)
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				return path
			}
			input, gold := write("input", d.input), ""
			score := d.score
			if d.gold != "" {
				gold = write("gold", d.gold)
				score = append([]string{"gold=" + gold}, score...)
			}
			want := d.program(t, input, gold).comparable(t)

			pipe := succeed(t, "", append(append([]string{"parse"}, flags(d.parse)...), input)...)
			pipe = succeed(t, pipe.stdout, append([]string{"score"}, flags(score)...)...)
			pipe = succeed(t, pipe.stdout, append([]string{"aggregate"}, flags(d.aggregate)...)...)
			same(t, "pipe", want, pipe.comparable(t))

			yaml := lines("from: "+input, "stages:", "  - parse: "+fields(d.parse), "  - score: "+fields(score), "  - aggregate: "+fields(d.aggregate))
			same(t, "run", want, succeed(t, "", "run", write("a.yaml", yaml)).comparable(t))
			same(t, "run with merge", want, succeed(t, "", "run", write("b.yaml", yaml+"  - merge: {}\n")).comparable(t))
			out := filepath.Join(dir, "out")
			if s := succeed(t, "", "run", write("c.yaml", yaml+"to: "+out+"\nworkers: 3\n")); s.stdout != "" {
				t.Errorf("run to a file wrote %d bytes to stdout", len(s.stdout))
			}
			data, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "run to a file", want, said{stdout: string(data)}.comparable(t))

			if d.eval == nil {
				return
			}
			// The ready command knows the kind, and names gold its own way.
			options := slices.DeleteFunc(slices.Concat(d.parse, d.score, d.aggregate), func(o string) bool { return strings.HasPrefix(o, "as=") })
			args := append([]string{"eval", d.eval[0]}, flags(options)...)
			if gold != "" {
				args = append(args, "--"+d.eval[1], gold)
			}
			same(t, "eval", want, succeed(t, "", append(args, input)...).comparable(t))
		})
	}
}
