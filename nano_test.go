package evalstream

import (
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestNanoOf(t *testing.T) {
	f := func(x float64, want Nano) {
		t.Helper()
		if got := NanoOf(x); got != want {
			t.Errorf("NanoOf(%v) = %d, want %d", x, int64(got), int64(want))
		}
		if got := NanoOf(-x); got != -want {
			t.Errorf("NanoOf(%v) = %d, want %d", -x, int64(got), -int64(want))
		}
	}
	f(0, 0)
	f(1, 1e9)
	f(0.5, 5e8)
	f(1.0/3, 333333333)
	f(2.0/3, 666666667)
	f(1.0/1024/1024, 954)          // 953.674…
	f(math.Ldexp(1, -10), 976562)  // 976562.5: half to even
	f(math.Ldexp(3, -10), 2929688) // 2929687.5
	f(math.Ldexp(1, -30), 1)
	f(math.Ldexp(1, -31), 0)
	f(0.5e-9, 1) // the float64 is a little above one half
	f(math.Nextafter(0.5e-9, 0), 0)
	f(math.SmallestNonzeroFloat64, 0)
	f(9223372036.5, 9223372036500000000)
}

func TestNanoOfMatchesExactArithmetic(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	half := big.NewRat(1, 2)
	for range 20_000 {
		x := math.Ldexp(rng.Float64(), rng.IntN(70)-36)
		if rng.IntN(2) == 0 {
			x = math.Ldexp(float64(rng.IntN(1<<20)), -rng.IntN(40)) // exact halves are likely
		}
		if x > 9e9 {
			continue
		}
		exact := new(big.Rat).Mul(new(big.Rat).SetFloat64(x), big.NewRat(1e9, 1))
		floor := new(big.Int).Quo(exact.Num(), exact.Denom())
		want := floor.Int64()
		rest := new(big.Rat).Sub(exact, new(big.Rat).SetInt(floor))
		if c := rest.Cmp(half); c > 0 || c == 0 && want%2 == 1 {
			want++
		}
		if got := NanoOf(x); int64(got) != want {
			t.Fatalf("NanoOf(%v) = %d, want %d", x, int64(got), want)
		}
	}
}

func TestNanoRatio(t *testing.T) {
	f := func(num, den int64, want Nano) {
		t.Helper()
		if got := NanoRatio(num, den); got != want {
			t.Errorf("NanoRatio(%d, %d) = %d, want %d", num, den, int64(got), int64(want))
		}
	}
	f(0, 7, 0)
	f(1, 3, 333333333)
	f(-2, 3, -666666667)
	f(1, 1024, 976562)
	f(3, 1024, 2929688)
	f(math.MaxInt64, math.MaxInt64, One)
	f(math.MaxInt64, 1e9, math.MaxInt64)
	f(math.MaxInt64-1, math.MaxInt64, One)
}

func TestNanoFaultsPanic(t *testing.T) {
	f := func(name string, call func()) {
		t.Helper()
		defer func() {
			t.Helper()
			if s, _ := recover().(string); !strings.HasPrefix(s, "BUG: ") {
				t.Errorf("%s: want a panic with BUG:, got %q", name, s)
			}
		}()
		call()
	}
	f("NaN", func() { NanoOf(math.NaN()) })
	f("Inf", func() { NanoOf(math.Inf(-1)) })
	f("1e10", func() { NanoOf(1e10) })
	f("2^63", func() { NanoOf(9223372036.854775808) })
	f("1/0", func() { NanoRatio(1, 0) })
	f("1e10/1", func() { NanoRatio(1e10, 1) })
	f("count", func() { NanoCount(1e10) })
}

func TestNanoText(t *testing.T) {
	f := func(n Nano, want string) {
		t.Helper()
		if got := n.String(); got != want {
			t.Errorf("Nano(%d) is written %s, want %s", int64(n), got, want)
		}
		back, err := ParseNano([]byte(want))
		if err != nil || back != n {
			t.Errorf("ParseNano(%s) = %d, %v, want %d", want, int64(back), err, int64(n))
		}
	}
	f(0, "0")
	f(1, "0.000000001")
	f(-1, "-0.000000001")
	f(333333333, "0.333333333")
	f(One, "1")
	f(-One/2, "-0.5")
	f(10*One, "10")
	f(12345678900000000, "12345678.9")
	f(math.MaxInt64, "9223372036.854775807")
	f(math.MinInt64, "-9223372036.854775808")
}

func TestParseNano(t *testing.T) {
	f := func(s string, want Nano) {
		t.Helper()
		got, err := ParseNano([]byte(s))
		if err != nil || got != want {
			t.Errorf("ParseNano(%s) = %d, %v, want %d", s, int64(got), err, int64(want))
		}
	}
	f("-0", 0)
	f("0e999999999999999999999", 0)
	f("0.000", 0)
	f("5e-1", One/2)
	f("1E+3", 1000*One)
	f("0.50000000000000000000000000000000", One/2)
	f("1e-9", 1)
	f("100e-11", 1)
	f("1000000000000000000000000000000e-30", One)
	f("0.000000000000000000001e21", One)
	f("9223372036854775807e-9", math.MaxInt64)
}

func TestParseNanoRejects(t *testing.T) {
	f := func(s, want string) {
		t.Helper()
		got, err := ParseNano([]byte(s))
		if err == nil || err.Error() != want {
			t.Errorf("ParseNano(%q) = %v, %v, want %s", s, got, err, want)
		}
	}
	grammar := []string{"", "-", "+1", ".5", "1.", "01", "1e", "1e+", "NaN", "Infinity", "0x1", " 1", "1 ", "1_0", "--1", "1.e5", `"1"`}
	for _, s := range grammar {
		f(s, "value "+quoted(s)+": want a JSON number")
	}
	f("0.0000000001", `value "0.0000000001": want at most 9 decimals`)
	f("1e-10", `value "1e-10": want at most 9 decimals`)
	f("0.3333333333", `value "0.3333333333": want at most 9 decimals`)
	f("1e-99999999999999999999", `value "1e-99999999999999999999": want at most 9 decimals`)
	const span = ": want a number between -9223372036.854775808 and 9223372036.854775807"
	f("9223372036.854775808", `value "9223372036.854775808"`+span)
	f("1e10", `value "1e10"`+span)
	f("1e999999999999", `value "1e999999999999"`+span)
	f("12345678901234567890", `value "12345678901234567890"`+span)
}

func FuzzParseNano(f *testing.F) {
	for _, s := range []string{"0", "-0.5", "1e-9", "9223372036.854775807", "1.000e3", "00", "1e"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, s []byte) {
		n, err := ParseNano(s)
		if err != nil {
			return
		}
		back, err := ParseNano(AppendNano(nil, n))
		if err != nil || back != n {
			t.Fatalf("%q is %d, written %s, read back %d, %v", s, int64(n), n, int64(back), err)
		}
		if len(s) < 100 {
			if r, ok := new(big.Rat).SetString(string(s)); ok && r.Cmp(big.NewRat(int64(n), 1e9)) != 0 {
				t.Fatalf("%q is %s, want %s", s, n, r)
			}
		}
	})
}

func TestNanoFloat(t *testing.T) {
	f := func(n Nano, want float64) {
		t.Helper()
		if got := n.Float(); got != want {
			t.Errorf("%s is %v, want %v", n, got, want)
		}
	}
	f(0, 0)
	f(333333333, 0.333333333)
	f(-One/2, -0.5)
	f(9e9*One, 9e9)
	f(9007199254740993, 9007199.254740993)
	f(math.MaxInt64, 9223372036.854775807)
	f(math.MinInt64, -9223372036.854775808)
}
