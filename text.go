package evalstream

// Vector is the embedding of a text. The zero value is none.
type Vector struct {
	// Values are finite, and not all zero.
	Values []float32
	// Fingerprint is the digest (16 hex digits) of what made the vector: provider,
	// model, dimensions, normalisation and prefixes. Vectors whose fingerprints differ
	// lie in different spaces and are never compared.
	Fingerprint string
}

// Passage is a text to be found.
type Passage struct {
	PassageID, DocID             string
	Text                         string
	Company, Ticker, Event, Date string
	Context                      string // the line that context-prefix put in front of Text; "" if it did not
	Vector                       Vector
	Slices                       []Slice
}

// Query is a question that passages answer.
type Query struct {
	QueryID, DocID string
	Text           string
	Vector         Vector
	Slices         []Slice
}

// Instance is a sentence with two entities, as TACRED has it.
type Instance struct {
	ID, Relation       string
	Tokens             []string
	SubjStart, SubjEnd int32 // inclusive, from 0
	ObjStart, ObjEnd   int32
	SubjType, ObjType  string
	Vector             Vector
}

// Episode is one N-way K-shot task: what is supported, and what is asked.
type Episode struct {
	Dataset, Partition, Seed, K, Episode string
	Targets                              []string
	Support                              [][]string // ids of instances: one list a target
	Queries                              []EpisodeQuery
	Slices                               []Slice
}

// EpisodeQuery is one question of an episode.
type EpisodeQuery struct {
	ID             string // of the instance
	SourceRelation string // of the instance before the episode renamed it; "" if not said
	Gold           string
	HasGold        bool
}

// Kind is "passage".
func (*Passage) Kind() string { return "passage" }

// Kind is "query".
func (*Query) Kind() string { return "query" }

// Kind is "instance".
func (*Instance) Kind() string { return "instance" }

// Kind is "episode".
func (*Episode) Kind() string { return "episode" }

// AppendRoute is the passage id.
func (b *Passage) AppendRoute(dst []byte) []byte { return append(dst, b.PassageID...) }

// AppendKey is the passage id.
func (b *Passage) AppendKey(dst []byte) []byte { return append(dst, b.PassageID...) }

// AppendRoute is the query id.
func (b *Query) AppendRoute(dst []byte) []byte { return append(dst, b.QueryID...) }

// AppendKey is the query id.
func (b *Query) AppendKey(dst []byte) []byte { return append(dst, b.QueryID...) }

// AppendRoute is the id.
func (b *Instance) AppendRoute(dst []byte) []byte { return append(dst, b.ID...) }

// AppendKey is the id.
func (b *Instance) AppendKey(dst []byte) []byte { return append(dst, b.ID...) }

// AppendRoute is [dataset, seed, k, episode].
func (b *Episode) AppendRoute(dst []byte) []byte {
	return appendArray(dst, b.Dataset, b.Seed, b.K, b.Episode)
}

// AppendKey is [dataset, seed, k, episode].
func (b *Episode) AppendKey(dst []byte) []byte { return b.AppendRoute(dst) }

// Field is a field of an object: Value is its JSON bytes.
type Field struct {
	Name  string
	Value []byte
}

// Splice appends line to dst with fields set at the top level: a key that is there
// gets its value's bytes replaced, any other is appended; all else is line's own bytes.
// line is one JSON object. Fields have names of their own.
type Splice func(dst, line []byte, fields []Field) []byte
