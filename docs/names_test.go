package docs_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The tests that the documents name are there.
func TestNamedTests(t *testing.T) {
	var code bytes.Buffer
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		code.Write(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	documents, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, path := range documents {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\b(Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9]*\b`).FindAllString(string(data), -1) {
			named++
			if !bytes.Contains(code.Bytes(), []byte("func "+name+"(")) {
				t.Errorf("%s: there is no %s", path, name)
			}
		}
	}
	if named < 20 {
		t.Errorf("%d tests are named in %d documents", named, len(documents))
	}
}
