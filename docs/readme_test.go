package docs_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"evalstream/stages"
)

func readme(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The table of stages is that of the program, name by name, in its order.
func TestReadmeStages(t *testing.T) {
	var want, got []string
	for _, v := range stages.All() {
		want = append(want, v.Name+": "+v.In+" → "+v.Out+": "+v.Doc)
	}
	_, table, ok := strings.Cut(readme(t), "\n## Stages\n")
	if !ok {
		t.Fatal("README.md: want a heading ## Stages, got none")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	for line := range strings.SplitSeq(table, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 7 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		got = append(got, strings.Trim(cells[1], "`")+": "+cells[2]+" → "+cells[3]+": "+cells[5])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("README.md, table of stages (-program +README):\n%s", diff)
	}
}

// The Go code of README.md is a part of the example that is tested.
func TestReadmeCode(t *testing.T) {
	_, code, ok := strings.Cut(readme(t), "\n```go\n")
	if !ok {
		t.Fatal("README.md: want a block of go, got none")
	}
	code, _, _ = strings.Cut(code, "\n```")
	data, err := os.ReadFile("library_test.go")
	if err != nil {
		t.Fatal(err)
	}
	flat := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	if !strings.Contains(flat(string(data)), flat(strings.ReplaceAll(code, `"testdata/`, `"../testdata/`))) {
		t.Errorf("README.md: its go block is not in docs/library_test.go; copy it from there")
	}
}

// The line of a partial, which no command prints, is that of the tested example.
func TestFormatsPartial(t *testing.T) {
	doc, err := os.ReadFile("formats.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("library_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(doc), "\n") {
		if strings.HasPrefix(line, `{"kind":"partial"`) && !strings.Contains(string(code), "// "+line+"\n") {
			t.Errorf("docs/formats.md: not what the example in docs/library_test.go prints: %s", line)
		}
	}
}
