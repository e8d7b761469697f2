package cli

import (
	"fmt"
	"strings"

	"evalstream"
)

// didYouMean suggests the nearest name, or lists them all.
func didYouMean(name string, names []string) string {
	if best := evalstream.Nearest(name, names); best != "" {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	return fmt.Sprintf(" (have %s)", strings.Join(names, ", "))
}
