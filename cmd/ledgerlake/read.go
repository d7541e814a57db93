package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/spf13/cobra"

	"github.com/ledgerlake/ledgerlake/decode/format"
	"github.com/ledgerlake/ledgerlake/internal/where"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/table"
)

type readFlags struct {
	sourceFlags
	format      string
	decode      formatFlags
	from, until string
	follow      bool
	partitions  []int32
	columns     []string
	where       string
	output      string
	limit       int64
	skipMissing bool
	gaps        bool
	showToken   bool
	plan        bool
	latest      bool
	tombstones  bool
	maxRate     string
	order       string
	travel      travelFlags
}

func newRead() *cobra.Command {
	var r readFlags
	cmd := &cobra.Command{
		Use:   "read SOURCE...",
		Short: "Read one stream from a table and its log, from any offset or time",
		Long: `read prints the records of SOURCE in offset order: history from the table, then the tail from the log.

SOURCE is one of
  DIR/TOPIC, or TOPIC with --dir DIR   a topic of a served directory, running or stopped
  a table's path or s3:// URI          any Delta table, ours or not
  kafka://host:port/topic              a Kafka topic; with --table its history comes from that table
  pulsar://host:port/TENANT/NS/TOPIC   a topic of Pulsar, likewise

Rows are JSON objects with the table's column names; binary columns are base64.

Several SOURCEs are read as one stream: the column _topic says whose a row is, columns come together by name, and
a --token covers all of them.`,
		Example: `  ledgerlake read ./data/events --from 0:1000,1:0 --until now
  ledgerlake read ./data/events --from 2026-01-31T00:00:00Z --follow
  ledgerlake read s3://lake/orders --columns _offset,amount
  ledgerlake read s3://lake/orders --where "amount > 100 AND country = 'DE'" --output csv
  ledgerlake read s3://lake/accounts --latest-by-key --until 2026-01-31T00:00:00Z
  ledgerlake read s3://lake/orders --order time --from 2026-01-01 --max-rate 20MB
  ledgerlake read s3://lake/orders --timestamp 2026-01-31T00:00:00Z
  ledgerlake read kafka://127.0.0.1:9092/orders --table /lake/orders --from earliest
  ledgerlake read kafka://127.0.0.1:9092/orders --table /lake/spark --map partition=partition,offset=offset,value=value
  ledgerlake read ./data/orders ./data/payments --order time --from 2026-01-01`,
		Args: named,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if r.log, err = newLogger(cmd); err != nil {
				return err
			}
			ctx := cmd.Context()
			var streams []*stream
			for _, source := range args {
				s, err := r.open(ctx, source)
				if err != nil {
					return errors.Join(err, closeAll(streams))
				}
				streams = append(streams, s)
			}
			if len(streams) == 1 {
				err = r.run(ctx, streams[0], cmd.OutOrStdout())
			} else {
				err = r.runSeveral(ctx, streams, args, cmd.OutOrStdout())
			}
			if ctx.Err() != nil && errors.Is(err, context.Canceled) {
				err = nil // the user ended a follow
			}
			return errors.Join(err, closeAll(streams))
		},
	}
	f := cmd.Flags()
	f.StringVar(&r.from, "from", "earliest", "earliest, latest, a time, version:N (what came after that version of the table), PARTITION:OFFSET,... (reads these partitions alone), token:..., or of Pulsar id:[PARTITION@]LEDGER:ENTRY[:BATCH]")
	f.StringVar(&r.until, "until", "", "now (default without --follow), a time, version:N (what that version has), or PARTITION:OFFSET,... (not included)")
	f.BoolVar(&r.follow, "follow", false, "go on with new records as they come")
	f.Int32SliceVar(&r.partitions, "partition", nil, "only these partitions")
	f.StringSliceVar(&r.columns, "columns", nil, "only these columns")
	f.StringVar(&r.where, "where", "", "only rows for which this holds, such as \"amount > 10 AND country IN ('DE', 'AT')\"; files that cannot match are not read")
	f.StringVar(&r.output, "output", "ndjson", "ndjson, csv, arrow (IPC stream), parquet, or raw (the records' values, a line each)")
	f.Int64Var(&r.limit, "limit", 0, "stop after so many rows; 0 is no limit")
	f.BoolVar(&r.skipMissing, "skip-missing", false, "go on behind offsets that retention has removed, with a report")
	f.BoolVar(&r.gaps, "gaps", false, "report offsets without a row on standard error")
	f.BoolVar(&r.showToken, "token", false, "print a resume token on standard error at the end")
	f.BoolVar(&r.plan, "plan", false, "show where each partition starts, leaves the table and ends, and the files and row groups in between; read nothing")
	f.BoolVar(&r.latest, "latest-by-key", false, "the newest record of each key alone, as of --until; with --follow then every later record")
	f.BoolVar(&r.tombstones, "tombstones", false, "with --latest-by-key: also keys whose newest record has no value; needed for a table without a column of whole values, where --where \"COLUMN IS NOT NULL\" leaves the deleted ones out")
	f.StringVar(&r.order, "order", "", "time: all partitions as one stream in the order of their records' times; default: each partition in the order of its offsets")
	f.StringVar(&r.maxRate, "max-rate", "", "read no more than this a second: 10000 (records), 20MB, or both with a comma")
	r.travel.register(f)
	f.StringVar(&r.format, "format", "auto", "how the log's values are encoded that are not in the table yet: auto (as the table records), or what ingest's --format says")
	r.decode.register(f)
	f.StringVar(&r.dir, "dir", "", "served directory; SOURCE is then a topic")
	f.StringVar(&r.tableURL, "table", "", "table with the history of a kafka:// or pulsar:// source")
	f.StringToStringVar(&r.mapped, "map", nil, "of a table that somebody else made, the columns that its log records are in: partition=COLUMN,offset=COLUMN, and timestamp, key, value as far as it has them")
	f.StringVar(&r.app, "app", "", "name under which positions are kept in the table (default: the topic, or the only one)")
	f.StringVar(&r.ofTopic, "topic", "", "of a table with rows of several topics, the one to read as a stream")
	r.store.register(f)
	r.secure.register(f)
	r.pulsar.register(f)
	return cmd
}

func (r *readFlags) run(ctx context.Context, s *stream, out io.Writer) (err error) {
	if err := r.checkFormat(s); err != nil {
		return err
	}
	switch {
	case r.limit < 0:
		return fmt.Errorf("--limit %d is below 0", r.limit)
	case r.tombstones && !r.latest:
		return errors.New("--tombstones says which keys --latest-by-key gives: it goes with that flag only")
	case r.latest && r.limit > 0:
		return errors.New("--limit with --latest-by-key would leave out keys at random: use --where")
	}
	if r.travel.set() || r.wholeTable(s) {
		return r.readVersion(ctx, s, out)
	}
	cfg, done, err := r.config(ctx, s)
	if err != nil {
		return err
	}
	defer done()
	switch {
	case r.order != "" && r.order != "time":
		return errOrder(r.order)
	case r.latest && (r.plan || r.showToken || r.order != ""), r.order != "" && r.plan:
		return errors.New("--latest-by-key goes neither with --order nor with --plan and --token, --order not with --plan")
	case r.latest:
		l, err := reader.OpenLatestByKey(ctx, reader.LatestByKeyConfig{Config: cfg, KeepTombstones: r.tombstones})
		if err != nil {
			return err
		}
		return errors.Join(r.writeAll(ctx, l, cfg, out), l.Close())
	case r.order == "time":
		b, err := reader.OpenByTime(ctx, reader.ByTimeConfig{Config: cfg})
		if err != nil {
			return err
		}
		err = r.writeAll(ctx, b, cfg, out)
		r.printToken(b, err)
		return errors.Join(err, b.Close())
	}
	c, err := reader.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	if r.plan {
		return printPlan(ctx, out, c)
	}
	err = r.writeAll(ctx, c, cfg, out)
	r.printToken(c, err)
	return err
}

// printToken names the place behind a read, where that is asked for, or where the read's end says to go on from it.
func (r *readFlags) printToken(of reader.Read, end error) {
	if _, widened := errors.AsType[*reader.WidenedError](end); widened || r.showToken {
		fmt.Fprintf(os.Stderr, "token:%s\n", of.Token())
	}
}

// errOrder is the refusal of an --order.
func errOrder(order string) error { return fmt.Errorf("--order %q: want time, or nothing", order) }

// checkFormat refuses a format where nothing is decoded.
func (r *readFlags) checkFormat(s *stream) error {
	if (!r.auto() || r.decode.set()) && (s.table == nil || s.source == nil) {
		return errors.New("--format and what belongs to it say how a log's values become the columns of a table: SOURCE has not both")
	}
	return nil
}

// config is what the flags say about the reading of one stream; done closes what it has open.
func (r *readFlags) config(ctx context.Context, s *stream) (cfg reader.Config, done func(), err error) {
	done = func() {}
	from := r.from
	if strings.HasPrefix(from, "id:") {
		if from, err = s.offsetOfID(ctx, from); err != nil {
			return cfg, done, err
		}
	}
	want := reader.Request{From: from, Until: r.until, Partitions: r.partitions, Columns: r.columns, Limit: r.limit,
		Follow: r.follow, SkipMissing: r.skipMissing, Where: r.where}
	if cfg, err = want.Config(s.topic); err != nil {
		return cfg, done, err
	}
	cfg.Table, cfg.Source, cfg.App, cfg.Logger = s.table, s.source, s.app, r.log
	cfg.Names, cfg.Resumable = s.names, r.showToken
	if r.maxRate != "" {
		if cfg.Rate, err = reader.ParseRate(r.maxRate); err != nil {
			return cfg, done, fmt.Errorf("--max-rate: %w", err)
		}
	}
	values, err := r.values(s) // last of what may fail: it is open then
	if err != nil {
		return cfg, done, err
	}
	if values != nil {
		done = func() { _ = values.Close() }
		cfg.NewDecoder = values.NewDecoder
	} else if !r.auto() {
		cfg.Format = r.format
	}
	cfg.OnGap = func(g reader.Gap) {
		if r.gaps || g.Reason == reader.GapLost {
			fmt.Fprintf(os.Stderr, "gap: %spartition %d offsets [%d, %d): %s\n", s.label, g.Partition, g.From, g.To, g.Reason)
		}
	}
	return cfg, done, nil
}

// batches is what is read, batch by batch.
type batches interface {
	Next(ctx context.Context) (arrow.RecordBatch, error)
	Schema() *arrow.Schema
}

// writeAll prints all rows.
func (r *readFlags) writeAll(ctx context.Context, rows batches, cfg reader.Config, out io.Writer) error {
	w, err := newRowWriter(r.output, out, rows.Schema(), cfg.ValueColumn())
	if err != nil {
		return err
	}
	return errors.Join(r.copyRows(ctx, rows, w), w.close())
}

func (r *readFlags) auto() bool { return r.format == "" || r.format == "auto" }

// values opens the format that the flags say, or complete; nil where they leave it to the reader, or say json or raw.
func (r *readFlags) values(s *stream) (*format.Format, error) {
	values := r.decode
	values.topic = s.schemas()
	switch {
	case !r.auto():
		return values.open(r.format)
	case !values.set() && (values.topic == nil || s.table == nil): // the reader looks itself
		return nil, nil
	}
	return values.recorded(s.table.Properties(), s.app)
}

func (r *readFlags) copyRows(ctx context.Context, c batches, w rowWriter) error {
	for {
		rb, err := c.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := w.write(rb); err != nil {
			return err
		}
	}
}

// wholeTable says whether everything in a table is asked for, which may be more than the records of a log: rows
// that others appended have no place in a stream.
func (r *readFlags) wholeTable(s *stream) bool {
	return s.table != nil && s.source == nil && !r.streamed() && !r.gaps
}

// streamed says whether a flag is set that has a meaning for a stream only.
func (r *readFlags) streamed() bool {
	return r.from != "earliest" || r.until != "" && r.until != "now" || r.follow || len(r.partitions) > 0 || r.plan || r.showToken || r.latest || r.maxRate != "" || r.order != ""
}

// readVersion prints all rows of one version of the table: no log, no positions.
func (r *readFlags) readVersion(ctx context.Context, s *stream, out io.Writer) error {
	if r.streamed() {
		return errors.New("--version and --timestamp give the table as it was, without the log: they go with --columns, --where, --limit and --output only")
	}
	if s.table == nil {
		return errors.New("--version and --timestamp need a table: nothing was tiered yet")
	}
	snap, err := r.travel.snapshot(ctx, s.table.Log)
	if err != nil {
		return err
	}
	opts := table.ScanOptions{Columns: r.columns}
	if r.where != "" {
		if opts.Where, err = where.Parse(r.where); err != nil {
			return err
		}
	}
	var w rowWriter
	left := r.limit
	for rb, err := range s.table.Scan(ctx, snap, opts) {
		if err != nil {
			return err
		}
		if r.limit > 0 && rb.NumRows() > left {
			cut := rb.NewSlice(0, left)
			rb.Release()
			rb = cut
		}
		left -= rb.NumRows()
		if w == nil {
			w, err = newRowWriter(r.output, out, rb.Schema(), s.table.Names.Value)
		}
		if err == nil {
			err = w.write(rb)
		}
		rb.Release()
		if err != nil {
			return err
		}
		if r.limit > 0 && left == 0 {
			break
		}
	}
	if w == nil { // no rows: the columns are all that there is to show
		schema, err := s.table.Schema(snap)
		if err != nil {
			return err
		}
		if len(r.columns) > 0 {
			if schema, err = reader.Project(schema, r.columns); err != nil {
				return err
			}
		}
		if w, err = newRowWriter(r.output, out, schema, s.table.Names.Value); err != nil {
			return err
		}
	}
	return w.close()
}
