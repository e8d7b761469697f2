// Package embedding turns texts into vectors: by hashing their words, or by asking an
// endpoint in OpenAI's /v1/embeddings dialect. It knows texts, numbers and HTTP; no
// records, and no order of calls: batches and retries are the runner's.
package embedding
