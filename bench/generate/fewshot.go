package main

import (
	"fmt"
	"io"
)

const negative = "no_relation"

// relations are the ten test classes of the few-shot split of TACRED, with their instances as weights.
var relations = [...]string{
	"org:top_members/employees", "per:origin", "per:stateorprovinces_of_residence", "org:founded_by", "per:siblings",
	"per:children", "per:schools_attended", "per:city_of_death", "org:member_of", "per:date_of_birth",
}

var relationWeights = [...]int{346, 132, 81, 68, 55, 37, 30, 28, 18, 9}

// fewshot is the few-shot workload: {seed, label, gold}, five seeds one after the other, about 58 bytes a line.
// One line in five has a positive gold label, of which 45 in 100 are found; one negative in ten gets a positive label.
type fewshot struct {
	Lines int
	Seed  uint64
}

func (f fewshot) write(w io.Writer) error {
	if f.Lines < 1 {
		return fmt.Errorf("n: want 1 line or more, got %d", f.Lines)
	}
	const seeds = 5
	d := newDice(f.Seed, 2)
	total := 0
	for _, weight := range relationWeights {
		total += weight
	}
	positive := func() string { return relations[d.pick(relationWeights[:], total)] }
	var line []byte
	for i := range f.Lines {
		gold, label := negative, negative
		if d.below(100) < 20 {
			gold = positive()
			switch x := d.below(100); {
			case x < 45:
				label = gold
			case x < 65:
				label = positive()
			}
		} else if d.below(100) < 10 {
			label = positive()
		}
		line = append(line[:0], `{"seed":`...)
		line = append(line, byte('1'+i*seeds/f.Lines))
		line = append(line, `,"label":"`...)
		line = append(line, label...)
		line = append(line, `","gold":"`...)
		line = append(line, gold...)
		line = append(line, "\"}\n"...)
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return nil
}
