package cli

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"evalstream/internal/telemetry"
)

// export shows the job on --metrics-addr and says where; nil if nobody asked for it.
func (s *session) export(ctx context.Context, health telemetry.Health) (*telemetry.Exporter, *telemetry.Server, error) {
	if s.common.metricsAddr == "" {
		return nil, nil, nil
	}
	e := telemetry.New(build())
	e.SetHealth(health)
	served, err := e.Serve(ctx, s.common.metricsAddr)
	if err != nil {
		return nil, nil, err
	}
	fmt.Fprintf(s.stderr, "evalstream %s: metrics on http://%s/metrics\n", s.verb, served.Addr())
	return e, served, nil
}

// reading is whether a job on a pipe reads its input.
type reading struct{ began, draining atomic.Bool }

func (r *reading) health() telemetry.Health {
	return telemetry.Health{Ready: func() []string {
		switch {
		case r.draining.Load():
			return []string{"is being stopped"}
		case !r.began.Load():
			return []string{"has not begun to read"}
		}
		return nil
	}}
}

// build is what the program knows of itself.
func build() telemetry.Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return telemetry.Build{}
	}
	b := telemetry.Build{Version: info.Main.Version, Go: info.GoVersion}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Revision = s.Value
		}
	}
	return b
}
