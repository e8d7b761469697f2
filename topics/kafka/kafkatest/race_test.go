//go:build race

package kafkatest

// The command is looked at by the race detector where its tests are.
const underRace = true
