package bench

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/table"
)

// ingestSide is one way to do the work.
type ingestSide struct {
	name    string
	binary  string
	args    func(w *ingestWork, load *topicLoad, table string) []string // nil: runs in this process
	create  func(ctx context.Context, s shape, topic string, at objstore.Store) error
	env     []string
	only    func(ingestCase) bool // nil: all cases
	foreign bool                  // not this program
	ends    bool                  // by itself, when the topic is in the table
	floor   ingestFloor           // not floorNone: no table is made
}

// ingestSides are this program with the daemon's own command line, this program with a table of its own (the raw
// records are kept beside the columns), the daemon, the other peers that are installed, and the plain pipeline. Peers that
// were asked for and are not there are named.
func ingestSides(cfg Config) (sides []ingestSide, absent []string, err error) {
	self, err := cfg.self()
	if err != nil {
		return nil, nil, err
	}
	sides = []ingestSide{
		{name: sideOurs, binary: self, args: lineArgs, create: createPlainTable},
		{name: "ledgerlake keeping raw", binary: self, args: ownArgs, create: createOwnTable, only: keepsRaw},
	}
	if cfg.ReferenceBin != "" {
		if _, err := os.Stat(cfg.ReferenceBin); err != nil {
			return nil, nil, fmt.Errorf("reference daemon: %w", err)
		}
		sides = append(sides, ingestSide{name: sideDaemon, binary: cfg.ReferenceBin, args: daemonArgs, create: createPlainTable, env: []string{"RUST_LOG=error"}, foreign: true})
	}
	for _, peer := range []func() (ingestSide, bool){deltaRSSide, sparkSide} {
		if side, ok := peer(); ok {
			sides = append(sides, side)
		} else if side.name != "" {
			absent = append(absent, side.name)
		}
	}
	return append(append(sides, ingestSide{name: "plain", only: keepsRaw}), floorSides()...), absent, nil
}

func keepsRaw(c ingestCase) bool { return c.raw }

// sideDaemon is the daemon among the sides.
const sideDaemon = "kafka-delta-ingest"

// daemonArgs are those of kafka-delta-ingest, which this program takes too: the same line for both. The batch size is
// above the daemon's default of 5,000, so that it has less to do a message.
func daemonArgs(w *ingestWork, load *topicLoad, table string) []string {
	args := []string{
		"ingest", load.topic, w.lake.url(table), "--kafka", w.node.addr, "--app_id", ingestApp, "--consumer_group", table, // a group of its own: an earlier run may have left members
		"--auto_offset_reset", "earliest", "--allowed_latency", strconv.Itoa(w.latency), "--max_messages_per_batch", "10000",
	}
	for _, t := range w.kind.transforms {
		args = append(args, "--transform", t)
	}
	if w.kind.avro != "" {
		args = append(args, "--soe-avro", w.schemaFile())
	}
	if w.outage > 0 {
		args = append(args, "--kafka_setting", "session.timeout.ms=10000")
	}
	return args
}

// lineArgs are daemonArgs and the address of the store, which the daemon takes from the environment alone.
func lineArgs(w *ingestWork, load *topicLoad, table string) []string {
	return append(daemonArgs(w, load, table), w.lake.args...)
}

// ownArgs are those of this program's own form: the table has the system columns and the raw records.
func ownArgs(w *ingestWork, load *topicLoad, table string) []string {
	args := []string{"ingest", "--brokers", w.node.addr, "--topic", load.topic, "--table", w.lake.url(table), "--app", ingestApp, "--flush-age", strconv.Itoa(w.latency) + "s"}
	return append(args, w.lake.args...)
}

// createPlainTable makes a table with the columns of the messages and no more, as the daemon needs it.
func createPlainTable(ctx context.Context, s shape, _ string, store objstore.Store) error {
	columns, err := s.columns()
	if err != nil {
		return err
	}
	log, err := deltalog.Create(ctx, store, deltalog.CreateOptions{Schema: columns, PartitionColumns: s.partition}, deltalog.Config{})
	if err != nil {
		return err
	}
	return log.Close()
}

// createOwnTable makes a table as this program makes them.
func createOwnTable(ctx context.Context, s shape, topic string, store objstore.Store) error {
	columns, err := s.columns()
	if err != nil {
		return err
	}
	payload, err := deltalog.ToArrow(columns)
	if err != nil {
		return err
	}
	t, err := table.Create(ctx, store, payload, table.Config{Topic: topic})
	if err != nil {
		return err
	}
	return t.Log.Close()
}
