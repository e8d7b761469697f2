package cli

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

func (e *env) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the version, the revision and the Go it was built with", GroupID: "other", Args: usage(cobra.NoArgs),
		Example: "  evalstream version",
		RunE: func(*cobra.Command, []string) error {
			info, ok := debug.ReadBuildInfo()
			if !ok {
				_, err := fmt.Fprintln(e.stdout, "evalstream (no build information)")
				return err
			}
			words := []string{"evalstream", info.Main.Version}
			for _, s := range info.Settings {
				if s.Key == "vcs.revision" || s.Key == "vcs.modified" && s.Value == "true" {
					words = append(words, s.Value)
				}
			}
			_, err := fmt.Fprintln(e.stdout, strings.Join(append(words, info.GoVersion), " "))
			return err
		},
	}
}
