package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"evalstream"
	"evalstream/codecs"
	"evalstream/stages"
	"evalstream/stages/metric"
	"evalstream/topics/kafka"
)

// world is what topics hold after a run without faults, made without a broker.
type world struct {
	pipe pipe
	flow flow
	logs map[string]*topicLog
}

func (w *world) log(of string) *topicLog {
	name := w.flow.topic(of)
	if w.logs[name] == nil {
		w.logs[name] = &topicLog{name: name, partitions: make([][]message, partitions)}
	}
	return w.logs[name]
}

func (w *world) write(of string, partition int32, key, value string) {
	l := w.log(of)
	n := int64(len(l.partitions[partition]))
	l.partitions[partition] = append(l.partitions[partition], message{2 * n, []byte(key), []byte(value)})
}

func (w *world) reject(t *testing.T, of string, partition int, rejects map[int]reject) {
	t.Helper()
	for line, r := range rejects {
		w.write("rejects", 0, "", fmt.Sprintf(`{"kind":"reject","pos":%q,"class":%q,"reason":%q}`,
			w.log(of).pos(partition, w.log(of).partitions[partition][line].offset), r.Class, r.Reason))
	}
}

// simulate makes a world by the pipe's commands.
func simulate(t *testing.T, program string, seed uint64, apart bool) *world {
	t.Helper()
	ctx, rng := t.Context(), rand.New(rand.NewPCG(seed, 9))
	w := &world{pipe: pipe{program, t.TempDir()}, flow: flow{name: "x", apart: apart}, logs: map[string]*topicLog{}}
	must := func(out []string, rejects map[int]reject, err error) ([]string, map[int]reject) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return out, rejects
	}
	for _, of := range []string{"predictions", "qrels", "runs", "scored", "partials", "results", "rejects"} {
		w.log(of)
	}
	for _, in := range generate(seed, 800) {
		if apart && in.gold {
			w.write("qrels", kafka.Partition([]byte(in.key), partitions), in.key, in.line)
		} else {
			w.write("predictions", in.partition, "", in.line)
		}
	}
	var parsed [partitions][]string
	for n := range partitions {
		var rejects map[int]reject
		parsed[n], rejects = must(w.pipe.parse(ctx, values(w.log("predictions").partitions[n])))
		w.reject(t, "predictions", n, rejects)
		if apart {
			_, rejects = must(w.pipe.parse(ctx, values(w.log("qrels").partitions[n])))
			w.reject(t, "qrels", n, rejects)
		}
	}
	for len(parsed[0])+len(parsed[1])+len(parsed[2]) > 0 {
		n := rng.IntN(partitions)
		if len(parsed[n]) == 0 {
			continue
		}
		o, err := parseObject(parsed[n][0])
		if err != nil {
			t.Fatal(err)
		}
		route := o.string("query_id") + o.string("passage_id")
		if o.string("kind") != "passage" {
			route = o.string("query_id")
		}
		w.write("runs", kafka.Partition([]byte(route), partitions), route, parsed[n][0])
		parsed[n] = parsed[n][1:]
	}
	judged := map[string]string{}
	for n := range partitions {
		runs := values(w.log("runs").partitions[n])
		scored, rejects := must(w.pipe.score(ctx, runs))
		w.reject(t, "runs", n, rejects)
		if apart {
			scored = scoresOf(t, rng, runs, values(w.log("qrels").partitions[n]))
		}
		for _, line := range scored {
			w.write("scored", int32(n), "", line)
		}
		partials, _ := must(w.pipe.aggregate(ctx, scored, n))
		for _, line := range partials {
			o, err := parseObject(line)
			if err != nil {
				t.Fatal(err)
			}
			if o.string("family") == "judged" {
				continue
			}
			if of := o.of("judged"); of != judged[o.of("partition")] {
				judged[o.of("partition")] = of
				for at := range int32(partitions) {
					w.write("partials", at, o.of("partition"), fmt.Sprintf(`{"kind":"partial","step":"aggregate","partition":%d,"family":"judged","judged":%s}`, n, strings.Trim(of, "[]")))
				}
			}
			key := o.of("partition", "by", "window", "pane", "family")
			w.write("partials", kafka.Partition([]byte(o.of("window")), partitions), key, line)
		}
	}
	var all []string
	for _, source := range w.flow.sources() {
		for n := range partitions {
			all = append(all, values(w.logs[source].partitions[n])...)
		}
	}
	results, err := w.pipe.results(ctx, all)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range results {
		o, err := parseObject(line)
		if err != nil {
			t.Fatal(err)
		}
		w.write("results", 0, o.of("metric", "by", "window"), line)
	}
	return w
}

// scoresOf runs score over two sources in some order.
func scoresOf(t *testing.T, rng *rand.Rand, runs, gold []string) (out []string) {
	t.Helper()
	var scoring stages.OpenScoring
	for _, name := range measures() {
		m, err := metric.ParseMeasure(name)
		if err != nil {
			t.Fatal(err)
		}
		scoring.Measures = append(scoring.Measures, m)
	}
	fresh, err := stages.NewScore(scoring)
	if err != nil {
		t.Fatal(err)
	}
	stage, err := fresh()
	if err != nil {
		t.Fatal(err)
	}
	d, err := codecs.NewDecoder(codecs.Plan{Slices: []string{"ticker"}})
	if err != nil {
		t.Fatal(err)
	}
	var made evalstream.Out
	emit := func() {
		for i := range made.Records {
			out = append(out, strings.TrimSuffix(string(codecs.AppendRecord(nil, &made.Records[i])), "\n"))
		}
		made.Reset()
	}
	for len(runs)+len(gold) > 0 {
		from := &runs
		if len(runs) == 0 || len(gold) > 0 && rng.IntN(3) == 0 {
			from = &gold
		}
		rec := evalstream.Record{Raw: []byte((*from)[0])}
		*from = (*from)[1:]
		if len(rec.Raw) > maxLine || d.Decode(&rec) != nil {
			continue
		}
		if err := stage.Process(t.Context(), []evalstream.Record{rec}, &made); err != nil {
			t.Fatal(err)
		}
		emit()
	}
	if err := stage.(evalstream.Timed).Advance(t.Context(), evalstream.EndOfTime, &made); err != nil {
		t.Fatal(err)
	}
	emit()
	return out
}

// check is what a check, or all, finds.
func (w *world) check(t *testing.T, only string) []violation {
	t.Helper()
	found, err := checkTopics(t.Context(), w.pipe, w.flow, w.logs, only)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// What a run without faults writes is found right, and each fault is found.
func TestChecks(t *testing.T) {
	s := session{options: options{root: "../../../.."}, dir: t.TempDir()}
	program, err := s.build(t.Context(), "evalstream", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, apart := range []bool{false, true} {
		w := simulate(t, program, 7, apart)
		if found := w.check(t, ""); len(found) > 0 {
			t.Fatalf("apart %v, without a fault: %d violations, the first %v", apart, len(found), found[0])
		}
		// f changes a topic, and that check must find it.
		f := func(name, of, want string, change func(ps [][]message)) {
			t.Helper()
			l := w.log(of)
			before := l.partitions
			l.partitions = nil
			for _, ms := range before {
				l.partitions = append(l.partitions, slices.Clone(ms))
			}
			change(l.partitions)
			if found := w.check(t, want); len(found) == 0 {
				t.Errorf("apart %v, %s: want a violation of %s, got none", apart, name, want)
			}
			l.partitions = before
		}
		lose := func(ps [][]message) { ps[1] = slices.Delete(ps[1], len(ps[1])/2, len(ps[1])/2+1) }
		twice := func(ps [][]message) { n := len(ps[1]); ps[1] = slices.Insert(ps[1], n, ps[1][n/2]) }
		swap := func(ps [][]message) { ms := ps[1]; n := len(ms) / 2; ms[n], ms[n+50] = ms[n+50], ms[n] }
		f("a lost record", "runs", "runs", lose)
		f("a record twice", "runs", "runs", twice)
		f("records in another order", "runs", "runs", swap)
		f("a record in another partition", "runs", "runs", func(ps [][]message) { ps[0], ps[1] = append(ps[0], ps[1][9]), slices.Delete(ps[1], 9, 10) })
		f("a foreign record", "runs", "runs", func(ps [][]message) { ps[1][9].value = []byte(`{"kind":"run","query_id":"q9"}`) })
		f("a lost score", "scored", "scored", lose)
		f("a score twice", "scored", "scored", twice)
		f("a wrong last score", "scored", "scored", func(ps [][]message) {
			m := &ps[1][len(ps[1])-1]
			m.value = []byte(strings.Replace(string(m.value), `"status":"unjudged"`, `"status":"expired"`, 1))
		})
		f("a lost partial", "partials", "partials", func(ps [][]message) {
			for n := range ps {
				ps[n] = ps[n][:len(ps[n])/2]
			}
		})
		change := func(field string) func(ps [][]message) {
			return func(ps [][]message) {
				for n := range ps {
					for i := range ps[n] {
						ps[n][i].value = []byte(strings.Replace(string(ps[n][i].value), field, field+"1", 1))
					}
				}
			}
		}
		f("wrong partials", "partials", "partials", change(`"n":`))
		f("wrong results", "results", "results", change(`"n":`))
		f("no last results", "results", "results", func(ps [][]message) { ps[0] = ps[0][:1] })
		f("a reject lost", "rejects", "rejects", func(ps [][]message) { ps[0] = ps[0][1:] })
		f("a reject twice", "rejects", "rejects", func(ps [][]message) { ps[0] = append(ps[0], ps[0][0]) })
	}
}
