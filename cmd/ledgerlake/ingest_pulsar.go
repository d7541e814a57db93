package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerlake/ledgerlake/broker/pulsar"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// runPulsar ingests a topic of Pulsar: ingest pulsar://host:port/tenant/namespace/topic [TABLE].
func (f *ingestFlags) runPulsar(cmd *cobra.Command, args []string) (err error) {
	ctx := cmd.Context()
	p := &f.stream.plan
	if len(args) == 2 && p.tableURL == "" {
		p.tableURL = args[1]
	}
	switch {
	case p.tableURL == "":
		return errors.New("the table is missing: ingest pulsar://host:port/tenant/namespace/topic TABLE")
	case p.topic != "" || f.stream.group.name != "" || p.tiering.AsItIs:
		return errors.New("--topic, --group and --as-is are of Kafka: they do not go with a topic of Pulsar")
	case f.start != "earliest" && f.start != "":
		return errors.New("--start is of Kafka: a topic of Pulsar is read from its oldest message, or from where the table stands")
	}
	log, err := newLogger(cmd)
	if err != nil {
		return err
	}
	cfg, topic, err := f.pulsar.config(args[0], &f.conn.kafkaSecurity, log)
	if err != nil {
		return err
	}
	p.topic = topic
	proc := &ingestProcess{openStore: f.store.open, log: log}
	if proc.committers, err = f.committers.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, proc.close()) }()
	if err := f.finish(&f.stream, proc); err != nil {
		return err
	}
	p.noFiles = false // what a message's offset is stands in the table
	p.names = table.DefaultNames().WithOrigin()
	x := &tableIndex{}
	defer func() { err = errors.Join(err, x.close()) }()
	cfg.Index, cfg.SealedOnly = x, f.sealed
	if cfg.Subscription = f.subscription; cfg.Subscription == "" {
		cfg.Subscription = "ledgerlake-" + strings.ReplaceAll(p.app, "/", ".")
	}
	src, err := pulsar.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	p.source = src

	tab, format, err := p.openTable(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tab.Close()) }()
	if err := x.set(tab, p.app, p.deadLetters(), &f.store); err != nil {
		return fmt.Errorf("table %s: %w", p.tableURL, err)
	}
	tr, err := p.tierer(ctx, tab, format)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tr.Close()) }()
	start := time.Now()
	up := f.up
	up.openStore, up.group, up.log = proc.openStore, proc.committers, proc.log
	up.tables = func(context.Context) ([]string, error) { return p.tables(), nil }
	var s tiering.Stats
	work := func(ctx context.Context) error {
		err := tr.Run(ctx)
		s = tr.Stats()
		return err
	}
	if err := runBeside(ctx, work, up.run); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d records: %d rows, %d dead letters, in %d commits, %s\n",
		s.Records, s.Rows, s.DeadLetters, s.Commits, time.Since(start).Round(time.Millisecond))
	return nil
}
