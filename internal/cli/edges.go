package cli

import (
	"io"
	"os"
	"strings"

	"evalstream"
	"evalstream/topics/file"
)

// Edge is where records come from or go to: a path, or standard input or output.
type Edge struct {
	Path string // "" if Std
	Std  bool
}

// ParseEdge reads PATH, file:PATH or -; flag names where text came from, such as
// "--qrels" or "RUN".
func ParseEdge(flag, text string) (Edge, error) {
	if text == "-" {
		return Edge{Std: true}, nil
	}
	if name, ok := strings.CutPrefix(text, "topic:"); ok {
		return Edge{}, evalstream.Usagef("%s: topic %q: topics can be from:, to: and rejects: of a pipeline file; name a file here, or - for a pipe", flag, name)
	}
	path, forced := strings.CutPrefix(text, "file:")
	switch {
	case path == "":
		return Edge{}, evalstream.Usagef("%s: want PATH, file:PATH, - or topic:NAME, got %q", flag, text)
	case !forced && strings.Contains(path, "://"):
		return Edge{}, evalstream.Usagef("%s: want PATH, file:PATH, - or topic:NAME, got %q; a file of that name is file:%s", flag, text, path)
	}
	return Edge{Path: path}, nil
}

// String is the form that ParseEdge reads.
func (e Edge) String() string {
	switch {
	case e.Std:
		return "-"
	case e.Path == "-" || strings.Contains(e.Path, ":"):
		return "file:" + e.Path
	}
	return e.Path
}

// Input is the edge as an input; stdin is what - stands for.
func (e Edge) Input(stdin io.Reader) file.Input {
	if e.Std {
		return file.Reader("<stdin>", stdin)
	}
	return file.Path(e.Path)
}

// NewSource reads the edges one after the other.
func NewSource(stdin io.Reader, edges ...Edge) *file.Source {
	var in []file.Input
	for _, e := range edges {
		in = append(in, e.Input(stdin))
	}
	return file.NewSource(in...)
}

// CheckStdin refuses a second - among all inputs of a command: what one has read the
// other does not see.
func CheckStdin(edges ...Edge) error {
	n := 0
	for _, e := range edges {
		if e.Std {
			n++
		}
	}
	if n > 1 {
		return evalstream.Usagef("standard input is named %d times; read one of them from a file", n)
	}
	return nil
}

// Opening is what becomes of what a file holds that is written to.
type Opening int

// The ways of opening.
const (
	Anew   Opening = iota // it is cut to nothing
	Kept                  // it stays, and a regular file can be cut back later
	Behind                // it stays, and what is written stands behind it
)

func keptIf(resumes bool) Opening {
	if resumes {
		return Kept
	}
	return Anew
}

// RejectsSink is a sink for --rejects, whose file is created if it is not there. An input
// of the command is refused, and so is -, since standard output carries results. Close
// the closer after the job.
func RejectsSink(text string, inputs []Edge, how Opening, appendLine func([]byte, *evalstream.Record) []byte) (evalstream.Sink, io.Closer, error) {
	return EdgeSink("--rejects", text, inputs, how, appendLine)
}

// EdgeSink is RejectsSink for another flag.
func EdgeSink(flag, text string, inputs []Edge, how Opening, appendLine func([]byte, *evalstream.Record) []byte) (evalstream.Sink, io.Closer, error) {
	e, err := ParseEdge(flag, text)
	if err != nil {
		return nil, nil, err
	}
	if e.Std {
		return nil, nil, evalstream.Usagef("%s -: standard output carries results; name a file, or /dev/stderr", flag)
	}
	if there, err := os.Stat(e.Path); err == nil {
		for _, in := range inputs {
			if info, err := os.Stat(in.Path); err == nil && os.SameFile(there, info) {
				return nil, nil, evalstream.Usagef("%s %s: is an input of this command; name another file", flag, text)
			}
		}
	}
	return OutputFile(e.Path, how, appendLine)
}

// OutputFile is a sink to a file.
func OutputFile(path string, how Opening, appendLine func([]byte, *evalstream.Record) []byte) (evalstream.Sink, io.Closer, error) {
	flags := os.O_RDWR | os.O_CREATE | map[Opening]int{Anew: os.O_TRUNC, Behind: os.O_APPEND}[how]
	f, err := os.OpenFile(path, flags, 0o666)
	if err != nil {
		return nil, nil, &evalstream.ExitError{Code: evalstream.ExitLost, Err: err, Hint: "name a file in a directory that exists and can be written to"}
	}
	if info, err := f.Stat(); how == Kept && err == nil && info.Mode().IsRegular() {
		return file.NewResumable(path, f, appendLine), f, nil
	}
	return file.NewSink(path, f, appendLine), f, nil
}
