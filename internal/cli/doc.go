// Package cli is the command line: flags and edges in, tables, progress and summaries
// for people out. It writes to the streams that it is handed and returns exit codes.
package cli
