package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"evalstream/internal/cli"
)

// TestMain makes the test binary stand for the command: the scripts find it on PATH as evalstream.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"evalstream": func() {
			os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
		},
	})
}

// TestScripts runs testdata/script/*.txtar. Beside testscript's commands there is sh, which runs its one argument with bash,
// so that pipes can be tested; its output is that of the whole line, and it fails if any command of a pipe does.
// says runs one row of commands.txtar.
// The module's testdata folder is $DATA.
func TestScripts(t *testing.T) {
	data, err := filepath.Abs("../../testdata")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		ContinueOnError:     true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"sh": shell, "says": says},
		Setup: func(env *testscript.Env) error {
			env.Setenv("DATA", data)
			return nil
		},
	})
}

func shell(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: sh 'line of bash'")
	}
	bash, err := exec.LookPath("bash")
	ts.Check(err)
	err = ts.Exec(bash, "-o", "pipefail", "-c", args[0])
	switch {
	case err != nil && !neg:
		ts.Fatalf("sh: %v", err)
	case err == nil && neg:
		ts.Fatalf("sh: want a failure, got exit code 0")
	}
}
