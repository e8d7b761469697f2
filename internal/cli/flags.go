package cli

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"evalstream/stages"
)

// Size is a number of bytes as a flag: 4096, 16MiB (1024²), 10MB (1000²), 1.5GiB.
type Size int64

// unit is a factor with its name, greatest first in a list.
type unit struct {
	name   string
	factor int64
}

func sizeUnits() []unit {
	return []unit{
		{"TiB", 1 << 40},
		{"TB", 1e12},
		{"GiB", 1 << 30},
		{"GB", 1e9},
		{"MiB", 1 << 20},
		{"MB", 1e6},
		{"KiB", 1 << 10},
		{"kB", 1e3},
	}
}

// Set reads text. Case does not matter; a lone K, M or G is refused because it is
// used for both.
func (s *Size) Set(text string) error {
	digits, factor := text, int64(1)
	lower := strings.ToLower(text)
	units := append(sizeUnits(), unit{"B", 1})
	for _, u := range units {
		if strings.HasSuffix(lower, strings.ToLower(u.name)) {
			digits, factor = strings.TrimSpace(text[:len(text)-len(u.name)]), u.factor
			break
		}
	}
	n, err := multiply(digits, factor)
	if err != nil {
		return fmt.Errorf("want a size such as 4096, 16MiB or 10MB, got %q", text)
	}
	*s = Size(n)
	return nil
}

// String is the shortest exact form with the greatest unit.
func (s *Size) String() string {
	n := int64(*s)
	for _, u := range sizeUnits() {
		if n != 0 && n%u.factor == 0 {
			return strconv.FormatInt(n/u.factor, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// Duration is a span of time as a flag, in the form of stages.ParseSpan.
type Duration time.Duration

const day = 24 * time.Hour

// Set reads text; it is not negative.
func (d *Duration) Set(text string) error {
	n, err := stages.ParseSpan(text)
	if err != nil {
		return err
	}
	*d = Duration(n)
	return nil
}

// String is the form that Set reads, without parts that are zero.
func (d *Duration) String() string { return d.text() }

func (d Duration) text() string {
	n := time.Duration(d)
	s := ""
	if n >= day {
		s = strconv.FormatInt(int64(n/day), 10) + "d"
		if n %= day; n == 0 {
			return s
		}
	}
	rest := n.String()
	if strings.HasSuffix(rest, "m0s") {
		rest = strings.TrimSuffix(rest, "0s")
	}
	if strings.HasSuffix(rest, "h0m") {
		rest = strings.TrimSuffix(rest, "0m")
	}
	return s + rest
}

// multiply is a decimal that is not negative times a factor; the product is whole.
func multiply(decimal string, factor int64) (int64, error) {
	if strings.Trim(decimal, "0123456789.") != "" {
		return 0, strconv.ErrSyntax
	}
	r, ok := new(big.Rat).SetString(decimal)
	if !ok {
		return 0, strconv.ErrSyntax
	}
	r.Mul(r, new(big.Rat).SetInt64(factor))
	if !r.IsInt() || !r.Num().IsInt64() {
		return 0, strconv.ErrRange
	}
	return r.Num().Int64(), nil
}
