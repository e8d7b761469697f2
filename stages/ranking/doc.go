// Package ranking finds the best passages for a query, by words (BM25) or by vectors,
// always exactly: every passage is scored. It knows texts, numbers and ids; no records.
package ranking
