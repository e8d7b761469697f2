package codecs

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"evalstream"
)

// DefaultMaxLine is the length from which on a line is not read, in bytes.
const DefaultMaxLine = 16 << 20

// lineReader cuts a stream into lines. It steps over a byte order mark and blank lines,
// and takes one CR from the end of a line.
type lineReader struct {
	r     *bufio.Reader
	limit int
	at    evalstream.Pos // of the present line
	buf   []byte         // a line that did not fit into r's buffer
	begun bool
}

func newLineReader(r io.Reader, origin *evalstream.Origin) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 256<<10), limit: DefaultMaxLine, at: evalstream.Pos{Origin: origin}}
}

// next is the next line that is not blank; it is good until the following call. A line
// over the limit comes with length > 0 and as its head only. At the end err is io.EOF.
func (l *lineReader) next() (line []byte, length int64, err error) {
	for {
		line, length, err = l.read()
		if err != nil {
			return nil, 0, err
		}
		l.at.Line++
		if !l.begun {
			l.begun = true
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte{'\n'}), []byte{'\r'})
		if length > 0 || len(bytes.TrimSpace(line)) > 0 {
			return line, length, nil
		}
	}
}

// read is the next line with its end.
func (l *lineReader) read() (line []byte, length int64, err error) {
	line, err = l.r.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, 0, ended(line, err)
	}
	l.buf = append(l.buf[:0], line...)
	n := int64(len(line))
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = l.r.ReadSlice('\n')
		n += int64(len(line))
		if n <= int64(l.limit) {
			l.buf = append(l.buf, line...)
		}
	}
	if n <= int64(l.limit) {
		n = 0
	}
	return l.buf, n, ended(l.buf, err)
}

// ended is nil for a last line without newline.
func ended(line []byte, err error) error {
	if errors.Is(err, io.EOF) && len(line) > 0 {
		return nil
	}
	return err
}
