package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/ledgerlake/ledgerlake/ingest"
	"github.com/ledgerlake/ledgerlake/internal/reload"
)

// routesEvery is how often the file of streams and, for its patterns, the topics of the Kafka are looked at.
const routesEvery = 10 * time.Second

// applyRoutes runs the streams of a file, and follows the file and the topics from then on. What is wrong with it at the
// start is an error; later it is logged, and what was read before stays.
func (f *ingestFlags) applyRoutes(ctx context.Context, proc *ingestProcess, sup *ingest.Supervisor) error {
	routes, err := reload.New(proc.log, func() ([]ingest.Route, error) { return ingest.LoadRoutes(f.routes) }, f.routes)
	if err != nil {
		return err
	}
	fresh := false // a changed file is not applied yet
	apply := func() error {
		rs, changed := routes.Look()
		fresh = fresh || changed
		var topics []string
		if ingest.NeedTopics(rs) {
			var err error
			if topics, err = proc.source.Topics(ctx); err != nil {
				return err
			}
		}
		streams, err := ingest.Expand(rs, topics)
		if err != nil {
			return err
		}
		var jobs []ingest.Job
		for i := range streams {
			s, err := f.routed(&streams[i], proc)
			if err != nil {
				return err
			}
			jobs = append(jobs, proc.job(streams[i].Name(), streams[i].Key(), s))
		}
		sup.Apply(jobs)
		if fresh {
			proc.log.Info("the changed file of streams is in use", "file", f.routes, "streams", len(jobs))
		}
		fresh = false
		return nil
	}
	if err := apply(); err != nil || f.stream.plan.tiering.UntilEnd {
		return err
	}
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	go func() { // ends with ctx, as all that it starts
		defer signal.Stop(hup)
		tick := time.NewTicker(routesEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-hup:
				proc.log.Info("SIGHUP: the streams are read again", "file", f.routes)
			case <-tick.C:
			}
			if err := apply(); err != nil && ctx.Err() == nil {
				proc.log.Error("the streams stay as they are", "file", f.routes, "error", err)
			}
		}
	}()
	return nil
}

// routed is the flags' stream with what a route says.
func (f *ingestFlags) routed(from *ingest.Stream, proc *ingestProcess) (*ingestStream, error) {
	r, flags, s := &from.Route, *f, f.stream
	p := &s.plan
	if err := p.set(r.Flags); err != nil {
		return nil, fmt.Errorf("stream %s: %w", from.Name(), err)
	}
	p.topic, p.tableURL, p.app, p.deadURL = from.Topic, r.Table, r.App, r.DeadLetters
	s.shared = from.Shared
	for _, x := range []struct {
		to   *string
		from string
	}{{&s.group.name, r.Group}, {&p.format, r.Format}, {&flags.schemaFile, r.Schema}, {&flags.start, r.Start}, {&flags.onGap, r.OnGap}} {
		if x.from != "" {
			*x.to = x.from
		}
	}
	if r.AsIs != nil {
		p.tiering.AsItIs = *r.AsIs
	}
	p.shared, p.together = s.shared, s.shared && p.tiering.AsItIs
	if r.FlushAge != 0 {
		p.tiering.MaxAge = r.FlushAge
	}
	if r.FlushRows != 0 {
		p.tiering.MaxRows = r.FlushRows
	}
	if r.FlushBytes != 0 {
		p.tiering.MaxBytes = r.FlushBytes
	}
	if r.Memory != 0 {
		p.tiering.MemoryBudget = r.Memory
	}
	if p.tiering.UntilEnd {
		s.group.name = ""
	}
	return &s, flags.finish(&s, proc)
}

// set gives a plan its own values of the flags that say what values are and what rows look like; those that are not
// named stay as they are.
func (p *topicPlan) set(flags map[string]any) error {
	if len(flags) == 0 {
		return nil
	}
	fs, was := pflag.NewFlagSet("", pflag.ContinueOnError), *p
	p.decode.register(fs)
	p.shape.register(fs, &p.tiering)
	fs.StringArrayVar(&p.shape.transforms, "transform", nil, "")
	*p = was // registering has set the defaults
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		if fs.Lookup(name) == nil {
			var known []string
			fs.VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
			return fmt.Errorf("there is no key %s; beside those of docs/ingest.md there are %s", name, strings.Join(known, ", "))
		}
		values, list := flags[name].([]any)
		if !list {
			values = []any{flags[name]}
		}
		for _, v := range values {
			if _, nested := v.(map[string]any); nested || v == nil {
				return fmt.Errorf("%s is no text, number or list of such; a transform is a text in quotes: 'column: source'", name)
			}
			if err := fs.Set(name, fmt.Sprint(v)); err != nil {
				return err
			}
		}
	}
	return p.shape.finish(&p.tiering)
}
