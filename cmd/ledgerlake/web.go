package main

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/flight"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
	"github.com/ledgerlake/ledgerlake/web"
)

// openWeb starts the HTTP face, if one is wanted. Metrics of the tierers go to its registry.
func (e *engine) openWeb(ctx context.Context) (err error) {
	if e.cfg.http == "" {
		return nil
	}
	registry := e.cfg.registry
	if registry == nil {
		registry = newRegistry()
	}
	registry.MustRegister(e.server.Collector())
	registry.MustRegister(diskGauges(e.log)...)
	e.cfg.tiering.Registerer = registry
	cfg := web.Config{
		Listen: e.cfg.http, Engine: e.log, Table: e.table, Registry: registry, Version: version,
		Kafka: e.server.Addr().String(), Lake: e.cfg.lake, Logger: e.cfg.log,
		Tiering: func(string) (tiering.Stats, bool) { return tiering.Stats{}, false },
	}
	if e.tierers != nil {
		cfg.Tiering = e.tierers.statsOf
	}
	if e.web, err = web.Open(ctx, cfg); err != nil {
		return fmt.Errorf("%w; --http-listen chooses another address, or none when it is empty", err)
	}
	return nil
}

// diskGauges show what is left of the log's disk, as the log saw it last.
func diskGauges(log *local.Log) []prometheus.Collector {
	gauge := func(name, help string, value func(local.Room) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "ledgerlake_log_disk_" + name, Help: help}, func() float64 { return value(log.Room()) })
	}
	return []prometheus.Collector{
		gauge("free_bytes", "What the disk of the log has free; 0 where no reserve is kept.", func(r local.Room) float64 { return float64(r.Free) }),
		gauge("reserve_bytes", "What appends leave free; 0: no reserve is kept.", func(r local.Room) float64 { return float64(r.Reserve) }),
		gauge("full", "1 while appends are refused because less is free, or no journal file can be made.", func(r local.Room) float64 {
			if r.Refused != nil {
				return 1
			}
			return 0
		}),
	}
}

// openFlight starts Arrow Flight, if it is wanted.
func (e *engine) openFlight(ctx context.Context) (err error) {
	if e.cfg.flight == "" {
		return nil
	}
	e.flight, err = flight.Open(ctx, flight.Config{Listen: e.cfg.flight, Engine: e.log, Table: e.table, Logger: e.cfg.log})
	return listenError("--flight-listen", err)
}

// table gives the open table of a topic, if it has one.
func (e *engine) table(topic string) (*table.Table, bool) {
	if e.tierers == nil {
		return nil, false
	}
	return e.tierers.table(topic)
}

// page is the address that a person opens in a browser, empty without one.
func (e *engine) page() string {
	if e.web == nil {
		return ""
	}
	return "http://" + e.web.Addr().String()
}

// statsOf gives the counters of one topic, false when nothing tiers it now.
func (t *tierers) statsOf(topic string) (tiering.Stats, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if x := t.live[topic]; x != nil && x.tr != nil {
		return x.tr.Stats(), true
	}
	return tiering.Stats{}, false
}
