package main

// Words of questions and passages. Plain ones are ASCII; accented ones are UTF-8 of two to four bytes; escaped ones are
// spelled with JSON escapes, so that a reader which compares raw bytes, or skips escapes, is found out.
var (
	plain = [...]string{
		"the", "of", "and", "in", "to", "a", "for", "on", "by", "was", "were", "with", "from", "as", "at", "our", "its",
		"revenue", "margin", "quarter", "fiscal", "year", "operating", "income", "expense", "net", "cash", "flow", "debt",
		"equity", "guidance", "outlook", "segment", "growth", "decline", "increase", "decrease", "basis", "points",
		"dividend", "repurchase", "authorized", "shares", "outstanding", "per", "diluted", "adjusted", "EBITDA", "GAAP",
		"impairment", "goodwill", "inventory", "receivables", "customers", "supply", "chain", "pricing", "volume",
		"capital", "expenditures", "liquidity", "facility", "covenant", "maturity", "notes", "interest", "rate", "hedge",
		"currency", "headwinds", "tailwinds", "restructuring", "litigation", "settlement", "tax", "effective", "deferred",
		"regulatory", "approval", "pipeline", "backlog", "bookings", "retention", "subscription", "cloud", "services",
		"manufacturing", "capacity", "utilization", "headcount", "acquisition", "divestiture", "synergies", "integration",
		"management", "discussed", "expects", "reported", "compared", "prior", "period", "approximately", "million",
		"billion", "percent", "12.5%", "$3.4", "2024", "10-K", "8-K", "Q1", "Q2", "Q3", "Q4", "which", "what", "how",
		"did", "company", "during", "change", "drive", "drove", "primarily", "due", "higher", "lower", "offset",
	}
	accented = [...]string{
		"Zürich", "Société", "Générale", "São", "Nestlé", "Löwen", "café", "€4.1", "£2", "–", "naïve", "Ørsted", "営業利益",
		"売上高", "Газпром", "α", "≥", "📈",
	}
	escaped = [...]string{
		`S\u0026P`, `r\u00e9sum\u00e9`, `\u20ac1.2`, `\"guidance\"`, `10\u201312%`, `\ud83d\udcc8`, `and\/or`, `Item\t7`,
		`line\nbreak`, `\u00fcber`, `A\\B`, `M\u00fcnchen`,
	}
)

// appendText appends words to b until they fill size bytes; the last word may go over. Two words in a hundred are
// escaped, four are accented.
func (d dice) appendText(b []byte, size int) []byte {
	end := len(b) + size
	for {
		switch x := d.below(100); {
		case x < 2:
			b = append(b, escaped[d.below(len(escaped))]...)
		case x < 6:
			b = append(b, accented[d.below(len(accented))]...)
		default:
			b = append(b, plain[d.below(len(plain))]...)
		}
		if len(b) >= end {
			return b
		}
		b = append(b, ' ')
	}
}
