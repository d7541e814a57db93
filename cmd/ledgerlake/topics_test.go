package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/committer"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/reprocess"
	"github.com/ledgerlake/ledgerlake/table"
)

const tieredTopic = "a"

// tiererRig is a log of one topic and its tierer, whose runs end when the table has what the log has.
type tiererRig struct {
	t       *testing.T
	log     *local.Log
	store   *mem.Store // of the table
	tierers *tierers
	tierer  *tierer
	history *reader.History
}

func newTiererRig(t *testing.T) *tiererRig {
	t.Helper()
	log, err := local.Open(t.Context(), local.Config{Dir: "/log", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	if _, err := log.CreateTopic(t.Context(), tieredTopic, broker.TopicConfig{Partitions: 1, Tiered: true}); err != nil {
		t.Fatal(err)
	}
	r := &tiererRig{t: t, log: log, store: mem.New(), tierer: &tierer{}}
	dead := mem.New()
	e := &engine{log: log, cfg: engineConfig{lake: "lake", format: "json", log: slog.New(slog.DiscardHandler),
		openStore: func(_ context.Context, url string) (objstore.Store, error) {
			if url == "lake/"+tieredTopic {
				return r.store, nil
			}
			return dead, nil
		}}}
	e.cfg.tiering.UntilEnd = true
	r.tierers = newTierers(e.plan, e.cfg.log)
	r.tierers.live[tieredTopic] = r.tierer
	t.Cleanup(func() { r.tierers.closeTable(tieredTopic, r.tierer) })
	if r.history, err = reader.NewHistory(reader.HistoryConfig{Table: r.tierers.table, MaxStale: 1}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.history.Close() })
	return r
}

func (r *tiererRig) append(n int) {
	r.t.Helper()
	b := record.NewBuilder(record.None)
	b.Append(1, nil, fmt.Appendf(nil, `{"n":%d}`, n), nil)
	raw, err := b.Build(0)
	if err == nil {
		_, err = r.log.Append(r.t.Context(), record.TopicPartition{Topic: tieredTopic}, raw)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *tiererRig) run() error { return r.tierers.runOnce(r.t.Context(), tieredTopic, r.tierer) }

// readable checks that history gives what is before end.
func (r *tiererRig) readable(end record.Offset) {
	r.t.Helper()
	for at := record.Offset(0); at < end; {
		_, next, err := r.history.Fetch(r.t.Context(), record.TopicPartition{Topic: tieredTopic}, at, 1<<20)
		if err != nil || next == at {
			r.t.Fatalf("history at %d of %d: next %d, %v", at, end, next, err)
		}
		at = next
	}
}

// open gives the table that readers are given.
func (r *tiererRig) open() *table.Table {
	r.t.Helper()
	tab, ok := r.tierers.table(tieredTopic)
	if !ok {
		r.t.Fatal("the topic has no table")
	}
	return tab
}

// While tiering fails, the history that the table holds stays readable (I4): between runs, and after a failed one.
func TestHistoryOfFailedTierer(t *testing.T) {
	r := newTiererRig(t)
	r.append(1)
	if err := r.run(); err != nil {
		t.Fatal(err)
	}
	r.readable(1)
	tab := r.open()
	snap, err := tab.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	meta := *snap.Metadata()
	meta.Configuration = map[string]string{committer.FilledByProperty: "job"}
	if _, err := tab.Log.Commit(t.Context(), deltalog.Commit{ReadVersion: snap.Version(), Operation: "SET TBLPROPERTIES", Metadata: &meta}); err != nil {
		t.Fatal(err)
	}
	r.append(2)
	for range 2 {
		var filled *committer.FilledByError
		if err := r.run(); !errors.As(err, &filled) {
			t.Fatalf("run = %v, want a FilledByError", err)
		}
		r.readable(1)
	}
	if r.open() != tab {
		t.Error("the table was opened again")
	}
}

// A table that was dropped is made again by the next run, and readers get the new one.
func TestTierersReopenDroppedTable(t *testing.T) {
	r := newTiererRig(t)
	r.append(1)
	if err := r.run(); err != nil {
		t.Fatal(err)
	}
	old := r.open()
	var names []string
	for o, err := range r.store.List(t.Context(), objstore.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, o.Key)
	}
	for _, n := range names {
		if err := r.store.Delete(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	r.append(2)
	if err := r.run(); err != nil {
		t.Fatal(err)
	}
	r.readable(2)
	if _, err := old.Log.Snapshot(t.Context()); !errors.Is(err, deltalog.ErrClosed) {
		t.Errorf("the dropped table: %v, want ErrClosed", err)
	}
}

// The table of a deleted topic is closed, and nobody is given it any more.
func TestTierersCloseDeletedTopic(t *testing.T) {
	r := newTiererRig(t)
	r.append(1)
	if err := r.run(); err != nil {
		t.Fatal(err)
	}
	tab := r.open()
	if err := r.log.DeleteTopic(t.Context(), tieredTopic); err != nil {
		t.Fatal(err)
	}
	r.tierers.run(t.Context(), tieredTopic, r.tierer)
	if _, ok := r.tierers.table(tieredTopic); ok {
		t.Error("a deleted topic has a table")
	}
	if _, err := tab.Log.Snapshot(t.Context()); !errors.Is(err, deltalog.ErrClosed) {
		t.Errorf("its table: %v, want ErrClosed", err)
	}
}

// A job fills the topic's own table: the hold follows it, the log drops what is there, and history is read under the job's
// name. When the table is the topic's again, tiering goes on (I4, I6).
func TestHoldFollowsTheJobThatFills(t *testing.T) {
	r := newTiererRig(t)
	if err := r.log.SetTopicConfig(t.Context(), tieredTopic, broker.TopicConfig{Partitions: 1, Tiered: true, SegmentBytes: 1024, RetentionBytes: 1}); err != nil {
		t.Fatal(err)
	}
	for n := range 100 { // some segments
		r.append(n)
	}
	j, err := reprocess.Open(t.Context(), reprocess.Config{Spec: reprocess.Spec{Name: "filler", Source: "log", Sink: "table"}, Topic: tieredTopic, Log: r.log, Sink: r.store,
		Schema:          arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil),
		DeadLetterStore: func(context.Context) (objstore.Store, error) { return mem.New(), nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	if err := j.Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- r.tierers.runOnce(ctx, tieredTopic, r.tierer) }()
	tp := record.TopicPartition{Topic: tieredTopic}
	for { // until the hold is there
		if err := r.log.EnforceRetention(); err != nil {
			t.Fatal(err)
		}
		b, err := r.log.Bounds(t.Context(), tp)
		if err != nil {
			t.Fatal(err)
		}
		if b.Start > 0 {
			break
		}
		select {
		case err := <-done:
			t.Fatalf("it ended: %v", err)
		default:
		}
	}
	r.readable(100)
	snap, err := j.Sink().Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	change, err := snap.Alter(deltalog.Change{Set: map[string]string{committer.FilledByProperty: ""}})
	if err == nil {
		_, err = j.Sink().Log.Commit(t.Context(), change)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, errFillerLeft) {
		t.Errorf("the table is the topic's again: %v", err)
	}
}

// A job that fills the topic's table from the middle of the log on moves no hold: what is before is in no table. Once the
// owner has deleted that, the hold follows (I6).
func TestHoldStaysWhereTheJobBeganLate(t *testing.T) {
	r := newTiererRig(t)
	if err := r.log.SetTopicConfig(t.Context(), tieredTopic, broker.TopicConfig{Partitions: 1, Tiered: true, SegmentBytes: 1024, RetentionBytes: 1}); err != nil {
		t.Fatal(err)
	}
	for n := range 100 { // some segments
		r.append(n)
	}
	j, err := reprocess.Open(t.Context(), reprocess.Config{Spec: reprocess.Spec{Name: "filler", Source: "log", Sink: "table", From: "0:60"}, Topic: tieredTopic, Log: r.log, Sink: r.store,
		Schema:          arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil),
		DeadLetterStore: func(context.Context) (objstore.Store, error) { return mem.New(), nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	if err := j.Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	plan := r.tierers.plan(tieredTopic)
	begins := func() record.Offset {
		snap, err := j.Sink().Refresh(t.Context())
		if err == nil {
			err = r.tierers.holdBeside(t.Context(), plan, snap, map[int32]bool{})
		}
		if err == nil {
			err = r.log.EnforceRetention()
		}
		b, err2 := r.log.Bounds(t.Context(), record.TopicPartition{Topic: tieredTopic})
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		return b.Start
	}
	if at := begins(); at != 0 {
		t.Fatalf("the log begins at %d: what is before 60 is in no table, and gone", at)
	}
	if _, err := r.log.DeleteRecords(t.Context(), record.TopicPartition{Topic: tieredTopic}, 60); err != nil {
		t.Fatal(err)
	}
	if at := begins(); at <= 60 {
		t.Errorf("the log begins at %d, and its table has all behind 60", at)
	}
}
