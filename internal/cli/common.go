package cli

import (
	"flag"
	"fmt"
	"time"

	"evalstream"
	"evalstream/stages"
	"evalstream/topics/file"
)

// common are the options of every command that runs a pipeline. They may stand at
// the top level of a pipeline file, with _ for -.
type common struct {
	rejects       string
	maxRejects    RejectLimit
	failFast      bool
	maxLine       Size
	horizon       Duration
	maxOutOfOrder Duration
	idleTimeout   Duration
	timeFrom      string
	timeUnit      string
	onConflict    string
	confidence    float64
	intervals     []string
	bootstrap     int
	seed          uint64
	workers       int
	state         string
	stateMemory   Size
	failIf        []*rule
	metricsAddr   string
	quiet         bool
	verbose       bool
	appends       bool // the rejects file is written behind what it holds: a run over topics goes on
	rejectsTopic  bool // rejects is a topic, which is opened elsewhere
	fromTopics    bool // records come from topics
	published     bool // an earlier process of this state has published
}

func newCommon() *common {
	return &common{maxLine: file.DefaultMaxLine, onConflict: "replace", stateMemory: 512 << 20}
}

// maxWorkers bounds the blocks in memory, of 256 KiB each.
const maxWorkers = 1024

// flags is the common options as a set of their own.
func (c *common) flags(name string) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	c.declare(fs)
	return fs
}

func (c *common) declare(fs *flag.FlagSet) {
	fs.StringVar(&c.rejects, "rejects", "", "`FILE` for rejected records, as NDJSON with position and reason; in a pipeline file also topic:NAME (default: the first 10 are told on stderr)")
	fs.Var(&c.maxRejects, "max-rejects", "exit code 3 if more than `N` records, or P% of them, are rejected; all input is read in any case")
	fs.BoolVar(&c.failFast, "fail-fast", false, "stop at the first reject (exit code 3)")
	fs.Var(&c.maxLine, "max-line", "longest line, a `SIZE` such as 16MiB; a longer line is one reject")
	fs.Var(&c.horizon, "horizon", "how long units are remembered, a `DURATION` of event time such as 30d; older records are late, and rejected (default: for ever)")
	fs.Var(&c.maxOutOfOrder, "max-out-of-order", "how far the watermark stays behind the newest time, as a `DURATION`")
	fs.Var(&c.idleTimeout, "idle-timeout", "leave a partition that gives nothing for a `DURATION` out of the watermark (default: wait for it)")
	fs.StringVar(&c.timeFrom, "time-from", "body", "a record's time: `SOURCE` body (its time field) or record (its topic's time stamp)")
	fs.StringVar(&c.timeUnit, "time-unit", "", "`UNIT` of integer times: s, ms, us or ns (default: times are RFC 3339)")
	fs.StringVar(&c.onConflict, "on-conflict", "replace", "what a second, different record of one slot (query and run, unit and coder, …) does: `POLICY` replace (the greatest revision wins, then the last) or reject")
	fs.StringVar(&c.state, "state", "", "keep the state in `DIR` and go on from there: a command that was killed, or has ended, given again ends with the same results (default: nothing is kept)")
	fs.Var(&c.stateMemory, "state-memory", "with --state, memory for the units of each stage, a `SIZE`; more are read back from DIR when they are needed")
	c.declareReading(fs)
	fs.Func("fail-if", "`RULE` such as 'success@1.low < 0.8' or 'f1{run=a}.value < 0.5': exit code 10 if it holds for a final result, 11 if there is none; may repeat", func(s string) error {
		r, err := parseRule(s)
		if err == nil {
			c.failIf = append(c.failIf, r)
		}
		return err
	})
	fs.StringVar(&c.metricsAddr, "metrics-addr", "", "show results and counters to Prometheus on http://`HOST:PORT`/metrics; port 0 takes a free one (default: they are not shown)")
	fs.IntVar(&c.workers, "workers", 0, "read `N` blocks of lines at once (default: the number of processors); results do not depend on it")
	fs.BoolVar(&c.quiet, "quiet", false, "print no progress, and no summary unless records were rejected; rejects and errors are still told")
	fs.BoolVar(&c.verbose, "verbose", false, "print the steps before the first record")
}

// declareReading adds what concerns intervals alone.
func (c *common) declareReading(fs *flag.FlagSet) {
	fs.Float64Var(&c.confidence, "confidence", .95, "confidence of intervals, a `SHARE` between 0 and 1")
	fs.Func("interval", "`METHOD` of intervals: wilson, beta_cs, normal_mixture_cs or poisson_bootstrap; may repeat (default: those that fit the metric)", func(s string) error {
		c.intervals = append(c.intervals, s)
		return nil
	})
	fs.IntVar(&c.bootstrap, "bootstrap", 1000, "number `B` of replicas of poisson_bootstrap")
	fs.Uint64Var(&c.seed, "seed", 0, "seed `N` of poisson_bootstrap; the same seed gives the same interval (default 0)")
}

// aggregation sets what the common options say of aggregate and merge.
func (c *common) aggregation(a *stages.Aggregation) error {
	a.Horizon, a.MaxOutOfOrder = time.Duration(c.horizon), time.Duration(c.maxOutOfOrder)
	a.Confidence, a.Intervals, a.Bootstrap, a.Seed = c.confidence, c.intervals, c.bootstrap, c.seed
	a.Upserts = c.fromTopics || c.published // what an earlier process has published still stands
	return a.Check()
}

func (c *common) unit() (time.Duration, error) {
	switch c.timeUnit {
	case "":
		return 0, nil
	case "s":
		return time.Second, nil
	case "ms":
		return time.Millisecond, nil
	case "us":
		return time.Microsecond, nil
	case "ns":
		return time.Nanosecond, nil
	}
	return 0, wrapUsage("%w", evalstream.NoChoice("time-unit", c.timeUnit, "s", "ms", "us", "ns"))
}

func (c *common) conflict() (stages.Conflict, error) {
	k, err := stages.ParseConflict(c.onConflict)
	if err != nil {
		return k, evalstream.Usagef("%w", err)
	}
	return k, nil
}

// check reads the options that no stage reads.
func (c *common) check() error {
	if c.workers < 0 || c.workers > maxWorkers {
		return evalstream.Usagef("workers: want 0 to %d, got %d", maxWorkers, c.workers)
	}
	if c.maxLine < 1 {
		return evalstream.Usagef("max-line: want a size above 0, got %s", c.maxLine.String())
	}
	if c.stateMemory < 1 {
		return evalstream.Usagef("state-memory: want a size above 0, got %s", c.stateMemory.String())
	}
	switch c.timeFrom {
	case "", "body":
	case "record":
		if !c.fromTopics {
			return evalstream.Usagef("time-from record: want from: topic:NAME; files and pipes have no time stamps of records; use body")
		}
	default:
		return wrapUsage("%w", evalstream.NoChoice("time-from", c.timeFrom, "body", "record"))
	}
	if _, err := c.unit(); err != nil {
		return err
	}
	_, err := c.conflict()
	return err
}

func wrapUsage(format string, err error) error {
	if err == nil {
		return nil
	}
	return evalstream.Usagef("%w", fmt.Errorf(format, err))
}

// span is the horizon.
func (c *common) span() time.Duration { return time.Duration(c.horizon) }
