//go:build !race

package kafkatest

const underRace = false
