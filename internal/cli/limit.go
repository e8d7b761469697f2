package cli

import (
	"fmt"
	"strconv"
	"strings"
)

// percentUnit is one percent in the unit of RejectLimit.percent.
const percentUnit = 10_000

// RejectLimit is how many rejects a job may have before it ends with exit 3: a number,
// or a share of the records. The zero value allows none. It is a flag.
type RejectLimit struct {
	count   int64
	percent int64 // in 1/10,000 percent
	share   bool
}

// Set reads N or P%; P has at most 4 decimals and is at most 100.
func (l *RejectLimit) Set(text string) error {
	if p, ok := strings.CutSuffix(text, "%"); ok {
		n, err := multiply(p, percentUnit)
		if err != nil || n > 100*percentUnit {
			return badLimit(text)
		}
		*l = RejectLimit{percent: n, share: true}
		return nil
	}
	n, err := multiply(text, 1)
	if err != nil {
		return badLimit(text)
	}
	*l = RejectLimit{count: n}
	return nil
}

func badLimit(text string) error {
	return fmt.Errorf("want a number or a share such as 100 or 0.5%%, got %q", text)
}

// String is the form that Set reads.
func (l *RejectLimit) String() string {
	if l.share {
		return strconv.FormatFloat(float64(l.percent)/percentUnit, 'f', -1, 64) + "%"
	}
	return strconv.FormatInt(l.count, 10)
}

// Exceeded reports whether rejects are more than the limit allows for that many
// records, rejects included. No records exceed no share.
func (l RejectLimit) Exceeded(rejects, records int64) bool {
	if l.share {
		return rejects*100*percentUnit > l.percent*records
	}
	return rejects > l.count
}
