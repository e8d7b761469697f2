//go:build linux

package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"evalstream/topics"
	"evalstream/topics/kafka"
)

// recordSize is how long every value is.
const recordSize = 200

// prediction is the i-th ranked list, of a query of its own and for the partition of its
// query; field part names that partition.
func prediction(i int, partitions int32) topics.Message {
	query := queryOf(i)
	p := kafka.Partition([]byte(query), partitions)
	b := make([]byte, 0, recordSize)
	b = fmt.Appendf(b, `{"kind":"run","query_id":"%s","run":"bm25","part":"%d","top":[{"id":"p%07d"},{"id":"p%07d"},{"id":"p%07d"},{"id":"`,
		query, p, i%9_999_991, (i+1)%9_999_991, (i+2)%9_999_991)
	const end = `"}]}`
	b = append(b, strings.Repeat("x", recordSize-len(end)-len(b))...)
	b = append(b, end...)
	return topics.Message{Partition: p, Key: []byte(query), Value: b}
}

func queryOf(i int) string { return "q" + strconv.Itoa(10_000_000+i) }

// gold writes what is relevant for n queries: the first passage of every third, and the
// second of the others.
func (b *bench) gold(n int) (string, error) {
	f, err := os.CreateTemp(b.dir, "gold*.ndjson")
	if err != nil {
		return "", err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	for i := range n {
		at := i + 1
		if i%3 == 0 {
			at = i
		}
		fmt.Fprintf(w, `{"kind":"qrel","query_id":"%s","passage_id":"p%07d"}`+"\n", queryOf(i), at%9_999_991)
	}
	return f.Name(), w.Flush()
}
