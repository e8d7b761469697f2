package embedding

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"evalstream"
)

// HTTP asks an endpoint in OpenAI's /v1/embeddings dialect. It is safe for concurrent
// use. A call is one request: it is not made again here.
type HTTP struct {
	URL   string // of the endpoint itself, as in http://127.0.0.1:8080/v1/embeddings
	Model string
	Dims  int
	// AskDims sends dimensions; only some models know it, and some servers ignore it.
	AskDims bool
	Float   bool          // ask for numbers; default: base64, and numbers are read too
	Key     string        // sent as a bearer token; in no message. "" for none
	Timeout time.Duration // of one request; 0: none but the caller's
	Client  *http.Client

	Calls, Failed, Tokens atomic.Int64
}

// Vector is one answer. Fault says why it cannot be used; "" if Values are there.
type Vector struct {
	Values []float32
	Fault  string
}

// CheckURL refuses what is not the address of an endpoint.
func CheckURL(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return errors.New("url: want http://HOST:PORT/v1/embeddings, got something that is no URL")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("url: want http:// or https:// and a host, got %q", u.Redacted())
	case u.User != nil:
		return errors.New("url: want no user or password in it; a key goes into --key-env or --key-file")
	case u.Path == "" || u.Path == "/":
		return fmt.Errorf("url: want the path of the endpoint too, as in %s/v1/embeddings", strings.TrimSuffix(u.Redacted(), "/"))
	}
	return nil
}

// StatusError is an answer other than 200.
type StatusError struct {
	Status  int
	Message string // of the server, cut and without the key
	After   time.Duration
}

func (e *StatusError) Error() string {
	s := fmt.Sprintf("status %d (%s)", e.Status, http.StatusText(e.Status))
	if e.Message != "" {
		s += ": " + e.Message
	}
	return s
}

// Temporary says that the same call may succeed later.
func (e *StatusError) Temporary() bool {
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return e.Status >= 500
}

// TooLarge says that there was too much in one call.
func (e *StatusError) TooLarge() bool { return e.Status == http.StatusRequestEntityTooLarge }

// RetryAfter is how long the server wants to be left alone; 0 if it does not say.
func (e *StatusError) RetryAfter() time.Duration { return e.After }

// cutError is a call that was not answered, or not to the end.
type cutError struct{ err error }

func (e *cutError) Error() string { return e.err.Error() }
func (e *cutError) Unwrap() error { return e.err }

// Temporary says that the same call may succeed later.
func (*cutError) Temporary() bool { return true }

type request struct {
	Model      string   `json:"model"`
	Input      []string `json:"input"`
	Encoding   string   `json:"encoding_format"`
	Dimensions int      `json:"dimensions,omitempty"`
}

type reply struct {
	Data []struct {
		Index     *int            `json:"index"`
		Embedding json.RawMessage `json:"embedding"`
	} `json:"data"`
	Usage struct {
		Total int64 `json:"total_tokens"`
	} `json:"usage"`
}

// Embed asks for the vectors of texts, at least one. The answers are in the order of
// texts, whatever that of the reply. An error means that nothing of the reply can be
// used: a reply that does not have one answer for each text is such a one.
func (h *HTTP) Embed(ctx context.Context, texts []string) ([]Vector, error) {
	h.Calls.Add(1)
	vs, err := h.embed(ctx, texts)
	if err != nil {
		h.Failed.Add(1)
	}
	return vs, err
}

func (h *HTTP) embed(ctx context.Context, texts []string) ([]Vector, error) {
	q := request{Model: h.Model, Input: texts, Encoding: "base64"}
	if h.Float {
		q.Encoding = "float"
	}
	if h.AskDims {
		q.Dimensions = h.Dims
	}
	body, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	if h.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, h.Timeout)
		defer cancel()
	}
	data, err := h.post(ctx, body, len(texts))
	if err != nil {
		return nil, err
	}
	var r reply
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("reply is not what /v1/embeddings answers: %w", err)
	}
	h.Tokens.Add(r.Usage.Total)
	if len(r.Data) != len(texts) {
		return nil, fmt.Errorf("want %d vectors, got %d", len(texts), len(r.Data))
	}
	vs := make([]Vector, len(texts))
	placed := make([]bool, len(texts))
	for _, d := range r.Data {
		if d.Index == nil || *d.Index < 0 || *d.Index >= len(texts) || placed[*d.Index] {
			return nil, fmt.Errorf("want each index from 0 to %d once, got %s", len(texts)-1, indexText(d.Index))
		}
		placed[*d.Index] = true
		vs[*d.Index] = vectorOf(d.Embedding)
	}
	return vs, nil
}

func indexText(i *int) string {
	if i == nil {
		return "none"
	}
	return strconv.Itoa(*i)
}

// post is the body of the answer.
func (h *HTTP) post(ctx context.Context, body []byte, texts int) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(body))
	if err != nil {
		return nil, evalstream.Usagef("url: %w", h.without(err))
	}
	req.Header.Set("Content-Type", "application/json")
	if h.Key != "" {
		req.Header.Set("Authorization", "Bearer "+h.Key)
	}
	client := *h.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	if err != nil {
		err = h.without(err)
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, &cutError{fmt.Errorf("no answer within %v: %w", h.Timeout, err)}
		}
		return nil, &cutError{&evalstream.ExitError{
			Code: evalstream.ExitLost, Err: fmt.Errorf("%s: %w", req.URL.Host, err), Hint: "is the endpoint running, and is --url right?",
		}}
	}
	defer func() { _ = resp.Body.Close() }()
	// A number is at most some 24 bytes of text; what is longer is not an answer.
	limit := int64(texts)*(int64(h.Dims)*32+1024) + 1<<20
	data, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if resp.StatusCode != http.StatusOK {
		return nil, h.status(resp, data)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, &cutError{fmt.Errorf("no whole answer within %v: %w", h.Timeout, err)}
	case err != nil:
		return nil, &cutError{fmt.Errorf("answer is cut off after %d bytes: %w", len(data), h.without(err))}
	case int64(len(data)) > limit:
		return nil, fmt.Errorf("answer is longer than %d bytes, which %d vectors of %d dimensions cannot be", limit, texts, h.Dims)
	}
	return data, nil
}

// without takes the URL, which may hold a key, out of an error of package http.
func (*HTTP) without(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// status turns an answer other than 200 into an error.
func (h *HTTP) status(resp *http.Response, body []byte) error {
	e := &StatusError{Status: resp.StatusCode, Message: h.message(body), After: retryAfter(resp.Header)}
	exit := func(code int, hint string) error { return &evalstream.ExitError{Code: code, Err: e, Hint: hint} }
	switch {
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
		hint := "the key was refused: put a valid one into the variable that --key-env names, or the file of --key-file"
		if h.Key == "" {
			hint = "no key was sent: name the variable that holds it with --key-env, or its file with --key-file"
		}
		return exit(evalstream.ExitUsage, hint)
	case e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed:
		return exit(evalstream.ExitUsage, "is there such a model, and is --url the whole address, as in http://HOST:PORT/v1/embeddings?")
	case e.Status >= 300 && e.Status < 400:
		return exit(evalstream.ExitUsage, "the key is not sent on to another address: give --url the final one")
	case e.Status == http.StatusTooManyRequests && bytes.Contains(body, []byte("insufficient_quota")):
		// Waiting does not bring money: this is not the temporary kind.
		return &evalstream.ExitError{Code: evalstream.ExitLost, Err: errors.New(e.Error()), Hint: "the account has no quota left"}
	}
	return e
}

// message is what the server says went wrong, on one line of at most 200 bytes.
func (h *HTTP) message(body []byte) string {
	text := string(body)
	var e struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &e) == nil && len(e.Error) > 0 {
		var nested struct {
			Message string `json:"message"`
		}
		var plain string
		if json.Unmarshal(e.Error, &nested) == nil && nested.Message != "" {
			text = nested.Message
		} else if json.Unmarshal(e.Error, &plain) == nil {
			text = plain
		}
	}
	if h.Key != "" {
		text = strings.ReplaceAll(text, h.Key, "***")
	}
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "�")
	if len(text) > 200 {
		text = strings.ToValidUTF8(text[:200], "") + "…"
	}
	return text
}

// retryAfter reads Retry-After-Ms and both forms of Retry-After. A date counts from
// the answer's own Date: the two clocks need not agree.
func retryAfter(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 && ms < 1e12 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	text := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(text, 64); err == nil {
		if s > 0 && s < 1e9 {
			return time.Duration(s * float64(time.Second))
		}
		return 0
	}
	at, err := http.ParseTime(text)
	now, nowErr := http.ParseTime(h.Get("Date"))
	if err != nil || nowErr != nil {
		return 0
	}
	return max(0, at.Sub(now))
}

// vectorOf reads base64 of little-endian float32, or an array of numbers.
func vectorOf(raw json.RawMessage) Vector {
	var text string
	if json.Unmarshal(raw, &text) == nil && len(raw) > 0 && raw[0] == '"' {
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(b)%4 != 0 {
			return Vector{Fault: "want base64 of float32"}
		}
		v := make([]float32, len(b)/4)
		for i := range v {
			v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
		return Vector{Values: v}
	}
	var v []*float32
	if err := json.Unmarshal(raw, &v); err != nil || len(v) == 0 {
		return Vector{Fault: "want a vector of numbers, got none"}
	}
	values := make([]float32, len(v))
	for i, x := range v {
		if x == nil {
			return Vector{Fault: fmt.Sprintf("want finite numbers, got null at place %d", i)}
		}
		values[i] = *x
	}
	return Vector{Values: values}
}
