package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"evalstream"
	"evalstream/topics/kafka"
)

func (e *env) topicsReset() *cobra.Command {
	var yes bool
	cmd := e.topicsOf("reset", "drop the state of a pipeline, so that run builds it again from the start of its topics",
		"reset: drop the state of a pipeline whose members have all been stopped: its groups with\ntheir offsets, its changelogs, and the topics between its steps, which are made again with\nthe settings that they had; a changelog gets as many partitions as its inputs have now. The\nnext run reads the topics of from: from their starts; a reset that has failed is given again\nbefore. Results and rejects are left: results are written again under the same keys, and so\nare rejects.\n\nWithout --yes nothing is done: what would be is said, and the exit code is 2.\n\nWhat was done is printed, a JSON object a line.", newCommon(),
		func(ctx context.Context, _ *cobra.Command, p *topicPipeline) error {
			if p.layout == nil {
				return evalstream.Usagef("from: want topic:NAME, got none: there is no state to reset")
			}
			if err := p.nobodyThere(ctx); err != nil {
				return err
			}
			missing, err := p.beginnings(ctx)
			if err != nil {
				return err
			}
			if !yes {
				return p.wantYes(missing)
			}
			for _, m := range missing {
				fmt.Fprintf(e.stderr, "evalstream topics: note: %s\n", m)
			}
			if err := p.reset(ctx); err != nil {
				return err
			}
			for _, r := range p.roles() {
				switch r.role {
				case roleResults:
					fmt.Fprintf(e.stderr, "evalstream topics: note: %s is left as it is: run writes the same keys again; one that is no longer written keeps its last result\n", r.name)
				case roleRejects, roleOutput:
					fmt.Fprintf(e.stderr, "evalstream topics: note: %s is left as it is: run writes to it again, under the same keys\n", r.name)
				case roleSource, roleVia, rolePartials, roleChangelog:
				}
			}
			return nil
		})
	cmd.Use = "reset [--yes] PIPELINE.yaml"
	cmd.Flags().BoolVar(&yes, "yes", false, "do it; without, what would be deleted is said")
	return cmd
}

// nobodyThere refuses to go on while a group has members.
func (p *topicPipeline) nobodyThere(ctx context.Context) error {
	var busy []error
	for _, s := range p.segments {
		g, err := p.client.DescribeGroup(ctx, s.Name)
		if err != nil {
			return err
		}
		if n := len(g.Members); n > 0 {
			busy = append(busy, fmt.Errorf("group %s has %s: %s", g.ID, plural(int64(n), "member"), strings.Join(g.Members, ", ")))
		}
	}
	if len(busy) == 0 {
		return nil
	}
	return &evalstream.ExitError{Code: evalstream.ExitUsage, Err: errors.Join(busy...), Hint: "stop them first; one that was killed is a member until its session of 10 s is over"}
}

// beginnings says of which sources the first records are gone: what the state has of them
// cannot be built again.
func (p *topicPipeline) beginnings(ctx context.Context) ([]string, error) {
	var gone []string
	for _, r := range p.roles() {
		if r.role != roleSource {
			continue
		}
		t, err := p.client.DescribeTopic(ctx, r.name)
		if err != nil {
			return nil, err
		}
		for _, part := range t.Partitions {
			if part.First > 0 {
				gone = append(gone, fmt.Sprintf("%s[%d] begins at offset %d: the records before it are in the state alone, and will not be counted again", r.name, part.Partition, part.First))
			}
		}
	}
	return gone, nil
}

func (p *topicPipeline) wantYes(missing []string) error {
	var what []string
	for _, s := range p.segments {
		what = append(what, "group "+s.Name)
	}
	for _, r := range p.roles() {
		if r.role.made() {
			what = append(what, r.role.String()+" "+r.name)
		}
	}
	lines := append([]string{"want --yes to delete " + strings.Join(what, ", ")}, missing...)
	return &evalstream.ExitError{Code: evalstream.ExitUsage, Err: errors.New(strings.Join(lines, "\n")), Hint: "evalstream topics reset --yes PIPELINE.yaml"}
}

// made reports whether the pipeline itself makes what the topic holds, and can again.
func (r role) made() bool { return r == roleVia || r == rolePartials || r == roleChangelog }

// reset drops the state. The offsets go first: a segment without a changelog would go on
// from them, with what lies before lost. Where nobody reads what is printed any more, it is
// done all the same, since half of it is worse than none.
func (p *topicPipeline) reset(ctx context.Context) error {
	var unsaid error // an encoder that has failed keeps its error
	for _, s := range p.segments {
		if err := p.fence(ctx, &s); err != nil {
			return err
		}
		there, err := p.client.DeleteGroup(ctx, s.Name)
		if err != nil {
			return err
		}
		line := struct {
			Group   string `json:"group"`
			Deleted bool   `json:"deleted"`
		}{s.Name, there}
		unsaid = p.out.Encode(line)
	}
	for _, r := range p.roles() {
		if !r.role.made() {
			continue
		}
		line, err := p.remake(ctx, r)
		if err != nil {
			return err
		}
		unsaid = p.out.Encode(line)
	}
	return lostOutput(unsaid)
}

// remade is what is printed of a topic that was made again.
type remade struct {
	Topic      string `json:"topic"`
	Role       string `json:"role"`
	Partitions int32  `json:"partitions"`
	Deleted    bool   `json:"deleted"`
	Made       bool   `json:"made"`
}

// fence takes over what members of a segment write under, so that one that was paused
// and wakes changes nothing.
func (p *topicPipeline) fence(ctx context.Context, s *cutSegment) error {
	n, err := counts(p.client, 1)(ctx, s.From[0])
	if err != nil {
		return err
	}
	if log := s.changelog(); log != "" { // it may have had more
		had, err := counts(p.client, 1)(ctx, log)
		if err != nil {
			return err
		}
		n = max(n, had)
	}
	for partition := range n {
		if _, err := p.client.Transactor(ctx, fmt.Sprintf("%s.%d", s.Name, partition), kafka.None); err != nil {
			return err
		}
	}
	return nil
}

// remake deletes a topic and makes it again.
func (p *topicPipeline) remake(ctx context.Context, r topicRole) (*remade, error) {
	spec := kafka.TopicSpec{Name: r.name, Partitions: max(1, p.partitions), Config: p.config(r)}
	had, err := p.client.Partitions(ctx, r.name)
	there := err == nil
	if err != nil && !errors.Is(err, kafka.ErrNoTopic) {
		return nil, err
	}
	if there {
		set, err := p.client.Settings(ctx, r.name)
		if err != nil {
			return nil, err
		}
		if spec.Replication, err = p.client.Replication(ctx, r.name); err != nil {
			return nil, err
		}
		spec.Partitions = had
		maps.Copy(spec.Config, set.Own)
	}
	if r.like != "" {
		if spec.Partitions, err = counts(p.client, spec.Partitions)(ctx, r.like); err != nil {
			return nil, err
		}
	}
	if there {
		if err := p.client.DeleteTopics(ctx, r.name); err != nil {
			return nil, err
		}
		if err := p.gone(ctx, r.name); err != nil {
			return nil, err
		}
	}
	made, err := p.client.CreateTopics(ctx, spec)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(made, r.name) {
		return nil, evalstream.Lost(fmt.Errorf("%s: deleted, and somebody else has made it again", r.name))
	}
	return &remade{r.name, r.role.String(), spec.Partitions, there, true}, nil
}

// gone waits until a deleted topic is not there for anybody.
func (p *topicPipeline) gone(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	t := time.NewTicker(50 * time.Millisecond)
	defer t.Stop()
	for {
		_, err := p.client.Partitions(ctx, name)
		if errors.Is(err, kafka.ErrNoTopic) {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return evalstream.Lost(fmt.Errorf("%s: is still there a minute after it was deleted", name))
		case <-t.C:
		}
	}
}
