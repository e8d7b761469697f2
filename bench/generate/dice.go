package main

import (
	"math/bits"
	"math/rand/v2"
)

// dice draws from PCG. It uses nothing of math/rand/v2 but the generator's 64-bit stream, which Go specifies.
type dice struct{ pcg *rand.PCG }

func newDice(seed, stream uint64) dice { return dice{rand.NewPCG(seed, stream)} }

// below draws from 0 to n-1; its bias is n/2^64.
func (d dice) below(n int) int {
	hi, _ := bits.Mul64(d.pcg.Uint64(), uint64(n))
	return int(hi)
}

// share draws a number from 0 up to, and without, 1.
func (d dice) share() float64 { return float64(d.pcg.Uint64()>>11) / (1 << 53) }

// pick draws an index of weights, each as often as its weight says. total is the sum of the weights.
func (d dice) pick(weights []int, total int) int {
	x := d.below(total)
	for i, w := range weights {
		if x < w {
			return i
		}
		x -= w
	}
	return len(weights) - 1
}

// appendDigits appends v with leading zeros to width digits.
func appendDigits(b []byte, v, width int) []byte {
	for range width {
		b = append(b, '0')
	}
	for i := len(b) - 1; width > 0; i, width = i-1, width-1 {
		b[i] = byte('0' + v%10)
		v /= 10
	}
	return b
}
