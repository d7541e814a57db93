package main

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/broker/pulsar/readonly"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// TestTheIndexOfATableThatIsGoneIsClosed: when a topic's table is dropped or made again, what was open of the old one is
// closed, and what is asked then comes of the new one (I2).
func TestTheIndexOfATableThatIsGoneIsClosed(t *testing.T) {
	stores := map[string]*mem.Store{}
	openStore := func(_ context.Context, url string) (objstore.Store, error) {
		if stores[url] == nil {
			stores[url] = mem.New()
		}
		return stores[url], nil
	}
	create := func(store objstore.Store, names table.Names) *table.Table {
		t.Helper()
		tab, err := table.Create(t.Context(), store, arrow.NewSchema(nil, nil), table.Config{Names: names})
		if err != nil {
			t.Fatal(err)
		}
		return tab
	}
	lake := newLakeTables(engineConfig{lake: "lake", openStore: openStore, log: slog.New(slog.DiscardHandler)})
	lake.place = path.Base
	var err error
	if lake.History, err = reader.NewHistory(reader.HistoryConfig{Table: lake.table}); err != nil {
		t.Fatal(err)
	}
	index := &lakeIndex{lake: lake, open: map[string]openIndex{}}
	defer func() {
		if err := errors.Join(index.close(), lake.close()); err != nil {
			t.Error(err)
		}
	}()
	tp := record.TopicPartition{Topic: "a/b/orders"}
	if at, err := index.of(tp.Topic); at != nil || err != nil {
		t.Fatalf("without a table: %v %v", at, err)
	}
	for _, url := range []string{"lake/orders", "lake/orders_dead_letters"} {
		store, _ := openStore(t.Context(), url)
		if err := create(store, table.DefaultNames().WithOrigin()).Close(); err != nil {
			t.Fatal(err)
		}
	}
	use := func() *tableIndex { // looks into the dead letters
		t.Helper()
		if _, _, err := index.End(t.Context(), tp); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := index.Before(t.Context(), tp, 5); ok || err != nil {
			t.Fatalf("of an empty table: %v %v", ok, err)
		}
		at, err := index.of(tp.Topic)
		if err != nil || at == nil || at.dead == nil {
			t.Fatalf("the index %+v, %v", at, err)
		}
		return at
	}
	first := use()
	if again := use(); again != first {
		t.Error("a table that stays has two indexes")
	}
	gone, _ := lake.table(tp.Topic)
	lake.set(lake.open[tp.Topic], create(mem.New(), table.DefaultNames().WithOrigin()))
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	second := use()
	if second == first {
		t.Fatal("the index of the old table is asked")
	}
	if _, err := first.dead.Log.Snapshot(t.Context()); !errors.Is(err, deltalog.ErrClosed) {
		t.Errorf("the old dead letters are open: %v", err)
	}
	if _, err := first.get().Dead(t.Context()); !errors.Is(err, deltalog.ErrClosed) {
		t.Errorf("the old index opens them again: %v", err)
	}
	dropped, _ := lake.table(tp.Topic)
	lake.set(lake.open[tp.Topic], nil)
	if err := dropped.Close(); err != nil {
		t.Fatal(err)
	}
	if at, err := index.of(tp.Topic); at != nil || err != nil || len(index.open) != 0 {
		t.Errorf("after the table was dropped: %v %v, %d are open", at, err, len(index.open))
	}
	if _, err := second.dead.Log.Snapshot(t.Context()); !errors.Is(err, deltalog.ErrClosed) {
		t.Errorf("the dead letters of the dropped one are open: %v", err)
	}
}

// TestEndOfPulsarHistoryIsPaced: clients that ask how far a table is, again and again, do not have its log listed each time.
func TestEndOfPulsarHistoryIsPaced(t *testing.T) {
	store := mem.New()
	tab, err := table.Create(t.Context(), store, arrow.NewSchema(nil, nil), table.Config{Names: table.DefaultNames().WithOrigin()})
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	snap, err := tab.Log.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tp := record.TopicPartition{Topic: "orders"}
	if _, err := tab.Log.Commit(t.Context(), deltalog.Commit{ReadVersion: snap.Version(), Operation: "WRITE",
		Txns: []deltalog.Txn{{AppID: table.AppID("a/b/orders", 0), Version: 6}}}); err != nil {
		t.Fatal(err)
	}
	var lists atomic.Int64
	store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
		if c.Op == mem.OpList {
			lists.Add(1)
		}
		return mem.Fault{}
	})
	lake := newLakeTables(engineConfig{lake: "lake", openStore: func(context.Context, string) (objstore.Store, error) { return store, nil }, log: slog.New(slog.DiscardHandler)})
	lake.place = path.Base
	if lake.History, err = reader.NewHistory(reader.HistoryConfig{Table: lake.table}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := lake.close(); err != nil {
			t.Error(err)
		}
	}()
	h := pulsarHistory{lake, readonly.New(readonly.Config{Namespace: "a/b", Topics: regexp.MustCompile("."), Logger: lake.log})}
	ask := func() {
		t.Helper()
		if end, ok, err := h.End(t.Context(), tp, [16]byte{}, 9); end != 7 || !ok || err != nil {
			t.Fatalf("the end is %d %v, %v; want 7", end, ok, err)
		}
	}
	ask()
	const asked = 1000
	began, before := time.Now(), lists.Load()
	for range asked {
		ask()
	}
	paced := 4 * (1 + int64(time.Since(began)/lookEvery)) // at most two looks a second, one of the table and one of the history
	if n := lists.Load() - before; n > paced && paced < asked {
		t.Errorf("the log of the table was listed %d times for %d answers in %s", n, asked, time.Since(began))
	}
}
