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
	"github.com/ledgerlake/ledgerlake/broker/pulsar/offload"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// offloadImport is one run of import pulsar-offload.
type offloadImport struct {
	store      storeFlags
	plan       topicPlan
	cfg        offload.Config
	lists      string
	from       []string
	schemaFile string
	onGap      string
	decrypt    decryptFlags
}

func newImportOffload() *cobra.Command {
	in := &offloadImport{}
	cmd := &cobra.Command{
		Use:   "pulsar-offload URL TABLE --topic TENANT/NAMESPACE/TOPIC",
		Short: "Write the offloaded ledgers of a Pulsar topic into a Delta table, exactly once, without the Pulsar",
		Long: `pulsar-offload reads the objects that Pulsar's offloaders for object stores write (a data object and an index for
each ledger), from a bucket or a folder, and writes their messages into a Delta table as ingest would have done it: same
columns, same offsets. An import that was interrupted goes on where it was, one of more ledgers adds what is new, and
ingest from the living cluster goes on behind it.

The objects do not say which ledgers a topic had. --ledgers does: the answer of the admin API to
GET /admin/v2/persistent/TENANT/NAMESPACE/TOPIC/internal-info (or internalStats, or partitioned-internalStats). Without
it, a ledger that is missing between two others is noticed by the broker's running index, where the broker keeps one. What
lies behind a missing ledger is not imported, and the command fails with its name; --from-ledger begins behind it.`,
		Example: `  ledgerlake import pulsar-offload s3://pulsar-offload /lake/orders --topic public/default/orders --ledgers info.json
  ledgerlake import pulsar-offload s3://pulsar-offload /lake/orders --topic public/default/orders --from-ledger 1234 --on-gap earliest
  ledgerlake ingest pulsar://pulsar:6650/public/default/orders /lake/orders`,
		Args: named,
		RunE: in.run,
	}
	f := cmd.Flags()
	in.store.register(f)
	f.StringVar(&in.cfg.Topic, "topic", "", "topic to read, TENANT/NAMESPACE/TOPIC (required)")
	f.StringVar(&in.lists, "ledgers", "", "file with the list of ledgers, as the admin API gives it")
	f.StringArrayVar(&in.from, "from-ledger", nil, "leave out ledgers below LEDGER, or PARTITION@LEDGER; may be repeated")
	f.StringVar(&in.plan.app, "app", "", "name under which positions are kept in the table (default: the topic)")
	f.StringVar(&in.plan.format, "format", "auto", "values: json (columns), raw (bytes), or auto (look at the first records of a new table)")
	f.StringVar(&in.schemaFile, "schema", "", "file with the payload columns of a new table, a Delta schema in JSON")
	f.StringVar(&in.onGap, "on-gap", "fail", "when the ledgers begin behind where the table ends: fail, or earliest (go on with a report)")
	in.decrypt.register(f)
	flushFlags(f, &in.plan.tiering)
	return cmd
}

func (in *offloadImport) run(cmd *cobra.Command, args []string) (err error) {
	ctx, p := cmd.Context(), &in.plan
	if p.log, err = newLogger(cmd); err != nil {
		return err
	}
	if err := in.settle(); err != nil {
		return err
	}
	x := &tableIndex{}
	from := pulsar.Config{Index: x, Logger: p.log}
	if err := in.decrypt.set(&from); err != nil {
		return err
	}
	if in.cfg.Store, err = in.store.open(ctx, args[0]); err != nil {
		return err
	}
	in.cfg.Logger = p.log
	feed, err := offload.Open(ctx, in.cfg)
	if err != nil {
		return err
	}
	src := pulsar.OpenFeed(ctx, from, feed)
	p.source, p.topic, p.tableURL, p.openStore = src, in.cfg.Topic, args[1], in.store.open
	p.names, p.tiering.UntilEnd = table.DefaultNames().WithOrigin(), true
	err = in.tier(ctx, x)
	if err = errors.Join(err, x.close(), src.Close()); err != nil {
		return err
	}
	return report(feed.Reports(), feed.Strays())
}

// settle understands the flags.
func (in *offloadImport) settle() (err error) {
	if in.cfg.Topic == "" {
		return errors.New("--topic is needed")
	}
	if in.cfg.Topic, err = pulsar.ParseTopic(in.cfg.Topic); err != nil {
		return err
	}
	if in.plan.app == "" {
		in.plan.app = in.cfg.Topic
	}
	if in.plan.tiering.OnGap, err = tiering.ParseGapPolicy(in.onGap); err != nil {
		return err
	}
	if in.schemaFile != "" {
		if in.plan.schema, err = readSchema(in.schemaFile); err != nil {
			return err
		}
	}
	if in.lists != "" {
		raw, err := os.ReadFile(in.lists)
		if err != nil {
			return err
		}
		if in.cfg.Lists, err = offload.ParseLists(in.cfg.Topic, raw); err != nil {
			return fmt.Errorf("%s: %w", in.lists, err)
		}
	}
	in.cfg.From, err = offload.ParseFrom(in.from)
	if err != nil {
		err = fmt.Errorf("--from-ledger %w", err)
	}
	return err
}

func (in *offloadImport) tier(ctx context.Context, x *tableIndex) (err error) {
	p := &in.plan
	tab, format, err := p.openTable(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tab.Close()) }()
	if err := x.set(tab, p.app, p.deadLetters(), in.store.open); err != nil {
		return fmt.Errorf("table %s: %w", p.tableURL, err)
	}
	tr, err := p.tierer(ctx, tab, format)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := errors.Join(tr.Run(ctx), tr.Close()); err != nil {
		return err
	}
	sayDone(tr.Stats(), start)
	return nil
}

// report says what was left out. It is an error where something that is there was not imported.
func report(all []offload.Report, strays []offload.Stray) error {
	const most = 10
	for i, s := range strays[:min(len(strays), most)] {
		fmt.Fprintf(os.Stderr, "ledger %d may be of any topic, and was left out: %s: %v: --ledgers would tell\n", s.Ledger, s.Object, s.Err)
		if i == most-1 && len(strays) > most {
			fmt.Fprintf(os.Stderr, "and so %d more ledgers\n", len(strays)-most)
		}
	}
	var gaps []string
	unproven := 0
	for _, r := range all {
		fmt.Fprintf(os.Stderr, "partition %d: %d ledgers, %d to %d\n", r.Partition, r.Ledgers, r.First, r.Last)
		if g := r.Gap; g != nil {
			what := fmt.Sprintf("partition %d: before ledger %d %d messages are missing", r.Partition, g.Before, g.Messages)
			behind := fmt.Sprintf("%d@%d", r.Partition, g.Before)
			if g.Missing {
				what, behind = fmt.Sprintf("partition %d: ledger %d is missing", r.Partition, g.Before), fmt.Sprintf("%d@%d", r.Partition, g.Before+1)
			}
			if s := g.Stray; s != nil {
				what = fmt.Sprintf("partition %d: ledger %d may be of it, and cannot be read (%s: %v): say with --ledgers which ledgers the topic has; it may be missing", r.Partition, g.Before, s.Object, s.Err)
			}
			gaps = append(gaps, fmt.Sprintf("%s, so %d ledgers behind were left out: offload it, or go on behind it with --from-ledger %s --on-gap earliest", what, g.More, behind))
		}
		if r.Hidden != nil {
			fmt.Fprintf(os.Stderr, "partition %d: from message %s on all was left out: its transaction has no end in these ledgers; it comes with the ledger that has it\n", r.Partition, r.Hidden)
		}
		if r.Rest > 0 {
			fmt.Fprintf(os.Stderr, "partition %d: ledger %d and what follows are not offloaded: ingest reads them from Pulsar\n", r.Partition, r.Rest)
		}
		if r.Unproven {
			unproven++
		}
	}
	if unproven > 0 {
		fmt.Fprintf(os.Stderr, "nothing says whether ledgers are missing in between, in %d partitions: --ledgers would\n", unproven)
	}
	if len(gaps) > 0 {
		return errors.New(strings.Join(gaps, "\n"))
	}
	return nil
}
