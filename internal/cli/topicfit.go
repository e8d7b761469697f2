package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"evalstream"
	"evalstream/topics/kafka"
)

// defaultRetention is how long Kafka keeps records where nobody says otherwise.
const defaultRetention = 7 * 24 * time.Hour

// lives is how long a record of an input may still matter after it was written; ok =
// false: for ever.
func (c *common) lives() (d time.Duration, ok bool) {
	return time.Duration(c.horizon) + time.Duration(c.maxOutOfOrder), c.horizon > 0
}

// misfit is how a topic is not what the pipeline needs of it.
type misfit struct {
	reason string
	fix    string // a command, or what else to do
	state  bool   // it is the state that does not fit
}

// fitting compares topics with what a pipeline needs of them.
type fitting struct {
	client  *kafka.Client
	common  *common
	misfits []misfit
	notes   []string

	hidden   []string         // topics whose settings may not be read
	limits   map[string]int64 // max.message.bytes of sources and changelogs
	largest  string           // source that takes the largest messages
	forgets  []string         // sources that do not keep their records for ever, without horizon
	smallest []string         // changelogs
}

// fit looks at topics, which must be there.
func fit(ctx context.Context, client *kafka.Client, c *common, roles []topicRole) (*fitting, error) {
	f := &fitting{client: client, common: c, limits: map[string]int64{}}
	for _, r := range roles {
		if err := f.partitions(ctx, r); err != nil {
			return nil, err
		}
		s, err := client.Settings(ctx, r.name)
		if err != nil {
			return nil, err
		}
		if s.Config == nil {
			f.hidden = append(f.hidden, r.name)
			continue
		}
		f.policy(r, s.Config)
		f.retention(r, s.Config)
		f.size(r, s.Config)
	}
	if len(f.hidden) > 0 {
		f.notes = append(f.notes, fmt.Sprintf("%s: settings may not be read by this user, so cleanup.policy and retention are not checked; the right is DescribeConfigs", strings.Join(f.hidden, ", ")))
	}
	if len(f.forgets) > 0 {
		f.notes = append(f.notes, fmt.Sprintf("%s: without horizon state is kept for ever, and so it cannot be built again from the topic once records are gone", strings.Join(f.forgets, "; ")))
	}
	for _, name := range f.smallest {
		if f.largest != "" && f.limits[name] < f.limits[f.largest] {
			f.notes = append(f.notes, fmt.Sprintf("%s: max.message.bytes is %d, less than the %d of %s: a unit may be read that cannot be kept, which ends the run (exit code 4); %s",
				name, f.limits[name], f.limits[f.largest], f.largest, f.alter(name, "max.message.bytes", strconv.FormatInt(f.limits[f.largest], 10))))
		}
	}
	return f, nil
}

// alter is the command that sets a setting of a topic.
func (f *fitting) alter(topic, key, value string) string {
	return fmt.Sprintf("kafka-configs.sh --bootstrap-server %s --alter --entity-type topics --entity-name %s --add-config %s=%s", f.client.Brokers(), topic, key, value)
}

func (f *fitting) misfit(fix, format string, args ...any) {
	f.misfits = append(f.misfits, misfit{reason: fmt.Sprintf(format, args...), fix: fix})
}

// partitions compares the number of partitions with that of what is read with it.
func (f *fitting) partitions(ctx context.Context, r topicRole) error {
	n, err := f.client.Partitions(ctx, r.name)
	if err != nil || r.like == "" || r.like == r.name {
		return err
	}
	want, err := f.client.Partitions(ctx, r.like)
	switch {
	case err != nil || n == want:
		return err
	case r.position:
		if n < want {
			f.notes = append(f.notes, fmt.Sprintf("%s: has %d partitions and %s %d: the position in the others is kept by the group alone, which forgets it when it has had no member for days; kafka-topics.sh --bootstrap-server %s --alter --topic %s --partitions %d",
				r.name, n, r.like, want, f.client.Brokers(), r.name, want))
		}
		return nil
	case r.role == roleChangelog:
		f.misfits = append(f.misfits, misfit{
			reason: fmt.Sprintf("%s: want %d partitions, as %s has, got %d: keys would be elsewhere", r.name, want, r.like, n),
			fix:    "stop all members; evalstream topics reset PIPELINE.yaml, and the state is built again from the start of the topics", state: true,
		})
		return nil
	}
	less, most := r.name, want
	if n > want {
		less, most = r.like, n
	}
	f.misfit(fmt.Sprintf("kafka-topics.sh --bootstrap-server %s --alter --topic %s --partitions %d while it is empty, for keys move; else cut behind parse by via: TOPIC", f.client.Brokers(), less, most),
		"from: topics that are read together need equal partitions, got %s with %d and %s with %d", r.like, want, r.name, n)
	return nil
}

// policy compares cleanup.policy.
func (f *fitting) policy(r topicRole, config map[string]string) {
	const key = "cleanup.policy"
	got, ok := config[key]
	policies := strings.Split(strings.ReplaceAll(got, " ", ""), ",")
	compacts := slices.Contains(policies, "compact")
	switch r.role {
	case roleChangelog, rolePartials:
		if ok && got != "compact" {
			f.misfit(f.alter(r.name, key, "compact"), "%s: want %s=compact, got %q: it would forget what is needed by its age", r.name, key, got)
		}
	case roleResults:
		if ok && !compacts {
			f.misfit(f.alter(r.name, key, "compact"), "%s: want %s=compact, got %q: the last result of a key would be deleted by its age", r.name, key, got)
		}
	case roleSource, roleVia:
		if compacts {
			f.misfit(f.alter(r.name, key, "delete"), "%s: want %s=delete, got %q: compaction keeps the last record of a key, and others are read too", r.name, key, got)
		}
	case roleOutput, roleRejects:
	}
}

// retention compares how long an input lives with how long it matters.
func (f *fitting) retention(r topicRole, config map[string]string) {
	if r.role != roleSource && r.role != roleVia {
		return
	}
	const age, size = "retention.ms", "retention.bytes"
	const lifetime = 100 * 365 * 24 * 3600 * 1000
	ms, err := strconv.ParseInt(config[age], 10, 64)
	if err != nil || ms > lifetime {
		ms = -1
	}
	room, err := strconv.ParseInt(config[size], 10, 64)
	if err != nil {
		room = -1
	}
	least, bounded := f.common.lives()
	if !bounded {
		switch {
		case r.role != roleSource:
		case ms >= 0:
			f.forgets = append(f.forgets, fmt.Sprintf("%s: %s is %d (%s)", r.name, age, ms, spanText(time.Duration(ms)*time.Millisecond)))
		case room >= 0:
			f.forgets = append(f.forgets, fmt.Sprintf("%s: %s is %d", r.name, size, room))
		}
		return
	}
	if want := least.Milliseconds(); ms >= 0 && ms < want {
		f.misfit(f.alter(r.name, age, strconv.FormatInt(want, 10)), "%s: want %s of at least %d (horizon and max_out_of_order, %s), got %d (%s)",
			r.name, age, want, spanText(least), ms, spanText(time.Duration(ms)*time.Millisecond))
	}
	if room >= 0 {
		f.misfit(f.alter(r.name, size, "-1"), "%s: want %s=-1, got %d: records may be deleted before horizon and max_out_of_order (%s) are over", r.name, size, room, spanText(least))
	}
}

func spanText(d time.Duration) string { return Duration(d).text() }

// size notes how large messages may be.
func (f *fitting) size(r topicRole, config map[string]string) {
	n, err := strconv.ParseInt(config["max.message.bytes"], 10, 64)
	if err != nil {
		return
	}
	switch r.role {
	case roleSource:
		f.limits[r.name] = n
		if f.largest == "" || n > f.limits[f.largest] {
			f.largest = r.name
		}
	case roleChangelog:
		if r.position {
			return
		}
		f.limits[r.name] = n
		f.smallest = append(f.smallest, r.name)
	case roleVia, rolePartials, roleResults, roleOutput, roleRejects:
	}
}

// err is nil if everything fits; more are misfits that the caller has found.
func (f *fitting) err(more ...misfit) error {
	all := append(more, f.misfits...)
	if len(all) == 0 {
		return nil
	}
	code := evalstream.ExitState
	var reasons []error
	var fixes []string
	for _, m := range all {
		if !m.state {
			code = evalstream.ExitUsage
		}
		reasons = append(reasons, errors.New(m.reason))
		if m.fix != "" && !slices.Contains(fixes, m.fix) {
			fixes = append(fixes, m.fix)
		}
	}
	return &evalstream.ExitError{Code: code, Err: errors.Join(reasons...), Hint: strings.Join(fixes, "\nhint: ")}
}

// chosen are the topics of the segments that run.
func (l *layout) chosen(rejects string, run []bool) []topicRole {
	used := map[string]bool{rejects: true}
	for i, s := range l.segments {
		if !run[i] {
			continue
		}
		for _, name := range append([]string{s.To, s.changelog()}, s.From...) {
			used[name] = true
		}
	}
	return slices.DeleteFunc(l.topics(rejects), func(r topicRole) bool { return !used[r.name] })
}

// fit refuses topics that are not as they must be, and says what is worth knowing of them.
func (f *flow) fit(ctx context.Context, roles []topicRole, notes ...string) error {
	fits, err := fit(ctx, f.ends.client, f.common, roles)
	if err != nil {
		return err
	}
	if err := fits.err(); err != nil {
		return err
	}
	if !f.common.quiet {
		for _, n := range append(notes, fits.notes...) {
			fmt.Fprintf(f.stderr, "evalstream %s: note: %s\n", f.verb, n)
		}
	}
	return nil
}
