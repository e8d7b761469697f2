package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
)

// alphaVector is one line of alpha_vectors.json.
type alphaVector struct {
	Name     string
	Level    string
	Ratings  [][]json.RawMessage
	File     string          `json:"ratings_file"`
	Field    json.RawMessage `json:"ratings_field"`
	Domain   []json.RawMessage
	Expected json.RawMessage
	Units    int64 `json:"pairable_units"`
	Values   int64 `json:"pairable_values"`
}

// rate appends a rating unless the value is missing.
func rate(b *strings.Builder, unit, coder string, value json.RawMessage) {
	if value == nil || string(value) == "null" {
		return
	}
	fmt.Fprintf(b, `{"unit":%q,"coder":%q,"value":%s}`+"\n", unit, coder, value)
}

// ratings is the vector as records; false if its file is not shipped.
func (v *alphaVector) ratings(t *testing.T) (string, bool) {
	t.Helper()
	var b strings.Builder
	if v.File == "" {
		for coder, row := range v.Ratings {
			for unit, value := range row {
				rate(&b, fmt.Sprint("u", unit), fmt.Sprint("c", coder), value)
			}
		}
		return b.String(), true
	}
	f, err := os.Open(testdata + "judge/" + v.File)
	if os.IsNotExist(err) {
		return "", false
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var names []string
	var name string
	if json.Unmarshal(v.Field, &names) != nil {
		if err := json.Unmarshal(v.Field, &name); err != nil {
			t.Fatal(err)
		}
	}
	quoted := regexp.MustCompile(`'([^']+)'`)
	for s := bufio.NewScanner(f); s.Scan(); {
		var row map[string]json.RawMessage
		if err := json.Unmarshal(s.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		unit := strings.Trim(string(row["unit"]), `"`)
		switch {
		case names != nil:
			for _, coder := range names {
				rate(&b, unit, coder, row[coder])
			}
		case strings.HasPrefix(name, "winner where "):
			judge := strings.Trim(string(row["judge"]), `"`)
			for _, m := range quoted.FindAllStringSubmatch(name, -1) {
				if m[1] == judge && strings.Contains(name, "swap = "+string(row["swap"])) {
					rate(&b, unit, judge, row["winner"])
				}
			}
		default:
			var values []json.RawMessage
			if err := json.Unmarshal(row[name], &values); err != nil {
				t.Fatal(err)
			}
			for i, value := range values {
				rate(&b, unit, fmt.Sprint("c", i), value)
			}
		}
	}
	return b.String(), true
}

func TestAlphaVectors(t *testing.T) {
	var golden struct {
		Tolerance float64
		Vectors   []alphaVector
	}
	load(t, "judge/alpha_vectors.json", &golden)
	tried := 0
	for _, v := range golden.Vectors {
		records, ok := v.ratings(t)
		if !ok {
			continue
		}
		tried++
		args := []string{"eval", "agreement", "--level", v.Level, "--bootstrap", "20"}
		if text := len(v.Domain) > 0 && v.Domain[0][0] == '"'; text {
			var order []string
			for _, d := range v.Domain {
				order = append(order, strings.Trim(string(d), `"`))
			}
			args = append(args, "--order", strings.Join(order, ","))
		}
		t.Run(v.Name+"/"+v.Level, func(t *testing.T) {
			rs := succeed(t, records, args...).finals(t)
			if records == "" {
				if len(rs) != 0 {
					t.Errorf("no ratings: want no result, got %d", len(rs))
				}
				return
			}
			if len(rs) != 1 {
				t.Fatalf("want one result, got %d", len(rs))
			}
			r := rs[0]
			if r.Metric != "alpha" || r.Units != v.Units || r.Values != v.Values {
				t.Errorf("%s of %d units and %d values, want alpha of %d and %d", r.Metric, r.Units, r.Values, v.Units, v.Values)
			}
			checkAlpha(t, &r, v.Expected, golden.Tolerance)
		})
	}
	if want := len(golden.Vectors) - 1; tried != want { // one names a file that is not shipped
		t.Errorf("tried %d vectors, want %d", tried, want)
	}
}

// checkAlpha compares with a number, or with the word undefined.
func checkAlpha(t *testing.T, r *published, expected json.RawMessage, tolerance float64) {
	t.Helper()
	if string(expected) == `"undefined"` {
		if r.Value != nil || r.Undefined == "" {
			t.Errorf("value %v, reason %q; want null and a reason", r.value(), r.Undefined)
		}
		return
	}
	var want float64
	if err := json.Unmarshal(expected, &want); err != nil {
		t.Fatal(err)
	}
	if r.Value == nil || math.Abs(*r.Value-want) > tolerance {
		t.Errorf("alpha %v (%s), want %v", r.value(), r.Undefined, want)
	}
}

func TestAlphaAfterEachRecord(t *testing.T) {
	var golden struct {
		Sequences []struct {
			Name   string
			Level  string
			Events []struct {
				Op, Unit, Judge string
				Value, Alpha    json.RawMessage
				Units, Values   int64
			}
		}
	}
	load(t, "judge/alpha_incremental.json", &golden)
	if len(golden.Sequences) == 0 {
		t.Fatal("no sequences")
	}
	for _, s := range golden.Sequences {
		t.Run(s.Name+"/"+s.Level, func(t *testing.T) {
			var b strings.Builder
			for _, e := range s.Events {
				if e.Op == "retract" {
					e.Value = json.RawMessage("null")
				}
				fmt.Fprintf(&b, `{"unit":%q,"coder":%q,"value":%s}`+"\n", e.Unit, e.Judge, e.Value)
			}
			for _, workers := range []string{"1", "4"} {
				rs := succeed(t, b.String(), "eval", "agreement", "--level", s.Level, "--every", "1", "--bootstrap", "20", "--workers", workers).read(t)
				if len(rs) != len(s.Events)+1 {
					t.Fatalf("%d results, want one a record and the final one: %d", len(rs), len(s.Events)+1)
				}
				for i, e := range s.Events {
					r := rs[i]
					if r.Units != e.Units || r.Values != e.Values {
						t.Errorf("record %d: %d units and %d values, want %d and %d", i+1, r.Units, r.Values, e.Units, e.Values)
					}
					checkAlpha(t, &r, e.Alpha, 1e-9)
					if got := r.Through["<stdin>"]; got != int64(i+1) {
						t.Errorf("record %d: through %d", i+1, got)
					}
					if r.Final {
						t.Errorf("record %d: final", i+1)
					}
				}
				last := rs[len(rs)-1]
				if !last.Final || last.value() != rs[len(rs)-2].value() || last.Through["<stdin>"] != int64(len(s.Events)) {
					t.Errorf("last result %+v, want the one before it, final", last)
				}
			}
		})
	}
}
