package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ledgerlake/ledgerlake/ingest"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// groupFlags name the consumer group that shares the work.
type groupFlags struct {
	name     string
	instance string
	session  time.Duration
}

// ingestFlags are those of the command.
type ingestFlags struct {
	conn       kafkaFlags
	client     ingest.Client // settings in the names of librdkafka
	store      storeFlags
	committers groupClient
	up         upkeep
	stream     ingestStream // the only one, as the flags say
	schemaFile string
	onGap      string
	start      string
	routes     string             // file of many streams
	http       string             // address of metrics and health; empty: none
	pprof      bool               // profiles there too
	otel       string             // address of a collector of traces; empty: none
	statsd     *ingest.OldMetrics // nil: none
	old        oldIngestFlags

	// Of topics of Pulsar:
	pulsar       pulsarFlags
	subscription string
	sealed       bool
}

func newIngest() *cobra.Command {
	f := &ingestFlags{}
	cmd := &cobra.Command{
		Use:   "ingest [TOPIC TABLE]",
		Short: "Write a topic of an external Kafka into a Delta table, exactly once",
		Long: `ingest reads a topic of an external Kafka and writes it into a Delta table. The position of each partition
is kept in the table, in the same commit as the rows, so a restart goes on exactly where the table stands.
With --group several processes share the partitions. Records that cannot be decoded go to the table
TABLE_dead_letters and hold up nothing.

--streams FILE runs many topics and tables in one process. One that fails stops no other; a changed file, or a SIGHUP,
adds, changes and takes away streams while the others go on. docs/ingest.md has its keys.

ingest TOPIC TABLE takes over from kafka-delta-ingest: its flags, its environment, its defaults and its tables, which
are filled as they are. docs/kafka-delta-ingest.md tells what is different.`,
		Example: `  ledgerlake ingest --brokers kafka:9092 --topic orders --table /lake/orders
  ledgerlake ingest --topic orders --table s3://lake/orders --group orders-ingest
  ledgerlake ingest --topic orders --table /lake/orders --until-latest   # drain, commit, end
  ledgerlake ingest --streams streams.yaml --http-listen 127.0.0.1:9100
  ledgerlake ingest pulsar://pulsar:6650/public/default/orders /lake/orders       # docs/pulsar.md
  ledgerlake ingest orders s3://lake/orders -k kafka:9092 -a orders -l 60 -c   # as kafka-delta-ingest was run`,
		Args: named,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && isPulsar(args[0]) {
				return f.runPulsar(cmd, args)
			}
			if err := f.old.takeOver(cmd, args, f); err != nil {
				return err
			}
			return f.run(cmd)
		},
	}
	f.register(cmd.Flags())
	return cmd
}

func (f *ingestFlags) register(fs *pflag.FlagSet) {
	f.conn.register(fs)
	f.store.register(fs)
	f.committers.register(fs)
	p := &f.stream.plan
	fs.StringVar(&p.topic, "topic", "", "topic to read (required)")
	fs.StringVar(&p.tableURL, "table", "", "table: a path or s3://bucket/prefix; made when it is not there (required)")
	fs.StringVar(&p.app, "app", "", "name under which positions are kept in the table (default: the topic)")
	fs.StringVar(&f.stream.group.name, "group", "", "share the partitions with other processes of this consumer group")
	fs.StringVar(&f.stream.group.instance, "group-instance", "", "with --group: a name of this process that stays over restarts, so that a short one moves no partition")
	fs.DurationVar(&f.stream.group.session, "session-timeout", 45*time.Second, "with --group: partitions of a process that died go to others after this")
	fs.StringVar(&p.format, "format", "auto", formatHelp)
	p.decode.register(fs)
	fs.StringVar(&f.schemaFile, "schema", "", "file with the payload columns of a new table, a Delta schema in JSON")
	fs.StringVar(&f.start, "start", "earliest", "where to begin when the table has no position: earliest, latest, or a time such as 2026-11-01T00:00:00Z")
	fs.StringVar(&f.onGap, "on-gap", "fail", "when the log has dropped records that the table lacks: fail, earliest or latest (go on there with a report)")
	fs.BoolVar(&p.tiering.AcceptTopic, "accept-new-topic", false, "go on although the topic was deleted and made again: it holds the same records at the same offsets")
	fs.BoolVar(&p.tiering.AsItIs, "as-is", false, "fill a table that has no _partition and _offset columns, somebody else's, without changing its columns: no stream can be read from it")
	fs.BoolVar(&p.tiering.UntilEnd, "until-latest", false, "read up to the ends of the log as they are now, commit, and end")
	fs.DurationVar(&p.tiering.StopTimeout, "stop-timeout", 30*time.Second, "how long the last commit may take when the process is told to end")
	fs.StringVar(&f.routes, "streams", "", "YAML file of many streams, in place of --topic and --table; --memory is then of each stream")
	fs.StringVar(&f.http, "http-listen", "", "address for /metrics, /healthz and /readyz; empty: none")
	fs.BoolVar(&f.pprof, "http-pprof", false, "with --http-listen: also /debug/pprof/heap, allocs, goroutine and profile, for go tool pprof")
	fs.StringVar(&f.otel, "otel", "", "send an OpenTelemetry trace of each commit to this collector, by OTLP over HTTP: http://collector:4318; OTEL_* in the environment say the rest")
	flushFlags(fs, &p.tiering)
	p.shape.register(fs, &p.tiering)
	f.pulsar.register(fs)
	fs.StringVar(&f.subscription, "pulsar-subscription", "", "durable subscription that keeps messages of Pulsar until they are in the table (default: ledgerlake- and the app, with dots for slashes)")
	fs.BoolVar(&f.sealed, "sealed-ledgers", false, "of Pulsar, read ledgers that are closed only; needs --pulsar-admin")
	f.up.register(fs)
	f.old.register(fs)
}

// run does what the flags say.
func (f *ingestFlags) run(cmd *cobra.Command) (err error) {
	p := &f.stream.plan
	switch {
	case f.routes != "" && (p.topic != "" || p.tableURL != ""):
		return errors.New("--streams takes the place of --topic and --table: give one or the other")
	case f.routes == "" && (p.topic == "" || p.tableURL == ""):
		return errors.New("--topic and --table are both needed, or --streams")
	case f.stream.group.name != "" && p.tiering.UntilEnd:
		return errors.New("--group and --until-latest do not go together: a bounded run reads all partitions itself")
	}
	leanHeap(35)
	proc, err := f.open(cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, proc.close()) }()
	sup := ingest.NewSupervisor(cmd.Context(), ingest.SupervisorConfig{Once: f.routes == "" || p.tiering.UntilEnd, Logger: proc.log})
	if f.http != "" {
		srv, err := f.serve(cmd.Context(), sup, proc.registry)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, srv.Close()) }()
		proc.log.Info("metrics and health", "address", srv.Addr().String())
	}
	apply := f.applyOne
	if f.routes != "" {
		apply = f.applyRoutes
	}
	if err := apply(cmd.Context(), proc, sup); err != nil {
		return errors.Join(err, stop(sup))
	}
	start := time.Now()
	up := f.up
	up.openStore, up.group, up.log, up.tables = proc.openStore, proc.committers, proc.log, proc.tables
	if err := runBeside(cmd.Context(), func(context.Context) error { return sup.Wait() }, up.run); err != nil {
		return err
	}
	sayDone(proc.total(), start)
	return nil
}

// sayDone is the closing line of a run that ends.
func sayDone(s tiering.Stats, start time.Time) {
	filtered := ""
	if s.Filtered > 0 {
		filtered = fmt.Sprintf(", %d left out by the filter", s.Filtered)
	}
	fmt.Fprintf(os.Stderr, "%d records: %d rows, %d dead letters%s, in %d commits, %s\n",
		s.Records+s.Filtered, s.Rows, s.DeadLetters, filtered, s.Commits, time.Since(start).Round(time.Millisecond))
}

// serve shows metrics and health.
func (f *ingestFlags) serve(ctx context.Context, sup *ingest.Supervisor, registry *prometheus.Registry) (*ingest.Server, error) {
	return ingest.Serve(ctx, ingest.ServerConfig{Listen: f.http, Supervisor: sup, Registry: registry, Profiles: f.pprof})
}

// leanHeap lets the collector run when there is so much garbage, in percent of what lives, and not only at as much again.
// What lives in ingest is little more than the memory budget, mostly bytes without pointers, so that a collection costs
// next to nothing; and what is thrown away, answers and requests of the broker's port, is large. Who has set GOGC knows better.
func leanHeap(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// stop ends what has begun.
func stop(sup *ingest.Supervisor) error {
	sup.Stop()
	return sup.Wait()
}

// applyOne runs the stream that the flags name.
func (f *ingestFlags) applyOne(_ context.Context, proc *ingestProcess, sup *ingest.Supervisor) error {
	if err := f.finish(&f.stream, proc); err != nil {
		return err
	}
	sup.Apply([]ingest.Job{proc.job(f.stream.plan.topic, "", &f.stream)})
	return nil
}

// finish checks a stream and completes it with what the process has.
func (f *ingestFlags) finish(s *ingestStream, proc *ingestProcess) (err error) {
	p := &s.plan
	if p.tiering.OnGap, err = tiering.ParseGapPolicy(f.onGap); err != nil {
		return err
	}
	if s.start.Seek == nil {
		switch f.start {
		case "earliest", "":
		case "latest":
			s.start.Latest = true
		default:
			if s.start.Time, err = time.Parse(time.RFC3339Nano, f.start); err != nil {
				return fmt.Errorf("--start %q is not earliest, latest or a time such as 2026-11-01T00:00:00Z", f.start)
			}
		}
	}
	if f.schemaFile != "" {
		if p.schema, err = readSchema(f.schemaFile); err != nil {
			return err
		}
	}
	if err := p.openFormat(); err != nil {
		return err
	}
	if p.app == "" {
		p.app = p.topic
	}
	p.noFiles = true
	p.source, p.openStore, p.group, p.log = proc.source, proc.openStore, proc.committers, proc.log
	p.tiering.Registerer = proc.registry
	if proc.traces != nil {
		p.tiering.Trace = proc.traces.Commit
	}
	p.tiering.Manual = s.group.name != ""
	return nil
}
