package metric

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOrderDomain(t *testing.T) {
	f := func(level Level, literals, order, want []string) {
		t.Helper()
		d, err := OrderDomain(level, literals, order)
		if err != nil {
			t.Fatalf("%s of %v: %v", level, literals, err)
		}
		if diff := cmp.Diff(want, d.Values()); diff != "" {
			t.Errorf("%s of %v: (-want +got)\n%s", level, literals, diff)
		}
		for _, s := range literals {
			if _, ok := d.Index(s); !ok {
				t.Errorf("%s: no index of %s", level, s)
			}
		}
	}
	f(NominalLevel, []string{"b", "a", "b"}, nil, []string{"a", "b"})
	f(NominalLevel, []string{"1.0", "1"}, nil, []string{"1", "1.0"})
	f(OrdinalLevel, []string{"10", "9", "-1"}, nil, []string{"-1", "9", "10"})
	f(OrdinalLevel, []string{"1.0", "2", "1"}, nil, []string{"1", "1.0", "2"})
	f(OrdinalLevel, []string{"good", "poor"}, []string{"poor", "partial", "good"}, []string{"poor", "partial", "good"})
	f(OrdinalLevel, []string{"1", "2"}, []string{"2", "1"}, []string{"2", "1"})
	f(IntervalLevel, []string{"1.0", "10", "1", "1e1", "-0", "0.0"}, nil, []string{"0", "1", "10"})
	f(RatioLevel, []string{"0", "2.5"}, nil, []string{"0", "2.5"})
}

func TestOrderDomainRejects(t *testing.T) {
	f := func(level Level, literals, order []string, want string) {
		t.Helper()
		_, err := OrderDomain(level, literals, order)
		if err == nil || err.Error() != want {
			t.Errorf("%s of %v: %v, want %s", level, literals, err, want)
		}
	}
	f(OrdinalLevel, []string{"1", "good"}, nil, `value "good": ordinal values that are not numbers need an order: name the values from low to high`)
	f(OrdinalLevel, []string{"good", "bad"}, []string{"poor", "good"}, `value "bad" is not in the order "poor,good"; add it`)
	f(OrdinalLevel, nil, []string{"poor", "poor"}, `order: value "poor" is there twice`)
	f(NominalLevel, nil, []string{"poor", "good"}, "order: want none at nominal level, got 2 values; remove it or take ordinal")
	f(IntervalLevel, []string{"x"}, nil, `value "x": want a number at interval level`)
	f(IntervalLevel, []string{"NaN"}, nil, `value "NaN": want a number at interval level`)
	f(IntervalLevel, []string{"0x10"}, nil, `value "0x10": want a number at interval level`)
	f(IntervalLevel, []string{"1e999"}, nil, `value "1e999": want a number at interval level`)
	f(RatioLevel, []string{"-1"}, nil, `value "-1": want 0 or more at ratio level`)

	if _, err := OrderDomain(OrdinalLevel, []string{"x"}, nil); !errors.Is(err, ErrNoOrder) {
		t.Errorf("got %v, want ErrNoOrder", err)
	}
	if _, err := ParseLevel("ordnal"); err == nil || err.Error() != `level: want nominal, ordinal, interval or ratio, got "ordnal"; did you mean "ordinal"?` {
		t.Errorf("got %v", err)
	}
}
