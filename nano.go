package evalstream

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"strconv"
)

// Nano is a decimal in units of 1e-9: the only form in which scores are held, added and taken back.
// It spans ±9,223,372,036.854775807, so a sum holds at least 9.2e9 scores of 1; sums beyond that wrap.
type Nano int64

// One is the Nano of 1.
const One Nano = 1e9

// maxExact is the count up to which every integer is a float64.
const maxExact = 1 << 53

// NanoOf returns x rounded to 9 decimals, once, half to even on x's exact binary value.
// NaN, infinities and values outside Nano's range are programming faults: it panics.
func NanoOf(x float64) Nano {
	if !(math.Abs(x) < float64(math.MaxInt64)/1e9) {
		panic(fmt.Sprintf("BUG: no Nano for %v", x))
	}
	// |x| = mant / 2^shift, with shift >= 19 because |x| < 2^34.
	word := math.Float64bits(x)
	mant, exp := word&(1<<52-1), int(word>>52&0x7ff)
	if exp == 0 {
		exp = 1
	} else {
		mant |= 1 << 52
	}
	shift := 1075 - exp
	hi, lo := bits.Mul64(mant, uint64(One)) // below 2^83
	var whole, restHi, restLo, halfHi, halfLo uint64
	switch {
	case shift >= 84:
		return 0 // below one half
	case shift > 64:
		whole = hi >> (shift - 64)
		restHi, restLo = hi&(1<<(shift-64)-1), lo
		halfHi = 1 << (shift - 65)
	case shift == 64:
		whole, restLo, halfLo = hi, lo, 1<<63
	default:
		whole = hi<<(64-shift) | lo>>shift
		restLo = lo & (1<<shift - 1)
		halfLo = 1 << (shift - 1)
	}
	if restHi > halfHi || restHi == halfHi && (restLo > halfLo || restLo == halfLo && whole&1 == 1) {
		whole++
	}
	if x < 0 {
		return -Nano(whole)
	}
	return Nano(whole)
}

// NanoRatio returns num/den rounded to 9 decimals, once, half to even on the exact quotient: 1/3 is 0.333333333.
// It panics if den is not positive or the quotient is outside Nano's range.
func NanoRatio(num, den int64) Nano {
	if den <= 0 {
		panic(fmt.Sprintf("BUG: no Nano for %d/%d", num, den))
	}
	hi, lo := bits.Mul64(magnitude(num), uint64(One))
	if hi >= uint64(den) {
		panic(fmt.Sprintf("BUG: no Nano for %d/%d", num, den))
	}
	whole, rest := bits.Div64(hi, lo, uint64(den))
	if left := uint64(den) - rest; rest > left || rest == left && whole&1 == 1 {
		whole++
	}
	if whole > math.MaxInt64 {
		panic(fmt.Sprintf("BUG: no Nano for %d/%d", num, den))
	}
	if num < 0 {
		return -Nano(whole)
	}
	return Nano(whole)
}

// NanoCount returns the Nano of a whole number. It panics beyond ±9,223,372,036.
func NanoCount(n int64) Nano {
	if n > math.MaxInt64/int64(One) || n < -math.MaxInt64/int64(One) {
		panic(fmt.Sprintf("BUG: no Nano for %d", n))
	}
	return Nano(n) * One
}

// Float returns the float64 nearest to n.
func (n Nano) Float() float64 { return n.Over(1) }

// Over returns the float64 nearest to n/den; den is positive.
func (n Nano) Over(den int64) float64 {
	num := n
	if whole := int64(num / One); Nano(whole)*One == num && whole <= maxExact && den <= maxExact {
		return float64(whole) / float64(den)
	}
	if magnitude(int64(num)) <= maxExact && den <= maxExact/int64(One) {
		return float64(num) / float64(den*int64(One))
	}
	d := new(big.Int).Mul(big.NewInt(den), big.NewInt(int64(One)))
	x, _ := new(big.Rat).SetFrac(big.NewInt(int64(num)), d).Float64()
	return x
}

// String returns the form that [AppendNano] appends.
func (n Nano) String() string { return string(AppendNano(nil, n)) }

// AppendNano appends n as a plain decimal of at most 9 places without trailing zeros: 0.333333333, 1, -0.5.
func AppendNano(dst []byte, n Nano) []byte {
	if n < 0 {
		dst = append(dst, '-')
	}
	rest := magnitude(int64(n))
	dst = strconv.AppendUint(dst, rest/1e9, 10)
	if rest %= 1e9; rest == 0 {
		return dst
	}
	dst = append(dst, '.')
	for place := uint64(1e8); rest > 0; place /= 10 {
		dst = append(dst, byte('0'+rest/place))
		rest %= place
	}
	return dst
}

// ParseNano reads a JSON number literal whose value is a multiple of 1e-9 within Nano's range, in any spelling: 0.5, 5e-1 and 0.50000000000 are equal.
// It is the inverse of [AppendNano]. Nothing is rounded: a tenth decimal that is not 0 is an error.
func ParseNano(s []byte) (Nano, error) {
	mant, exp, negative, ok := scanNumber(s)
	if !ok {
		return 0, fmt.Errorf("value %s: want a JSON number", quoted(string(s)))
	}
	if mant.digits == 0 {
		return 0, nil
	}
	exp += 9
	if exp < 0 {
		return 0, fmt.Errorf("value %s: want at most 9 decimals", quoted(string(s)))
	}
	limit := uint64(math.MaxInt64)
	if negative {
		limit++
	}
	value, fits := mant.value, mant.digits+exp <= 19
	for ; fits && exp > 0; exp-- {
		value *= 10
	}
	if !fits || value > limit {
		return 0, fmt.Errorf("value %s: want a number between -9223372036.854775808 and 9223372036.854775807", quoted(string(s)))
	}
	if negative {
		return Nano(-int64(value)), nil
	}
	return Nano(value), nil
}

// significand is the digits of a number without leading and trailing zeros; value is unset beyond 19 digits.
type significand struct {
	value  uint64
	digits int
}

// scanNumber splits a literal of JSON's number grammar into significand × 10^exp; exp is cut at ±1e9, and 0 if all digits are.
func scanNumber(s []byte) (mant significand, exp int, negative, ok bool) {
	i := 0
	if i < len(s) && s[i] == '-' {
		negative = true
		i++
	}
	zeros := 0 // seen since the last digit that is not 0
	digits := func(places int) int {
		start := i
		for ; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
			exp -= places
			if s[i] == '0' {
				if mant.digits > 0 {
					zeros++
				}
				continue
			}
			mant.digits += zeros + 1
			if mant.digits <= 19 {
				for ; zeros > 0; zeros-- {
					mant.value *= 10
				}
				mant.value = mant.value*10 + uint64(s[i]-'0')
			}
			zeros = 0
		}
		return i - start
	}
	start := i
	if n := digits(0); n == 0 || n > 1 && s[start] == '0' {
		return mant, 0, negative, false
	}
	if i < len(s) && s[i] == '.' {
		i++
		if digits(1) == 0 {
			return mant, 0, negative, false
		}
	}
	exp += zeros
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		i++
		sign := 1
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			if s[i] == '-' {
				sign = -1
			}
			i++
		}
		start, power := i, 0
		for ; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
			power = min(power*10+int(s[i]-'0'), 1e8)
		}
		if i == start {
			return mant, 0, negative, false
		}
		exp += sign * power
	}
	if mant.digits == 0 {
		exp = 0
	}
	return mant, exp, negative, i == len(s)
}

// quoted returns s quoted and cut at 64 bytes, for messages.
func quoted(s string) string {
	if len(s) > 64 {
		return fmt.Sprintf("%q…", s[:64])
	}
	return fmt.Sprintf("%q", s)
}

func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}
