//go:build docs

package docs_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The examples of every command's help work as they stand, from the root of the
// repository; what has to be there before is under testdata and deploy.
func TestHelpExamples(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, "evalstream"), "./cmd/evalstream")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build ./cmd/evalstream: %v\n%s", err, out)
	}
	example := regexp.MustCompile(`(?s)\nExamples:\n(.*?)\n\n`)
	for _, command := range []string{
		"", "parse", "score", "aggregate", "merge", "run", "plan", "eval retrieval", "eval fewshot", "eval agreement",
	} {
		help := session{command: "evalstream " + command + " --help"}
		lines, code, err := help.run(t.Context(), root, bin)
		if err != nil || code != 0 {
			t.Errorf("%s: want exit code 0, got %d, %v", help.command, code, err)
			continue
		}
		m := example.FindStringSubmatch(strings.Join(lines, "\n"))
		if m == nil {
			t.Errorf("%s: want an example, got none", help.command)
			continue
		}
		s := session{command: "set -o pipefail; " + strings.TrimSpace(m[1])}
		out, code, err := s.run(t.Context(), root, bin)
		if err != nil || code != 0 || len(out) == 0 {
			t.Errorf("%s: want exit code 0 and output, got %d, %v:\n%s", s.command, code, err, strings.Join(out, "\n"))
		}
	}
}
