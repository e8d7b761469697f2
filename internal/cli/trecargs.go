package cli

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"evalstream/codecs"
)

// trecJob is what the arguments of trec-eval ask for.
type trecJob struct {
	help, version bool
	perQuery      bool
	complete      bool
	judgedOnly    bool
	noSummary     bool
	level         int32
	depth         int
	choice        *trecChoice
	qrels, run    string
	format        error // a format that cannot be read: reported in place of reading
}

type trecOption struct {
	letter byte
	long   string
	arg    bool
}

func trecOptions() []trecOption {
	return []trecOption{
		{'h', "help", false},
		{'v', "version", false},
		{'q', "query_eval_wanted", false},
		{'m', "measure", true},
		{'c', "complete_rel_info_wanted", false},
		{'l', "level_for_rel", true},
		{'n', "nosummary", false},
		{'D', "Debug_level", true},
		{'J', "Judged_docs_only", false},
		{'N', "Number_docs_in_coll", true},
		{'M', "Max_retrieved_per_topic", true},
		{'R', "Rel_info_format", true},
		{'T', "Results_format", true},
		{'o', "Output_old_results_format", false},
		{'Z', "Zscore", true},
	}
}

// parseTrecArgs reads the arguments as GNU getopt does for trec_eval: options and files in any order, letters in
// one word (-qc), their argument in the same word or the next (-M100, -m map), long names with two dashes that
// may be cut short, and -- before a file whose name starts with a dash.
func parseTrecArgs(args []string) (trecJob, error) {
	job := trecJob{level: 1, depth: math.MaxInt32, choice: newTrecChoice()}
	options := trecOptions()
	var files []string
	for len(args) > 0 && !job.version {
		word := args[0]
		args = args[1:]
		switch {
		case word == "--":
			files = append(files, args...)
			args = nil
		case strings.HasPrefix(word, "--"):
			name, arg, given := strings.Cut(word[2:], "=")
			opt, err := longTrecOption(options, name)
			if err != nil {
				return job, err
			}
			switch {
			case given && !opt.arg:
				return job, fmt.Errorf("option --%s: want no argument, got %q", opt.long, arg)
			case opt.arg && !given && len(args) == 0:
				return job, fmt.Errorf("option --%s: want an argument", opt.long)
			case opt.arg && !given:
				arg, args = args[0], args[1:]
			}
			if err := job.set(opt.letter, arg); err != nil {
				return job, err
			}
		case len(word) > 1 && word[0] == '-':
			var err error
			if args, err = job.setLetters(options, word[1:], args); err != nil {
				return job, err
			}
		default:
			files = append(files, word)
		}
	}
	if job.help || job.version {
		return job, nil
	}
	if len(files) != 2 {
		return job, fmt.Errorf("want two files, QRELS and RUN, got %d", len(files))
	}
	job.qrels, job.run = files[0], files[1]
	if len(job.choice.marked) == 0 {
		return job, job.choice.mark("official")
	}
	return job, nil
}

func longTrecOption(options []trecOption, name string) (trecOption, error) {
	var found []trecOption
	for _, opt := range options {
		if opt.long == name {
			return opt, nil
		}
		if strings.HasPrefix(opt.long, name) {
			found = append(found, opt)
		}
	}
	switch len(found) {
	case 0:
		return trecOption{}, fmt.Errorf("no option --%s", name)
	case 1:
		return found[0], nil
	}
	return trecOption{}, fmt.Errorf("option --%s is short for --%s and --%s", name, found[0].long, found[1].long)
}

// setLetters takes the letters of one word, and returns the arguments that are left.
func (job *trecJob) setLetters(options []trecOption, letters string, args []string) ([]string, error) {
	for letters != "" {
		letter := letters[0]
		letters = letters[1:]
		i := slices.IndexFunc(options, func(o trecOption) bool { return o.letter == letter })
		if i < 0 {
			return nil, fmt.Errorf("no option -%c", letter)
		}
		arg := ""
		if options[i].arg {
			if letters == "" {
				if len(args) == 0 {
					return nil, fmt.Errorf("option -%c: want an argument", letter)
				}
				letters, args = args[0], args[1:]
			}
			arg, letters = letters, ""
		}
		if err := job.set(letter, arg); err != nil {
			return nil, err
		}
		if job.version {
			break
		}
	}
	return args, nil
}

func (job *trecJob) set(letter byte, arg string) error {
	switch letter {
	case 'h':
		job.help = true
	case 'v':
		job.version = true
	case 'q':
		job.perQuery = true
	case 'm':
		return job.choice.mark(arg)
	case 'c':
		job.complete = true
	case 'l':
		job.level = clampGrade(codecs.LenientInt(arg))
	case 'n':
		job.noSummary = true
	case 'J':
		job.judgedOnly = true
	case 'M':
		depth := codecs.LenientInt(arg)
		if depth < 0 {
			return fmt.Errorf("option -M: want a depth of 0 or more, got %s", arg)
		}
		job.depth = int(min(depth, math.MaxInt32))
	case 'N', 'o': // the first matters to utility alone, the second to nothing
	case 'R', 'T':
		if want := map[byte]string{'R': "qrels", 'T': "trec_results"}[letter]; arg != want {
			job.format = fmt.Errorf("option -%c: want %s, the only format that is read here, got %q", letter, want, arg)
		}
	case 'D', 'Z':
		return fmt.Errorf("option -%c is not offered here", letter)
	}
	return nil
}

func clampGrade(n int64) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }
