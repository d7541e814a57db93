package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerlake/ledgerlake/broker/kafka"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// groupFlags name the consumer group that shares the work.
type groupFlags struct {
	name    string
	session time.Duration
}

func newIngest() *cobra.Command {
	var (
		conn       kafkaFlags
		store      storeFlags
		plan       topicPlan
		group      groupFlags
		committers groupClient
		schemaFile string
		onGap      string
		up         upkeep
	)
	cmd := &cobra.Command{
		Use:   "ingest",
		Short: "Write a topic of an external Kafka into a Delta table, exactly once",
		Long: `ingest reads a topic of an external Kafka and writes it into a Delta table. The position of each partition
is kept in the table, in the same commit as the rows, so a restart goes on exactly where the table stands.
With --group several processes share the partitions. Records that cannot be decoded go to the table
TABLE_dead_letters and hold up nothing.`,
		Example: `  ledgerlake ingest --brokers kafka:9092 --topic orders --table /lake/orders
  ledgerlake ingest --topic orders --table s3://lake/orders --group orders-ingest
  ledgerlake ingest --topic orders --table /lake/orders --until-latest   # drain, commit, end`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			ctx := cmd.Context()
			plan.noFiles = true
			if plan.log, err = newLogger(cmd); err != nil {
				return err
			}
			if plan.topic == "" || plan.tableURL == "" {
				return errors.New("--topic and --table are both needed")
			}
			if group.name != "" && plan.tiering.UntilEnd {
				return errors.New("--group and --until-latest do not go together: a bounded run reads all partitions itself")
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
				plan.app = plan.topic
			}
			plan.openStore = store.open
			if plan.group, err = committers.open(); err != nil {
				return err
			}
			if plan.group != nil {
				defer plan.group.Close()
			}
			kcfg, err := conn.config("ledgerlake-ingest", plan.log)
			if err != nil {
				return err
			}
			src, err := kafka.Open(ctx, kcfg)
			if err != nil {
				return err
			}
			defer src.Close()
			plan.source = src
			if group.name != "" {
				plan.tiering.Manual = true
			}
			tr, tab, err := plan.open(ctx)
			if err != nil {
				return err
			}
			start := time.Now()
			if group.name != "" {
				g, err := joinGroup(ctx, kcfg, group, plan.topic, tr)
				if err != nil {
					return errors.Join(err, tr.Close(), tab.Log.Close())
				}
				defer g.Close(context.WithoutCancel(ctx))
			}
			up.openStore, up.group, up.log = store.open, plan.group, plan.log
			up.tables = func(context.Context) ([]string, error) {
				return []string{plan.tableURL, plan.tableURL + "_dead_letters"}, nil
			}
			err = errors.Join(runBeside(ctx, tr.Run, up.run), tr.Close(), tab.Log.Close())
			if err != nil {
				return err
			}
			s := tr.Stats()
			fmt.Fprintf(os.Stderr, "%d records: %d rows, %d dead letters, in %d commits, %s\n",
				s.Records, s.Rows, s.DeadLetters, s.Commits, time.Since(start).Round(time.Millisecond))
			return nil
		},
	}
	f := cmd.Flags()
	conn.register(f)
	store.register(f)
	committers.register(f)
	f.StringVar(&plan.topic, "topic", "", "topic to read (required)")
	f.StringVar(&plan.tableURL, "table", "", "table: a path or s3://bucket/prefix; made when it is not there (required)")
	f.StringVar(&plan.app, "app", "", "name under which positions are kept in the table (default: the topic)")
	f.StringVar(&group.name, "group", "", "share the partitions with other processes of this consumer group")
	f.DurationVar(&group.session, "session-timeout", 45*time.Second, "with --group: partitions of a process that died go to others after this")
	f.StringVar(&plan.format, "format", "auto", "values: json (columns), raw (bytes), or auto (look at the first records of a new table)")
	f.StringVar(&schemaFile, "schema", "", "file with the payload columns of a new table, a Delta schema in JSON")
	f.StringVar(&onGap, "on-gap", "fail", "when the log has dropped records that the table lacks: fail, or earliest (go on with a report)")
	f.BoolVar(&plan.tiering.AcceptTopic, "accept-new-topic", false, "go on although the topic was deleted and made again: it holds the same records at the same offsets")
	f.BoolVar(&plan.tiering.AsItIs, "as-is", false, "fill a table that has no _partition and _offset columns, somebody else's, without changing its columns: no stream can be read from it")
	f.BoolVar(&plan.tiering.UntilEnd, "until-latest", false, "read up to the ends of the log as they are now, commit, and end")
	flushFlags(f, &plan.tiering)
	up.register(f)
	return cmd
}

// joinGroup lets a consumer group say which partitions this process tiers.
func joinGroup(ctx context.Context, cfg kafka.Config, group groupFlags, topic string, tr *tiering.Tierer) (*kafka.Group, error) {
	return kafka.JoinGroup(ctx, kafka.GroupConfig{
		Config: cfg, Group: group.name, SessionTimeout: group.session, Topics: []string{topic},
		OnAssigned: func(ctx context.Context, _ string, parts []int32) { tr.Assign(ctx, parts) },
		OnRevoked:  func(ctx context.Context, _ string, parts []int32) { tr.Revoke(ctx, parts) },
		OnLost:     func(ctx context.Context, _ string, parts []int32) { tr.Lose(ctx, parts) },
	})
}
