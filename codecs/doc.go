// Package codecs turns bytes into bodies and back: NDJSON in both directions,
// TREC run and qrels files into records.
//
// A [Decoder] is planned: it is told once what a pipeline reads of its lines, and
// takes those values only. For each line, go-json checks the grammar; one walk over
// the line then notes where the planned values stand, finds repeated keys and picks
// the fields to group by; the values are read from where they stand. Texts that
// nobody asked for are stepped over. Decoded strings point into the line.
//
// Decoding is strict: what is wrong with a line is an [evalstream.Fault] with the
// byte and the JSON Pointer of the value. It never panics and never guesses.
//
// This is the only package that imports github.com/goccy/go-json.
package codecs
