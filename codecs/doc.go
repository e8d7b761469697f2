// Package codecs turns bytes into bodies and back: NDJSON in both directions,
// TREC run and qrels files into records.
//
// A [Decoder] is planned: it is told once what a pipeline reads of its lines, and
// takes those values only, from one walk over the line: it notes where the planned
// values stand, finds repeated keys, picks the fields to group by, and steps over texts
// that nobody asked for. The values are then read from where they stand. Decoded strings
// point into the line.
//
// The walk visits every token, so it checks the grammar as well, which a pass of its own
// would cost as much as all the rest. It accepts a line only when it is certain of it:
// UTF-8 without control characters, where every token, number, escape and key is right.
// Any other line is judged by go-json, and walked over again if go-json accepts it: that
// takes lines with tabs between tokens, and names what is wrong with the rest. go-json
// also reads escapes.
//
// Decoding is strict: what is wrong with a line is an [evalstream.Fault] with the
// byte and the JSON Pointer of the value. It never panics and never guesses.
//
// This is the only package that imports github.com/goccy/go-json.
package codecs
