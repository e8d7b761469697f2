//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// prepareTools builds evalstream and installs DuckDB if it is missing.
func prepareTools(set settings) error {
	if _, err := exec.LookPath("taskset"); err != nil {
		return errors.New("taskset: not found; it is in the package util-linux")
	}
	if slices.Contains(set.contestants, "evalstream") {
		if err := do(".", "make", "build"); err != nil {
			return err
		}
	}
	if slices.Contains(set.contestants, "duckdb") {
		if _, err := os.Stat(filepath.Join("bench", "node_modules", "@duckdb", "node-api")); err != nil {
			return do("bench", "npm", "ci", "--no-audit", "--no-fund")
		}
	}
	return nil
}

// prepareData writes the workload's input if it is missing and reads it once, so that every contestant finds it in memory.
// It also makes the directory for the answers.
func prepareData(w workload) error {
	missing := func(path string) bool {
		_, err := os.Stat(path)
		return err != nil
	}
	if slices.ContainsFunc(w.inputs, missing) {
		if err := do(".", "go", slices.Concat([]string{"run", "./bench/generate"}, w.generate)...); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(w.dir, "out"), 0o755); err != nil {
		return err
	}
	for _, path := range w.inputs {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, f)
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// do runs a command in dir, says so, and shows what it prints.
func do(dir, name string, args ...string) error {
	line := strings.Join(append([]string{name}, args...), " ")
	fmt.Fprintf(os.Stderr, "bench: %s\n", line)
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", line, err)
	}
	return nil
}
