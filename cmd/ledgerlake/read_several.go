package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/ledgerlake/ledgerlake/reader"
)

// runSeveral reads several streams as one.
func (r *readFlags) runSeveral(ctx context.Context, streams []*stream, sources []string, out io.Writer) error {
	token, fromToken := strings.CutPrefix(r.from, "token:")
	switch {
	case r.latest || r.travel.set() || r.tableURL != "":
		return errors.New("--latest-by-key, --version, --timestamp and --table are of one SOURCE")
	case r.order != "" && r.order != "time":
		return errOrder(r.order)
	case r.order != "" && r.plan:
		return errors.New("--order does not go with --plan")
	case !fromToken && len(reader.NamedPartitions(r.from)) > 0, strings.HasPrefix(r.from, "id:"), strings.HasPrefix(r.from, "version:"):
		return errors.New("--from PARTITION:OFFSET, version: and id: name places in one SOURCE: of several say earliest, latest, a time or a token")
	case len(reader.NamedPartitions(r.until)) > 0, strings.HasPrefix(r.until, "token:"), strings.HasPrefix(r.until, "version:"):
		return errors.New("--until PARTITION:OFFSET, version: and token: name places in one SOURCE: of several say now or a time")
	}
	all := reader.TopicsConfig{Columns: r.columns, MaxRows: r.limit}
	if fromToken { // each stream finds its own place in it
		all.Token, r.from = token, "earliest"
	}
	r.columns = nil
	for i, name := range namesOf(streams, sources) {
		s := streams[i]
		s.label = name + " "
		err := r.checkFormat(s)
		if err != nil {
			return fmt.Errorf("%s: %w", sources[i], err)
		}
		cfg, done, err := r.config(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", sources[i], err)
		}
		defer done()
		all.Rate = cfg.Rate
		all.Streams = append(all.Streams, reader.Stream{Name: name, Config: cfg})
	}
	switch {
	case r.plan:
		return planSeveral(ctx, out, all)
	case r.order == "time":
		b, err := reader.OpenTopicsByTime(ctx, all, 0)
		if err != nil {
			return err
		}
		err = r.writeAll(ctx, b, all.Streams[0].Config, out)
		r.printToken(b, err)
		return errors.Join(err, b.Close())
	}
	t, err := reader.OpenTopics(ctx, all)
	if err != nil {
		return err
	}
	err = r.writeAll(ctx, t, all.Streams[0].Config, out)
	r.printToken(t, err)
	return errors.Join(err, t.Close())
}

// namesOf are the topics, or the last parts of the tables' paths; where two would be the same, what the user has said.
func namesOf(streams []*stream, sources []string) []string {
	names, seen := make([]string, len(streams)), map[string]bool{}
	for i, s := range streams {
		if names[i] = s.topic; names[i] == "" {
			names[i] = path.Base(strings.TrimRight(sources[i], "/"))
		}
		seen[names[i]] = true
	}
	if len(seen) < len(names) {
		return sources
	}
	return names
}

// planSeveral shows the plan of each stream.
func planSeveral(ctx context.Context, out io.Writer, all reader.TopicsConfig) error {
	for _, s := range all.Streams {
		c, err := reader.Open(ctx, s.Config)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		if _, err = fmt.Fprintf(out, "%s\n", s.Name); err == nil {
			err = printPlan(ctx, out, c)
		}
		if err = errors.Join(err, c.Close()); err != nil {
			return err
		}
	}
	return nil
}
