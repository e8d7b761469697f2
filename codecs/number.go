package codecs

import (
	"errors"
	"math"
	"strconv"
	"time"

	"evalstream"
)

// parseFloat reads a finite number; reason is "" if it is one.
func parseFloat(raw []byte) (v float64, reason string) {
	if c := raw[0]; c != '-' && (c < '0' || c > '9') {
		return 0, "want number, got " + typeOf(raw)
	}
	v, err := strconv.ParseFloat(view(raw), 64)
	if err != nil {
		return 0, "number " + cutText(raw) + " is out of range; want a finite 64-bit float"
	}
	return v, ""
}

// parseInteger reads an integer of 64 bits; what names what is wanted.
func parseInteger(raw []byte, what string) (n int64, reason string) {
	if c := raw[0]; c != '-' && (c < '0' || c > '9') {
		return 0, "want " + what + ", got " + typeOf(raw)
	}
	n, err := strconv.ParseInt(view(raw), 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return 0, "integer " + cutText(raw) + " does not fit 64 bits"
	}
	if err != nil {
		return 0, "want " + what + ", got " + cutText(raw)
	}
	return n, ""
}

// cutText is a number as it stands, cut at 64 bytes.
func cutText(raw []byte) string {
	if len(raw) > 64 {
		return string(raw[:64]) + "…"
	}
	return string(raw)
}

// integerTime reads an integer time; reason is "" if it is one.
func integerTime(literal string, unit time.Duration) (t evalstream.Time, reason string) {
	if unit == 0 {
		return 0, "time is a number and its unit is not known; say --time-unit s, ms, us or ns"
	}
	n, err := strconv.ParseInt(literal, 10, 64)
	if err != nil {
		return 0, "want integer time, got " + cutText([]byte(literal))
	}
	if n > math.MaxInt64/int64(unit) || n < math.MinInt64/int64(unit) {
		return 0, "time " + literal + " is out of range; want a year from 1678 to 2261 (is --time-unit right?)"
	}
	at := evalstream.Time(n * int64(unit))
	if at < firstTime || at >= endTime {
		return 0, "time " + literal + " is out of range; want a year from 1678 to 2261 (is --time-unit right?)"
	}
	return at, ""
}

// The first second of 1678 and of 2262.
const (
	firstTime evalstream.Time = -9214560000 * 1e9
	endTime   evalstream.Time = 9214646400 * 1e9
)

// parseTime reads an RFC 3339 time; reason is "" if it is one.
func parseTime(s string) (t evalstream.Time, reason string) {
	if t, ok := fastTime(s); ok {
		return t, ""
	}
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		reason = "want RFC 3339 time, got " + quote(s)
		if _, zoneErr := time.Parse(time.RFC3339Nano, s+"Z"); zoneErr == nil {
			reason += ", which has no zone; add Z (UTC) or an offset such as +01:00"
		}
		return 0, reason
	}
	t, ok := evalstream.TimeOf(at)
	if !ok {
		return 0, "time " + quote(s) + " is out of range; want a year from 1678 to 2261"
	}
	return t, ""
}

// fastTime reads YYYY-MM-DDThh:mm:ss, up to nine digits of fraction, and Z or an
// offset. What it does not know may still be a time.
func fastTime(s string) (t evalstream.Time, ok bool) {
	if len(s) < len("2006-01-02T15:04:05Z") || s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':' {
		return 0, false
	}
	y1, y2 := two(s, 0), two(s, 2)
	month, day, hour, minute, second := two(s, 5), two(s, 8), two(s, 11), two(s, 14), two(s, 17)
	year := y1*100 + y2
	// A day that its month may not have, and a bad digit (two is then large), are left
	// to package time.
	if y1 > 99 || y2 > 99 || year < 1900 || year > 2200 || month < 1 || month > 12 || day < 1 || day > 28 || hour > 23 || minute > 59 || second > 59 {
		return 0, false
	}
	i, nanos := 19, int64(0)
	if s[i] == '.' {
		scale := int64(1e9)
		for i++; i < len(s) && s[i]-'0' <= 9 && scale > 1; i++ {
			nanos = nanos*10 + int64(s[i]-'0')
			scale /= 10
		}
		if i == 20 {
			return 0, false
		}
		nanos *= scale
	}
	offset := 0
	switch {
	case i == len(s)-1 && s[i] == 'Z':
	case i == len(s)-6 && (s[i] == '+' || s[i] == '-') && s[i+3] == ':':
		h, m := two(s, i+1), two(s, i+4)
		if h > 23 || m > 59 {
			return 0, false
		}
		if offset = h*3600 + m*60; s[i] == '-' {
			offset = -offset
		}
	default:
		return 0, false
	}
	seconds := int64(days(year, month, day))*86400 + int64(hour*3600+minute*60+second-offset)
	return evalstream.Time(seconds*1e9 + nanos), true
}

// two is the number of two digits at i, more than 99 if they are none.
func two(s string, i int) int {
	a, b := s[i]-'0', s[i+1]-'0'
	if a > 9 || b > 9 {
		return 1000
	}
	return int(a)*10 + int(b)
}

// days is the number of days from 1970-01-01 to a date of the Gregorian calendar.
// The year is taken to begin in March, so that the day of the leap year is its last.
func days(year, month, day int) int {
	if month <= 2 {
		year--
		month += 12
	}
	return 365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day - 1 - 719468
}
