package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// sharedLake is a log of some topics that fill one table.
type sharedLake struct {
	log    *local.Log
	stores map[string]*mem.Store // by URL
}

func (l *sharedLake) open(_ context.Context, url string) (objstore.Store, error) {
	if l.stores[url] == nil {
		l.stores[url] = mem.New()
	}
	return l.stores[url], nil
}

// fill brings n records of a topic into a table; some of several topics, as names say.
func (l *sharedLake) fill(t *testing.T, url, topic string, n int, names table.Names) {
	t.Helper()
	if _, err := l.log.CreateTopic(t.Context(), topic, broker.TopicConfig{Partitions: 1, Tiered: true}); err != nil {
		t.Fatal(err)
	}
	b := record.NewBuilder(record.None)
	for i := range n {
		b.Append(int64(1000+i), nil, fmt.Appendf(nil, `{"from":"%s %d"}`, topic, i), nil)
	}
	raw, err := b.Build(0)
	if err == nil {
		_, err = l.log.Append(t.Context(), record.TopicPartition{Topic: topic}, raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	store, _ := l.open(t.Context(), url)
	payload := arrow.NewSchema([]arrow.Field{{Name: "from", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)
	if _, err := table.OpenOrCreate(t.Context(), store, payload, table.Config{Topic: topic, Names: names}); err != nil {
		t.Fatal(err)
	}
	tab, err := table.Open(t.Context(), store, table.Config{Topic: topic})
	if err != nil {
		t.Fatal(err)
	}
	tr, err := tiering.Open(t.Context(), tiering.Config{Source: l.log, Topic: topic, Table: tab, Format: tiering.FormatJSON, UntilEnd: true,
		DeadLetterStore: func(context.Context) (objstore.Store, error) { return mem.New(), nil }})
	if err == nil {
		err = tr.Run(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A gateway gives each topic of a shared table its own rows as history, in the order of its offsets, with its own end and times; a
// topic that has a table of its own keeps to that, and one that is in none has no history (I4).
func TestGatewayHistoryOfATableOfSeveralTopics(t *testing.T) {
	l := &sharedLake{stores: map[string]*mem.Store{}}
	var err error
	if l.log, err = local.Open(t.Context(), local.Config{Dir: "/log", FS: vfs.NewMem()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.log.Close() })
	several := table.DefaultNames()
	several.Topic = table.TopicColumn
	counts := map[string]int{"orders": 30, "payments": 50, "own": 7}
	l.fill(t, "shared", "orders", counts["orders"], several)
	l.fill(t, "shared", "payments", counts["payments"], several)
	l.fill(t, "lake/own", "own", counts["own"], table.Names{})

	lake := newLakeTables(engineConfig{lake: "lake", sharedTables: []string{"nothing there", "shared"}, openStore: l.open, log: slog.New(slog.DiscardHandler)})
	if lake.History, err = reader.NewHistory(reader.HistoryConfig{Table: lake.table, NoCodec: true}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := lake.close(); err != nil {
			t.Error(err)
		}
	}()
	for topic, n := range counts {
		tp := record.TopicPartition{Topic: topic}
		id, err := l.log.TopicID(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		if end, ok, err := lake.End(t.Context(), tp, id, 0); err != nil || !ok || int(end) != n {
			t.Fatalf("%s ends at %d, %t, %v; want %d", topic, end, ok, err, n)
		}
		if _, _, err := lake.End(t.Context(), tp, [16]byte{1}, 0); err == nil {
			t.Errorf("%s: another topic of that name is given its history", topic)
		}
		got := 0
		for at := record.Offset(0); int(at) < n; {
			raw, next, err := lake.Fetch(t.Context(), tp, at, 200)
			if err != nil || next <= at {
				t.Fatalf("%s at %d: next %d, %v", topic, at, next, err)
			}
			got += strings.Count(string(raw), `"from":"`+topic+" ")
			at = next
		}
		if got != n {
			t.Errorf("%s: %d of its records, want %d", topic, got, n)
		}
		if o, ok, err := lake.OffsetForTime(t.Context(), tp, 1005); err != nil || !ok || o != 5 {
			t.Errorf("%s: time 1005 is at %d, %t, %v", topic, o, ok, err)
		}
	}
	if _, ok, err := lake.End(t.Context(), record.TopicPartition{Topic: "another"}, [16]byte{1}, 0); ok || err != nil {
		t.Errorf("a topic that is nowhere has a history: %v", err)
	}
}
