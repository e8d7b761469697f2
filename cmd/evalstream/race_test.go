//go:build race

package main

// raced is how many times the memory of a program may grow that the race detector
// watches: each word of it has shadows.
const raced = 4
