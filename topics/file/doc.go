// Package file moves lines of files, pipes and standard streams: a [Source] cuts
// them into blocks of whole lines, a [Sink] writes whole lines.
//
// A regular file is read in large blocks. Anything else is live: what has come is
// handed over as soon as waiting for more would block, so a line leaves the source
// when its newline has arrived. Gzip and zstd are known by their first bytes.
package file
