package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerlake/ledgerlake/bench"
	"github.com/ledgerlake/ledgerlake/broker/kafka"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

const demoTopic = "shop_events"

func newDemo() *cobra.Command {
	d := &demo{}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the whole engine at work in half a minute, with nothing else installed",
		Long: `demo starts the embedded engine in a fresh directory, sends it shop events over the Kafka protocol, writes
them into a Delta table while they come, and replays from an offset in the table over the seam into the
live tail. It then compares the counts and says how to look at the table with other engines.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d.out = cmd.OutOrStdout()
			return d.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&d.dir, "dir", "ledgerlake-demo", "directory to make; must not exist, or be an earlier demo (which is removed)")
	f.DurationVar(&d.length, "length", 12*time.Second, "how long events are sent")
	f.IntVar(&d.rate, "rate", 20_000, "events per second")
	return cmd
}

// demo is one run. The engine writes to stderr only what goes wrong; the story goes to out.
type demo struct {
	dir      string
	length   time.Duration
	rate     int
	out      io.Writer
	engine   *engine
	producer *kafka.Producer
	sent     atomic.Int64
}

const demoMark = ".ledgerlake-demo"

func (d *demo) run(ctx context.Context) (err error) {
	if err := d.freshDir(); err != nil {
		return err
	}
	cfg := engineConfig{
		dir: d.dir, listen: "127.0.0.1:0", http: "127.0.0.1:0", partitions: 4, autoCreate: true,
		topics:    []topicSpec{{demoTopic, 4}},
		openStore: (&storeFlags{}).open,
		log:       slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	cfg.tiering.MaxAge = 2 * time.Second
	if d.engine, err = openEngine(ctx, cfg); err != nil {
		return err
	}
	engineCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- d.engine.run(engineCtx) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
		if err == nil {
			d.closing()
		}
	}()
	d.producer, err = kafka.NewProducer(ctx, kafka.ProducerConfig{
		Config: kafka.Config{Brokers: []string{d.engine.info().Kafka}, ClientID: "ledgerlake-demo"},
	})
	if err != nil {
		return err
	}
	defer d.producer.Close()
	return d.story(ctx)
}

func (d *demo) freshDir() error {
	if _, err := os.Stat(d.dir); err == nil {
		if _, err := os.Stat(filepath.Join(d.dir, demoMark)); err != nil {
			return fmt.Errorf("%s exists and is not an earlier demo: choose another --dir", d.dir)
		}
		if err := os.RemoveAll(d.dir); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(d.dir, demoMark), nil, 0o644)
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.out, format+"\n", args...) }

func (d *demo) story(ctx context.Context) error {
	d.say("1. The engine runs in %s: a durable log on the Kafka port %s, and a Delta table per topic.", here(d.dir), d.engine.info().Kafka)
	d.say("   While it runs, watch it and click into any offset: %s", d.engine.page())
	d.say("2. Sending %d shop events a second for %s, durable before each acknowledgement, and tiering them as they come:\n", d.rate, d.length)
	if err := d.produce(ctx, d.length, true); err != nil {
		return err
	}
	return d.replay(ctx)
}

// produce sends events at the wanted rate, with a progress line a second.
func (d *demo) produce(ctx context.Context, length time.Duration, progress bool) error {
	events := bench.NewEvents(uint64(d.sent.Load()+1), time.Now(), time.Second/time.Duration(d.rate))
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	start, lines, sent := time.Now(), 0, 0
	for {
		since := time.Since(start)
		for due := int(min(since, length).Seconds() * float64(d.rate)); sent < due; sent++ {
			key, value := events.Next(nil, nil)
			if err := d.producer.Send(ctx, demoTopic, -1, key, value); err != nil {
				return err
			}
			d.sent.Add(1)
		}
		if progress && since >= time.Duration(lines+1)*time.Second {
			lines++
			if err := d.progress(ctx); err != nil {
				return err
			}
		}
		if since >= length {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return d.producer.Flush(ctx)
}

func (d *demo) progress(ctx context.Context) error {
	logged, err := d.logged(ctx)
	if err != nil {
		return err
	}
	s := d.engine.tierers.stats()[demoTopic]
	version, files := "-", "-"
	if t, ok := d.engine.tierers.table(demoTopic); ok {
		snap, err := t.Log.Snapshot(ctx)
		if err != nil {
			return err
		}
		version, files = fmt.Sprint(snap.Version()), fmt.Sprint(snap.NumFiles())
	}
	d.say("   acknowledged %9d   rows in the table %9d   lag %7d   table version %3s   data files %3s", logged, s.Rows, logged-s.Rows, version, files)
	return nil
}

// logged counts the records that the log has acknowledged.
func (d *demo) logged(ctx context.Context) (int64, error) {
	parts, err := d.engine.log.Partitions(ctx, demoTopic)
	if err != nil {
		return 0, err
	}
	n := int64(0)
	for _, p := range parts {
		b, err := d.engine.log.Bounds(ctx, record.TopicPartition{Topic: demoTopic, Partition: p})
		if err != nil {
			return 0, err
		}
		n += int64(b.End - b.Start)
	}
	return n, nil
}

// replay reads over the seam while more events come, then compares counts.
func (d *demo) replay(ctx context.Context) error {
	t, err := d.table(ctx)
	if err != nil {
		return err
	}
	live := make(chan error, 1)
	go func() { live <- d.produce(ctx, 2*time.Second, false) }()
	// Give the live producer a moment to put records behind the seam.
	select {
	case <-time.After(700 * time.Millisecond):
	case <-ctx.Done():
		return errors.Join(ctx.Err(), <-live)
	}
	cfg := reader.Config{Table: t, Source: d.engine.log, Topic: demoTopic, From: reader.AtOffsets(map[int32]record.Offset{0: 1000, 1: 1000, 2: 1000, 3: 1000})}
	got, err := count(ctx, cfg)
	if err = errors.Join(err, <-live); err != nil {
		return err
	}
	d.say("\n3. Replay from offset 1000 of each partition, while events go on:")
	d.say("   %d records from the table, then %d from the live log, each once and in order (%.0f records/s)",
		got.lake, got.log, float64(got.lake+got.log)/got.took.Seconds())
	for p := range int32(4) {
		d.say("   partition %d: offsets %d .. %d, left the table for the log at %d", p, 1000, got.end[p]-1, got.seam[p])
	}
	all, err := count(ctx, reader.Config{Table: t, Source: d.engine.log, Topic: demoTopic})
	if err != nil {
		return err
	}
	d.say("\n4. Counts: %d events sent and acknowledged, %d read back from offset 0.", d.sent.Load(), all.lake+all.log)
	if all.lake+all.log != d.sent.Load() {
		return errors.New("the counts differ: this is a bug, please report it with the directory")
	}
	d.say("   They are equal.")
	return nil
}

// table waits for the topic's table, which is made of the first events.
func (d *demo) table(ctx context.Context) (*table.Table, error) {
	for start := time.Now(); time.Since(start) < time.Minute; {
		if t, ok := d.engine.tierers.table(demoTopic); ok {
			return t, nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, errors.New("no table was made within a minute: what went wrong stands above")
}

// counted is what a read gave.
type counted struct {
	lake, log int64
	took      time.Duration
	seam, end map[int32]record.Offset
}

func count(ctx context.Context, cfg reader.Config) (counted, error) {
	cfg.OnGap = nil
	start := time.Now()
	c, err := reader.Open(ctx, cfg)
	if err != nil {
		return counted{}, err
	}
	defer c.Close()
	var n counted
	for {
		rb, err := c.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return n, err
		}
		if c.InLake() {
			n.lake += rb.NumRows()
		} else {
			n.log += rb.NumRows()
		}
	}
	n.took, n.seam, n.end = time.Since(start), c.Seam(), c.Position()
	return n, nil
}

func (d *demo) closing() {
	at := filepath.Join(d.dir, "lake", demoTopic)
	d.say("\n5. The engine has stopped; everything is committed. Look for yourself:")
	d.say("   bin/ledgerlake inspect %s", at)
	d.say("   bin/ledgerlake read %s/%s --from 0:5000 --limit 3", here(d.dir), demoTopic)
	d.say("   bin/ledgerlake check %s", d.dir)
	d.say("   DuckDB   select kind, count(*), sum(amount) from delta_scan('%s') group by kind;", at)
	d.say("   polars   pl.scan_delta(%q).group_by('kind').len().collect()", at)
	d.say("   Spark    spark.read.format('delta').load('%s').groupBy('kind').count().show()", at)
}

// here writes a relative path so that nobody takes it for a name.
func here(dir string) string {
	if filepath.IsAbs(dir) {
		return dir
	}
	return "." + string(filepath.Separator) + filepath.Clean(dir)
}
