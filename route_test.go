package evalstream

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestAppendString puts each byte at each place of a text: it is read back as what it
// was, and only what must be escaped is.
func TestAppendString(t *testing.T) {
	for n := 1; n <= 18; n++ {
		for at := range n {
			for c := range 256 {
				text := []byte(strings.Repeat("x", n))
				text[at] = byte(c)
				got := string(AppendString(nil, string(text)))
				want := `"` + string(text[:at]) + escapedByte(byte(c)) + string(text[at+1:]) + `"`
				if got != want {
					t.Fatalf("%q: got %s, want %s", text, got, want)
				}
				var back string
				if err := json.Unmarshal([]byte(got), &back); err != nil || back != strings.ToValidUTF8(string(text), "\ufffd") {
					t.Fatalf("%q: read back as %q, %v", text, back, err)
				}
			}
		}
	}
	const several = "Ørsted \"q\" \\ \u20ac1.2\tZürich\n\x00 plain to the end"
	const want = `"Ørsted \"q\" \\ €1.2\tZürich\n\u0000 plain to the end"`
	if got := string(AppendString(nil, several)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func escapedByte(c byte) string {
	switch {
	case c == '"', c == '\\':
		return `\` + string(rune(c))
	case c == '\n':
		return `\n`
	case c == '\r':
		return `\r`
	case c == '\t':
		return `\t`
	case c < ' ':
		return fmt.Sprintf(`\u%04x`, c)
	case c >= 0x80:
		return "\ufffd"
	}
	return string(rune(c))
}
