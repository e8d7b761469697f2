package evalstream

import (
	"errors"
	"fmt"
	"strings"
)

// Class says what kind of fault set a record aside.
type Class string

// The classes of rejects.
const (
	ClassParse    Class = "parse"     // the bytes are not the format they should be
	ClassSchema   Class = "schema"    // well formed, but a field is missing or of the wrong type
	ClassStage    Class = "stage"     // a stage cannot use the record
	ClassRemote   Class = "remote"    // a remote call failed for good
	ClassTooLarge Class = "too_large" // longer than the line limit
	ClassLate     Class = "late"      // older than the horizon
)

// Fault is a bad record: what is wrong with it and where in its line. It is an
// error, so a decoder returns it; a stage turns it into a reject.
type Fault struct {
	Class  Class
	Column int32  // 1-based byte of the line; 0 if the whole line is meant
	Path   string // JSON Pointer of the value; "" if the whole record is meant
	Reason string // lower case, subject first
}

// Error is "/path: reason", without the position.
func (f *Fault) Error() string {
	if f.Path == "" {
		return f.Reason
	}
	return f.Path + ": " + f.Reason
}

// The exit codes of the command.
const (
	ExitDone          = 0
	ExitInternal      = 1
	ExitUsage         = 2
	ExitRejects       = 3
	ExitLost          = 4
	ExitState         = 5
	ExitGate          = 10
	ExitNotEnough     = 11
	ExitNotComparable = 12
)

// ExitError is an error that knows the exit code it stands for, and what to do next.
type ExitError struct {
	Code int
	Err  error
	Hint string // the next thing to try; "" if there is none
}

func (e *ExitError) Error() string { return e.Err.Error() }

// Unwrap is the cause.
func (e *ExitError) Unwrap() error { return e.Err }

// Usagef is a fault in flags or configuration (exit 2).
func Usagef(format string, args ...any) error {
	return &ExitError{Code: ExitUsage, Err: fmt.Errorf(format, args...)}
}

// Lost says that a source, sink or endpoint was lost (exit 4).
func Lost(err error) error { return &ExitError{Code: ExitLost, Err: err} }

// NotComparable says that numbers of different settings would have been mixed (exit 12).
func NotComparable(format string, args ...any) error {
	return &ExitError{Code: ExitNotComparable, Err: fmt.Errorf(format, args...)}
}

// ExitCode is the code of the first ExitError in err's tree; 0 for nil, 1 if there is none.
func ExitCode(err error) int {
	if err == nil {
		return ExitDone
	}
	if e, ok := errors.AsType[*ExitError](err); ok {
		return e.Code
	}
	return ExitInternal
}

// Faults is a list of configuration faults, each with its position.
type Faults []ConfigFault

// ConfigFault is one fault of a configuration file.
type ConfigFault struct {
	File         string
	Line, Column int
	Reason       string
}

// Error prints one fault a line, as file:line:column: reason.
func (fs Faults) Error() string {
	var b strings.Builder
	for i, f := range fs {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s:%d:%d: %s", f.File, f.Line, f.Column, f.Reason)
	}
	return b.String()
}
