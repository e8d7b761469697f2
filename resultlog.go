package evalstream

// ResultLog keeps what remote calls have answered, so that nothing is asked twice,
// also not by the next job. Failures are not kept. It is safe for concurrent use.
type ResultLog interface {
	// Get is the answer to a question that was put before; the bytes are the caller's.
	Get(key LogKey) (answer []byte, ok bool, err error)
	// Put keeps an answer. A second answer to a question changes nothing.
	Put(key LogKey, answer []byte) error
}

// LogKey is the hash of model, settings and input.
type LogKey [16]byte
