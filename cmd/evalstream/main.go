// Command evalstream evaluates models while they run.
package main

import (
	"context"
	"os"

	"evalstream/internal/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
