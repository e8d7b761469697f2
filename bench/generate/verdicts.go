package main

import (
	"fmt"
	"io"
)

// What a verdict is about and who gives it. A judge answers the three dimensions of a triple in one call.
var (
	modes      = [...]string{"single-pass", "multi-pass", "reflection"}
	dimensions = [...]string{"faithfulness", "precision", "relevance"}
	judges     = [...]string{"judge-a", "judge-b", "judge-c"}
	// sound is how many triples in a thousand are sound, by mode and dimension.
	sound = [len(modes)][len(dimensions)]int{{780, 690, 820}, {850, 740, 800}, {910, 830, 870}}
	// misled is how often, in a thousand, a judge calls an unsound triple sound; harsh is the reverse.
	misled = [len(judges)]int{120, 220, 60}
	harsh  = [len(judges)]int{60, 30, 140}
)

// verdicts is the verdict workload: {span_id, triple_id, mode, dimension, judge, prompt_version, verdict, reasoning}, about
// 600 bytes a line. Each triple has nine lines, judge by judge, and so three units of three verdicts. Two verdicts in a
// hundred are null, with a reason.
type verdicts struct {
	Lines int
	Seed  uint64
}

func (v verdicts) write(w io.Writer) error {
	if v.Lines < 1 {
		return fmt.Errorf("n: want 1 line or more, got %d", v.Lines)
	}
	const (
		triples = 8 // of a span and mode
		perUnit = len(dimensions) * len(judges)
	)
	d := newDice(v.Seed, 3)
	var (
		line  []byte
		truth [len(dimensions)]bool
	)
	for i := range v.Lines {
		triple := i / perUnit
		judge, dimension := i%perUnit/len(dimensions), i%len(dimensions)
		span, mode := triple/(triples*len(modes)), triple/triples%len(modes)
		if i%perUnit == 0 {
			for k := range truth {
				truth[k] = d.below(1000) < sound[mode][k]
			}
		}
		line = append(line[:0], `{"span_id":"10-K-2024-`...)
		line = appendDigits(line, span, 6)
		line = append(line, `","triple_id":"t`...)
		line = append(line, byte('1'+triple%triples))
		line = append(line, `","mode":"`...)
		line = append(line, modes[mode]...)
		line = append(line, `","dimension":"`...)
		line = append(line, dimensions[dimension]...)
		line = append(line, `","judge":"`...)
		line = append(line, judges[judge]...)
		line = append(line, `","prompt_version":"v3","verdict":`...)
		switch x := d.below(1000); {
		case d.below(100) < 2:
			line = append(line, `null,"reason":"timeout"}`+"\n"...)
		default:
			one := truth[dimension] && x >= harsh[judge] || !truth[dimension] && x < misled[judge]
			if one {
				line = append(line, '1')
			} else {
				line = append(line, '0')
			}
			line = append(line, `,"reasoning":"`...)
			line = d.appendText(line, 300+d.below(271))
			line = append(line, "\"}\n"...)
		}
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return nil
}
