// Command evalstream evaluates models while they run.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"evalstream/internal/cli"
)

func main() {
	// A pipe without reader is an error of the write, not the end of the process.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
