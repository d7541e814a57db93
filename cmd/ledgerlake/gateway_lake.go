package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

const (
	noTableFor = 10 * time.Second // a topic that had no table is not looked up again for so long
	lookEvery  = time.Second      // ... and of one that has, not more often whether it is still that one
)

// lakeTables is the history of an external Kafka: the tables LAKE/TOPIC, and some that have rows of several topics, which
// somebody else fills. The table of a topic is opened when it is first asked for: of several topics for each by itself, so that
// each sees its own files alone.
type lakeTables struct {
	*reader.History
	lake      string   // empty: there are shared ones alone
	shared    []string // tables that may have rows of any topic
	openStore storeOpener
	place     func(topic string) string // the folder of a topic's table; nil: as the topic
	log       *slog.Logger

	mu   sync.Mutex
	open map[string]*lakeTable
}

// lakeTable is what is known of the table of a topic. Its lock is held while it is opened or looked at.
type lakeTable struct {
	mu          sync.Mutex
	none        time.Time // when it was seen that there is none, or none that will do
	looked      time.Time // when it was seen that it is the one
	incarnation string
	url         string // of table

	table *table.Table // nil: not open; guarded by lakeTables.mu
}

func newLakeTables(cfg engineConfig) *lakeTables {
	return &lakeTables{lake: strings.TrimSuffix(cfg.lake, "/"), shared: cfg.sharedTables, openStore: cfg.openStore, log: cfg.log, open: map[string]*lakeTable{}}
}

// url is where the table of a topic is.
func (l *lakeTables) url(topic string) string {
	if l.place != nil {
		topic = l.place(topic)
	}
	return l.lake + "/" + topic
}

// table gives the open table of a topic.
func (l *lakeTables) table(topic string) (*table.Table, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.open[topic]
	if x == nil || x.table == nil {
		return nil, false
	}
	return x.table, true
}

// End makes sure that the topic's table is open, and the one that is there now, before its end is told.
func (l *lakeTables) End(ctx context.Context, tp record.TopicPartition, id [16]byte, logStart record.Offset) (record.Offset, bool, error) {
	l.mu.Lock()
	x := l.open[tp.Topic]
	if x == nil {
		x = &lakeTable{}
		l.open[tp.Topic] = x
	}
	l.mu.Unlock()
	x.mu.Lock()
	err := l.look(ctx, tp.Topic, x)
	x.mu.Unlock()
	if err != nil {
		return 0, false, err
	}
	return l.History.End(ctx, tp, id, logStart)
}

// look opens the table of a topic, or again one that was dropped and made anew. x.mu is held.
func (l *lakeTables) look(ctx context.Context, topic string, x *lakeTable) error {
	if t, ok := l.table(topic); ok {
		if time.Since(x.looked) < lookEvery {
			return nil
		}
		x.looked = time.Now()
		snap, err := t.Refresh(ctx)
		switch {
		case err == nil && snap.Metadata().ID == x.incarnation:
			return nil
		case err != nil && !errors.Is(err, deltalog.ErrNotTable):
			return fmt.Errorf("read table %s: %w", x.url, err)
		}
		l.set(x, nil)
		if err := t.Close(); err != nil {
			l.log.Warn("close a table that is gone", "topic", topic, "error", err)
		}
	}
	if time.Since(x.none) < noTableFor {
		return nil
	}
	t, url, err := l.find(ctx, topic)
	if err != nil {
		return err
	}
	if t == nil {
		x.none = time.Now()
		return nil
	}
	snap, err := t.Refresh(ctx)
	if err != nil {
		return errors.Join(fmt.Errorf("read table %s: %w", url, err), t.Close())
	}
	if n := t.Names; !n.Ordered() || n.Timestamp == "" || n.Key == "" || n.Headers == "" || n.Value == "" {
		l.log.Warn("the table of a topic gives no history: it does not hold whole records (_partition, _offset, _timestamp, _key, _headers, _value)", "topic", topic, "table", url)
		x.none = time.Now()
		return t.Close()
	}
	x.incarnation, x.looked, x.url = snap.Metadata().ID, time.Now(), url
	l.set(x, t)
	l.log.Info("history of a topic", "topic", topic, "table", url)
	return nil
}

// find opens the table of a topic: its own, else the first of the shared ones that has positions of it; nil when there is none.
func (l *lakeTables) find(ctx context.Context, topic string) (*table.Table, string, error) {
	if l.lake != "" {
		url := l.url(topic)
		if t, err := l.openTable(ctx, url, topic); t != nil || err != nil {
			return t, url, err
		}
	}
	for _, url := range l.shared {
		t, err := l.openTable(ctx, url, topic)
		if err != nil {
			return nil, url, err
		}
		if t == nil {
			continue
		}
		snap, err := t.Refresh(ctx)
		if err == nil && len(table.Partitions(snap, topic)) > 0 {
			return t, url, nil
		}
		if err = errors.Join(err, t.Close()); err != nil {
			return nil, url, fmt.Errorf("read table %s: %w", url, err)
		}
	}
	return nil, "", nil
}

// openTable gives nil where there is no table.
func (l *lakeTables) openTable(ctx context.Context, url, topic string) (*table.Table, error) {
	store, err := l.openStore(ctx, url)
	if err != nil {
		return nil, err
	}
	t, err := table.Open(ctx, store, table.Config{Topic: topic, Logger: l.log})
	switch {
	case errors.Is(err, deltalog.ErrNotTable):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("open table %s: %w", url, err)
	}
	return t, nil
}

func (l *lakeTables) set(x *lakeTable, t *table.Table) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x.table = t
}

func (l *lakeTables) close() (err error) {
	if l.History != nil {
		err = l.History.Close()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.open {
		if x.table != nil {
			err = errors.Join(err, x.table.Close())
		}
	}
	return err
}
