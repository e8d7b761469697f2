package evalstream_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// archModule is the module's path; an import path is the module's own if it is this or lies below it.
const archModule = "evalstream"

// archMainLines is the most lines that the command's main.go may have: what is longer is worth a test and belongs in internal/cli.
const archMainLines = 25

// archPlace is a row of the layout: what the packages that match dir may import.
// Patterns are those of the go command: "stages" is one package, "stages/..." that package and all below it, "." the root.
type archPlace struct {
	dir  string
	own  []string // packages of this module
	deps []string // packages of other modules
	tool bool     // used to build or measure the product and no part of it: the rules on code do not apply
}

// archLayout lists the layout; the first row that matches a package holds for it, and a package without a row is a fault:
// a new place needs a decision on what it may see.
func archLayout() []archPlace {
	anything := []string{"..."}
	return []archPlace{
		{dir: "."},
		{dir: "stages/metric", own: []string{"."}, deps: []string{"gonum.org/v1/gonum/..."}},
		{dir: "stages", own: []string{".", "stages/..."}, deps: anything},
		{dir: "stages/...", own: []string{".", "stages/metric"}, deps: anything},
		{dir: "codecs", own: []string{".", "codecs/..."}, deps: anything},
		{dir: "codecs/...", own: []string{"."}, deps: anything},
		{dir: "topics", own: []string{"."}, deps: anything},
		{dir: "topics/...", own: []string{".", "topics"}, deps: anything},
		{dir: "internal/telemetry", own: []string{"."}, deps: anything},
		{
			dir:  "internal/cli/...",
			own:  []string{".", "internal/cli/...", "internal/telemetry", "stages/...", "codecs/...", "topics/..."},
			deps: anything,
		},
		{dir: "cmd/evalstream", own: []string{"internal/cli"}},
		{dir: "bench/...", own: anything, deps: anything, tool: true},
		{dir: "docs/...", own: anything, deps: anything, tool: true},
	}
}

// archOwner says which packages alone may import a dependency; file narrows that to one file.
type archOwner struct{ dep, dir, file string }

func archOwners() []archOwner {
	return []archOwner{
		{dep: "github.com/goccy/go-json/...", dir: "codecs/..."},
		{dep: "github.com/ThreeDotsLabs/watermill/...", dir: "topics/..."},
		{dep: "github.com/segmentio/kafka-go/...", dir: "topics/..."},
		{dep: "github.com/VictoriaMetrics/metrics/...", dir: "internal/telemetry"},
		{dep: "github.com/spf13/cobra/...", dir: "internal/cli/..."},
		{dep: "github.com/cockroachdb/pebble/...", dir: "topics/..."},
		{dep: "gopkg.in/yaml.v3", dir: ".", file: "load.go"},
	}
}

// archTestDeps are what any test may import beside what its package may.
func archTestDeps() []string {
	return []string{"github.com/google/go-cmp/...", "github.com/rogpeppe/go-internal/..."}
}

// archClock are the functions of package time that read or wait for the wall clock.
func archClock() []string {
	return []string{"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"}
}

func TestArchitecture(t *testing.T) {
	faults, err := archCheck(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		t.Error(f)
	}
}

// archCheck reads every Go file of the module at the root of fsys, whatever its build tags, and returns one line for each broken rule, in file order.
// Skipped are testdata, vendor, node_modules, hidden folders, and folders with a go.mod of their own.
func archCheck(fsys fs.FS) ([]string, error) {
	var faults []string
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name == "." {
				return nil
			}
			base := d.Name()
			if strings.HasPrefix(base, ".") || slices.Contains([]string{"testdata", "vendor", "node_modules"}, base) {
				return fs.SkipDir
			}
			if _, err := fs.Stat(fsys, path.Join(name, "go.mod")); err == nil {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		src, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		found, err := archFile(name, src)
		faults = append(faults, found...)
		return err
	})
	return faults, err
}

// archFile checks one file; name is its slash-separated path from the module's root.
func archFile(name string, src []byte) ([]string, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var faults []string
	fault := func(pos token.Pos, format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%s:%d: ", name, fset.Position(pos).Line)+fmt.Sprintf(format, args...))
	}

	dir := path.Dir(name)
	layout := archLayout()
	i := slices.IndexFunc(layout, func(p archPlace) bool { return archMatch(p.dir, dir) })
	if i < 0 {
		fault(file.Package, "package %s has no place in the layout: give it a row in archLayout", dir)
		return faults, nil
	}
	place := layout[i]

	test := strings.HasSuffix(name, "_test.go")
	// A package x_test is a client of x: it stands above it, so it may build whole pipelines.
	client := test && strings.HasSuffix(file.Name.Name, "_test")

	for _, spec := range file.Imports {
		imp, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return faults, err
		}
		own, isOwn := archOwn(imp)
		first, _, _ := strings.Cut(imp, "/")
		switch {
		case isOwn && !client && own != dir && !archMatchAny(place.own, own):
			fault(spec.Pos(), "imports %q: %s may import of this module %s: imports point down, siblings never import each other",
				imp, dir, archNone(place.own))
		case isOwn || !strings.Contains(first, ".") || place.tool: // what follows is about other modules
		case test && archMatchAny(archTestDeps(), imp):
		default:
			owners := archOwners()
			o := slices.IndexFunc(owners, func(o archOwner) bool { return archMatch(o.dep, imp) })
			switch {
			case o >= 0 && !archMatch(owners[o].dir, dir):
				fault(spec.Pos(), "imports %q: only %s may", imp, path.Join(owners[o].dir, owners[o].file))
			case o >= 0 && owners[o].file != "" && path.Base(name) != owners[o].file:
				fault(spec.Pos(), "imports %q: only %s may", imp, path.Join(owners[o].dir, owners[o].file))
			case o < 0 && !archMatchAny(place.deps, imp):
				fault(spec.Pos(), "imports %q: %s may import of other modules %s", imp, dir, archNone(place.deps))
			}
		}
	}
	if place.tool {
		return faults, nil
	}

	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			fault(f.Pos(), "func init: what a package needs is made where it is used, and tables are listed by a function")
		}
	}
	if archMatch("stages/...", dir) && !test {
		archNoWorld(file, fault)
	}
	if name == "cmd/evalstream/main.go" {
		if n := bytes.Count(src, []byte("\n")); n > archMainLines {
			fault(file.End(), "%d lines: main.go has at most %d, the rest belongs in internal/cli", n, archMainLines)
		}
	}
	return faults, nil
}

// archNoWorld finds what would make a stage answer the same records differently: the wall clock and random numbers without a seed.
// A local variable must not be named like the package, or its methods are taken for the package's functions.
func archNoWorld(file *ast.File, fault func(token.Pos, string, ...any)) {
	names := map[string]string{} // name in this file: import path
	for _, spec := range file.Imports {
		imp, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		switch imp {
		case "crypto/rand":
			fault(spec.Pos(), "imports %q: a stage takes its seed from its options, so that the same input gives the same answer", imp)
		case "time", "math/rand", "math/rand/v2":
			name := strings.TrimPrefix(strings.TrimSuffix(imp, "/v2"), "math/")
			if spec.Name != nil {
				name = spec.Name.Name
			}
			if name == "." {
				fault(spec.Pos(), "imports %q with a dot: its functions are then not seen by this test", imp)
			}
			names[name] = imp
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		id, ok := sel.X.(*ast.Ident)
		if !ok {
			return true
		}
		imp, fn := names[id.Name], sel.Sel.Name
		switch {
		case imp == "time" && slices.Contains(archClock(), fn):
			fault(sel.Pos(), "time.%s: a stage has no clock; take event time from the record, or implement Timed or Ticker", fn)
		case strings.HasPrefix(imp, "math/rand") && strings.ToLower(fn[:1]) != fn[:1] && !strings.HasPrefix(fn, "New") && !archRandType(fn):
			fault(sel.Pos(), "rand.%s: the global source has no seed; use a generator made from the seed in the options", fn)
		}
		return true
	})
}

// archRandType reports whether name is a type of math/rand or math/rand/v2.
func archRandType(name string) bool {
	return slices.Contains([]string{"ChaCha8", "PCG", "Rand", "Source", "Source64", "Zipf"}, name)
}

// archOwn returns the folder of a package of this module ("." for the root), and whether imp is one.
func archOwn(imp string) (string, bool) {
	if imp == archModule {
		return ".", true
	}
	return strings.CutPrefix(imp, archModule+"/")
}

func archMatch(pattern, pkg string) bool {
	if pattern == "..." {
		return true
	}
	if above, ok := strings.CutSuffix(pattern, "/..."); ok {
		return pkg == above || strings.HasPrefix(pkg, above+"/")
	}
	return pkg == pattern
}

func archMatchAny(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return archMatch(p, pkg) })
}

func archNone(patterns []string) string {
	if len(patterns) == 0 {
		return "nothing"
	}
	return strings.Join(patterns, ", ")
}

// TestArchitectureSeesViolations plants one fault at a time in a synthetic module and wants exactly that fault, or none.
func TestArchitectureSeesViolations(t *testing.T) {
	f := func(name, src, want string) {
		t.Helper()
		got, err := archCheck(fstest.MapFS{name: &fstest.MapFile{Data: []byte(src)}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		var wantAll []string
		if want != "" {
			wantAll = []string{name + ":" + want}
		}
		if diff := cmp.Diff(wantAll, got); diff != "" {
			t.Errorf("%s\n%s\nfaults (-want +got):\n%s", name, src, diff)
		}
	}
	down := ": imports point down, siblings never import each other"

	// Up and sideways.
	f("record.go", "package evalstream\nimport _ \"evalstream/stages\"\n",
		`2: imports "evalstream/stages": . may import of this module nothing`+down)
	f("stages/score.go", "package stages\nimport _ \"evalstream/codecs\"\n",
		`2: imports "evalstream/codecs": stages may import of this module ., stages/...`+down)
	f("stages/fewshot/sampler.go", "package fewshot\nimport _ \"evalstream/stages/judging\"\n",
		`2: imports "evalstream/stages/judging": stages/fewshot may import of this module ., stages/metric`+down)
	f("stages/fewshot/sampler.go", "package fewshot\nimport _ \"evalstream/stages\"\n",
		`2: imports "evalstream/stages": stages/fewshot may import of this module ., stages/metric`+down)
	f("stages/metric/alpha.go", "package metric\nimport _ \"evalstream\"\n", "")
	f("codecs/ndjson.go", "package codecs\nimport _ \"evalstream/topics/file\"\n",
		`2: imports "evalstream/topics/file": codecs may import of this module ., codecs/...`+down)
	f("topics/kafka/sink.go", "package kafka\nimport _ \"evalstream/topics/memory\"\n",
		`2: imports "evalstream/topics/memory": topics/kafka may import of this module ., topics`+down)
	f("internal/telemetry/metrics.go", "package telemetry\nimport _ \"evalstream/internal/cli\"\n",
		`2: imports "evalstream/internal/cli": internal/telemetry may import of this module .`+down)
	f("cmd/evalstream/main.go", "package main\nimport _ \"evalstream/stages\"\n",
		`2: imports "evalstream/stages": cmd/evalstream may import of this module internal/cli`+down)
	f("stages/score_test.go", "package stages\nimport _ \"evalstream/codecs\"\n",
		`2: imports "evalstream/codecs": stages may import of this module ., stages/...`+down)
	f("internal/cli/eval.go", "package cli\nimport _ \"evalstream/bench\"\n",
		`2: imports "evalstream/bench": internal/cli may import of this module `+
			"., internal/cli/..., internal/telemetry, stages/..., codecs/..., topics/..."+down)

	// Allowed ways.
	f("stages/score.go", "package stages\nimport (\n_ \"evalstream\"\n_ \"evalstream/stages/metric\"\n_ \"time\"\n)\n", "")
	f("internal/cli/eval.go", "package cli\nimport (\n_ \"evalstream/topics/kafka\"\n_ \"evalstream/codecs\"\n_ \"github.com/spf13/cobra\"\n)\n", "")
	f("cmd/evalstream/main.go", "package main\nimport (\n_ \"os\"\n_ \"evalstream/internal/cli\"\n)\n", "")
	f("stages/score_test.go", "package stages_test\nimport (\n_ \"evalstream/codecs\"\n_ \"github.com/google/go-cmp/cmp\"\n)\n", "")
	f("bench/run.go", "package main\nimport (\n_ \"evalstream/codecs\"\n_ \"github.com/segmentio/kafka-go\"\n)\nfunc init() {}\n", "")

	// Dependencies with one owner.
	f("stages/parse.go", "package stages\nimport _ \"github.com/goccy/go-json\"\n",
		`2: imports "github.com/goccy/go-json": only codecs/... may`)
	f("stages/parse_test.go", "package stages_test\nimport _ \"github.com/goccy/go-json\"\n",
		`2: imports "github.com/goccy/go-json": only codecs/... may`)
	f("codecs/ndjson.go", "package codecs\nimport _ \"github.com/goccy/go-json\"\n", "")
	f("job.go", "package evalstream\nimport _ \"github.com/ThreeDotsLabs/watermill/message\"\n",
		`2: imports "github.com/ThreeDotsLabs/watermill/message": only topics/... may`)
	f("internal/cli/lag.go", "package cli\nimport _ \"github.com/segmentio/kafka-go\"\n",
		`2: imports "github.com/segmentio/kafka-go": only topics/... may`)
	f("internal/cli/serve.go", "package cli\nimport _ \"github.com/VictoriaMetrics/metrics\"\n",
		`2: imports "github.com/VictoriaMetrics/metrics": only internal/telemetry may`)
	f("pipeline.go", "package evalstream\nimport _ \"gopkg.in/yaml.v3\"\n", `2: imports "gopkg.in/yaml.v3": only load.go may`)
	f("internal/cli/lint.go", "package cli\nimport _ \"gopkg.in/yaml.v3\"\n", `2: imports "gopkg.in/yaml.v3": only load.go may`)
	f("load.go", "package evalstream\nimport _ \"gopkg.in/yaml.v3\"\n", "")
	f("record.go", "package evalstream\nimport _ \"github.com/zeebo/xxh3\"\n",
		`2: imports "github.com/zeebo/xxh3": . may import of other modules nothing`)
	f("stages/metric/alpha.go", "package metric\nimport _ \"github.com/zeebo/xxh3\"\n",
		`2: imports "github.com/zeebo/xxh3": stages/metric may import of other modules gonum.org/v1/gonum/...`)
	f("stages/metric/alpha.go", "package metric\nimport _ \"gonum.org/v1/gonum/stat\"\n", "")

	// A package that nobody placed.
	f("util/strings.go", "package util\n", "1: package util has no place in the layout: give it a row in archLayout")
	f("testdata/x/x.go", "package broken {", "")
	f(".cache/x.go", "package broken {", "")

	// Code.
	f("codecs/trec.go", "package codecs\n\nfunc init() {}\n",
		"3: func init: what a package needs is made where it is used, and tables are listed by a function")
	f("codecs/trec.go", "package codecs\n\ntype t int\n\nfunc (t) init() {}\n", "")
	f("stages/score.go", "package stages\nimport \"time\"\nvar now = time.Now\n",
		"3: time.Now: a stage has no clock; take event time from the record, or implement Timed or Ticker")
	f("stages/metric/mean.go", "package metric\nimport clock \"time\"\nvar s = clock.Since(clock.Time{})\n",
		"3: time.Since: a stage has no clock; take event time from the record, or implement Timed or Ticker")
	f("stages/score.go", "package stages\nimport . \"time\"\n", `2: imports "time" with a dot: its functions are then not seen by this test`)
	f("stages/episodes.go", "package stages\nimport \"math/rand/v2\"\nvar n = rand.IntN(3)\n",
		"3: rand.IntN: the global source has no seed; use a generator made from the seed in the options")
	f("stages/episodes.go", "package stages\nimport \"math/rand\"\nvar r *rand.Rand = rand.New(rand.NewSource(7))\n", "")
	f("stages/episodes.go", "package stages\nimport _ \"crypto/rand\"\n",
		`2: imports "crypto/rand": a stage takes its seed from its options, so that the same input gives the same answer`)
	f("job.go", "package evalstream\nimport \"time\"\nvar now = time.Now\n", "")
	f("cmd/evalstream/main.go", "package main\n"+strings.Repeat("\n", 24), "")
	f("cmd/evalstream/main.go", "package main\n"+strings.Repeat("\n", 25),
		"1: 26 lines: main.go has at most 25, the rest belongs in internal/cli")
}
