package telemetry

import (
	"io"
	"net/http"
	"strings"
)

// Health says what is wrong, in words; nothing if all is well.
type Health struct {
	// Live says why the job should be started anew, Ready what is missing until it does
	// its work. Both are asked at each request, and nil says nothing.
	Live, Ready func() []string
}

// SetHealth gives /livez and /readyz something to say.
func (e *Exporter) SetHealth(h Health) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.health = h
}

// answer writes 200 and ok, or 503 and the reasons, one a line.
func answer(w http.ResponseWriter, about func() []string) {
	var reasons []string
	if about != nil {
		reasons = about()
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	text := "ok\n"
	if len(reasons) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		text = strings.Join(reasons, "\n") + "\n"
	}
	_, _ = io.WriteString(w, text) // a reader that has gone is not the job's concern
}
