package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/broker/wire"
	"github.com/ledgerlake/ledgerlake/committer/rpc"
	"github.com/ledgerlake/ledgerlake/flight"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/tiering"
	"github.com/ledgerlake/ledgerlake/web"
)

// engineConfig is the whole embedded engine: log, Kafka port and tiering in one directory.
type engineConfig struct {
	dir            string
	lake           string   // where tables go; default dir/lake
	sharedTables   []string // of a gateway: tables with rows of several topics
	listen         string
	access         access // to the Kafka port
	advertise      string
	durability     string
	autoCreate     bool
	anyReplication bool
	partitions     int32 // of topics made by clients without a number
	topics         []topicSpec
	topic          broker.TopicConfig // of topics that are made
	noTiering      bool
	http           string // address of the HTTP face; empty: none
	flight         string // address of Arrow Flight; empty: none

	retentionInterval time.Duration
	diskReserve       int64 // as in local.Config
	offsetsRetention  time.Duration
	kafkaMemory       int64

	format    string
	schema    *arrow.Schema
	shape     tableFlags
	tiering   tiering.Config
	upkeep    upkeep
	openStore func(ctx context.Context, url string) (objstore.Store, error)
	registry  *prometheus.Registry // of the HTTP face's metrics; nil: its own
	group     *rpc.Client          // of committers; nil: the store alone orders versions
	log       *slog.Logger
}

// topicSpec is NAME or NAME:PARTITIONS.
type topicSpec struct {
	name       string
	partitions int32
}

func parseTopicSpec(s string, partitions int32) (topicSpec, error) {
	name, n, ok := strings.Cut(s, ":")
	if !ok {
		return topicSpec{name, partitions}, nil
	}
	p, err := strconv.ParseInt(n, 10, 32)
	if err != nil || p < 1 || p > 10000 || name == "" {
		return topicSpec{}, fmt.Errorf("topic %q: want NAME or NAME:PARTITIONS, partitions 1 to 10000", s)
	}
	return topicSpec{name, int32(p)}, nil
}

// engine is the running whole. Close order: no more requests, flush and commit the tierers, then the log.
type engine struct {
	cfg     engineConfig
	log     *local.Log
	server  *wire.Server
	tierers *tierers
	history *reader.History // nil without tiering
	web     *web.Server     // nil: no HTTP
	flight  *flight.Server  // nil: no Arrow Flight
}

// serveInfo is what a served directory says about itself to commands that are given only the directory.
type serveInfo struct {
	Kafka  string   `json:"kafka"`
	HTTP   string   `json:"http,omitempty"`
	Flight string   `json:"flight,omitempty"`
	TLS    bool     `json:"tls,omitempty"`
	SASL   []string `json:"sasl,omitempty"` // mechanisms that are offered; none: no log-in
	PID    int      `json:"pid"`
	Lake   string   `json:"lake"`
}

const serveInfoName = "serve.json"

func openEngine(ctx context.Context, cfg engineConfig) (*engine, error) {
	if cfg.lake == "" {
		cfg.lake = filepath.Join(cfg.dir, "lake")
	}
	e := &engine{cfg: cfg}
	durability := local.DurabilityGroup
	switch cfg.durability {
	case "", "group":
	case "none":
		durability = local.DurabilityNone
	default:
		return nil, fmt.Errorf("--durability %q is not group or none", cfg.durability)
	}
	cfg.topic.Tiered = !cfg.noTiering
	log, err := local.Open(ctx, local.Config{
		Dir: filepath.Join(cfg.dir, "log"), FS: vfs.OS(), Durability: durability,
		DefaultTopic: cfg.topic, AwaitDefaults: true, RetentionInterval: cfg.retentionInterval, DiskReserve: cfg.diskReserve, Logger: cfg.log,
	})
	if err != nil {
		return nil, lockError(cfg.dir, fmt.Errorf("open the log of %s: %w", cfg.dir, err))
	}
	e.log = log
	if err := e.createTopics(ctx); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	var history wire.History
	if !cfg.noTiering {
		e.tierers = newTierers(e.plan, cfg.log)
		// Not every client has every codec, and a consumer cannot say which it has: records of the table go as they are.
		e.history, err = reader.NewHistory(reader.HistoryConfig{Table: e.tierers.table, Opening: e.tierers.opening, NoCodec: true})
		if err != nil {
			return nil, errors.Join(err, log.Close())
		}
		history = e.history
	}
	port := wire.Config{
		Listen: cfg.listen, Advertise: cfg.advertise, Log: log, History: history, Logger: cfg.log,
		AutoCreateTopics: cfg.autoCreate, DefaultPartitions: cfg.partitions, AnyReplication: cfg.anyReplication,
		OffsetsRetention: cfg.offsetsRetention, MemoryBudget: cfg.kafkaMemory,
	}
	cfg.access.set(&port)
	e.server, err = wire.Open(ctx, port)
	if err != nil {
		return nil, errors.Join(listenError("--kafka-listen", fmt.Errorf("open Kafka port: %w", err)), log.Close())
	}
	if err := errors.Join(e.openWeb(ctx), e.openFlight(ctx)); err != nil {
		return nil, errors.Join(err, e.close())
	}
	if err := e.writeInfo(); err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

func (e *engine) createTopics(ctx context.Context) error {
	for _, spec := range e.cfg.topics {
		if _, err := e.log.CreateTopic(ctx, spec.name, broker.TopicConfig{Partitions: spec.partitions}); err != nil && !errors.Is(err, broker.ErrTopicExists) {
			return fmt.Errorf("create topic %s: %w", spec.name, err)
		}
	}
	return nil
}

func (e *engine) plan(topic string) *topicPlan {
	return &topicPlan{
		source: e.log, topic: topic, app: topic, openStore: e.cfg.openStore, tableURL: e.tableURL(topic), group: e.cfg.group,
		format: e.cfg.format, schema: e.cfg.schema, shape: e.cfg.shape, tiering: e.cfg.tiering, log: e.cfg.log,
	}
}

func (e *engine) tableURL(topic string) string {
	return strings.TrimSuffix(e.cfg.lake, "/") + "/" + topic
}

// tables gives the tables that are filled, and those of their dead letters.
func (e *engine) tables(ctx context.Context) ([]string, error) {
	infos, err := e.log.Topics(ctx)
	if err != nil {
		return nil, err
	}
	var urls []string
	for _, info := range infos {
		if !broker.Internal(info.Name) {
			urls = append(urls, e.tableURL(info.Name), e.tableURL(info.Name)+"_dead_letters")
		}
	}
	return urls, nil
}

func (e *engine) info() serveInfo {
	info := serveInfo{Kafka: e.server.Addr().String(), PID: os.Getpid(), Lake: e.cfg.lake, TLS: e.cfg.access.tls != nil, SASL: e.cfg.access.mechanisms}
	if e.web != nil {
		info.HTTP = e.web.Addr().String()
	}
	if e.flight != nil {
		info.Flight = e.flight.Addr().String()
	}
	return info
}

// writeInfo leaves the address in the directory; written beside and renamed, so that it is never read half.
func (e *engine) writeInfo() error {
	return writeJSONFile(filepath.Join(e.cfg.dir, serveInfoName), e.info())
}

func writeJSONFile(name string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	tmp := name + ".tmp"
	if err := os.WriteFile(tmp, append(raw, '\n'), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return os.Rename(tmp, name)
}

// run tiers until ctx ends, then closes everything in order.
func (e *engine) run(ctx context.Context) error {
	if e.tierers != nil {
		u := e.cfg.upkeep
		u.openStore, u.group, u.log, u.tables = e.cfg.openStore, e.cfg.group, e.cfg.log, e.tables
		watch := func(ctx context.Context) error {
			e.tierers.watch(ctx, e.log, 500*time.Millisecond)
			return nil
		}
		_ = runBeside(ctx, watch, u.run) // watch has no error to give
	} else {
		<-ctx.Done()
	}
	return e.close()
}

func (e *engine) close() error {
	var err error
	if e.web != nil {
		err = e.web.Close()
	}
	if e.flight != nil {
		err = errors.Join(err, e.flight.Close())
	}
	err = errors.Join(err, e.server.Close())
	if e.history != nil {
		err = errors.Join(err, e.history.Close())
	}
	err = errors.Join(err, e.log.Close())
	if rmErr := os.Remove(filepath.Join(e.cfg.dir, serveInfoName)); rmErr != nil && !errors.Is(rmErr, os.ErrNotExist) {
		err = errors.Join(err, rmErr)
	}
	return err
}
