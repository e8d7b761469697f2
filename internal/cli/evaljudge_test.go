package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// judgeResult is a result as it is read off stdout.
type judgeResult struct {
	Metric   string            `json:"metric"`
	By       map[string]string `json:"by"`
	Value    *float64          `json:"value"`
	Num      *float64          `json:"num"`
	Den      *int64            `json:"den"`
	N        int64             `json:"n"`
	Missing  *int64            `json:"missing"`
	OffPanel int64             `json:"off_panel"`
	Units    int64             `json:"units"`
	Values   int64             `json:"values"`
}

// asked is a review as it is read off its edge.
type asked struct {
	Unit      string         `json:"unit"`
	Why       string         `json:"why"`
	Verdicts  map[string]any `json:"verdicts"`
	Reasons   map[string]any `json:"reasons"`
	Decision  any            `json:"decision"`
	Withdrawn bool           `json:"withdrawn"`
}

func objects[T any](t *testing.T, data []byte) []T {
	t.Helper()
	var all []T
	for line := range bytes.Lines(data) {
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, v)
	}
	return all
}

// evaluated runs eval with lines on stdin and returns the results by metric and group.
func evaluated(t *testing.T, lines string, args ...string) map[string]judgeResult {
	t.Helper()
	var out, errs bytes.Buffer
	if code := Main(t.Context(), append([]string{"eval"}, args...), strings.NewReader(lines), &out, &errs); code != 0 {
		t.Fatalf("%v: exit code %d, want 0: %s", args, code, errs.String())
	}
	results := map[string]judgeResult{}
	for _, r := range objects[judgeResult](t, out.Bytes()) {
		key := []string{r.Metric}
		for _, name := range []string{"mode", "ticker", "judge", "judge2"} {
			if v, ok := r.By[name]; ok && v != "" {
				key = append(key, v)
			}
		}
		results[strings.Join(key, " ")] = r
	}
	return results
}

func readLines[T any](t *testing.T, path ...string) []T {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{"..", "..", "testdata", "judge"}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return objects[T](t, data)
}

// llmbarVerdicts are LLMBar's answers as verdicts (1: output_1 won), its label as the
// coder human. The swapped orders are a mode of their own as well, as if they had been
// asked for straight.
func llmbarVerdicts(t *testing.T, file string) string {
	t.Helper()
	var b strings.Builder
	add := func(unit, mode, judge string, swap bool, winner *int) {
		verdict := `null,"reason":"unreadable"`
		if winner != nil {
			verdict = fmt.Sprint(2 - *winner)
		}
		fmt.Fprintf(&b, `{"kind":"verdict","span_id":%q,"mode":%q,"dimension":"preference","judge":%q,"swap":%v,"verdict":%s}`+"\n", unit, mode, judge, swap, verdict)
	}
	for _, a := range readLines[struct {
		Unit, Judge, Mode string
		Swap              bool
		Winner            *int
		Label             int
	}](t, "llmbar", file) {
		add(a.Unit, a.Mode, a.Judge, a.Swap, a.Winner)
		if a.Swap {
			add(a.Unit, a.Mode+" swapped", a.Judge, false, a.Winner)
		}
		add(a.Unit, a.Mode, "human", false, &a.Label) // again with each answer: a repeat
	}
	return b.String()
}

// TestEvalJudgeLLMBar compares panel, swap and coverage counts with those that were
// counted apart from this code.
func TestEvalJudgeLLMBar(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "judge", "expected_stats.json"))
	if err != nil {
		t.Fatal(err)
	}
	var stats struct {
		LLMBar []struct {
			Panel                                                     []string
			Judge                                                     string
			Units, Unanimous, Undecided, Consistent, Missing, Answers int64
			Missed                                                    int64   `json:"units_with_missing"`
			Majority                                                  int64   `json:"strict_majority"`
			Right                                                     float64 `json:"majority_equals_label"`
			Flipped                                                   float64 `json:"flipped_by_swap"`
			First                                                     float64 `json:"first_position"`
			Rate                                                      float64 `json:"first_position_rate"`
		}
	}
	if err := json.Unmarshal(data, &stats); err != nil {
		t.Fatal(err)
	}
	lines := llmbarVerdicts(t, "llmbar_vanilla.ndjson")
	var panels, judges int
	want := func(r judgeResult, name string, num float64, den int64) {
		t.Helper()
		if r.Num == nil || *r.Num != num || *r.Den != den {
			t.Errorf("%s: got %+v, want %v of %d", name, r, num, den)
		}
	}
	for _, s := range stats.LLMBar {
		if s.Panel != nil {
			panels++
			rs := evaluated(t, lines, "judge", "--panel", strings.Join(s.Panel, ","))
			name := fmt.Sprint(s.Panel)
			want(rs["preference_coverage Vanilla"], name, float64(s.Majority), s.Units)
			want(rs["preference_unanimous Vanilla"], name, float64(s.Unanimous), s.Units)
			want(rs["preference_panel_agreement Vanilla human"], name, s.Right, s.Majority)
			r := rs["preference Vanilla"]
			if s.Units-s.Undecided != s.Majority || *r.Missing != s.Missed || r.N != s.Units {
				t.Errorf("%s: got %+v, want %+v", name, r, s)
			}
			// Undecided units count 0, so both means have one sum.
			want(rs["preference_judged Vanilla"], name, *r.Num, s.Majority)
			if r.OffPanel != int64(2*(6-len(s.Panel))+1)*s.Units {
				t.Errorf("%s: %d verdicts off panel", name, r.OffPanel)
			}
			continue
		}
		judges++
		rs := evaluated(t, lines, "judge")
		of := " Vanilla " + s.Judge
		want(rs["preference_consistent"+of], s.Judge, float64(s.Consistent), s.Units-s.Missing)
		want(rs["preference_flipped"+of], s.Judge, s.Flipped, s.Units-s.Missing)
		want(rs["preference_first_position"+of], s.Judge, s.First, s.Answers)
		if r := rs["preference_first_position"+of]; math.Abs(*r.Value-s.Rate) > 5e-7 || *r.Missing != s.Missing || r.N != s.Units {
			t.Errorf("%s: got %+v, want %+v", s.Judge, r, s)
		}
	}
	if panels != 2 || judges != 6 {
		t.Errorf("%d panels and %d judges compared, want 2 and 6", panels, judges)
	}
}

// alphaFigure is one golden alpha.
type alphaFigure struct {
	Name     string
	Level    string
	Expected any   // a number, or why there is none
	Units    int64 `json:"pairable_units"`
	Values   int64 `json:"pairable_values"`
}

func alphaOf(t *testing.T, name, level string) alphaFigure {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "judge", "alpha_vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Vectors []alphaFigure }
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all.Vectors, func(v alphaFigure) bool { return v.Name == name && v.Level == level })
	if i < 0 {
		t.Fatalf("no vector %s at %s level", name, level)
	}
	return all.Vectors[i]
}

func wantAlpha(t *testing.T, r judgeResult, v alphaFigure) {
	t.Helper()
	want, ok := v.Expected.(float64)
	if !ok || r.Value == nil || math.Abs(*r.Value-want) > 1e-9 || r.Units != v.Units || r.Values != v.Values {
		t.Errorf("alpha %+v, want %+v", r, v)
	}
}

func TestEvalJudgeAlphas(t *testing.T) {
	const six, three = "GPT-4,ChatGPT,ChatGPT-0301,LLaMA2,PaLM2,Falcon", "GPT-4,PaLM2,LLaMA2"
	f := func(file, panel, mode, name string) {
		t.Helper()
		rs := evaluated(t, llmbarVerdicts(t, file), "judge", "--panel", panel)
		wantAlpha(t, rs["preference_alpha "+mode], alphaOf(t, name, "nominal"))
	}
	f("llmbar_vanilla.ndjson", three, "Vanilla", "llmbar_vanilla_three_judges_unswapped")
	f("llmbar_vanilla.ndjson", six, "Vanilla swapped", "llmbar_vanilla_six_judges_swapped")
	f("llmbar_cot.ndjson", three, "CoT", "llmbar_cot_three_judges_unswapped")
	f("llmbar_cot.ndjson", six, "CoT swapped", "llmbar_cot_six_judges_swapped")
}

// pandalm calls f for each coder's value of each unit, -1 for a missing one.
func pandalm(t *testing.T, f func(unit int, coder string, value int)) {
	t.Helper()
	for _, u := range readLines[map[string]*int](t, "pandalm", "pandalm_ratings.ndjson") {
		for _, coder := range []string{"human1", "human2", "human3", "gpt35", "pandalm7b"} {
			if u[coder] == nil {
				f(*u["unit"], coder, -1)
			} else {
				f(*u["unit"], coder, *u[coder])
			}
		}
	}
}

// TestEvalJudgePandaLM reads three-valued verdicts: the panel of people, two models
// against it, and alpha as eval agreement has it.
func TestEvalJudgePandaLM(t *testing.T) {
	var verdicts, ratings strings.Builder
	pandalm(t, func(unit int, coder string, value int) {
		verdict, rating := "null", "null"
		if value >= 0 {
			verdict, rating = []string{`"partial"`, `"good"`, `"poor"`}[value], fmt.Sprint(value)
		}
		fmt.Fprintf(&verdicts, `{"kind":"verdict","span_id":%d,"dimension":"winner","judge":%q,"verdict":%s}`+"\n", unit, coder, verdict)
		fmt.Fprintf(&ratings, `{"kind":"rating","unit":%d,"coder":%q,"value":%s}`+"\n", unit, coder, rating)
	})
	five := alphaOf(t, "pandalm_humans_gpt35_pandalm", "nominal")
	wantAlpha(t, evaluated(t, ratings.String(), "agreement", "--level", "nominal")["alpha"], five)
	wantAlpha(t, evaluated(t, verdicts.String(), "judge", "--by", "")["winner_alpha"], five)

	rs := evaluated(t, verdicts.String(), "judge", "--panel", "human1,human2,human3", "--by", "")
	wantAlpha(t, rs["winner_alpha"], alphaOf(t, "pandalm_three_humans", "nominal"))
	f := func(key string, num float64, den int64) {
		t.Helper()
		if r := rs[key]; r.Num == nil || *r.Num != num || *r.Den != den {
			t.Errorf("%s: got %+v, want %v of %d", key, r, num, den)
		}
	}
	f("winner_unanimous", 879, 999)
	f("winner_coverage", 999, 999) // three against three ways: none
	f("winner_panel_agreement gpt35", 697, 974)
	f("winner_panel_agreement pandalm7b", 667, 999)
	if r := rs["winner_mean gpt35"]; *r.Missing != 25 || r.N != 974 {
		t.Errorf("gpt35: %+v, want 25 missing", r)
	}
	if good, partial, poor := rs["winner_good"], rs["winner_partial"], rs["winner_poor"]; *good.Num+*partial.Num+*poor.Num != 999 || *rs["winner"].Num != *good.Num+*partial.Num/2 {
		t.Errorf("counts %v, %v, %v, sum %v", *good.Num, *partial.Num, *poor.Num, *rs["winner"].Num)
	}
}

func TestEvalAgreementNewsroom(t *testing.T) {
	units := readLines[map[string]json.RawMessage](t, "human", "newsroom_ratings.ndjson")
	for _, dimension := range []string{"informativeness", "relevance", "fluency", "coherence"} {
		var b strings.Builder
		for _, u := range units {
			var values []int
			if err := json.Unmarshal(u[dimension], &values); err != nil {
				t.Fatal(err)
			}
			for i, v := range values {
				fmt.Fprintf(&b, `{"kind":"rating","unit":%s,"coder":%d,"value":%d}`+"\n", u["unit"], i, v)
			}
		}
		for _, level := range []string{"nominal", "ordinal"} {
			rs := evaluated(t, b.String(), "agreement", "--level", level)
			wantAlpha(t, rs["alpha"], alphaOf(t, "newsroom_"+dimension, level))
		}
	}
}

// TestEvalJudgeReviews runs the example and reads what a person is asked to see.
func TestEvalJudgeReviews(t *testing.T) {
	path := filepath.Join(t.TempDir(), "review.ndjson")
	example := filepath.Join("..", "..", "testdata", "judge", "verdicts.ndjson")
	rs := evaluated(t, "", "judge", "--panel", "judge-a,judge-b,judge-c", "--review", path, example)
	f := func(key string, num float64, den int64, missing int64) {
		t.Helper()
		if r := rs[key]; r.Num == nil || *r.Num != num || *r.Den != den || r.Missing == nil || *r.Missing != missing {
			t.Errorf("%s: got %+v, want %v of %d and %d missing", key, r, num, den, missing)
		}
	}
	f("faithfulness reflection", 2, 4, 2)
	f("faithfulness_judged reflection", 2, 3, 2)
	f("faithfulness_coverage reflection", 3, 4, 2)
	f("faithfulness_unanimous reflection", 1, 4, 2)
	f("faithfulness single", 1, 2, 0)
	f("comprehensiveness reflection", 1.5, 3, 0)
	f("comprehensiveness_judged reflection", 1.5, 2, 0)
	f("comprehensiveness_coverage reflection", 2, 3, 0)
	f("comprehensiveness_good reflection", 1, 3, 0)
	f("comprehensiveness_partial reflection", 1, 3, 0)
	f("comprehensiveness_poor reflection", 0, 3, 0)
	f("faithfulness_leniency reflection judge-b", 0, 3, 0)
	f("faithfulness_leniency reflection judge-c", -1, 2, 0)
	f("faithfulness_agreement reflection human judge-a", 2, 2, 0)
	if n := rs["faithfulness reflection"].OffPanel; n != 2 {
		t.Errorf("%d verdicts off panel, want 2", n)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	last := map[string]asked{}
	for _, r := range objects[asked](t, data) {
		if last[r.Unit] = r; r.Withdrawn {
			delete(last, r.Unit)
		}
	}
	unit := func(span, mode, triple, dimension string) string {
		return fmt.Sprintf(`["%s","%s","%s","%s","2026-01"]`, span, mode, triple, dimension)
	}
	want := map[string]asked{}
	for _, r := range []asked{
		{Unit: unit("s1", "reflection", "t2", "faithfulness"), Why: "split", Decision: 1., Verdicts: map[string]any{"judge-a": 1., "judge-b": 1., "judge-c": 0., "human": 1.}},
		{Unit: unit("s2", "reflection", "t1", "faithfulness"), Why: "missing", Decision: 0., Verdicts: map[string]any{"judge-a": 0., "judge-b": 0., "judge-c": nil}, Reasons: map[string]any{"judge-c": "timeout"}},
		{Unit: unit("s3", "reflection", "t1", "faithfulness"), Why: "split", Verdicts: map[string]any{"judge-a": 1., "judge-b": 0., "judge-c": nil, "human": 1.}, Reasons: map[string]any{"judge-c": "timeout"}},
		{Unit: unit("s1", "reflection", "", "comprehensiveness"), Why: "split", Decision: "good", Verdicts: map[string]any{"judge-a": "good", "judge-b": "good", "judge-c": "partial"}},
		{Unit: unit("s2", "reflection", "", "comprehensiveness"), Why: "split", Verdicts: map[string]any{"judge-a": "good", "judge-b": "partial", "judge-c": "poor"}},
		{Unit: unit("s2", "single", "t1", "faithfulness"), Why: "split", Decision: 0., Verdicts: map[string]any{"judge-a": 0., "judge-b": 1., "judge-c": 0.}},
	} {
		want[r.Unit] = r
	}
	if diff := cmp.Diff(want, last); diff != "" {
		t.Errorf("reviews: -want +got\n%s", diff)
	}
}

// TestEvalJudgeIsAPipe checks that stages in a shell pipe give what eval judge gives.
func TestEvalJudgeIsAPipe(t *testing.T) {
	pipe := func(in []byte, args ...string) []byte {
		t.Helper()
		var out, errs bytes.Buffer
		if code := Main(t.Context(), args, bytes.NewReader(in), &out, &errs); code != 0 {
			t.Fatalf("%v: exit code %d, want 0: %s", args, code, errs.String())
		}
		return out.Bytes()
	}
	// The panel stands in another order, and runs of results are compared without what
	// they say of the way here.
	final := func(out []byte) []string {
		t.Helper()
		var all []string
		s := bufio.NewScanner(bytes.NewReader(out))
		for s.Scan() {
			var r map[string]any
			if err := json.Unmarshal(s.Bytes(), &r); err != nil {
				t.Fatal(err)
			}
			if r["kind"] != "result" || r["final"] != true {
				continue
			}
			for _, way := range []string{"through", "revision", "closed"} {
				delete(r, way)
			}
			line, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, string(line))
		}
		slices.Sort(all)
		return all
	}
	example := filepath.Join("..", "..", "testdata", "judge", "verdicts.ndjson")
	want := final(pipe(nil, "eval", "judge", "--panel", "judge-a,judge-b,judge-c", example))
	scores := pipe(pipe(nil, "parse", example), "score", "--panel", "judge-c,judge-b,judge-a")
	if !bytes.Contains(scores, []byte(`"kind":"review"`)) {
		t.Errorf("score makes no reviews:\n%s", scores)
	}
	got := final(pipe(scores, "aggregate", "--panel", "judge-c,judge-b,judge-a", "--every", "3"))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-eval +pipe\n%s", diff)
	}
}

func TestEvalJudgeUsage(t *testing.T) {
	f := func(want string, args ...string) {
		t.Helper()
		var out, errs bytes.Buffer
		code := Main(t.Context(), append([]string{"eval", "judge"}, args...), strings.NewReader(""), &out, &errs)
		if code != 2 || !strings.Contains(errs.String(), want) {
			t.Errorf("%v: exit code %d: %s, want 2: %s", args, code, errs.String(), want)
		}
	}
	f("--review -: standard output carries results", "--review", "-")
	example := filepath.Join(t.TempDir(), "verdicts.ndjson")
	if err := os.WriteFile(example, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	f("is an input of this command", "--review", example, example)
	f("--panel \"a,b,a\": want each judge once, got a twice", "--panel", "a,b,a")
	f("--panel \"a,,b\": want judges between commas, got an empty name", "--panel", "a,,b")
	f("by \"mode,judge\": want fields of units", "--by", "mode,judge")
}
