package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/dir"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// RunTiering measures the way from the embedded log to a local Delta table, beside the same pipeline
// written plainly. Both drain the same log, and the row counts of both are checked.
func RunTiering(ctx context.Context, cfg Config) (r *Report, err error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	scratch, remove, err := cfg.scratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	log, records, bytes, err := filledLog(ctx, cfg, filepath.Join(scratch, "log"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	_, payload, err := tiering.Infer(ctx, log, logTopic, tiering.SampleConfig{})
	if err != nil {
		return nil, err
	}
	full := arrow.NewSchema(append(table.SystemFields(table.DefaultNames()), payload.Fields()...), nil)
	r = &Report{Scenario: "tiering", Machine: Machine(), Time: time.Now().UTC()}
	for round := range cfg.Rounds {
		name := filepath.Join(scratch, fmt.Sprintf("run-%d", round))
		ours, err := measure("ledgerlake", round, func() (int64, int64, error) {
			rows, err := drain(ctx, log, name, payload)
			return rows, bytes, err
		})
		if err != nil {
			return nil, err
		}
		plain, err := measure("plain", round, func() (int64, int64, error) {
			rows, err := plainTier(ctx, log, logTopic, full, name+".parquet")
			return rows, bytes, err
		})
		if err != nil {
			return nil, err
		}
		for _, s := range []Sample{ours, plain} {
			if s.Records != records {
				return nil, fmt.Errorf("wrong result: %s wrote %d rows of %d records", s.Case, s.Records, records)
			}
			r.Samples = append(r.Samples, s)
		}
	}
	r.atLeast("ledgerlake / plain, MB/s ratio", 5, r.median("ledgerlake", perSecond)/r.median("plain", perSecond))
	r.atLeast("ledgerlake / plain, MB per CPU second ratio", 5, r.median("ledgerlake", perCPUSecond)/r.median("plain", perCPUSecond))
	return r, nil
}

func filledLog(ctx context.Context, cfg Config, at string) (*local.Log, int64, int64, error) {
	batches, records, bytes, err := produceBatches(cfg)
	if err != nil {
		return nil, 0, 0, err
	}
	log, err := local.Open(ctx, local.Config{Dir: at, FS: vfs.OS(), Durability: local.DurabilityNone})
	if err != nil {
		return nil, 0, 0, err
	}
	if _, err := log.CreateTopic(ctx, logTopic, broker.TopicConfig{Partitions: logPartitions}); err != nil {
		return nil, 0, 0, errors.Join(err, log.Close())
	}
	for i, b := range batches {
		if _, err := log.Append(ctx, record.TopicPartition{Topic: logTopic, Partition: int32(i % logPartitions)}, b); err != nil {
			return nil, 0, 0, errors.Join(err, log.Close())
		}
	}
	return log, records, bytes, nil
}

// drain tiers the whole log into a new table and gives the rows that the table says it has.
func drain(ctx context.Context, log *local.Log, at string, payload *arrow.Schema) (int64, error) {
	store, err := dir.Open(dir.Config{Root: at, FS: vfs.OS()})
	if err != nil {
		return 0, err
	}
	t, err := table.Create(ctx, store, payload, table.Config{Topic: logTopic})
	if err != nil {
		return 0, err
	}
	tr, err := tiering.Open(ctx, tiering.Config{
		Source: log, Topic: logTopic, App: logTopic, Table: t, Format: tiering.FormatJSON,
		Committer: committer.NewDirect(t.Log), UntilEnd: true,
		DeadLetterStore: func(context.Context) (objstore.Store, error) {
			return dir.Open(dir.Config{Root: at + "_dead_letters", FS: vfs.OS()})
		},
	})
	if err != nil {
		return 0, err
	}
	if err := errors.Join(tr.Run(ctx), tr.Close()); err != nil {
		return 0, err
	}
	snap, err := t.Log.Snapshot(ctx)
	if err != nil {
		return 0, err
	}
	rows := int64(0)
	for add := range snap.Files() {
		n, ok := add.NumRecords()
		if !ok {
			return 0, fmt.Errorf("file %s does not say its rows", add.Path)
		}
		rows += n
	}
	return rows, t.Log.Close()
}
