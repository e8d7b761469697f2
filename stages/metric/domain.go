package metric

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"evalstream"
)

// Level is the level of measurement of ratings: it says what the distance between two values is.
type Level int

// The levels.
const (
	NominalLevel  Level = iota // 1 if the literals differ; the zero value
	OrdinalLevel               // square of the ratings that stand between the two values, half of their own included
	IntervalLevel              // square of the difference of the numbers
	RatioLevel                 // square of the difference over the sum; values are not negative
)

// ParseLevel reads "nominal", "ordinal", "interval" or "ratio".
func ParseLevel(s string) (Level, error) {
	for l := NominalLevel; l <= RatioLevel; l++ {
		if s == l.String() {
			return l, nil
		}
	}
	return 0, evalstream.NoChoice("level", s, "nominal", "ordinal", "interval", "ratio")
}

// String returns "nominal", "ordinal", "interval" or "ratio".
func (l Level) String() string {
	switch l {
	case NominalLevel:
		return "nominal"
	case OrdinalLevel:
		return "ordinal"
	case IntervalLevel:
		return "interval"
	case RatioLevel:
		return "ratio"
	}
	return fmt.Sprintf("Level(%d)", int(l))
}

// Domain is the ascending list of the values that ratings have, at one level; patterns refer to values by their place in it.
type Domain struct {
	level   Level
	values  []string
	numbers []float64        // of the values, at interval and ratio level
	index   map[string]int32 // of each literal, all spellings of a number included
}

// ErrNoOrder is wrapped by [OrderDomain]'s error for ordinal values that are not numbers and have no order.
var ErrNoOrder = errors.New("ordinal values that are not numbers need an order")

// OrderDomain returns the domain of the literals, which may repeat and come in any order.
// Values are literals, so 1 and 1.0 are two of them, except at interval and ratio level, where they are numbers (as float64).
// At ordinal level the order is the one given, which must have every literal and may have more; without one it is numeric (then by literal), and every literal must be a JSON number.
// At the other levels an order is an error, for nobody would read it.
func OrderDomain(level Level, literals, order []string) (Domain, error) {
	d := Domain{level: level, index: make(map[string]int32, len(literals))}
	if level != OrdinalLevel && len(order) > 0 {
		return Domain{}, fmt.Errorf("order: want none at %s level, got %d values; remove it or take ordinal", level, len(order))
	}
	literals = slices.Clone(literals)
	slices.Sort(literals)
	literals = slices.Compact(literals)
	if level == NominalLevel {
		for _, s := range literals {
			d.add(s)
		}
		return d, nil
	}
	if len(order) > 0 {
		for _, s := range order {
			if _, ok := d.index[s]; ok {
				return Domain{}, fmt.Errorf("order: value %s is there twice", quoted(s))
			}
			d.add(s)
		}
		for _, s := range literals {
			if _, ok := d.index[s]; !ok {
				return Domain{}, fmt.Errorf("value %s is not in the order %s; add it", quoted(s), quoted(strings.Join(order, ",")))
			}
		}
		return d, nil
	}

	type number struct {
		literal string
		x       float64
	}
	numbers := make([]number, len(literals))
	for i, s := range literals {
		x, err := parseNumber(s)
		switch {
		case err != nil && level == OrdinalLevel:
			return Domain{}, fmt.Errorf("value %s: %w: name the values from low to high", quoted(s), ErrNoOrder)
		case err != nil:
			return Domain{}, fmt.Errorf("value %s: want a number at %s level", quoted(s), level)
		case x < 0 && level == RatioLevel:
			return Domain{}, fmt.Errorf("value %s: want 0 or more at ratio level", quoted(s))
		}
		numbers[i] = number{s, x}
	}
	slices.SortStableFunc(numbers, func(a, b number) int { return cmp.Compare(a.x, b.x) })
	for i, n := range numbers {
		switch {
		case level == OrdinalLevel:
			d.add(n.literal)
		case i > 0 && n.x == numbers[i-1].x:
			d.index[n.literal] = int32(len(d.values) - 1)
		default:
			d.index[n.literal] = int32(len(d.values))
			d.values = append(d.values, strconv.FormatFloat(n.x, 'g', -1, 64))
			d.numbers = append(d.numbers, n.x)
		}
	}
	return d, nil
}

func (d *Domain) add(literal string) {
	d.index[literal] = int32(len(d.values))
	d.values = append(d.values, literal)
}

// parseNumber reads a JSON number within float64's range; -0 is 0.
func parseNumber(s string) (float64, error) {
	if s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') || !json.Valid([]byte(s)) {
		return 0, strconv.ErrSyntax
	}
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(x, 0) {
		return 0, strconv.ErrRange
	}
	return x + 0, nil
}

// Level returns the level that the domain was made for.
func (d Domain) Level() Level { return d.level }

// Values returns the values, ascending: literals, or numbers in their shortest form at interval and ratio level. The caller must not change it.
func (d Domain) Values() []string { return d.values }

// Index returns the place of a literal that was given to [OrderDomain], in literals or order.
func (d Domain) Index(literal string) (int32, bool) {
	i, ok := d.index[literal]
	return i, ok
}

// quoted returns s quoted and cut at 64 bytes, for messages.
func quoted(s string) string {
	if len(s) > 64 {
		return fmt.Sprintf("%q…", s[:64])
	}
	return fmt.Sprintf("%q", s)
}
