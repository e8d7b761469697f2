package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"evalstream"
)

// variable is the environment variable of a flag.
func variable(flag string) string {
	return "EVALSTREAM_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromEnvironment gives each flag that the command line does not the value of its
// variable, if that is not empty: values of a flag that may repeat stand between
// semicolons. From there on the flag counts as given, so it wins over a pipeline file.
func (e *env) fromEnvironment(cmd *cobra.Command, _ []string) error {
	var faults []error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		name := variable(f.Name)
		text, ok := e.getenv(name)
		if !ok || text == "" || f.Changed || f.Name == "help" {
			return
		}
		values := []string{text}
		if repeats(f.Usage) {
			values = strings.Split(text, ";")
		}
		for _, v := range values {
			if err := f.Value.Set(strings.TrimSpace(v)); err != nil {
				faults = append(faults, fmt.Errorf("%s: want what --%s takes, got %q: %w", name, f.Name, v, err))
				return
			}
		}
		f.Changed = true
	})
	if len(faults) > 0 {
		return &evalstream.ExitError{Code: evalstream.ExitUsage, Err: errors.Join(faults...), Hint: "unset the variable, or give the flag on the command line"}
	}
	return nil
}
