//go:build !race

package main

// raced is 1: no race detector watches.
const raced = 1
