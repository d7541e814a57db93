package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerlake/ledgerlake/broker/pulsar"
	"github.com/ledgerlake/ledgerlake/ingest"
	"github.com/ledgerlake/ledgerlake/table"
)

// pulsarIngest is ingest pulsar://host:port/tenant/namespace/topic TABLE. A topic that begins with ~ is a pattern:
// each topic of the namespace that matches has a table below TABLE.
type pulsarIngest struct {
	f      *ingestFlags
	proc   *ingestProcess
	cfg    pulsar.Config
	topics *regexp.Regexp
	topic  string // when there is no pattern
}

// runPulsar does what the flags say, for topics of Pulsar.
func (f *ingestFlags) runPulsar(cmd *cobra.Command, args []string) (err error) {
	ctx := cmd.Context()
	p := &f.stream.plan
	if len(args) == 2 && p.tableURL == "" {
		p.tableURL = args[1]
	}
	switch {
	case p.tableURL == "":
		return errors.New("the table is missing: ingest pulsar://host:port/tenant/namespace/topic TABLE")
	case p.topic != "" || f.stream.group.name != "" || p.tiering.AsItIs || f.routes != "":
		return errors.New("--topic, --group, --as-is and --streams are of Kafka: they do not go with a topic of Pulsar")
	case f.start != "earliest" && f.start != "":
		return errors.New("--start is of Kafka: a topic of Pulsar is read from its oldest message, or from where the table stands")
	}
	in := &pulsarIngest{f: f}
	if err := in.open(cmd, args[0]); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.proc.close()) }()
	sup := ingest.NewSupervisor(ctx, ingest.SupervisorConfig{Once: in.topics == nil || p.tiering.UntilEnd, Logger: in.proc.log})
	if f.http != "" {
		srv, err := f.serve(ctx, sup, in.proc.registry)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, srv.Close()) }()
		in.proc.log.Info("metrics and health", "address", srv.Addr().String())
	}
	if err := in.apply(ctx, sup); err != nil {
		return errors.Join(err, stop(sup))
	}
	start := time.Now()
	up := f.up
	up.openStore, up.group, up.log, up.tables = in.proc.openStore, in.proc.committers, in.proc.log, in.proc.tables
	watched, end := context.WithCancel(ctx)
	defer end()
	if in.topics != nil && !p.tiering.UntilEnd {
		go in.watch(watched, sup)
	}
	if err := runBeside(ctx, func(context.Context) error { return sup.Wait() }, up.run); err != nil {
		return err
	}
	sayDone(in.proc.total(), start)
	return nil
}

func (in *pulsarIngest) open(cmd *cobra.Command, source string) (err error) {
	in.proc = &ingestProcess{openStore: in.f.store.open, registry: newRegistry(), streams: map[string]*ingestStream{}}
	if in.proc.log, err = newLogger(cmd); err != nil {
		return err
	}
	if in.cfg, in.topic, in.topics, err = in.f.pulsar.pattern(source, &in.f.conn.kafkaSecurity, in.proc.log); err != nil {
		return err
	}
	in.cfg.SealedOnly = in.f.sealed
	in.proc.committers, err = in.f.committers.open()
	return err
}

// warnOfConflicts tells of policies that could take messages before they are in the table.
func warnOfConflicts(ctx context.Context, src *pulsar.Source, topic string, log *slog.Logger) {
	found, err := src.Conflicts(ctx, topic)
	if err != nil {
		log.Warn("whether policies of Pulsar take messages before they are in the table cannot be seen", "topic", topic, "error", err)
	}
	for _, what := range found {
		log.Warn("a policy of Pulsar: "+what, "topic", topic)
	}
}

// watch looks for new topics that match the pattern.
func (in *pulsarIngest) watch(ctx context.Context, sup *ingest.Supervisor) {
	const every = time.Minute
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if err := in.apply(ctx, sup); err != nil && ctx.Err() == nil {
				in.proc.log.Warn("could not look for new topics", "error", err)
			}
		}
	}
}

// apply makes a stream of each topic.
func (in *pulsarIngest) apply(ctx context.Context, sup *ingest.Supervisor) error {
	if in.topics == nil {
		job, err := in.job(in.topic, in.f.stream.plan.tableURL)
		if err != nil {
			return err
		}
		sup.Apply([]ingest.Job{job})
		return nil
	}
	src, err := pulsar.Open(ctx, in.cfg)
	if err != nil {
		return err
	}
	topics, err := src.Topics(ctx, path.Dir(in.topic), in.topics)
	if err = errors.Join(err, src.Close()); err != nil {
		return err
	}
	if len(topics) == 0 && in.f.stream.plan.tiering.UntilEnd {
		return fmt.Errorf("no topic matches %s", in.topics)
	}
	var jobs []ingest.Job
	for _, topic := range topics {
		job, err := in.job(topic, strings.TrimSuffix(in.f.stream.plan.tableURL, "/")+"/"+path.Base(topic))
		if err != nil {
			return err
		}
		jobs = append(jobs, job)
	}
	sup.Apply(jobs)
	return nil
}

// job is one topic on its way into one table. Each run has a source of its own, which counts on from the table.
func (in *pulsarIngest) job(topic, tableURL string) (ingest.Job, error) {
	stream := in.f.stream
	p := &stream.plan
	p.topic, p.tableURL = topic, tableURL
	schemas := &topicSchemas{topic: topic}
	p.decode.topic = schemas
	if err := in.f.finish(&stream, in.proc); err != nil {
		return ingest.Job{}, err
	}
	p.noFiles = false // what a message's offset is stands in the table
	p.names = table.DefaultNames().WithOrigin()
	cfg := in.cfg
	if cfg.Subscription = in.f.subscription; cfg.Subscription == "" {
		cfg.Subscription = "ledgerlake-" + strings.ReplaceAll(p.app, "/", ".")
	}
	run := func(ctx context.Context, tell ingest.Teller) (err error) {
		x := &tableIndex{}
		defer func() { err = errors.Join(err, x.close()) }()
		cfg := cfg
		cfg.Index = x
		src, err := pulsar.Open(ctx, cfg)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, src.Close()) }()
		schemas.set(src)
		if cfg.Admin != "" {
			warnOfConflicts(ctx, src, topic, in.proc.log)
		}
		stream := stream
		stream.plan.source = src
		stream.opened = func(t *table.Table) error {
			return x.set(t, stream.plan.app, stream.plan.deadLetters(), in.f.store.open)
		}
		return in.proc.job(topic, "", &stream).Run(ctx, tell)
	}
	return ingest.Job{Name: topic, Run: run}, nil
}
