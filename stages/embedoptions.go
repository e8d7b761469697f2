package stages

import (
	"errors"
	"flag"
	"fmt"
	"time"

	"evalstream"
	"evalstream/stages/embedding"
)

// EmbedOptions are the options of embed.
type EmbedOptions struct {
	Provider                   string
	Model                      string
	Dims                       int
	Normalize                  bool
	QueryPrefix, PassagePrefix string
	HashSeed                   uint64
	Log                        string // a file

	URL, KeyEnv, KeyFile string
	AskDims, Float       bool
	Timeout, Deadline    time.Duration
	Linger               time.Duration
	Batch, BatchBytes    int
	InFlight, Attempts   int
	RetrySeed            uint64
}

// Declare adds the flags.
func (o *EmbedOptions) Declare(fs *flag.FlagSet) {
	fs.StringVar(&o.Provider, "provider", "hash", "`PROVIDER` hash (words and pairs of words, to try a pipeline without a model) or http (OpenAI's /v1/embeddings dialect)")
	fs.StringVar(&o.Model, "model", "", "`NAME` of the endpoint's model")
	fs.IntVar(&o.Dims, "dims", 256, "dimensions of the vectors, `N`; another number in an answer is a reject")
	fs.BoolVar(&o.Normalize, "normalize", true, "bring vectors to length 1, so that rank's inner product is the cosine")
	fs.StringVar(&o.QueryPrefix, "query-prefix", "", "`TEXT` before each query, such as 'query: '")
	fs.StringVar(&o.PassagePrefix, "passage-prefix", "", "`TEXT` before each passage, such as 'passage: '")
	fs.Uint64Var(&o.HashSeed, "hash-seed", 0, "`N` that the provider hash is seeded with")
	fs.StringVar(&o.Log, "log", "", "`FILE` that keeps what the endpoint answered; a rerun asks for nothing twice (default: none)")
	fs.StringVar(&o.URL, "url", "", "whole `URL` of the endpoint, such as http://127.0.0.1:8080/v1/embeddings")
	fs.StringVar(&o.KeyEnv, "key-env", "", "`VARIABLE` of the environment that holds the key")
	fs.StringVar(&o.KeyFile, "key-file", "", "`FILE` that holds the key")
	fs.BoolVar(&o.AskDims, "ask-dims", false, "send --dims to the endpoint, for models that can shorten their vectors")
	fs.BoolVar(&o.Float, "float", false, "ask for numbers in place of base64, for servers that know no other")
	fs.DurationVar(&o.Timeout, "timeout", 30*time.Second, "longest wait for one answer, a `DURATION`")
	fs.DurationVar(&o.Deadline, "deadline", 2*time.Minute, "longest wait for a batch over all its attempts, a `DURATION`")
	fs.DurationVar(&o.Linger, "linger", 20*time.Millisecond, "longest wait of a lone record for company, a `DURATION`")
	fs.IntVar(&o.Batch, "batch", 32, "texts a call, `N`")
	fs.IntVar(&o.BatchBytes, "batch-bytes", 128<<10, "bytes of text a call, `N`; a longer text is a call of its own")
	fs.IntVar(&o.InFlight, "in-flight", 4, "calls at once, `N`")
	fs.IntVar(&o.Attempts, "attempts", 6, "attempts a call, `N`")
	fs.Uint64Var(&o.RetrySeed, "retry-seed", 0, "`N` that the waits between attempts are drawn from")
}

// Embedding reads the options, all but Key, Client and Log of the remote provider.
func (o *EmbedOptions) Embedding() (Embedding, error) {
	e := Embedding{Settings: embedding.Settings{
		Provider: o.Provider, Model: o.Model, Dims: o.Dims, Normalize: o.Normalize, QueryPrefix: o.QueryPrefix, PassagePrefix: o.PassagePrefix,
	}}
	switch o.Provider {
	case "hash":
		if o.URL != "" || o.Log != "" || o.Model != "" {
			return e, errors.New("provider: hash takes no --url, --model or --log; want --provider http with them")
		}
		e.Hash = embedding.Hash{Dims: o.Dims, Seed: o.HashSeed}
		e.Settings.Model = e.Hash.Model()
		return e, nil
	case "http":
	default:
		return e, evalstream.NoChoice("provider", o.Provider, "hash", "http")
	}
	if o.Model == "" {
		return e, errors.New("model: want the name of the endpoint's model, got none")
	}
	if err := embedding.CheckURL(o.URL); err != nil {
		return e, err
	}
	if o.KeyEnv != "" && o.KeyFile != "" {
		return e, errors.New("key-env and key-file: want one of them, got both")
	}
	for _, f := range []struct {
		name string
		n    int
	}{{"batch", o.Batch}, {"batch-bytes", o.BatchBytes}, {"in-flight", o.InFlight}, {"attempts", o.Attempts}} {
		if f.n < 1 {
			return e, fmt.Errorf("%s: want 1 or more, got %d", f.name, f.n)
		}
	}
	e.Remote = &embedding.HTTP{URL: o.URL, Model: o.Model, Dims: o.Dims, AskDims: o.AskDims, Float: o.Float, Timeout: o.Timeout}
	e.Limits = evalstream.Limits{
		Records: o.Batch, Bytes: o.BatchBytes, Linger: o.Linger, Deadline: o.Deadline, InFlight: o.InFlight,
		Retry: evalstream.Retry{Attempts: o.Attempts, Seed: o.RetrySeed},
	}
	return e, nil
}

// String says what the vectors are, in full.
func (o *EmbedOptions) String() string {
	e, err := o.Embedding()
	if err != nil {
		return err.Error()
	}
	return e.Settings.String() + " fingerprint=" + e.Settings.Fingerprint()
}
