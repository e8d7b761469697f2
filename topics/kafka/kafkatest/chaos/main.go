// Command chaos disturbs a pipeline over topics and compares what it has written with
// what the pipe writes for the same records.
//
// The pipeline is parse, score, aggregate and merge, each a segment of its own with
// several processes. While they run, lines are written to its sources, and a driver
// kills, stops, ends and adds processes and restarts brokers as a seed says. Then
// the pipeline is run to the ends of its topics, and every topic is checked.
//
// `make chaos` runs it with brokers of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"evalstream/topics/kafka"
)

func main() {
	// Members die with the thread that starts them, and this one ends last.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	seed      uint64
	rounds    int
	duration  time.Duration
	length    time.Duration
	rate      int
	open      time.Duration
	root      string
	mutations bool
	only      string
	keep      bool
	again     string
	seeds     int
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var o options
	fs := flag.NewFlagSet("chaos", flag.ContinueOnError)
	fs.Uint64Var(&o.seed, "seed", 0, "`seed` of the first round; each next has the next one (default: from the clock)")
	fs.IntVar(&o.rounds, "rounds", 2, "how many rounds")
	fs.DurationVar(&o.duration, "duration", 0, "begin rounds until this time is over, in place of -rounds")
	fs.DurationVar(&o.length, "round", 35*time.Second, "how long a round is disturbed")
	fs.IntVar(&o.rate, "rate", 300, "lines of input a second")
	fs.DurationVar(&o.open, "open", 10*time.Minute, "how long a transaction may be open: longer than a round, so that only a takeover ends those of the dead")
	fs.StringVar(&o.root, "root", "../../..", "folder of the module")
	fs.BoolVar(&o.mutations, "mutations", false, "take parts of the mechanism away, one after the other, and look for a seed that shows it")
	fs.StringVar(&o.only, "only", "", "with -mutations: these `names`, with commas between")
	fs.StringVar(&o.again, "again", "", "only check once more what the pipeline of that `name` has left on the broker")
	fs.BoolVar(&o.keep, "keep", false, "keep what was done and told in rounds without violations too")
	fs.IntVar(&o.seeds, "seeds", 10, "with -mutations: how many seeds to try for each")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if o.seed == 0 {
		o.seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	if err := os.Setenv(kafka.EnvTransaction, o.open.String()); err != nil { // of all that is started
		return err
	}
	dir, err := os.MkdirTemp("", "chaos")
	if err != nil {
		return err
	}
	s := &session{options: o, dir: dir, out: out}
	if s.brokers.seeds = strings.Split(os.Getenv("EVALSTREAM_TEST_BROKERS"), ","); s.brokers.seeds[0] == "" {
		return errors.New("EVALSTREAM_TEST_BROKERS is not set: run make chaos")
	}
	if s.brokers.control = os.Getenv("EVALSTREAM_TEST_BROKER_CONTROL"); s.brokers.control == "" {
		return errors.New("EVALSTREAM_TEST_BROKER_CONTROL is not set: run make chaos")
	}
	switch {
	case o.again != "":
		err = s.check(ctx, o.again)
	case o.mutations:
		err = s.mutate(ctx)
	default:
		err = s.test(ctx)
	}
	if err == nil && !o.keep {
		err = os.RemoveAll(dir)
	}
	return err
}

// A session is several rounds on one broker.
type session struct {
	options
	brokers brokers
	dir     string
	out     io.Writer
}

// build builds the program, with files replaced as the overlay says if there is one.
func (s *session) build(ctx context.Context, name, overlay string) (string, error) {
	program, err := filepath.Abs(filepath.Join(s.dir, name))
	if err != nil {
		return "", err
	}
	args := []string{"build", "-o", program}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	c := exec.CommandContext(ctx, "go", append(args, "./cmd/evalstream")...)
	c.Dir = s.root
	if told, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, told)
	}
	return program, nil
}

// round runs one round and reports what it finds.
func (s *session) round(ctx context.Context, program string, seed uint64) (*outcome, error) {
	dir := filepath.Join(s.dir, fmt.Sprintf("%s.%d", filepath.Base(program), seed))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	r := &round{program: program, brokers: s.brokers, dir: dir, seed: seed, length: s.length, rate: s.rate}
	out, err := r.run(ctx)
	if err != nil {
		err = errors.Join(err, s.brokers.logs(context.WithoutCancel(ctx), dir))
		return nil, fmt.Errorf("seed %d: %w; what each process told is in %s", seed, err, dir)
	}
	if len(out.violations) > 0 {
		out.report(os.Stderr, dir)
		return out, s.brokers.logs(ctx, dir)
	}
	if s.keep {
		fmt.Fprintf(os.Stderr, "chaos: seed %d: kept in %s\n", seed, dir)
		return out, nil
	}
	return out, os.RemoveAll(dir)
}

// test runs rounds on the program as it is.
func (s *session) test(ctx context.Context) error {
	program, err := s.build(ctx, "evalstream", "")
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "chaos: SEED=%d, rounds of %v, brokers: %d\n", s.seed, s.length, len(s.brokers.seeds))
	var sum summary
	began := time.Now()
	for n := 0; s.duration > 0 && time.Since(began) < s.duration || s.duration == 0 && n < s.rounds; n++ {
		out, err := s.round(ctx, program, s.seed+uint64(n))
		if err != nil {
			return err
		}
		sum.add(out)
		out.tell(s.out)
	}
	sum.print(s.out, time.Since(began))
	if n := sum.violations; n > 0 {
		return fmt.Errorf("%d violations", n)
	}
	return nil
}

// check checks the topics of a round that was before.
func (s *session) check(ctx context.Context, name string) error {
	program, err := s.build(ctx, "evalstream", "")
	if err != nil {
		return err
	}
	var out outcome
	if _, err := fmt.Sscanf(name, "chaos-%d-", &out.seed); err != nil {
		return fmt.Errorf("again: want chaos-SEED-…, got %s", name)
	}
	out.apart = apart(out.seed)
	r := &round{program: program, brokers: s.brokers, dir: s.dir, seed: out.seed}
	if err := r.check(ctx, reader{s.brokers.seeds}, flow{name: name, brokers: s.brokers.seeds, apart: out.apart}, &out); err != nil {
		return err
	}
	out.tell(s.out)
	if n := len(out.violations); n > 0 {
		out.report(os.Stderr, s.dir)
		return fmt.Errorf("%d violations", n)
	}
	return nil
}
