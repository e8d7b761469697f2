package main

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDamagedState damages each file of a state: a byte is changed, the end is cut off,
// the file is gone. The command then says so with exit code 5, or the damage is of no
// consequence and it ends with the right results; never with others.
func TestDamagedState(t *testing.T) {
	rng := rand.New(rand.NewPCG(number(t, "EVALSTREAM_SEED", 1), 9))
	tries := int(number(t, "EVALSTREAM_TRIES", 1))
	data := records(rng, 2000, true)
	lines := strings.SplitAfter(string(data), "\n")
	setup := func(to int) *victim {
		v := &victim{dir: t.TempDir(), args: []string{"run", "p.yaml"}}
		v.write(t, "p.yaml", []byte("from: data.ndjson\nto: out\nrejects: rejects\nmax_rejects: 100%\nstages:\n  - score: {}\n  - aggregate: {by: [run], window: [all, 1h], every: 500}\n"))
		v.write(t, "data.ndjson", []byte(strings.Join(lines[:to], "")))
		return v
	}
	want := setup(len(lines)).finish(t, rng)

	// A state that was opened several times has tables, not a log alone.
	v := setup(500)
	v.args = append(v.args, "--state", "state")
	for _, to := range []int{500, 1000, 1500} {
		v.write(t, "data.ndjson", []byte(strings.Join(lines[:to], "")))
		if e := v.finish(t, rng); e.Code != 0 {
			t.Fatalf("exit code %d", e.Code)
		}
	}
	v.write(t, "data.ndjson", data)

	var files []string
	err := filepath.WalkDir(filepath.Join(v.dir, "state"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, relErr := filepath.Rel(v.dir, path)
			files, err = append(files, rel), relErr
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	right, refused := 0, 0
	check := func(what string, damage func(path string) error) {
		t.Helper()
		d := &victim{dir: t.TempDir(), args: v.args}
		if err := os.CopyFS(d.dir, os.DirFS(v.dir)); err != nil {
			t.Fatal(err)
		}
		if err := damage(d.dir); err != nil {
			t.Fatal(err)
		}
		cmd, stderr := d.start(t, rng, true)
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 0 {
			refused++
			if text := stderr.String(); code != 5 || !strings.Contains(text, "hint: ") || strings.Contains(text, "goroutine ") {
				t.Errorf("%s: exit code %d\n%s", what, code, text)
			}
			return
		}
		right++
		if diff := cmp.Diff(want, d.finish(t, rng)); diff != "" {
			t.Errorf("%s: exit code 0 and other results: -want +got\n%s", what, diff)
		}
	}
	for _, name := range files {
		info, err := os.Stat(filepath.Join(v.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		size := info.Size()
		check(name+" is gone", func(dir string) error { return os.Remove(filepath.Join(dir, name)) })
		for range tries {
			if size == 0 {
				break
			}
			at, bit := rng.Int64N(size), byte(1)<<rng.IntN(8)
			check(name+" has a bit changed", func(dir string) error {
				b, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil {
					return err
				}
				b[at] ^= bit
				return os.WriteFile(filepath.Join(dir, name), b, 0o600)
			})
			check(name+" is cut short", func(dir string) error { return os.Truncate(filepath.Join(dir, name), at) })
		}
	}
	t.Logf("%d files: %d times refused, %d times right", len(files), refused, right)
	if refused == 0 {
		t.Error("no damage was found")
	}
}
