package stages

import (
	"encoding/binary"
	"fmt"
	"slices"

	"evalstream"
)

// met traces that a prediction has met gold.
func (f *frozenScore) met(unit int32) {
	if f.tracing {
		f.trace = binary.AppendUvarint(f.trace, uint64(unit))
	}
}

// Trace appends the units of gold that were matched since the last call.
func (f *frozenScore) Trace(dst []byte) []byte {
	f.tracing = true
	dst = append(dst, f.trace...)
	f.trace = f.trace[:0]
	return dst
}

// Follower makes what keeps which units of gold were matched: those without a
// prediction are waiting at the end.
func (f *frozenScore) Follower() evalstream.Follower { return &matches{gold: f.gold} }

// matches is a bit a unit of gold, kept in pieces.
type matches struct {
	gold    *Gold // nil: there is nothing to match
	words   []uint32
	dirty   []bool // by piece
	there   []uint64
	changed []int
	ledger  ledger
	saved   ledger
	header  bool
}

const (
	matchHeader  = 'h'
	matchPieces  = 'm'
	matchVersion = 1
	pieceWords   = 64
)

// Keep makes room for every unit.
func (m *matches) Keep(evalstream.Shelf) {
	if m.gold == nil {
		return
	}
	pieces := (len(m.gold.matched) + pieceWords - 1) / pieceWords
	m.words, m.dirty, m.there = make([]uint32, pieces*pieceWords), make([]bool, pieces), make([]uint64, pieces)
}

// Load takes one entry back.
func (m *matches) Load(key, val []byte) error {
	switch {
	case len(key) == 1 && key[0] == matchHeader:
		e := &entry{data: val}
		e.version(matchVersion)
		units := e.uvarint()
		m.saved.read(e)
		m.header = true
		if e.err == nil && m.gold != nil && units != uint64(m.gold.Units()) {
			return fmt.Errorf("want gold of %d units, got %d", units, m.gold.Units())
		}
		return e.end()
	case len(key) == 5 && key[0] == matchPieces && len(val) == 4*pieceWords:
		sum := sumOf(key, val)
		m.ledger.put(sum)
		if m.gold == nil {
			return nil
		}
		piece := int(binary.BigEndian.Uint32(key[1:]))
		if piece >= len(m.there) {
			return fmt.Errorf("gold has no piece %d", piece)
		}
		m.there[piece] = sum
		for i := range pieceWords {
			at := piece*pieceWords + i
			w := binary.LittleEndian.Uint32(val[4*i:])
			m.words[at] = w
			if at < len(m.gold.matched) {
				m.gold.matched[at].Or(w)
			}
		}
		return nil
	}
	return fmt.Errorf("entry %q is not one of score", key)
}

// Loaded compares the entries with the header.
func (m *matches) Loaded() error {
	if !m.header && m.ledger.entries == 0 {
		return nil
	}
	return m.ledger.check("pieces of matched gold", m.saved)
}

// Follow takes in which units a block has matched.
func (m *matches) Follow(trace []byte) error {
	for e := (entry{data: trace}); len(e.data) > 0; {
		u := e.uvarint()
		if e.err != nil {
			return e.err
		}
		w, bit := &m.words[u/32], uint32(1)<<(u%32)
		if *w&bit != 0 {
			continue
		}
		*w |= bit
		if piece := int(u / 32 / pieceWords); !m.dirty[piece] {
			m.dirty[piece] = true
			m.changed = append(m.changed, piece)
		}
	}
	return nil
}

// Save puts the pieces that have changed.
func (m *matches) Save(out *evalstream.Out) error {
	if m.gold == nil {
		return nil
	}
	slices.Sort(m.changed)
	for _, piece := range m.changed {
		m.dirty[piece] = false
		key := binary.BigEndian.AppendUint32([]byte{matchPieces}, uint32(piece))
		val := make([]byte, 0, 4*pieceWords)
		for _, w := range m.words[piece*pieceWords : (piece+1)*pieceWords] {
			val = binary.LittleEndian.AppendUint32(val, w)
		}
		if m.there[piece] != 0 {
			m.ledger.take(m.there[piece])
		}
		m.there[piece] = sumOf(key, val)
		m.ledger.put(m.there[piece])
		out.Put(key, val)
	}
	m.changed = m.changed[:0]
	h := binary.AppendUvarint([]byte{matchVersion}, uint64(m.gold.Units()))
	out.Put([]byte{matchHeader}, m.ledger.append(h))
	return nil
}

// Saved is for the contract: a bit a unit is always held.
func (*matches) Saved() error { return nil }
