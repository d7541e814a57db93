package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/broker/pulsar"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/readonly"
	"github.com/ledgerlake/ledgerlake/broker/wire"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// pattern understands the address of a topic, or of a pattern of topics when its last part begins with ~. A pattern
// matches whole names, TENANT/NAMESPACE/TOPIC.
func (p *pulsarFlags) pattern(source string, secure *kafkaSecurity, log *slog.Logger) (cfg pulsar.Config, topic string, pattern *regexp.Regexp, err error) {
	text := ""
	if at := strings.LastIndex(source, "/~"); at > 0 {
		source, text = source[:at+1]+"pattern", source[at+2:]
	}
	if cfg, topic, err = p.config(source, secure, log); err != nil {
		return cfg, "", nil, err
	}
	if text != "" {
		if pattern, err = regexp.Compile("^" + regexp.QuoteMeta(path.Dir(topic)) + "/(?:" + text + ")$"); err != nil {
			err = fmt.Errorf("topic pattern %q: %w", text, err)
		}
	}
	return cfg, topic, pattern, err
}

// runPulsar shows topics of a Pulsar to Kafka's consumers until ctx ends: history from the tables LAKE/TOPIC, the tail
// from Pulsar. Positions of groups are kept in the directory.
func (g *gatewayFlags) runPulsar(ctx context.Context, cfg engineConfig, ready string) (err error) {
	conn, topic, pattern, err := g.pulsar.pattern(g.upstream, &g.security, cfg.log)
	if err != nil {
		return fmt.Errorf("--upstream: %w", err)
	}
	if pattern == nil {
		pattern = regexp.MustCompile("^" + regexp.QuoteMeta(topic) + "$")
	}
	lake := newLakeTables(cfg)
	lake.place = path.Base
	defer func() { err = errors.Join(err, lake.close()) }()
	if lake.History, err = reader.NewHistory(reader.HistoryConfig{Table: lake.table}); err != nil {
		return err
	}
	index := &lakeIndex{lake: lake, open: map[string]openIndex{}}
	defer func() { err = errors.Join(err, index.close()) }()
	conn.Index, conn.NoOrigin = index, true
	src, err := pulsar.Open(ctx, conn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	if err := os.MkdirAll(cfg.dir, 0o755); err != nil {
		return fmt.Errorf("make --dir: %w", err)
	}
	own, err := local.Open(ctx, local.Config{Dir: filepath.Join(cfg.dir, "log"), FS: vfs.OS(), DiskReserve: cfg.diskReserve, Logger: cfg.log})
	if err != nil {
		return fmt.Errorf("open the log of %s, which keeps the positions of groups: %w", cfg.dir, err)
	}
	defer func() { err = errors.Join(err, own.Close()) }()
	shown := readonly.New(readonly.Config{Source: src, Namespace: path.Dir(topic), Topics: pattern, Internal: own, Logger: cfg.log})
	port := wire.Config{Listen: cfg.listen, Advertise: cfg.advertise, MemoryBudget: cfg.kafkaMemory, OffsetsRetention: cfg.offsetsRetention,
		Log: shown, History: pulsarHistory{lake, shown}, Logger: cfg.log}
	cfg.access.set(&port)
	server, err := wire.Open(ctx, port)
	if err != nil {
		return listenError("--kafka-listen", fmt.Errorf("open Kafka port: %w", err))
	}
	stop, at, err := g.metrics(server, cfg)
	if err != nil {
		return errors.Join(err, server.Close())
	}
	defer stop()
	cfg.log.Info("serving", "kafka", server.Addr().String(), "upstream", g.upstream, "lake", cfg.lake)
	if ready != "" {
		info := serveInfo{Kafka: server.Addr().String(), PID: os.Getpid(), HTTP: at, Lake: cfg.lake, TLS: cfg.access.tls != nil, SASL: cfg.access.mechanisms}
		if err := writeJSONFile(ready, info); err != nil {
			return errors.Join(err, server.Close())
		}
	}
	<-ctx.Done()
	err = server.Close()
	cfg.log.Info("stopped")
	return err
}

// lakeIndex says what has an offset already, of each topic by its table. It is for pulsar.Index.
type lakeIndex struct {
	lake *lakeTables

	mu   sync.Mutex // before that of lake
	open map[string]openIndex
}

// openIndex is what a table of a topic says.
type openIndex struct {
	table *table.Table
	index *tableIndex
}

// of gives what the table of a topic says; nil when there is none. That of a table which was dropped, or made again, is closed.
func (x *lakeIndex) of(topic string) (*tableIndex, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	t, ok := x.lake.table(topic)
	if old, had := x.open[topic]; had {
		if ok && old.table == t {
			return old.index, nil
		}
		delete(x.open, topic)
		if err := old.index.close(); err != nil {
			x.lake.log.Warn("close the dead letters of a table that is gone", "topic", topic, "error", err)
		}
	}
	if !ok {
		return nil, nil
	}
	at := &tableIndex{}
	if err := at.set(t, topic, x.lake.url(topic)+"_dead_letters", x.lake.openStore); err != nil {
		return nil, fmt.Errorf("table %s: %w", x.lake.url(topic), err)
	}
	x.open[topic] = openIndex{t, at}
	return at, nil
}

// Before is for pulsar.Index.
func (x *lakeIndex) Before(ctx context.Context, tp record.TopicPartition, limit record.Offset) (pulsar.Place, bool, error) {
	at, err := x.of(tp.Topic)
	if at == nil || err != nil {
		return pulsar.Place{}, false, err
	}
	return at.Before(ctx, tp, limit)
}

// End is for pulsar.Index. It opens the table of a topic that was not asked for yet.
func (x *lakeIndex) End(ctx context.Context, tp record.TopicPartition) (record.Offset, bool, error) {
	return x.lake.End(ctx, tp, [16]byte{}, 0)
}

func (x *lakeIndex) close() (err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, at := range x.open {
		err = errors.Join(err, at.index.close())
	}
	return err
}

// pulsarHistory gives the history of topics by the names that clients know.
type pulsarHistory struct {
	lake  *lakeTables
	shown *readonly.Log
}

func (h pulsarHistory) full(tp record.TopicPartition) record.TopicPartition {
	return record.TopicPartition{Topic: h.shown.Full(tp.Topic), Partition: tp.Partition}
}

// Fetch is for wire.History.
func (h pulsarHistory) Fetch(ctx context.Context, tp record.TopicPartition, from record.Offset, maxBytes int) ([]byte, record.Offset, error) {
	return h.lake.Fetch(ctx, h.full(tp), from, maxBytes)
}

// Start is for wire.History. A table that cannot be opened now is not taken for none (I4).
func (h pulsarHistory) Start(ctx context.Context, tp record.TopicPartition) (record.Offset, bool) {
	if broker.Internal(tp.Topic) {
		return 0, false
	}
	if _, _, err := h.lake.End(ctx, h.full(tp), [16]byte{}, 0); err != nil {
		return 0, true
	}
	return h.lake.Start(ctx, h.full(tp))
}

// End tells how far the table of a topic is. What was read of the topic so far says nothing of that: a version does that is
// not older than the history's MaxStale, however often clients ask.
func (h pulsarHistory) End(ctx context.Context, tp record.TopicPartition, _ [16]byte, _ record.Offset) (record.Offset, bool, error) {
	if broker.Internal(tp.Topic) {
		return 0, false, nil
	}
	return h.lake.End(ctx, h.full(tp), [16]byte{}, 0)
}

// OffsetForTime is for wire.History.
func (h pulsarHistory) OffsetForTime(ctx context.Context, tp record.TopicPartition, ms int64) (record.Offset, bool, error) {
	if broker.Internal(tp.Topic) {
		return 0, false, nil
	}
	return h.lake.OffsetForTime(ctx, h.full(tp), ms)
}

var (
	_ pulsar.Index = (*lakeIndex)(nil)
	_ wire.History = pulsarHistory{}
	_ broker.Log   = (*readonly.Log)(nil)
)

// storeOpener opens the store of a table.
type storeOpener func(ctx context.Context, url string) (objstore.Store, error)
