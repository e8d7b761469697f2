package docs_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"
)

// The compose file cannot be run where there is no Docker, so what can be seen in it is
// looked at: images are named by version, ports are those of this machine alone, what is
// mounted and built is there, and each segment of the pipeline has its service.
func TestCompose(t *testing.T) {
	data, err := os.ReadFile("../deploy/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var compose struct {
		Services map[string]struct {
			Image     string
			Build     struct{ Context, Dockerfile string }
			Command   []string
			Ports     []string
			Volumes   []string
			DependsOn map[string]any `yaml:"depends_on"`
			Configs   []struct{ Source string }
		}
		Configs map[string]struct{ Content string }
	}
	if err := yaml.Unmarshal(data, &compose); err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`^[a-z/]+:v?[0-9]+\.[0-9]+\.[0-9]+$`)
	built := map[string]bool{}
	var only []string
	for name, s := range compose.Services {
		if s.Build.Dockerfile != "" {
			built[s.Image] = true
			if _, err := os.Stat(filepath.Join("../deploy", s.Build.Context, s.Build.Dockerfile)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if i := slices.Index(s.Command, "--only"); i >= 0 {
			only = append(only, s.Command[i+1])
		}
	}
	for name, s := range compose.Services {
		if !version.MatchString(s.Image) && !built[s.Image] {
			t.Errorf("%s: image %q: want a version of three numbers, or an image that is built here", name, s.Image)
		}
		for _, p := range s.Ports {
			if !regexp.MustCompile(`^127\.0\.0\.1:[0-9]+:[0-9]+$`).MatchString(p) {
				t.Errorf("%s: port %s is open to others", name, p)
			}
		}
		for _, v := range s.Volumes {
			host, inside, _ := strings.Cut(strings.TrimSuffix(v, ":ro"), ":")
			if _, err := os.Stat(filepath.Join("../deploy", host)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			for _, arg := range s.Command {
				if file, ok := strings.CutPrefix(arg, inside); ok {
					if _, err := os.Stat(filepath.Join("../deploy", host, file)); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			}
		}
		for other := range s.DependsOn {
			if _, ok := compose.Services[other]; !ok {
				t.Errorf("%s: depends on %s, which is not there", name, other)
			}
		}
		for _, c := range s.Configs {
			if compose.Configs[c.Source].Content == "" {
				t.Errorf("%s: config %s is not there", name, c.Source)
			}
		}
	}
	slices.Sort(only)
	if diff := cmp.Diff([]string{"merge", "parse", "score"}, only); diff != "" {
		t.Errorf("segments (-live.yaml +compose):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"broker", "merge", "parse", "prometheus", "score", "topics"}, slices.Sorted(maps.Keys(compose.Services))); diff != "" {
		t.Error(diff)
	}
	docker, err := os.ReadFile("../deploy/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(docker)) {
		if image, ok := strings.CutPrefix(strings.TrimSpace(line), "FROM "); ok && image != "scratch" {
			if image, _, _ = strings.Cut(image, " "); !version.MatchString(image) {
				t.Errorf("Dockerfile: image %q: want a version of three numbers", image)
			}
		}
	}
	toolchain, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if m := regexp.MustCompile(`(?m)^go (1\.[0-9]+)`).FindSubmatch(toolchain); m == nil || !strings.Contains(string(docker), "golang:"+string(m[1])+".") {
		t.Errorf("Dockerfile: want the Go of go.mod, %s", m)
	}
}
