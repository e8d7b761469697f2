package metric

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ballotsOf reads "a=1 b=0/1 c=-": a judge, the straight vote (- missing, . not heard)
// and the swapped one.
func ballotsOf(t *testing.T, dimension, text string) *Ballots {
	t.Helper()
	vote := func(s string) Vote {
		switch s {
		case ".":
			return NoVote
		case "-":
			return MissingVote
		}
		v, ok := ParseVote(s)
		if !ok || !v.Cast() {
			t.Fatalf("no vote %q", s)
		}
		return v
	}
	b := &Ballots{Dimension: dimension}
	for field := range strings.FieldsSeq(text) {
		judge, votes, _ := strings.Cut(field, "=")
		straight, swapped, both := strings.Cut(votes, "/")
		ballot := Ballot{Judge: judge, Straight: vote(straight)}
		if both {
			ballot.Swapped = vote(swapped)
		}
		b.Ballots = append(b.Ballots, ballot)
	}
	return b
}

func TestPanelDecide(t *testing.T) {
	f := func(panel, ballots string, want Decision) {
		t.Helper()
		p := Panel(strings.Fields(panel))
		b := ballotsOf(t, "d", ballots)
		if got := p.Decide(b); got != want {
			t.Errorf("%s decides %s: got %+v, want %+v", panel, ballots, got, want)
		}
		for i := range p { // the order of the panel says nothing
			p[0], p[i] = p[i], p[0]
			if got := p.Decide(b); got != want {
				t.Errorf("%v decides %s: got %+v, want %+v", p, ballots, got, want)
			}
		}
	}
	f("a b c", "a=1 b=1 c=1", Decision{Vote: VoteOne, Halves: 2, Unanimous: true})
	f("a b c", "a=1 b=0 c=1", Decision{Vote: VoteOne, Halves: 2, Differ: true})
	f("a b c", "a=0 b=0 c=1", Decision{Vote: VoteZero, Differ: true})
	// A missing vote stays in the denominator, whether it was given as missing or not at all.
	f("a b c", "a=1 b=1 c=-", Decision{Vote: VoteOne, Halves: 2, Missing: 1})
	f("a b c", "a=1 b=1", Decision{Vote: VoteOne, Halves: 2, Missing: 1})
	f("a b c", "a=1 b=- c=-", Decision{Missing: 2})
	f("a b c", "a=1 b=0 c=-", Decision{Missing: 1, Differ: true})
	f("a b c", "d=1", Decision{Missing: 3})
	// Others have no say, nor has the reverse order.
	f("a b c", "a=1 b=0 c=0 d=1 e=1", Decision{Vote: VoteZero, Differ: true})
	f("a b c", "a=./1 b=1/0 c=1/0", Decision{Vote: VoteOne, Halves: 2, Missing: 1})
	// Two against two is no majority.
	f("a b c d", "a=1 b=1 c=0 d=0", Decision{Differ: true})
	f("a b c d", "a=1 b=1 c=1 d=-", Decision{Vote: VoteOne, Halves: 2, Missing: 1})
	f("a b c d", "a=1 b=1 c=- d=-", Decision{Missing: 2})
	f("a", "a=1", Decision{Vote: VoteOne, Halves: 2, Unanimous: true})
	// Three grades: undecided is the lowest vote.
	f("a b c", "a=good b=good c=poor", Decision{Vote: VoteGood, Halves: 2, Differ: true})
	f("a b c", "a=partial b=partial c=partial", Decision{Vote: VotePartial, Halves: 1, Unanimous: true})
	f("a b c", "a=good b=partial c=poor", Decision{Differ: true})
	f("a b c", "a=good b=partial c=-", Decision{Missing: 1, Differ: true})
	f("a b c d", "a=good b=good c=partial d=partial", Decision{Halves: 1, Differ: true})
	// No panel decides nothing, but sees whether judges differ.
	f("", "a=1 b=0 c=-", Decision{Missing: 1, Differ: true})
	f("", "a=1 b=1", Decision{})
}

func TestPanelCount(t *testing.T) {
	p := Panel{"a", "b", "c"}
	hist := []BallotCount{
		{ballotsOf(t, "d", "a=1 b=1 c=1"), 5},
		{ballotsOf(t, "d", "a=1/0 b=0/- c=- d=1"), 2},
		{ballotsOf(t, "d", "a=0/0 b=0 d=-/1"), 3},
	}
	want := PanelCounts{Units: 10, Decided: 8, Unanimous: 5, Missing: 5, OffPanel: 2 + 2*3, Halves: 10, DecidedHalves: 10}
	want.Votes[VoteOne], want.Votes[VoteZero] = 5, 3
	if diff := cmp.Diff(want, p.Count(hist)); diff != "" {
		t.Errorf("counts: -want +got\n%s", diff)
	}
	judges := []JudgeCounts{
		{Judge: "a", Votes: 10, Halves: 14, Common: 8, Same: 8, Both: 5, Consistent: 3, Answers: 10, First: 2*2 + 3},
		{Judge: "b", Votes: 10, Halves: 10, Common: 8, Same: 8, BothMissing: 2, Answers: 2},
		{Judge: "c", Votes: 5, Halves: 10, Missing: 2, Common: 5, Same: 5},
		{Judge: "d", Votes: 2, Halves: 4, Missing: 3, BothMissing: 3, Answers: 3},
	}
	if diff := cmp.Diff(judges, p.Judges(hist)); diff != "" {
		t.Errorf("judges: -want +got\n%s", diff)
	}
	pairs := []PairCounts{
		{A: "a", B: "b", Units: 10, Same: 8},
		{A: "a", B: "c", Units: 5, Same: 5},
		{A: "a", B: "d", Units: 2, Same: 2},
		{A: "b", B: "c", Units: 5, Same: 5},
		{A: "b", B: "d", Units: 2},
	}
	if diff := cmp.Diff(pairs, p.Pairs(hist)); diff != "" {
		t.Errorf("pairs: -want +got\n%s", diff)
	}
	if n := p.Ratings(hist).Units(); n != 10 {
		t.Errorf("%d rated units, want 10", n)
	}
}

func TestPanelPairsOfMany(t *testing.T) {
	b := &Ballots{Dimension: "d"}
	for c := range byte(MaxPaired + 1) {
		b.Ballots = append(b.Ballots, Ballot{Judge: string('A' + rune(c)), Straight: VoteOne})
	}
	if got := (Panel{"B", "C"}).Pairs([]BallotCount{{b, 1}}); len(got) != 1 || got[0] != (PairCounts{A: "B", B: "C", Units: 1, Same: 1}) {
		t.Errorf("pairs of %d judges: %v, want those of the panel", len(b.Ballots), got)
	}
}

func TestBallotsText(t *testing.T) {
	f := func(dimension, ballots, want string) {
		t.Helper()
		b := ballotsOf(t, dimension, ballots)
		text := string(b.AppendText(nil))
		if text != want {
			t.Errorf("%s: text %q, want %q", ballots, text, want)
		}
		back, err := ParseBallots(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(*b, back); diff != "" {
			t.Errorf("%s: -want +got\n%s", text, diff)
		}
	}
	f("faithfulness", "a=1 b=-/0", "12:faithfulness;1:a1.;1:b-0;")
	f("x;1:y", "a:1=good judge;=poor é=./partial", "5:x;1:y;3:a:1g.;6:judge;p.;2:é.a;")
	f("d", "", "1:d;")

	bad := func(text string) {
		t.Helper()
		if b, err := ParseBallots(text); err == nil {
			t.Errorf("%q: got %+v, want a fault", text, b)
		}
	}
	bad("")
	bad("1:d")
	bad("9:d;")
	bad("-1:d;")
	bad("1:d;1:a1")
	bad("1:d;1:a1.")
	bad("1:d;1:ax.;")
	bad("1:d;1:b1.;1:a1.;") // not by judge
	bad("1:d;1:a1.;1:a1.;")
	bad("1:d;99999999999999999999:a1.;")
}
