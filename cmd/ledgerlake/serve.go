package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// flushFlags are the limits at which rows become a table version: serve, ingest and demo share them.
func flushFlags(f *pflag.FlagSet, c *tiering.Config) {
	f.DurationVar(&c.MaxAge, "flush-age", 10*time.Second, "commit rows at this age: the freshness of the table")
	f.IntVar(&c.MaxRows, "flush-rows", 1_000_000, "commit at this many rows")
	f.Int64Var(&c.MaxBytes, "flush-bytes", 64<<20, "commit at this many bytes of data file")
	f.Int64Var(&c.MemoryBudget, "memory", 64<<20, "bytes of records in flight at most; reading pauses above it")
}

func newServe() *cobra.Command {
	var (
		cfg        engineConfig
		store      storeFlags
		topics     []string
		schemaFile string
		ready      string
		committers groupClient
		embedded   string
		access     accessFlags
		gateway    gatewayFlags
	)
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a durable log over the Kafka protocol and write it into Delta tables",
		Long: `serve keeps a durable log in one directory, speaks the Kafka protocol, and writes every topic into a
Delta table at LAKE/TOPIC while it runs. Consumers read any offset from 0 on: what the log has dropped
comes from the table.

` + gatewayHelp + `

` + accessHelp,
		Example: `  ledgerlake serve --dir ./data --topic events:4
  ledgerlake produce --topic events < events.ndjson
  ledgerlake serve --upstream kafka://kafka:9092 --lake s3://lake   # beside ingest --topic T --table s3://lake/T
  ledgerlake read --dir ./data events --from earliest --follow`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if cfg.log, err = newLogger(cmd); err != nil {
				return err
			}
			if cfg.diskReserve, err = diskReserve(cmd.Flags()); err != nil {
				return err
			}
			leanHeap(50) // there may be large file lists too
			if gateway.upstream != "" {
				return gateway.runGateway(cmd, cfg, access, store, ready)
			}
			for _, t := range topics {
				spec, err := parseTopicSpec(t, cfg.partitions)
				if err != nil {
					return err
				}
				cfg.topics = append(cfg.topics, spec)
			}
			if schemaFile != "" {
				if cfg.schema, err = readSchema(schemaFile); err != nil {
					return err
				}
			}
			if err := cfg.shape.finish(&cfg.tiering); err != nil {
				return err
			}
			if err := noPulsar("--dir", cfg.dir); err != nil {
				return err
			}
			if err := os.MkdirAll(cfg.dir, 0o755); err != nil {
				return fmt.Errorf("make --dir: %w", err)
			}
			if cfg.access, err = access.open(cfg.listen, cfg.log); err != nil {
				return err
			}
			cfg.openStore = store.open
			closeGroup, err := joinCommitters(cmd.Context(), &cfg, &committers, embedded)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, closeGroup()) }()
			e, err := openEngine(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			cfg.log.Info("serving", "kafka", e.server.Addr().String(), "page", e.page(), "dir", cfg.dir, "lake", e.cfg.lake)
			if ready != "" {
				if err := writeJSONFile(ready, e.info()); err != nil {
					return errors.Join(err, e.close())
				}
			}
			err = e.run(cmd.Context())
			cfg.log.Info("stopped")
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.dir, "dir", "ledgerlake-data", "directory of the log, and of the tables unless --lake says otherwise")
	f.StringVar(&cfg.lake, "lake", "", "where tables go: a path or s3://bucket/prefix (default DIR/lake)")
	f.StringVar(&cfg.listen, "kafka-listen", "127.0.0.1:9092", "address of the Kafka port; port 0 takes a free one")
	f.StringVar(&cfg.http, "http-listen", "127.0.0.1:8090", "address of the page, of metrics, and of streams over HTTP; empty for none")
	f.StringVar(&cfg.flight, "flight-listen", "", "address of Arrow Flight, like 127.0.0.1:8815; empty for none")
	f.StringVar(&cfg.advertise, "advertise", "", "host:port that clients are told to connect to (default: the listen address; where that is all addresses, the one that a client came to)")
	f.StringSliceVar(&topics, "topic", nil, "make a topic at start: NAME or NAME:PARTITIONS; may be repeated")
	f.Int32Var(&cfg.partitions, "partitions", 1, "partitions of topics that name none")
	f.BoolVar(&cfg.anyReplication, "any-replication", false, "take any replication factor when a client makes a topic, for programs that ask for 3; there is one copy all the same")
	f.BoolVar(&cfg.autoCreate, "auto-create-topics", true, "make a topic when a client first asks for it")
	f.StringVar(&cfg.durability, "durability", "group", "group: acknowledge after a shared fdatasync; none: after the write, as Kafka does (a power loss can take records)")
	access.register(f)
	gateway.register(f)
	topicFlags(f, &cfg.topic)
	f.DurationVar(&cfg.retentionInterval, "retention-interval", time.Minute, "how often segments that retention allows to go are looked for")
	f.Int64("disk-reserve", local.DefaultDiskReserve, "refuse appends, for clients to send again, while the disk of --dir has less than so many bytes free; 0 takes them all. Without it a tenth of a disk below 2.5 GiB")
	f.DurationVar(&cfg.offsetsRetention, "offsets-retention", 7*24*time.Hour, "positions of a consumer group are forgotten so long after its last member left; negative keeps them")
	f.Int64Var(&cfg.kafkaMemory, "kafka-memory", 1<<30, "bytes of requests, answers, groups and positions at the Kafka port at most")
	f.BoolVar(&cfg.noTiering, "no-tiering", false, "keep the log only, write no tables")
	f.StringVar(&cfg.format, "format", "auto", "values of new tables: json (columns), raw (bytes), or auto (look at the first records)")
	f.StringVar(&schemaFile, "schema", "", "file with the payload columns of new tables, a Delta schema in JSON")
	f.StringVar(&ready, "ready-file", "", "write {\"kafka\":address,\"pid\":...} here when clients can connect")
	flushFlags(f, &cfg.tiering)
	cfg.shape.register(f, &cfg.tiering)
	f.StringArrayVar(&cfg.shape.transforms, "transform", nil, "'COLUMN: SOURCE', a field of the record (kafka.offset) or JMESPath over the value; may be repeated")
	cfg.upkeep.vacuum = 24 * time.Hour // these tables are our own
	cfg.upkeep.register(f)
	store.register(f)
	committers.register(f)
	f.StringVar(&embedded, "committer-listen", "", "run a one-node group of committers inside, at this address, for this process and for ingests that are given --committer")
	return cmd
}

func topicFlags(f *pflag.FlagSet, c *broker.TopicConfig) {
	f.Int64Var(&c.SegmentBytes, "segment-bytes", 128<<20, "start a new segment file at this size")
	f.DurationVar(&c.SegmentAge, "segment-age", time.Hour, "... or at this age")
	f.Int64Var(&c.RetentionBytes, "retention-bytes", 0, "drop tiered segments of a partition above this size; 0 keeps all")
	f.DurationVar(&c.RetentionAge, "retention-age", 0, "drop tiered segments older than this; 0 keeps all")
	f.Int32Var(&c.MaxMessageBytes, "max-message-bytes", 1<<20+12, "largest batch that a producer may send")
}

// diskReserve is what --disk-reserve says to a log.
func diskReserve(f *pflag.FlagSet) (int64, error) {
	n, err := f.GetInt64("disk-reserve")
	switch {
	case err != nil || !f.Changed("disk-reserve"):
		return 0, err
	case n < 0:
		return 0, fmt.Errorf("--disk-reserve %d is not a number of bytes; 0 keeps none free", n)
	case n == 0:
		return -1, nil
	}
	return n, nil
}

// servedDir says whether dir is the --dir of a `ledgerlake serve`, running or stopped.
func servedDir(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "log"))
	return err == nil
}
