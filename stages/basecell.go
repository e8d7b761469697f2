package stages

import (
	"encoding/binary"
	"fmt"

	"evalstream"
)

// baseCell is the base of a cell.
type baseCell struct {
	cell
	sheet int
	key   []byte
	dirty bool
	there bool
	sum   uint64
}

// addBase adds a unit that has no slot, or has lost it, to the bases of its cells.
func (a *aggregate) addBase(group, pattern uint32, status evalstream.Status, pane int64) {
	if status == evalstream.Waiting || status == evalstream.Retracted {
		return
	}
	groups, contributes := a.known[group], &a.knownAdds[pattern]
	for i := range a.sheets {
		s := &a.sheets[i]
		b := a.baseOf(i, cellKey{groups[s.layout], a.paneIn(s, pane)})
		a.change(&b.cell, status, contributes, 1)
		if !b.dirty {
			b.dirty = true
			a.kept.based = append(a.kept.based, b)
		}
	}
}

// emptied lets a cell have a base, of nothing, when what it held has gone elsewhere: what was
// published of it is to be taken back, if not by this process.
func (a *aggregate) emptied(sheet int, c *cell) {
	if b := a.baseOf(sheet, cellKey{c.group, c.pane}); !b.there && !b.dirty {
		b.dirty = true
		a.kept.based = append(a.kept.based, b)
	}
}

// hollow says that a base of nothing is not needed: its cell is no longer empty, or no
// longer there.
func (a *aggregate) hollow(b *baseCell) bool {
	c := a.sheets[b.sheet].cells[cellKey{b.group, b.pane}]
	return !b.there && b.empty() && (c == nil || !c.empty())
}

// freeKept takes away the base of a cell that is let go.
func (a *aggregate) freeKept(sheet int, c *cell) {
	if a.kept == nil {
		return
	}
	at := cellKey{c.group, c.pane}
	b := a.kept.bases[sheet][at]
	if b == nil {
		return
	}
	delete(a.kept.bases[sheet], at)
	b.dirty = false
	if b.there {
		a.kept.ledger.take(b.sum)
		a.kept.changes = append(a.kept.changes, evalstream.Change{Key: b.key})
	}
}

// freeSaid is freeKept for a cell that merge was told of.
func (a *aggregate) freeSaid(sheet int, c *cell) {
	if a.options.Replayed {
		a.freeKept(sheet, c)
	}
}

func (a *aggregate) baseOf(sheet int, at cellKey) *baseCell {
	b := a.kept.bases[sheet][at]
	if b == nil {
		key := binary.BigEndian.AppendUint16([]byte{aggregateBases}, uint16(sheet))
		key = binary.BigEndian.AppendUint64(key, uint64(at.pane))
		b = &baseCell{cell: cell{group: at.group, pane: at.pane}, sheet: sheet, key: append(key, a.sheets[sheet].groups.name(at.group)...)}
		a.kept.bases[sheet][at] = b
	}
	return b
}

// value is a base in the form in which it is kept.
func (a *aggregate) baseValue(b *baseCell) []byte {
	c := a.pack(&b.cell)
	v := binary.AppendVarint(binary.AppendVarint(nil, c.N), c.Pending)
	v = binary.AppendVarint(binary.AppendVarint(v, c.Unjudged), c.Expired)
	v = binary.AppendUvarint(v, uint64(len(c.Sums)))
	for _, s := range c.Sums {
		v = binary.AppendVarint(v, int64(s))
	}
	v = binary.AppendUvarint(v, uint64(len(c.Counts)))
	for _, row := range c.Counts {
		v = binary.AppendUvarint(appendText(v, row.Name), uint64(len(row.N)))
		for _, n := range row.N {
			v = binary.AppendVarint(v, n)
		}
	}
	return v
}

func (a *aggregate) loadBase(key, val []byte) error {
	if len(key) < 11 {
		return errShort
	}
	e := &entry{data: val}
	c := evalstream.Cell{N: e.varint(), Pending: e.varint(), Unjudged: e.varint(), Expired: e.varint()}
	for range e.count() {
		c.Sums = append(c.Sums, evalstream.Nano(e.varint()))
	}
	if len(c.Sums) > 0 {
		c.Measures = a.names
	}
	for range e.count() {
		row := evalstream.Count{Name: e.text()}
		for range e.count() {
			row.N = append(row.N, e.varint())
		}
		c.Counts = append(c.Counts, row)
	}
	if err := e.end(); err != nil {
		return err
	}
	base, err := a.unpack(&c)
	sheet := int(binary.BigEndian.Uint16(key[1:]))
	if err != nil || sheet >= len(a.sheets) {
		return fmt.Errorf("base %x of sheet %d: %w", key, sheet, err)
	}
	s := &a.sheets[sheet]
	at := cellKey{s.groups.id(key[11:], nil), int64(binary.BigEndian.Uint64(key[3:]))}
	b := a.baseOf(sheet, at)
	b.cell, b.there, b.sum = *base, true, sumOf(key, val)
	b.group, b.pane = at.group, at.pane
	s.cell(at.group, at.pane).merge(&b.cell, 1)
	return nil
}
