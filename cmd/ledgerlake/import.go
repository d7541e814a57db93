package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerlake/ledgerlake/broker/logdir"
	"github.com/ledgerlake/ledgerlake/tiering"
)

func newImport() *cobra.Command {
	var (
		store      storeFlags
		plan       topicPlan
		cfg        logdir.Config
		schemaFile string
		onGap      string
	)
	cmd := &cobra.Command{
		Use:   "import DIR TABLE --topic TOPIC",
		Short: "Write a topic of a copied Kafka log directory into a Delta table, exactly once",
		Long: `import reads the segment files of a topic from a copy of a Kafka broker's log directory (its log.dirs) and
writes them into a Delta table, without a broker. All segments are checked before the first row is written. The
position is kept in the table as ingest keeps it, so an import that was interrupted goes on where it was, one of a
later copy adds what is new, and ingest from the living cluster goes on behind it.`,
		Example: `  ledgerlake import /backup/kafka-logs /lake/orders --topic orders
  ledgerlake ingest --brokers kafka:9092 --topic orders --table /lake/orders`,
		Args: named,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			ctx := cmd.Context()
			if plan.log, err = newLogger(cmd); err != nil {
				return err
			}
			if cfg.Topic == "" {
				return errors.New("--topic is needed")
			}
			if plan.tiering.OnGap, err = tiering.ParseGapPolicy(onGap); err != nil {
				return err
			}
			if schemaFile != "" {
				if plan.schema, err = readSchema(schemaFile); err != nil {
					return err
				}
			}
			if plan.app == "" {
				plan.app = cfg.Topic
			}
			cfg.Dir, cfg.Logger = args[0], plan.log
			src, err := logdir.Open(ctx, cfg)
			if err != nil {
				return err
			}
			plan.source, plan.topic, plan.tableURL, plan.openStore = src, cfg.Topic, args[1], store.open
			plan.noFiles, plan.tiering.UntilEnd = true, true
			tr, tab, err := plan.open(ctx)
			if err != nil {
				return err
			}
			start := time.Now()
			if err := errors.Join(tr.Run(ctx), tr.Close(), tab.Log.Close()); err != nil {
				return err
			}
			sayDone(tr.Stats(), start)
			left := src.Left()
			for _, p := range slices.Sorted(maps.Keys(left)) {
				fmt.Fprintf(os.Stderr, "partition %d: %d offsets at the end were left out: the broker had not noted them as committed (--past-watermark takes them)\n", p, left[p])
			}
			hidden := src.Hidden()
			for _, p := range slices.Sorted(maps.Keys(hidden)) {
				h := hidden[p]
				fmt.Fprintf(os.Stderr, "partition %d: %d offsets at the end were left out: a transaction of producer %d that begins at offset %d has no end in the copy, and what stands behind it is not committed before it ends; "+
					"end it on the broker (kafka-transactions.sh abort), and import a later copy\n", p, h.Offsets, h.Producer, h.First)
			}
			return nil
		},
	}
	f := cmd.Flags()
	store.register(f)
	f.StringVar(&cfg.Topic, "topic", "", "topic to read (required)")
	f.BoolVar(&cfg.PastWatermark, "past-watermark", false, "take records beyond the high watermark that the broker noted: right for a single broker that was killed, not for one replica of several")
	f.StringVar(&plan.app, "app", "", "name under which positions are kept in the table (default: the topic)")
	f.StringVar(&plan.format, "format", "auto", "values: json (columns), raw (bytes), or auto (look at the first records of a new table)")
	f.StringVar(&schemaFile, "schema", "", "file with the payload columns of a new table, a Delta schema in JSON")
	f.StringVar(&onGap, "on-gap", "fail", "when the copy begins behind where the table ends: fail, or earliest (go on with a report)")
	f.BoolVar(&plan.tiering.AcceptTopic, "accept-new-topic", false, "go on although the topic was deleted and made again: it holds the same records at the same offsets")
	flushFlags(f, &plan.tiering)
	cmd.AddCommand(newImportOffload())
	return cmd
}
