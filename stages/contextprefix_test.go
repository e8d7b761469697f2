package stages

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"evalstream"
)

func TestContextLine(t *testing.T) {
	acme := evalstream.Passage{
		PassageID: "p", Text: "Sales rose 4%.", Company: "Acme\n Corp ", Ticker: "ACM", Event: "Q3 call", Date: "2024-10-01",
		Slices: []evalstream.Slice{{Name: "page", Value: "12"}, {Name: "head", Value: `"a \"b\""`}},
	}
	f := func(template, missing string, b evalstream.Passage, want string) {
		t.Helper()
		stage, err := NewContextPrefix(ContextOptions{Template: template, Missing: missing}, nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := stage()
		if err != nil {
			t.Fatal(err)
		}
		var out evalstream.Out
		if err := s.Process(t.Context(), []evalstream.Record{{Body: &b}}, &out); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, r := range out.Rejects {
			got = "reject " + r.Fault.Error()
		}
		for _, r := range out.Records {
			p := r.Body.(*evalstream.Passage)
			got = p.Context
			text := b.Text
			if p.Context != "" {
				text = p.Context + "\n" + text
			}
			if diff := cmp.Diff(text, p.Text); diff != "" {
				t.Errorf("%s: text (-want +got)\n%s", template, diff)
			}
		}
		if got != want {
			t.Errorf("%s %s: want %q, got %q", template, missing, want, got)
		}
	}
	standard := "{company} ({ticker}), {event} {date}"
	f(standard, "skip", acme, "Acme Corp (ACM), Q3 call 2024-10-01")
	without := func(change func(b *evalstream.Passage)) evalstream.Passage {
		b := acme
		change(&b)
		return b
	}
	noTicker := without(func(b *evalstream.Passage) { b.Ticker = "" })
	noEvent := without(func(b *evalstream.Passage) { b.Event, b.Date = "", "" })
	noCompany := without(func(b *evalstream.Passage) { b.Company = " " })
	bare := evalstream.Passage{PassageID: "p", Text: "x"}
	f(standard, "skip", noTicker, "Acme Corp Q3 call 2024-10-01")
	f(standard, "keep", noTicker, "Acme Corp (), Q3 call 2024-10-01")
	f(standard, "reject", noTicker, "reject /ticker: template needs it, got none")
	f(standard, "skip", noEvent, "Acme Corp (ACM)")
	f(standard, "skip", noCompany, "(ACM), Q3 call 2024-10-01")
	f(standard, "skip", bare, "")
	f("{company} - {event} - {date}", "skip", acme, "Acme Corp - Q3 call - 2024-10-01")
	f("{company} - {event} - {date}", "skip", noEvent, "Acme Corp")
	f("{company} - {event} - {date}", "skip", noCompany, "Q3 call - 2024-10-01")
	f("{company} - {nothing} - {date}", "skip", acme, "Acme Corp - 2024-10-01")
	f("{{{page}}} of {head}", "skip", acme, `{12} of a "b"`)
	f("passage {doc_id}", "skip", acme, "passage")
	f("{company}", "skip", without(func(b *evalstream.Passage) { b.Context = "c" }), "reject /context: passage has a context line already")
}

func TestTemplateFaults(t *testing.T) {
	f := func(template, want string) {
		t.Helper()
		_, err := (&ContextOptions{Template: template}).Fields()
		if err == nil || err.Error() != want {
			t.Errorf("%q: want %q, got %v", template, want, err)
		}
	}
	f("{company", `template: want } after "{company"`)
	f("{a{b}}", `template: want } after "{a{b}}"`)
	f("a}", "template: } at byte 2 has no {; write }} for a brace")
	f("{ }", "template: want a field's name in {} at byte 1, got none")
	f("plain", `template: want a field such as {company}, got none in "plain"`)
	f("{a}\n{b}", "template: want one line, got a line break at byte 4")
}

func TestContextBudget(t *testing.T) {
	f := func(body string, limit int, want string, cut int64) {
		t.Helper()
		stage, err := NewContextPrefix(ContextOptions{Template: "{company}", Missing: "skip", MaxTokens: limit}, nil)
		if err != nil {
			t.Fatal(err)
		}
		s, _ := stage()
		var out evalstream.Out
		in := []evalstream.Record{{Body: &evalstream.Passage{Company: "Acme, Inc.", Text: body}}}
		if err := s.Process(t.Context(), in, &out); err != nil {
			t.Fatal(err)
		}
		got := out.Records[0].Body.(*evalstream.Passage).Text
		if got != "Acme, Inc.\n"+want {
			t.Errorf("%q within %d: want %q, got %q", body, limit, want, got)
		}
		for _, c := range s.(evalstream.Counted).Counters() {
			if c.Name == "tokens cut" && c.N != cut {
				t.Errorf("%q within %d: want %d tokens cut, got %d", body, limit, cut, c.N)
			}
		}
	}
	// The line is four tokens: Acme , Inc .
	f("Sales rose 4%.  Café!", 512, "Sales rose 4%.  Café!", 0)
	f("Sales rose 4%.  Café! ", 11, "Sales rose 4%.  Café! ", 0)
	f("Sales rose 4%.  Café!", 10, "Sales rose 4%.  Café", 1)
	f("Sales rose 4%.  Café!", 6, "Sales rose", 5)
	f("Sales", 4, "", 1)
	f("Sales", 2, "", 1)
	f(strings.Repeat("a ", 600), 0, strings.Repeat("a ", 600), 0)
}
