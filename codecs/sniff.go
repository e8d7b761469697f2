package codecs

import "bytes"

// Format is what a stream's lines look like.
type Format uint8

// The formats that a stream can be told to have by its head.
const (
	UnknownFormat Format = iota
	NDJSON
	TRECRun      // six fields a line
	TRECQrelFile // four fields a line
)

// String is ndjson, trec_run, trec_qrels or unknown.
func (f Format) String() string {
	return [...]string{"unknown", "ndjson", "trec_run", "trec_qrels"}[f]
}

// Sniff tells the format by the first line of head that is not blank, which should be
// whole or at least 4 KiB of it. A line that begins as JSON does is NDJSON, right or
// wrong: its fault is then told with its position. An empty head is unknown.
func Sniff(head []byte) Format {
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\ufeff")), " \t\r\n")
	if len(head) == 0 {
		return UnknownFormat
	}
	if bytes.IndexByte([]byte(`{["}]`), head[0]) >= 0 {
		return NDJSON
	}
	line, _, _ := bytes.Cut(head, []byte{'\n'})
	switch len(bytes.Fields(line)) {
	case 6:
		return TRECRun
	case 4:
		return TRECQrelFile
	}
	return UnknownFormat
}
