package codecs

import (
	"math"
	"strconv"
	"strings"
)

// LenientInt reads a whole number as C's atol does: after white space, as many characters as form one. It is 0
// where there is none, and stops at the limits of int64. `1.9` is 1, `abc` is 0.
func LenientInt(s string) int64 {
	i := skipSpace(s)
	start := i
	if i < len(s) && (s[i] == '+' || s[i] == '-') {
		i++
	}
	digits := i
	for i < len(s) && isDigit(s[i]) {
		i++
	}
	if i == digits {
		return 0
	}
	n, _ := strconv.ParseInt(s[start:i], 10, 64) // out of range, it returns the limit
	return n
}

// LenientFloat reads a number as C's atof does: after white space, as many characters as form one, which may be
// decimal, hexadecimal, inf or nan. It is 0 where there is none, and infinite beyond the range of float64.
func LenientFloat(s string) float64 {
	s = s[skipSpace(s):]
	sign := ""
	if s != "" && (s[0] == '+' || s[0] == '-') {
		sign, s = s[:1], s[1:]
	}
	switch {
	case foldPrefix(s, "inf"):
		if sign == "-" {
			return math.Inf(-1)
		}
		return math.Inf(1)
	case foldPrefix(s, "nan"):
		return math.NaN()
	case foldPrefix(s, "0x"):
		if n := floatLength(s[2:], isHexDigit, 'p'); n > 0 {
			number := s[:2+n]
			if !strings.ContainsAny(number, "pP") {
				number += "p0"
			}
			f, _ := strconv.ParseFloat(sign+number, 64)
			return f
		}
	}
	f, _ := strconv.ParseFloat(sign+s[:floatLength(s, isDigit, 'e')], 64) // 0 for no digits; ±Inf out of range
	return f
}

// floatLength returns the length of `digits[.digits][e[sign]decimals]` at the start of s, 0 if there is no digit.
func floatLength(s string, digit func(byte) bool, exponent byte) int {
	i, digits := 0, 0
	for i < len(s) && digit(s[i]) {
		i++
		digits++
	}
	if i < len(s) && s[i] == '.' {
		i++
		for i < len(s) && digit(s[i]) {
			i++
			digits++
		}
	}
	if digits == 0 {
		return 0
	}
	if i < len(s) && s[i]|0x20 == exponent {
		k := i + 1
		if k < len(s) && (s[k] == '+' || s[k] == '-') {
			k++
		}
		if k < len(s) && isDigit(s[k]) {
			for k < len(s) && isDigit(s[k]) {
				k++
			}
			i = k
		}
	}
	return i
}

func foldPrefix(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// isSpace is C's isspace: bytes above ASCII are none.
func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isHexDigit(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }

func skipSpace(s string) int {
	i := 0
	for i < len(s) && isSpace(s[i]) {
		i++
	}
	return i
}
