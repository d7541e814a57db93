package model

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/maintenance"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// liveLog is the log that the world has now: a crash gives it a new one, and readers go on, as those of a server that
// was started again.
type liveLog struct{ w *world }

var _ broker.Source = liveLog{}

func (l liveLog) Partitions(ctx context.Context, topic string) ([]int32, error) {
	return l.w.log.Partitions(ctx, topic)
}
func (l liveLog) Bounds(ctx context.Context, tp record.TopicPartition) (broker.Bounds, error) {
	return l.w.log.Bounds(ctx, tp)
}
func (l liveLog) Fetch(ctx context.Context, r []broker.FetchRange, o broker.FetchOptions) ([]broker.Fetched, error) {
	return l.w.log.Fetch(ctx, r, o)
}
func (l liveLog) OffsetForTime(ctx context.Context, tp record.TopicPartition, ms int64) (record.Offset, error) {
	return l.w.log.OffsetForTime(ctx, tp, ms)
}

func (l liveLog) Hold(ctx context.Context, tp record.TopicPartition, o record.Offset) error {
	return l.w.log.Hold(ctx, tp, o)
}

// Close does nothing: the log is the world's.
func (l liveLog) Close() error { return nil }

// tail is what readers read behind the table.
func (w *world) tail() broker.Source {
	if w.source != nil {
		return w.source
	}
	return liveLog{w}
}

// optimize rewrites small files, sometimes with a store that fails.
func (w *world) optimize() {
	faults := w.rng.IntN(2) * w.rng.IntN(4)
	injectFaults(w.store, rand.New(rand.NewPCG(w.rng.Uint64(), 1)), faults)
	defer w.store.SetHook(nil)
	_, err := maintenance.Optimize(w.t.Context(), w.table, maintenance.OptimizeOptions{MinFiles: 2 + w.rng.IntN(3), Gradual: w.rng.IntN(2) == 0})
	w.did("optimize with %d store faults: %v", faults, err)
	if err != nil && faults == 0 {
		w.fail("optimize: %v", err)
	}
}

// vacuum removes whatever no lease needs, at once, and cleans the log.
func (w *world) vacuum() {
	faults := w.rng.IntN(2) * w.rng.IntN(3)
	injectFaults(w.store, rand.New(rand.NewPCG(w.rng.Uint64(), 2)), faults)
	defer w.store.SetHook(nil)
	ahead := func() time.Time { return time.Now().Add(2 * time.Second) }
	report, err := maintenance.Vacuum(w.t.Context(), w.table, maintenance.VacuumOptions{Zero: true, Force: true, OrphanAge: time.Hour, Clock: ahead})
	w.did("vacuum with %d store faults: %d files, %d leased: %v", faults, report.Deleted.Files, report.Leased, err)
	if err != nil && faults == 0 {
		w.fail("vacuum: %v", err)
	}
}

// reopenTable is what another process sees of the table.
func (w *world) reopenTable() {
	if w.paused != nil {
		return // it reads through the table that is open
	}
	t, err := table.Open(w.t.Context(), w.store, table.Config{Topic: topic, Log: quickLog()})
	if err = errors.Join(err, w.table.Close()); err != nil {
		w.fail("open the table again: %v", err)
	}
	w.table = t
	w.did("open the table again")
}
