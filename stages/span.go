package stages

import (
	"fmt"
	"math"
	"strings"
	"time"
)

const day = 24 * time.Hour

// ParseSpan reads a span of time that is not negative: what time.ParseDuration reads,
// and d for 24 hours in front of it, as in 30d, 1.5d or 1d12h.
func ParseSpan(s string) (time.Duration, error) {
	bad := fmt.Errorf("want a time span such as 500ms, 15m, 1h or 30d, got %q", s)
	total, rest := time.Duration(0), s
	if days, after, ok := strings.Cut(s, "d"); ok {
		n, err := time.ParseDuration(days + "h")
		if err != nil || strings.Trim(days, "0123456789.") != "" || n > math.MaxInt64/(day/time.Hour) {
			return 0, bad
		}
		total, rest = n*(day/time.Hour), after
	}
	if rest != "" || s == "" {
		n, err := time.ParseDuration(rest)
		if err != nil || n < 0 || total > math.MaxInt64-n {
			return 0, bad
		}
		total += n
	}
	return total, nil
}

func spanText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
