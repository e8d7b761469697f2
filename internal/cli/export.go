package cli

import (
	"context"
	"fmt"
	"runtime/debug"

	"evalstream/internal/telemetry"
)

// export shows the job on --metrics-addr and says where; nil if nobody asked for it.
func (s *session) export(ctx context.Context, in *input) (*telemetry.Exporter, *telemetry.Server, error) {
	if s.common.metricsAddr == "" {
		return nil, nil, nil
	}
	e := telemetry.New(build())
	e.Source(in.lines.Progress)
	served, err := e.Serve(ctx, s.common.metricsAddr)
	if err != nil {
		return nil, nil, err
	}
	fmt.Fprintf(s.stderr, "evalstream %s: metrics on http://%s/metrics\n", s.verb, served.Addr())
	return e, served, nil
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
