// Package state keeps the state of a job in a directory: a [Store] on Pebble that a
// killed process leaves whole. A commit is written to the operating system before it
// returns and is not forced to the disk, so it outlives the process at once and the
// machine only after a while: after a loss of power the store may be at an earlier
// commit, or say that it is damaged.
package state
