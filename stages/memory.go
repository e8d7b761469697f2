package stages

import (
	"unsafe"

	"evalstream"
)

// Workload is the input that memory is estimated for.
type Workload struct {
	Units     int64 // queries, predictions or rated items
	Runs      int64 // predictions of each unit; coders of a rated one
	Depth     int64 // passages of a ranked list; 0: predictions are labels
	Judgments int64 // judgments of each unit, or 1 for a gold label
	Cells     int64 // groups times windows, of all groupings; 0: not known
	IDBytes   int64 // length of an id, a run's name or a label
	Fields    int64 // fields that a prediction carries to be grouped by
	Measures  int64 // values of a score
	Passages  int64 // that queries are ranked over
	Dims      int64 // numbers of a vector
	Words     int64 // words of a passage that differ
	Instances int64 // that episodes name
}

// Holding is one kind of thing that a stage remembers.
type Holding struct {
	What  string
	Each  int64 // bytes of one, with its share of what finds it
	Count int64 // 0: depends on the records
}

// Bytes is what all of them take.
func (h Holding) Bytes() int64 { return h.Each * h.Count }

// FrozenGold is what gold holds that is read whole.
func (w Workload) FrozenGold() []Holding {
	row, key := int64(unsafe.Sizeof(goldRow{})), int64(unsafe.Sizeof(text{}))
	unit := (row+key)*appended(w.Units) + 8*doubled(w.Units, 16)
	hs := []Holding{{"judged unit", share(unit, w.Units) + 2*w.IDBytes, w.Units}}
	if further := w.Units * (w.Judgments - 1); further > 0 {
		hs = append(hs, Holding{"further judgment", share(row*appended(further), further) + w.IDBytes, further})
	}
	return hs
}

// OpenGold is what score holds where gold comes with the stream: predictions that wait
// for gold, and gold that waits for predictions or may be corrected.
func (w Workload) OpenGold() []Holding {
	id := allocated(w.IDBytes)
	unit := mapped(w.Units) + 16*appended(w.Units)
	hs := []Holding{
		{"unit", share(unit, w.Units) + id + allocated(int64(unsafe.Sizeof(openUnit{}))), w.Units},
		{"judgment", share(allocated(doubling(w.Judgments)*int64(unsafe.Sizeof(openGold{}))), w.Judgments) + id, w.Units * w.Judgments},
	}
	run := share(allocated(doubling(w.Runs)*int64(unsafe.Sizeof(openRun{}))), w.Runs) + id
	if w.Fields > 0 {
		run += allocated(w.Fields*int64(unsafe.Sizeof(evalstream.Slice{}))) + w.Fields*(allocated(8)+id)
	}
	if w.Depth == 0 {
		return append(hs, Holding{"prediction", run + 2*id, w.Units * w.Runs})
	}
	list := allocated(w.Depth * (1 + w.IDBytes + 8))
	return append(hs,
		Holding{"ranked list", run + allocated(8*w.Measures), w.Units * w.Runs},
		Holding{"passage of a list", share(list, w.Depth), w.Units * w.Runs * w.Depth})
}

// Judged is what score holds of verdicts: units with the slots of their judges, which
// are Runs of each.
func (w Workload) Judged() []Holding {
	// A unit's name is an array of five ids, of which span and triple are kept by
	// themselves too.
	name := 4*w.IDBytes + 40
	unit := int64(unsafe.Sizeof(judgedUnit{})+unsafe.Sizeof(judgedVersion{}))*chunked(w.Units) + 8*doubled(w.Units, 64)
	slots := w.Units * w.Runs
	return []Holding{
		{"unit", share(unit, w.Units) + name, w.Units},
		{"verdict", share(int64(unsafe.Sizeof(vote{}))*chunked(slots), slots), slots},
	}
}

// Sentences is what classify holds; vectors says that each has one.
func (w Workload) Sentences(vectors bool) []Holding {
	n := w.Instances
	each := mapped(n) + int64(unsafe.Sizeof(instanceRow{}))*appended(n)
	h := Holding{"instance", 0, n}
	if vectors {
		h.What = "instance and its vector"
		each += 4 * appended(n*w.Dims)
	}
	h.Each = share(each, n) + 3*allocated(w.IDBytes)
	return []Holding{h}
}

// Ranked is what rank holds by a method: vectors, or the words of each passage. Loading
// takes as much again for a moment.
func (w Workload) Ranked(method string) []Holding {
	name := 16 + allocated(w.IDBytes)
	if method == RankBM25 {
		return []Holding{{"passage", name + 5, w.Passages}, {"word of a passage", 10, w.Passages * w.Words}}
	}
	return []Holding{{"passage and its vector", name + 4*w.Dims, w.Passages}}
}

// Aggregated is what aggregate holds: what each unit adds now, so that a repeat counts
// once and a correction moves it, and the cells that it adds to.
func (w Workload) Aggregated() []Holding {
	unit := int64(unsafe.Sizeof(unitRow{}))*chunked(w.Units) + 4*doubled(w.Units, 64)
	slots := w.Units * w.Runs
	cell := allocated(int64(unsafe.Sizeof(cell{}))) + allocated(8*w.Measures) + allocated(int64(unsafe.Sizeof(told{}))) + 2*mapEntry + 4*8
	group := 2*(16+mapEntry) + 2*allocated(w.IDBytes+3) + 48
	contributes := 2*int64(unsafe.Sizeof(contribution{})) + 2*allocated(8*w.Measures+1) + mapEntry + 16
	return []Holding{
		{"unit", share(unit, w.Units), w.Units},
		{"run of a unit", share(int64(unsafe.Sizeof(slot{}))*chunked(slots), slots), slots},
		{"cell (group and window)", cell + group, w.Cells},
		{"score unlike all others", contributes + int64(unsafe.Sizeof(numbered{})) + mapEntry, 0},
	}
}

// mapEntry is the average of an entry with a string key and a pointer in a map.
const mapEntry = 40

// share is the part of total that one of n has.
func share(total, n int64) int64 {
	if n <= 0 {
		return 0
	}
	return (total + n/2) / n
}

// appended is how long an array is that n values were appended to one by one.
func appended(n int64) int64 {
	c := int64(0)
	for c < n {
		if c < 256 {
			c = max(1, 2*c)
		} else {
			c += (c + 3*256) / 4
		}
	}
	return c
}

// doubling is appended for the few values of one unit.
func doubling(n int64) int64 {
	c := int64(1)
	for c < n {
		c *= 2
	}
	return c
}

// doubled is how long an index is that is at most three quarters full.
func doubled(n, least int64) int64 {
	c := least
	for 4*n > 3*c {
		c *= 2
	}
	return c
}

// chunked is how long a column is that holds n values.
func chunked(n int64) int64 { return (n + columnMask) >> columnShift << columnShift }

// mapped is the memory of a map from strings to pointers: tables of 1,024 places of 25
// bytes, which the allocator rounds up to 27,264 bytes, at most seven eighths full.
func mapped(n int64) int64 {
	places := int64(8)
	for 8*n > 7*places {
		places *= 2
	}
	return places * 27264 / 1024
}

// allocated is what the allocator takes for n bytes.
func allocated(n int64) int64 {
	if n <= 0 {
		return 0
	}
	if n > 32<<10 {
		return (n + 8191) &^ 8191
	}
	return int64(cap(append([]byte(nil), make([]byte, n)...)))
}
