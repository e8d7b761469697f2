package evalstream

// stepReject is a reject of one step, waiting for its turn.
type stepReject struct {
	Reject
	step string
	// unit is what was refused where no line is to be shown: the stage before has made
	// it, of a unit that expired or of a whole cell. "" otherwise.
	unit string
}

// setAside appends the rejects of a step that was given in.
func setAside(dst []stepReject, step string, in []Record, rs []Reject) []stepReject {
	at := 0 // rejects come in the order of in
	for _, r := range rs {
		for at < len(in) && in[at].Seq != r.Seq {
			at++
		}
		s := stepReject{step: step, Reject: r}
		if at == len(in) {
			at = 0
		} else if rec := &in[at]; rec.Pos.Origin == nil && rec.Body != nil {
			s.unit = unitText(rec.Body)
			at++ // several have no line, and one Seq
		}
		dst = append(dst, s)
	}
	return dst
}

// unitText names what a body is about: "unit q1/run a (expired)", or its kind and slot.
func unitText(b Body) string {
	switch b := b.(type) {
	case *Score:
		text := "unit " + b.Unit
		if b.Run != "" {
			text += "/run " + b.Run
		}
		return text + " (" + b.Status.String() + ")"
	case interface{ AppendKey(dst []byte) []byte }:
		return string(b.AppendKey([]byte(b.(Body).Kind() + " ")))
	}
	return b.Kind()
}
