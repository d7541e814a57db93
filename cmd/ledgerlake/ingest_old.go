package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ledgerlake/ledgerlake/ingest"
)

// oldIngestFlags are those of kafka-delta-ingest 0.4, under its names: - and _ are the same in them. Where a flag of
// ours says the same, they set that one.
type oldIngestFlags struct {
	kafka      string
	group      string
	app        string
	seek       string
	reset      string
	latency    uint64
	batch      uint64
	fileBytes  int64
	transforms []string
	dlq        string
	dlqForms   []string
	settings   []string
	statsd     string
	dogstatsd  bool
	json       string
	avro       string
	soeAvro    string
	checkpoint bool
	untilEnd   bool
	gzip       bool
}

// oldEnvironment gives the variable of each flag.
var oldEnvironment = map[string]string{
	"kafka": "KAFKA_BROKERS", "consumer-group": "KAFKA_CONSUMER_GROUP", "app-id": "APP_ID", "seek-offsets": "KAFKA_SEEK_OFFSETS",
	"auto-offset-reset": "KAFKA_AUTO_OFFSET_RESET", "allowed-latency": "ALLOWED_LATENCY", "max-messages-per-batch": "MAX_MESSAGES_PER_BATCH",
	"min-bytes-per-file": "MIN_BYTES_PER_FILE", "transform": "TRANSFORMS", "dlq-table-location": "DLQ_TABLE_LOCATION", "dlq-transform": "DLQ_TRANSFORMS",
	"checkpoints": "WRITE_CHECKPOINTS", "statsd-endpoint": "STATSD_ENDPOINT", "json": "JSON_REGISTRY", "avro": "AVRO_REGISTRY",
	"ends-at-latest-offsets": "ENDS_AT_LATEST_OFFSETS", "decompress-gzip": "DECOMPRESS_GZIP",
}

func (o *oldIngestFlags) register(fs *pflag.FlagSet) {
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	fs.StringVarP(&o.kafka, "kafka", "k", "localhost:9092", "old name of --brokers")
	fs.StringVarP(&o.group, "consumer-group", "g", "kafka_delta_ingest", "old name of --group")
	fs.StringVarP(&o.app, "app-id", "a", "kafka_delta_ingest", "old name of --app")
	fs.StringVar(&o.seek, "seek-offsets", "", `last offset that is taken as done, by partition, of a table without positions: {"0":123,"1":321}`)
	fs.StringVarP(&o.reset, "auto-offset-reset", "o", "earliest", "old name of --start: earliest or latest")
	fs.Uint64VarP(&o.latency, "allowed-latency", "l", 300, "old form of --flush-age, in seconds")
	fs.Uint64VarP(&o.batch, "max-messages-per-batch", "m", 5000, "taken and not needed: memory is bounded by --memory")
	fs.Int64VarP(&o.fileBytes, "min-bytes-per-file", "b", 134217728, "old name of --flush-bytes")
	fs.StringArrayVarP(&o.transforms, "transform", "t", nil, "'PROPERTY: SOURCE'; may be repeated")
	fs.StringVar(&o.dlq, "dlq-table-location", "", "table of dead letters (default: TABLE_dead_letters)")
	fs.StringArrayVar(&o.dlqForms, "dlq-transform", nil, "'PROPERTY: SOURCE' fills a column of the dead letter table; may be repeated")
	fs.BoolVarP(&o.checkpoint, "checkpoints", "c", false, "taken and not needed: checkpoints are written as the table's delta.checkpointInterval says")
	fs.StringArrayVarP(&o.settings, "kafka-setting", "K", nil, "librdkafka setting NAME=VALUE; may be repeated. What has no counterpart is refused")
	fs.StringVarP(&o.statsd, "statsd-endpoint", "s", "localhost:8125", "address for statsd metrics under the old names, when it is given")
	fs.BoolVar(&o.dogstatsd, "statsd-tags", false, "with --statsd-endpoint: topic, app and table as DogStatsD tags")
	fs.StringVar(&o.json, "json", "", "values are JSON; an http address is that of a schema registry")
	fs.StringVar(&o.avro, "avro", "", "values are Avro: empty or a schema file for object containers, an http address for a schema registry")
	fs.StringVar(&o.soeAvro, "soe-avro", "", "values are single-object Avro: a schema file or a folder of them")
	fs.BoolVarP(&o.untilEnd, "ends-at-latest-offsets", "e", false, "old name of --until-latest")
	fs.BoolVar(&o.gzip, "decompress-gzip", false, "values are compressed with gzip")
	for name := range oldEnvironment {
		if f := fs.Lookup(name); !slices.Contains([]string{"transform", "seek-offsets", "dlq-table-location"}, name) {
			f.Usage += " (kafka-delta-ingest)"
		}
	}
}

// takeOver sets our flags by the old ones. With a topic and a table as arguments, or in the old environment, it also
// takes the old defaults: who changes nothing but the program's name gets what there was.
func (o *oldIngestFlags) takeOver(cmd *cobra.Command, args []string, f *ingestFlags) error {
	fs, p := cmd.Flags(), &f.stream.plan
	old, err := o.form(fs, args, f)
	if err != nil {
		return err
	}
	if old {
		if err := oldEnv(fs); err != nil {
			return err
		}
		p.tiering.AsItIs = true
	}
	// set says whether the old flag is to be used: it was given, or it is the old form and ours was not.
	set := func(name, ours string) (bool, error) {
		given, alsoOurs := fs.Changed(name), ours != "" && fs.Changed(ours)
		if given && alsoOurs {
			return false, fmt.Errorf("--%s and --%s say the same: give one", name, ours)
		}
		return given || old && !alsoOurs, nil
	}
	var errs []error
	apply := func(name, ours string, do func() error) {
		use, err := set(name, ours)
		if err == nil && use {
			err = do()
		}
		errs = append(errs, err)
	}
	apply("kafka", "brokers", func() error { f.conn.brokers = strings.Split(o.kafka, ","); return nil })
	apply("app-id", "app", func() error { p.app = o.app; return nil })
	apply("allowed-latency", "flush-age", func() error {
		if o.latency > uint64(24*time.Hour/time.Second) {
			return fmt.Errorf("--allowed-latency %d is more than a day of seconds", o.latency)
		}
		p.tiering.MaxAge = time.Duration(o.latency) * time.Second
		return nil
	})
	apply("min-bytes-per-file", "flush-bytes", func() error { p.tiering.MaxBytes = o.fileBytes; return nil })
	apply("ends-at-latest-offsets", "until-latest", func() error { p.tiering.UntilEnd = o.untilEnd; return nil })
	apply("consumer-group", "group", func() error { f.stream.group.name = o.group; return nil })
	apply("auto-offset-reset", "start", func() (err error) { f.start, err = ingest.ParseReset(o.reset); return err })
	if fs.Changed("statsd-endpoint") { // the old program sent them to localhost:8125 unasked
		f.statsd = &ingest.OldMetrics{Addr: o.statsd, Prefix: os.Getenv("KDI_METRICS_PREFIX"), Tags: o.dogstatsd}
	}
	apply("dlq-table-location", "", func() error { p.deadURL = o.dlq; return nil })
	if old && p.tiering.UntilEnd && !fs.Changed("group") {
		f.stream.group.name = "" // a bounded run reads all partitions; what another one wrote meanwhile is not written again
	}
	return errors.Join(append(errs, o.seekOffsets(f), o.client(fs, f), o.formats(fs, p))...)
}

// form says whether the command is run in the old way, and takes topic and table then.
func (o *oldIngestFlags) form(fs *pflag.FlagSet, args []string, f *ingestFlags) (bool, error) {
	p := &f.stream.plan
	if len(args) == 0 && !fs.Changed("topic") && !fs.Changed("table") && os.Getenv("KAFKA_TOPIC") != "" {
		args = append(args, os.Getenv("KAFKA_TOPIC"))
	}
	if len(args) == 1 && os.Getenv("TABLE_LOCATION") != "" {
		args = append(args, os.Getenv("TABLE_LOCATION"))
	}
	switch {
	case len(args) == 0:
		return false, nil
	case len(args) == 1:
		return false, fmt.Errorf("ingest %s: a table is needed too: ingest TOPIC TABLE, or --topic and --table", args[0])
	case fs.Changed("topic") || fs.Changed("table"):
		return false, errors.New("topic and table are given twice: as arguments, or by --topic and --table")
	}
	p.topic, p.tableURL = args[0], args[1]
	return true, nil
}

// oldEnv sets each old flag that was not given from the old environment.
func oldEnv(fs *pflag.FlagSet) error {
	var errs []error
	for name, env := range oldEnvironment {
		v, ok := os.LookupEnv(env)
		if f := fs.Lookup(name); !ok || f.Changed {
			continue
		} else if f.Value.Type() == "bool" { // as the old program read them: anything but a no is a yes
			no := slices.Contains([]string{"", "0", "n", "no", "f", "false", "off"}, strings.ToLower(v))
			v = fmt.Sprint(!no)
		}
		if err := fs.Set(name, v); err != nil {
			errs = append(errs, fmt.Errorf("environment %s: %w", env, err))
		}
	}
	level := strings.Replace(strings.ToLower(os.Getenv("RUST_LOG")), "trace", "debug", 1)
	if !fs.Changed("log-level") && slices.Contains([]string{"debug", "info", "warn", "error"}, level) {
		errs = append(errs, fs.Set("log-level", level))
	}
	return errors.Join(errs...)
}

func (o *oldIngestFlags) seekOffsets(f *ingestFlags) (err error) {
	if o.seek != "" {
		f.stream.start.Seek, err = ingest.ParseSeek(o.seek)
	}
	return err
}

// client takes what is said about the connection in librdkafka's names.
func (o *oldIngestFlags) client(fs *pflag.FlagSet, f *ingestFlags) error {
	c := &f.client
	for _, s := range o.settings {
		if err := c.Set(s); err != nil {
			return err
		}
	}
	if c.SessionTimeout != 0 && !fs.Changed("session-timeout") {
		f.stream.group.session = c.SessionTimeout
	}
	if c.InstanceID != "" && !fs.Changed("group-instance") {
		f.stream.group.instance = c.InstanceID
	}
	if c.OffsetReset != "" && !fs.Changed("start") && !fs.Changed("auto-offset-reset") {
		f.start = c.OffsetReset
	}
	return c.Environment(os.LookupEnv)
}

// formats takes what is said about values and dead letters.
func (o *oldIngestFlags) formats(fs *pflag.FlagSet, p *topicPlan) error {
	name, err := o.oldFormat(fs, &p.decode)
	switch {
	case err != nil:
		return err
	case name != "" && fs.Changed("format"):
		return errors.New("--format says what --json, --avro, --soe-avro and --decompress-gzip say: give one")
	case name != "":
		p.format = name
	}
	p.shape.transforms = o.transforms
	if p.tiering.LetterTransform, err = parseTransforms(o.dlqForms, ""); err != nil {
		return fmt.Errorf("--dlq-transform: %w", err)
	}
	return p.shape.finish(&p.tiering)
}
