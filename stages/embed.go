package stages

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"

	"evalstream"
	"evalstream/stages/embedding"
)

// Embedding says how embed works.
type Embedding struct {
	Settings embedding.Settings
	// Hash is the provider hash; Remote, which is not nil then, that of http.
	Hash   embedding.Hash
	Remote *embedding.HTTP
	Limits evalstream.Limits
	Log    evalstream.ResultLog // of the remote provider; nil for none
	Lines  *VectorLines         // nil: the record goes on as its body alone
}

// VectorLines writes vectors into records' lines.
type VectorLines struct {
	Splice evalstream.Splice
	Append func(dst []byte, v evalstream.Vector) []byte
}

// NewEmbed makes embed: passages, queries and instances get the vector of their text.
// A record that has a vector of the same fingerprint passes as it is.
func NewEmbed(e Embedding) (func() (evalstream.Stage, error), error) {
	if e.Settings.Dims < 1 || e.Settings.Dims > 1<<16 {
		return nil, fmt.Errorf("dims: want 1 to 65536, got %d", e.Settings.Dims)
	}
	c := embedCore{Embedding: e, fingerprint: e.Settings.Fingerprint()}
	if e.Remote == nil {
		return func() (evalstream.Stage, error) { return &embedHash{embedCore: c}, nil }, nil
	}
	return func() (evalstream.Stage, error) {
		return &embedRemote{embedCore: c, asked: map[evalstream.LogKey]*question{}}, nil
	}, nil
}

// embedCore is what both kinds share; nothing of it is written after it was made.
type embedCore struct {
	Embedding
	fingerprint string
}

// text is what is embedded of a record, prefix included. has says that it has this
// vector already.
func (c *embedCore) text(body evalstream.Body) (text string, has bool, fault string) {
	var v *evalstream.Vector
	prefix := c.Settings.PassagePrefix
	switch b := body.(type) {
	case *evalstream.Passage:
		text, v = b.Text, &b.Vector
	case *evalstream.Query:
		text, v, prefix = b.Text, &b.Vector, c.Settings.QueryPrefix
	case *evalstream.Instance:
		text, v = instanceText(b), &b.Vector
	default:
		return "", false, "embed: want passage, query or instance, got " + body.Kind()
	}
	if strings.TrimSpace(text) == "" {
		return "", false, "embed: text is empty"
	}
	return prefix + text, len(v.Values) > 0 && v.Fingerprint == c.fingerprint, ""
}

// instanceText is a sentence whose entities are replaced by [SUBJ-type] and
// [OBJ-type]; where the two overlap, the subject's stands.
func instanceText(b *evalstream.Instance) string {
	var words []string
	for i := int32(0); int(i) < len(b.Tokens); i++ {
		switch {
		case i >= b.SubjStart && i <= b.SubjEnd:
			if i == b.SubjStart {
				words = append(words, "[SUBJ-"+b.SubjType+"]")
			}
		case i >= b.ObjStart && i <= b.ObjEnd:
			if i == b.ObjStart {
				words = append(words, "[OBJ-"+b.ObjType+"]")
			}
		default:
			words = append(words, b.Tokens[i])
		}
	}
	return strings.Join(words, " ")
}

// with is the record with a vector. Nothing of it is shared with rec but what rec's
// own block holds.
func (c *embedCore) with(rec *evalstream.Record, values []float32) evalstream.Record {
	next := *rec
	v := evalstream.Vector{Values: values, Fingerprint: c.fingerprint}
	switch b := rec.Body.(type) {
	case *evalstream.Passage:
		p := *b
		p.Vector, next.Body = v, &p
	case *evalstream.Query:
		q := *b
		q.Vector, next.Body = v, &q
	case *evalstream.Instance:
		i := *b
		i.Vector, next.Body = v, &i
	}
	if c.Lines == nil || rec.Raw == nil {
		next.Raw = nil
		return next
	}
	next.Raw = c.Lines.Splice(nil, rec.Raw, []evalstream.Field{{Name: "vector", Value: c.Lines.Append(nil, v)}})
	return next
}

// embedHash is embed by hashing: plain computing, on every worker.
type embedHash struct {
	embedCore
	received, passed, rejected int64
}

// Process embeds each record on its own.
func (e *embedHash) Process(_ context.Context, in []evalstream.Record, out *evalstream.Out) error {
	e.received += int64(len(in))
	for i := range in {
		text, has, fault := e.text(in[i].Body)
		if fault == "" && !has {
			v := e.Hash.Embed(nil, text)
			if fault = e.Settings.Finish(v); fault == "" {
				out.Emit(e.with(&in[i], v))
				e.passed++
				continue
			}
			fault = "embed: text has no word to hash"
		}
		if fault != "" {
			out.Reject(in[i].Seq, evalstream.Fault{Class: evalstream.ClassStage, Reason: fault})
			e.rejected++
			continue
		}
		out.Emit(in[i])
		e.passed++
	}
	return nil
}

// Tallies counts records.
func (e *embedHash) Tallies() []evalstream.Tally {
	return []evalstream.Tally{{Kind: "text", Received: e.received, Passed: e.passed, Rejected: e.rejected}}
}

// embedRemote is embed by asking. A text that is being asked for is not asked for
// again: who needs it too waits for the answer.
type embedRemote struct {
	embedCore
	mu    sync.Mutex
	asked map[evalstream.LogKey]*question // in flight

	logged, shared int64
}

// question is a text that is being asked for.
type question struct {
	done   chan struct{}
	answer embedding.Vector // once done
	failed bool             // there is no answer
}

// Limits bound the calls.
func (e *embedRemote) Limits() evalstream.Limits { return e.Embedding.Limits }

// Size is the bytes of the text.
func (e *embedRemote) Size(rec *evalstream.Record) int {
	text, _, _ := e.text(rec.Body)
	return len(text)
}

// Process embeds the records of one batch: what the log has is not asked for, and
// what is answered goes into the log at once.
func (e *embedRemote) Process(ctx context.Context, in []evalstream.Record, out *evalstream.Out) error {
	texts := make([]string, len(in))
	keys := make([]evalstream.LogKey, len(in))
	need := map[evalstream.LogKey]string{}
	var order []evalstream.LogKey
	for i := range in {
		text, has, fault := e.text(in[i].Body)
		if has || fault != "" {
			continue
		}
		texts[i], keys[i] = text, e.Settings.Key(text)
		if _, ok := need[keys[i]]; !ok {
			need[keys[i]] = text
			order = append(order, keys[i])
		}
	}
	answers, err := e.answers(ctx, order, need)
	if err != nil {
		return err
	}
	for i := range in {
		_, _, fault := e.text(in[i].Body)
		class := evalstream.ClassStage
		if fault == "" && texts[i] != "" {
			a := answers[keys[i]]
			if fault = a.Fault; fault == "" {
				out.Emit(e.with(&in[i], a.Values))
				continue
			}
			class = evalstream.ClassRemote
		}
		if fault != "" {
			out.Reject(in[i].Seq, evalstream.Fault{Class: class, Reason: fault})
			continue
		}
		out.Emit(in[i])
	}
	return nil
}

// answers finds the vector of each key: in the log, with whoever is asking for it, or
// by asking. It asks before it waits, so two batches never wait for each other.
func (e *embedRemote) answers(ctx context.Context, keys []evalstream.LogKey, texts map[evalstream.LogKey]string) (map[evalstream.LogKey]embedding.Vector, error) {
	found := make(map[evalstream.LogKey]embedding.Vector, len(keys))
	for len(keys) > 0 {
		mine, others, err := e.claim(keys, found)
		if err != nil {
			return nil, err
		}
		if err := e.ask(ctx, mine, texts, found); err != nil {
			return nil, err
		}
		keys = keys[:0:0]
		for key, q := range others {
			select {
			case <-q.done:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			if q.failed {
				keys = append(keys, key) // whoever asked has failed: it is ours now
				continue
			}
			found[key] = q.answer
		}
	}
	return found, nil
}

// claim looks the keys up; mine are those that nobody asks for yet.
func (e *embedRemote) claim(keys []evalstream.LogKey, found map[evalstream.LogKey]embedding.Vector) (mine []evalstream.LogKey, others map[evalstream.LogKey]*question, err error) {
	others = map[evalstream.LogKey]*question{}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, key := range keys {
		if q := e.asked[key]; q != nil {
			others[key] = q
			e.shared++
			continue
		}
		if e.Log != nil {
			b, ok, err := e.Log.Get(key)
			if err != nil {
				e.release(mine, nil)
				return nil, nil, err
			}
			if v, fits := floatsOf(b, e.Settings.Dims); ok && fits {
				found[key] = embedding.Vector{Values: v}
				e.logged++
				continue
			}
		}
		e.asked[key] = &question{done: make(chan struct{})}
		mine = append(mine, key)
	}
	return mine, others, nil
}

// release tells those who wait for the keys what came of them; e.mu is held. found is
// nil if there is no answer.
func (e *embedRemote) release(keys []evalstream.LogKey, found map[evalstream.LogKey]embedding.Vector) {
	for _, key := range keys {
		q := e.asked[key]
		delete(e.asked, key)
		q.answer, q.failed = found[key], found == nil
		close(q.done)
	}
}

// ask asks for the keys and adds the answers to found and to the log.
func (e *embedRemote) ask(ctx context.Context, keys []evalstream.LogKey, texts map[evalstream.LogKey]string, found map[evalstream.LogKey]embedding.Vector) (err error) {
	if len(keys) == 0 {
		return nil
	}
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if err != nil {
			e.release(keys, nil)
		} else {
			e.release(keys, found)
		}
	}()
	inputs := make([]string, len(keys))
	for i, key := range keys {
		inputs[i] = texts[key]
	}
	vs, err := e.Remote.Embed(ctx, inputs)
	if err != nil {
		if len(keys) > 1 || ctx.Err() != nil || !terminal(err) {
			return err
		}
		// The one text asked for is at fault: to halve the batch would ask for it again.
		found[keys[0]] = embedding.Vector{Fault: err.Error()}
		return nil
	}
	for i, key := range keys {
		v := vs[i]
		if v.Fault == "" {
			v.Fault = e.Settings.Finish(v.Values)
		}
		if v.Fault != "" {
			v.Fault = "vector of the endpoint: " + v.Fault
		}
		found[key] = v
		if v.Fault != "" || e.Log == nil {
			continue
		}
		if err := e.Log.Put(key, bytesOf(v.Values)); err != nil {
			return err
		}
	}
	return nil
}

// terminal says that an error is about what was asked, and stays.
func terminal(err error) bool {
	var passing interface{ Temporary() bool }
	if errors.As(err, &passing) && passing.Temporary() {
		return false
	}
	_, exit := errors.AsType[*evalstream.ExitError](err)
	return !exit
}

func bytesOf(v []float32) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func floatsOf(b []byte, n int) (v []float32, ok bool) {
	if len(b) != 4*n {
		return nil, false
	}
	v = make([]float32, n)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v, true
}

// Counters say what was asked.
func (e *embedRemote) Counters() []evalstream.Counter {
	return []evalstream.Counter{
		{Name: "calls", N: e.Remote.Calls.Load()},
		{Name: "calls that failed", N: e.Remote.Failed.Load()},
		{Name: "tokens, as the endpoint counts them", N: e.Remote.Tokens.Load()},
		{Name: "answers from the log", N: e.logged},
		{Name: "answers shared with another batch", N: e.shared},
	}
}
