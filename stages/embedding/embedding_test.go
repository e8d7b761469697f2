package embedding

import (
	"encoding/hex"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The digests are those of sha256sum.
func TestSettings(t *testing.T) {
	s := Settings{Provider: "http", Model: "m", Dims: 2, Normalize: true, QueryPrefix: "query: "}
	if diff := cmp.Diff("e15c427a20f20777", s.Fingerprint()); diff != "" {
		t.Errorf("fingerprint (-want +got)\n%s", diff)
	}
	key := s.Key("query: why")
	if diff := cmp.Diff("ef3b8aa1bd163d4b4a619f698960b1db", hex.EncodeToString(key[:])); diff != "" {
		t.Errorf("key (-want +got)\n%s", diff)
	}
	// Whatever changes, the fingerprint and the key change.
	seen := map[string]bool{s.Fingerprint(): true}
	for _, o := range []Settings{
		{"hash", "m", 2, true, "query: ", ""},
		{"http", "n", 2, true, "query: ", ""},
		{"http", "m", 3, true, "query: ", ""},
		{"http", "m", 2, false, "query: ", ""},
		{"http", "m", 2, true, "", ""},
		{"http", "m", 2, true, "query: ", "passage: "},
		{"http", `m" dims=2`, 2, true, "query: ", ""},
	} {
		if seen[o.Fingerprint()] {
			t.Errorf("%s: fingerprint is another's", o)
		}
		seen[o.Fingerprint()] = true
		if o.Key("query: why") == key {
			t.Errorf("%s: key is another's", o)
		}
	}
}

func TestFinish(t *testing.T) {
	f := func(s Settings, v []float32, want []float32, fault string) {
		t.Helper()
		if got := s.Finish(v); got != fault {
			t.Errorf("%v: want fault %q, got %q", v, fault, got)
		}
		if fault == "" {
			if diff := cmp.Diff(want, v); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		}
	}
	unit := Settings{Dims: 2, Normalize: true}
	f(unit, []float32{3, 4}, []float32{.6, .8}, "")
	f(Settings{Dims: 2}, []float32{3, 4}, []float32{3, 4}, "")
	f(unit, []float32{1e-30, 0}, []float32{1, 0}, "")
	f(unit, []float32{3e38, 3e38}, []float32{math.Sqrt2 / 2, math.Sqrt2 / 2}, "")
	f(unit, []float32{3}, nil, "want 2 dimensions, got 1")
	f(unit, []float32{1, float32(math.Inf(1))}, nil, "want finite numbers, got +Inf at place 1")
	f(unit, []float32{0, 0}, nil, "want a vector that is not all 0")
}

func TestHash(t *testing.T) {
	sum := func(v []float32) (n float32) {
		for _, x := range v {
			n += float32(math.Abs(float64(x)))
		}
		return n
	}
	h := Hash{Dims: 1 << 16, Seed: 1}
	f := func(text string, features float32) {
		t.Helper()
		if got := sum(h.Embed(nil, text)); got != features {
			t.Errorf("%q: want %v features, got %v", text, features, got)
		}
	}
	f("", 0)
	f(" -- ", 0)
	f("Sales", 1)
	f("Sales rose", 3)          // two words and one pair
	f("sales, sales; SALES", 5) // one word three times, one pair twice
	same := func(a, b string, want bool) {
		t.Helper()
		if got := cmp.Equal(h.Embed(nil, a), h.Embed(nil, b)); got != want {
			t.Errorf("%q and %q: want equal %t", a, b, want)
		}
	}
	same("Sales rose 4%", "sales ROSE 4", true)
	same("sales rose", "rose sales", false)
	same("Größe", "größe", true)
	if cmp.Equal(h.Embed(nil, "sales"), Hash{Dims: 1 << 16, Seed: 2}.Embed(nil, "sales")) {
		t.Error("want another vector with another seed")
	}
	// Both signs and all places are used.
	small := Hash{Dims: 8}
	v := make([]float32, 0, 8)
	for i := range 4000 {
		v = small.Embed(v, fmt.Sprintf("word%d", i))
	}
	var plus, used [8]int
	for i, x := range v {
		if x > 0 {
			plus[i%8]++
		}
		if x != 0 {
			used[i%8]++
		}
	}
	for i := range used {
		if used[i] < 400 || used[i] > 600 || plus[i] < used[i]/3 || plus[i] > used[i]*2/3 {
			t.Errorf("place %d: used %d times in 4000, %d times by +1", i, used[i], plus[i])
		}
	}
}

func TestRetryAfter(t *testing.T) {
	f := func(want time.Duration, pairs ...string) {
		t.Helper()
		h := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h.Set(pairs[i], pairs[i+1])
		}
		if got := retryAfter(h); got != want {
			t.Errorf("%v: want %v, got %v", h, want, got)
		}
	}
	f(0)
	f(120*time.Second, "Retry-After", "120")
	f(1500*time.Millisecond, "Retry-After", "120", "Retry-After-Ms", "1500")
	f(90*time.Second, "Date", "Mon, 30 Nov 2026 00:00:00 GMT", "Retry-After", "Mon, 30 Nov 2026 00:01:30 GMT")
	f(0, "Date", "Mon, 30 Nov 2026 00:00:00 GMT", "Retry-After", "Sun, 29 Nov 2026 00:01:30 GMT")
	f(0, "Retry-After", "Mon, 30 Nov 2026 00:01:30 GMT") // no clock to count from
	f(0, "Retry-After", "-5")
	f(0, "Retry-After", "NaN")
	f(0, "Retry-After", "soon")
	f(0, "Retry-After", "1e300")
}

func TestCheckURL(t *testing.T) {
	f := func(address, want string) {
		t.Helper()
		err := CheckURL(address)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: want %q, got %v", address, want, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the secret is printed: %v", address, err)
		}
	}
	f("http://127.0.0.1:8080/v1/embeddings", "")
	f("https://api.example.com/v1/embeddings?version=2", "")
	f("", "want http:// or https:// and a host")
	f("127.0.0.1:8080/v1", "something that is no URL")
	f("http://127.0.0.1:8080", "as in http://127.0.0.1:8080/v1/embeddings")
	f("http://user:secret@host/v1/embeddings", "want no user or password in it")
	f("ftp://user:secret@host/", `want http:// or https:// and a host`)
}

func TestMessage(t *testing.T) {
	h := &HTTP{Key: "sk-1"}
	f := func(body, want string) {
		t.Helper()
		if got := h.message([]byte(body)); got != want {
			t.Errorf("%s: want %q, got %q", body, want, got)
		}
	}
	f(`{"error":{"message":"bad key sk-1","code":1}}`, "bad key ***")
	f(`{"error":"too\nlong"}`, "too long")
	f("<html>\n502</html>", "<html> 502</html>")
	f("\xff", "�")
	f(strings.Repeat("ä", 150), strings.Repeat("ä", 100)+"…")
	f("", "")
}
