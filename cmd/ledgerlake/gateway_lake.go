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

// lakeTables is the history of an external Kafka: the tables LAKE/TOPIC, which somebody else fills. Each is opened when
// it is first asked for.
type lakeTables struct {
	*reader.History
	lake      string
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

	table *table.Table // nil: not open; guarded by lakeTables.mu
}

func newLakeTables(cfg engineConfig) *lakeTables {
	return &lakeTables{lake: strings.TrimSuffix(cfg.lake, "/"), openStore: cfg.openStore, log: cfg.log, open: map[string]*lakeTable{}}
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
			return fmt.Errorf("read table %s: %w", l.url(topic), err)
		}
		l.set(x, nil)
		if err := t.Close(); err != nil {
			l.log.Warn("close a table that is gone", "topic", topic, "error", err)
		}
	}
	if time.Since(x.none) < noTableFor {
		return nil
	}
	url := l.url(topic)
	store, err := l.openStore(ctx, url)
	if err != nil {
		return err
	}
	t, err := table.Open(ctx, store, table.Config{Topic: topic, Logger: l.log})
	if errors.Is(err, deltalog.ErrNotTable) {
		x.none = time.Now()
		return nil
	}
	if err != nil {
		return fmt.Errorf("open table %s: %w", url, err)
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
	x.incarnation, x.looked = snap.Metadata().ID, time.Now()
	l.set(x, t)
	l.log.Info("history of a topic", "topic", topic, "table", url)
	return nil
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
